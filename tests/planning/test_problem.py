"""What comes of shares that change at one node is what comes of them all."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shedlight.model.latency import Target, node_limit
from shedlight.planning.problem import PlanningProblem
from tests.planning.models import models


def _draw_shares(draw, problem, nodes):
    return {
        pattern.stream: np.array(
            draw(
                st.lists(
                    st.floats(0, 1),
                    min_size=len(pattern.demand.uses),
                    max_size=len(pattern.demand.uses),
                )
            )
        )
        for node in nodes
        for pattern in problem.patterns_on(node)
    }


@given(st.data())
def test_a_change_at_one_node_is_found_out_alone(data):
    """Rates, loads and sinks are those of the whole, found out anew."""
    model = data.draw(models(bounded=2))
    limits = {}
    for node in model.nodes.values():
        limit = None if node.bound is None else node_limit(model, node, Target(aim=1.0))
        if limit is not None:
            limits[node.name] = limit
    assume(limits)
    problem = PlanningProblem(model, limits, tuple(limits))
    before = problem.evaluate(_draw_shares(data.draw, problem, limits))
    node = data.draw(st.sampled_from(sorted(limits)))
    keep = {**before.keep, **_draw_shares(data.draw, problem, [node])}

    after, whole = problem.evaluate_at(node, keep, before), problem.evaluate(keep)

    assert dict(after.rates.outputs) == pytest.approx(dict(whole.rates.outputs))
    assert dict(after.rates.sinks) == pytest.approx(dict(whole.rates.sinks))
    assert after.rates.arrivals.keys() == whole.rates.arrivals.keys()
    for stream in model.patterns:
        assert after.rates.kept[stream] == pytest.approx(whole.rates.kept[stream])
    for name, load in whole.loads.items():
        assert after.loads[name].cost == pytest.approx(load.cost)
        assert after.loads[name].limit == pytest.approx(load.limit)

"""Links of limited capacity: a row of the program like a bound, and its dual a price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.graph.application import Stream
from shedlight.model.model import LinkModel, Model, NodeModel, OperatorModel, SinkModel
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import PlanSettings, make_plan
from tests.planning.models import pattern

LINK = "n -> m"


def _model(capacity, *, bound=3.0, sizes=(100.0, 400.0), min_share=0.0):
    """Make a node whose two patterns another node reads; a link leads there, or none."""
    patterns = [
        pattern("w", "a", [0, 1], [1, 1], 1e-4, event_bytes=sizes[0]),
        pattern("w", "b", [2, 3], [1, 1], 1e-4, event_bytes=sizes[1]),
    ]
    first = OperatorModel(
        name="w",
        node="n",
        types=tuple(f"type={i}" for i in range(4)),
        sources={"s": np.array([40.0, 40.0, 40.0, 40.0])},
        feeds={},
        patterns=tuple(patterns),
    )
    second = OperatorModel(
        name="v",
        node="m",
        types=("a", "b"),
        sources={},
        feeds={Stream("a", "w"): np.array([1.0, 0.0]), Stream("b", "w"): np.array([0.0, 1.0])},
        patterns=(
            pattern("v", "x", [0], [1], 1e-4),
            pattern("v", "y", [1], [1], 1e-4),
        ),
    )
    links = () if capacity is None else (LinkModel(name=LINK, node="n", capacity=capacity),)
    return Model(
        nodes={"n": NodeModel(name="n", bound=bound), "m": NodeModel(name="m")},
        operators={"w": first, "v": second},
        sinks={
            "x": SinkModel(name="x", stream=Stream("x", "v")),
            "y": SinkModel(name="y", stream=Stream("y", "v"), min_share=min_share),
        },
        links=links,
    )


def test_what_brings_least_for_its_bytes_is_shed_first():
    """All of a are 4,000 B/s, of b 16,000: of 0.9 x 10,000 B/s 5,000 are left for b."""
    plan = make_plan(_model(10_000.0))

    assert plan.rates.sinks["x"] == pytest.approx(40)
    assert plan.rates.sinks["y"] == pytest.approx(5_000 / 400)
    assert plan.links[LINK].rate == pytest.approx(plan.links[LINK].limit) == 9_000
    assert plan.unshed_links[LINK].rate == pytest.approx(20_000)
    assert plan.nodes == ("n",)
    assert plan.prices[LINK] == pytest.approx(1_000 / 400), "of one more kB/s"


def test_a_link_that_is_wide_enough_changes_nothing():
    """Nothing is shed, and its price is none."""
    plan = make_plan(_model(30_000.0))
    assert plan.nodes == ()
    assert plan.prices[LINK] == 0
    assert plan.links[LINK].fits


@given(
    capacity=st.floats(500, 40_000),
    first=st.floats(10, 500),
    second=st.floats(10, 500),
    fill=st.booleans(),
)
def test_a_plan_gives_up_what_it_must(capacity, first, second, fill):
    """As much goes over the link as it takes, in the order of what a byte brings."""
    sizes = first, second
    plan = make_plan(_model(capacity, sizes=sizes), PlanSettings(fill=fill))

    left, best = 0.9 * capacity, 0.0
    for size in sorted(sizes):
        rate = min(40.0, left / size)
        best, left = best + rate, left - rate * size
    assert sum(plan.rates.sinks.values()) == pytest.approx(best, rel=1e-6)
    assert plan.links[LINK].fits


def test_what_cannot_be_sent_is_said():
    """Of b 0.9 x 16,000 B/s are asked for, with 4,500 to be had."""
    with pytest.raises(InfeasibleError) as error:
        make_plan(_model(5_000.0, min_share=0.9))
    assert f"the link {LINK} needs 220.0% more than its 5 kB/s: give it 16 kB/s" in str(
        error.value
    )
    assert "lower its min_share by" in str(error.value)


def test_two_limits_hold_at_once():
    """That of the node and that of its link."""
    tight = _model(10_000.0, bound=0.5, sizes=(100.0, 100.0))
    slow = [
        pattern("w", name, uses, [1, 1], 0.02, event_bytes=100.0)
        for name, uses in (("a", [0, 1]), ("b", [2, 3]))
    ]
    operators = {**tight.operators}
    operators["w"] = OperatorModel(
        name="w",
        node="n",
        types=operators["w"].types,
        sources=operators["w"].sources,
        feeds={},
        patterns=tuple(slow),
    )
    for capacity, is_full in ((500.0, True), (50_000.0, False)):
        links = (LinkModel(name=LINK, node="n", capacity=capacity),)
        model = Model(nodes=tight.nodes, operators=operators, sinks=tight.sinks, links=links)
        plan = make_plan(model)
        assert plan.links[LINK].fits
        assert plan.loads["n"].fits
        assert (plan.prices[LINK] > 0) is is_full
        assert (plan.prices["n"] > 0) is not is_full
        assert plan.links[LINK].rate == pytest.approx(100 * sum(plan.rates.sinks.values()))

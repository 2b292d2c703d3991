"""What is left of the budget is spent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.graph.application import Stream
from shedlight.model.latency import LatencyModel, Target, node_limit
from shedlight.model.model import NodeModel, OperatorModel, SinkModel
from shedlight.planning.fill import spend_budget
from shedlight.planning.problem import PlanningProblem
from tests.planning.models import application, pattern

TARGET = Target(latency=LatencyModel.MICRO_BATCH, aim=1.0)
TYPES = 6
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.9, 1.0])


def _scope(seconds, on_all=0.9):
    """Make an operator that can do a part of what it would take to keep everything."""
    patterns = tuple(
        pattern("w", f"Q{i}", range(TYPES), [1.0] * TYPES, times)
        for i, times in enumerate(seconds)
    )
    rates = np.arange(1.0, TYPES + 1)
    everything = sum(float((rates * p.seconds).sum()) for p in patterns)
    node = NodeModel(name="n", bound=1.5, fixed=1 - on_all * everything)
    operator = OperatorModel(
        name="w",
        node="n",
        types=tuple(f"type={i}" for i in range(TYPES)),
        sources={"s": rates},
        feeds={},
        patterns=patterns,
    )
    sink = SinkModel(name="sink", stream=Stream("Q0", "w"))
    model = application([node], [operator], [sink])
    limit = node_limit(model, node, TARGET)
    assert limit is not None
    return PlanningProblem(model, {"n": limit}, ("n",))


SECONDS = st.lists(
    st.lists(st.floats(1e-3, 5e-3), min_size=TYPES, max_size=TYPES), min_size=1, max_size=3
)


@settings(max_examples=300)
@given(SECONDS, st.data())
def test_shares_rise_by_one_factor_until_the_limit_is_reached(seconds, data):
    """None above 1; then those of patterns with matches, then the rest."""
    problem = _scope(seconds)
    rows = st.lists(SHARES, min_size=TYPES, max_size=TYPES).map(np.array)
    keep = {p.stream: data.draw(rows) for p in problem.patterns_on("n")}
    before = problem.evaluate(keep)
    if not before.fits:
        return
    after = spend_budget(problem, before, frozenset())
    load = after.loads["n"]
    assert load.cost == pytest.approx(load.limit, rel=1e-5)
    old, new = (np.concatenate(list(candidate.keep.values())) for candidate in (before, after))
    if (new[old == 0] == 0).all():
        between = (old > 0) & (new < 1)
        factors = new[between] / old[between]
        assert factors == pytest.approx(factors.max(initial=1.0), rel=1e-6)
        assert (new[(old > 0) & ~between] == 1).all()
        assert (old[new == 1] * factors.min(initial=np.inf) >= 1 - 1e-6).all()
    else:
        assert (new[old > 0] == 1).all()


def test_patterns_that_have_matches_come_first():
    """Before others get anything, they get all."""
    problem = _scope([[0.002] * TYPES, [0.002] * TYPES], on_all=0.7)
    on, off = (p.stream for p in problem.patterns_on("n"))
    bare = problem.evaluate({on: np.array([0.0, 0, 0, 0.5, 0.5, 0.5]), off: np.zeros(TYPES)})
    full = spend_budget(problem, bare, frozenset([on]))
    assert (full.keep[on] == 1).all()
    assert full.keep[off] == pytest.approx([0.4] * TYPES)
    assert full.loads["n"].cost == pytest.approx(full.loads["n"].limit)


def test_a_plan_that_is_at_its_limit_stays_as_it_is():
    """Not even its arrays are new."""
    problem = _scope([[0.002] * TYPES], on_all=0.5)
    (only,) = (p.stream for p in problem.patterns_on("n"))
    bare = problem.evaluate({only: np.full(TYPES, 0.5)})
    assert spend_budget(problem, bare, frozenset([only])) is bare

"""The reduced program has the paper's optimum, and its plan does what it says."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shedlight.model.latency import LatencyModel, node_limit
from shedlight.model.load import node_load
from shedlight.model.rates import changeable, predict
from shedlight.planning.paper import solve_paper
from shedlight.planning.problem import PlanningProblem
from shedlight.planning.reduced_lp import solve_reduced
from shedlight.planning.shares import to_shares
from tests.planning.models import TARGETS, models


def _one_limit(model, target):
    node = model.nodes["n0"]
    longest = max(
        (sum(p.seconds.max() for p in o.patterns) for o in model.operators_on("n0")), default=0
    )
    assume(target.latency is not LatencyModel.MG1 or node.bound > 4 * longest)
    return node_limit(model, node, target)


def _feeds_itself(model):
    changed = changeable(model, ["n0"])
    return any(not changed.isdisjoint(one.feeds) for one in model.operators_on("n0"))


def _agree(model, target, local):
    """Hold the programs against each other, and their plans against the model."""
    assume(not _feeds_itself(model))
    limit = _one_limit(model, target)
    paper = solve_paper(model, limit, local=local)
    reduced = solve_reduced(model, {"n0": limit}, local=local)
    assert reduced is not None
    scale = max(abs(paper.objective), 1.0)
    assert reduced.objective == pytest.approx(paper.objective, rel=1e-6, abs=1e-9 * scale)
    problem = PlanningProblem(model, {"n0": limit}, ("n0",), local)
    for keep in (paper.keep, to_shares(problem, reduced).keep):
        rates = predict(model, keep, ["n0"])
        load = node_load(model, limit, rates)
        assert load.cost <= load.limit * (1 + 1e-6) + 1e-9
        changed = changeable(model, ["n0"])
        rest = predict(model)
        worth = problem.value(rates)
        if not local:
            sinks = [s for s in model.sinks.values() if s.stream not in changed]
            worth -= sum(s.weight * rest.sinks[s.name] for s in sinks)
        assert worth == pytest.approx(paper.objective, rel=1e-6, abs=1e-8 * scale)


@settings(max_examples=100)
@given(models(), TARGETS, st.booleans())
def test_the_reduced_program_has_the_optimum_of_the_papers(model, target, local):
    """Equal objectives; both plans keep the limit; shares put back give the rates predicted."""
    _agree(model, target, local)


@pytest.mark.soak
@settings(max_examples=20_000)
@given(models(most_operators=6), TARGETS, st.booleans())
def test_the_reduced_program_has_the_optimum_of_the_papers_at_length(model, target, local):
    """Ten times as many, of larger applications."""
    _agree(model, target, local)

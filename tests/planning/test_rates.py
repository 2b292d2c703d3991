"""Rates that are predicted from those without shedding are those predicted anew."""

from dataclasses import replace

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from shedlight.errors import PlanError
from shedlight.model.load import node_load
from shedlight.model.rates import predict
from shedlight.planning.problem import PlanningProblem
from tests.planning.models import TARGETS, limits_of, models

SHARES = st.sampled_from([0.0, 0.0, 0.25, 0.7, 1.0])


@st.composite
def _plans(draw):
    """Draw an application, shed by key here and there, and shares for some of its patterns."""
    model = draw(models(bounded=2))
    operators = {
        name: replace(
            one,
            patterns=tuple(
                replace(p, key=draw(st.sampled_from(["", "", "k"]))) for p in one.patterns
            ),
        )
        for name, one in model.operators.items()
    }
    model = replace(model, operators=operators)
    keep = {}
    for stream, pattern in model.patterns.items():
        size = len(pattern.demand.uses)
        if draw(st.booleans()):
            keep[stream] = np.array(draw(st.lists(SHARES, min_size=size, max_size=size)))
    return model, keep


@settings(max_examples=100)
@given(_plans(), TARGETS)
def test_what_is_known_without_shedding_changes_nothing(plan, target):
    """Neither the rates nor how busy nodes are."""
    model, keep = plan
    try:
        limits = limits_of(model, target)
    except PlanError:  # a bound that no plan can keep
        reject()
    problem = PlanningProblem(model, limits, tuple(limits))
    anew, candidate = predict(model, keep, problem.nodes), problem.evaluate(keep)
    assert candidate.rates.outputs == anew.outputs
    assert candidate.rates.sinks == anew.sinks
    assert list(candidate.rates.kept) == list(anew.kept)
    for stream, rates in anew.kept.items():
        assert np.array_equal(candidate.rates.kept[stream], rates)
    for name, limit in limits.items():
        assert candidate.loads[name] == node_load(model, limit, anew)

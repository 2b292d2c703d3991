"""Plans for sparse streams: never worse on the window-aware model, always within the limit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.rates import predict
from shedlight.model.sampled.windows import sample_events
from shedlight.model.snapshot import Snapshot
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.planning.search import sampled_value
from tests.workloads import workloads

SPARSE = workloads()[0]


def _model(workload, factors):
    rates = {
        Stream(name): {f"type={i}": factors[i] * rate for i, rate in enumerate(rates)}
        for name, rates in workload.rates.items()
    }
    snapshot = Snapshot(rates=rates, processing_time=workload.processing_time)
    return build_model(workload.application, snapshot)


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.3, 1.0, 2.0, 4.0]), min_size=4, max_size=4))
def test_it_is_never_worse_and_keeps_the_limit(factors):
    """Whatever the rates."""
    model = _model(SPARSE, factors)
    nodes = [SPARSE.node]
    plain = make_plan(model, PlanSettings(bottleneck=SPARSE.node, windows=False))
    tried = make_plan(model, PlanSettings(bottleneck=SPARSE.node))
    assert all(load.fits for load in tried.loads.values())
    sample = sample_events(model, nodes, predict(model, None, nodes))
    if sample is not None:
        assert sampled_value(sample, tried.keep) >= sampled_value(sample, plain.keep)


def test_it_concentrates_where_the_program_spreads():
    """With two events per window two half patterns bring less than one whole."""
    model = _model(SPARSE, [1.0] * 4)
    plain = make_plan(model, PlanSettings(bottleneck=SPARSE.node, windows=False))
    tried = make_plan(model, PlanSettings(bottleneck=SPARSE.node))
    sample = sample_events(model, [SPARSE.node], predict(model, None, [SPARSE.node]))
    assert sample is not None
    assert sampled_value(sample, tried.keep) > 1.1 * sampled_value(sample, plain.keep)


def test_two_plans_are_the_same():
    """The search is no matter of luck."""
    model = _model(SPARSE, [1.0, 2.0, 1.0, 1.0])
    one, other = (make_plan(model, PlanSettings(bottleneck=SPARSE.node)) for _ in range(2))
    for stream in one.keep:
        assert np.array_equal(one.keep[stream], other.keep[stream])


def test_an_incumbent_that_is_as_good_stays():
    """By the window-aware model."""
    model = _model(SPARSE, [1.0] * 4)
    plan_settings = PlanSettings(bottleneck=SPARSE.node)
    first = make_plan(model, plan_settings)
    again = make_plan(model, plan_settings, incumbent=first.keep)
    assert again.keeps_incumbent
    for stream in first.keep:
        assert np.array_equal(again.keep[stream], first.keep[stream])


@pytest.mark.parametrize("local", [True, False])
def test_it_can_be_turned_off(local):
    """And the local program never has it."""
    model = _model(SPARSE, [1.0] * 4)
    plain = make_plan(model, PlanSettings(bottleneck=SPARSE.node, windows=False, local=local))
    tried = make_plan(model, PlanSettings(bottleneck=SPARSE.node, local=local))
    same = all(np.array_equal(plain.keep[s], tried.keep[s]) for s in plain.keep)
    assert same == local

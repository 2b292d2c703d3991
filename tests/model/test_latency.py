"""Bounds by percentile as limits on work."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import PlanError
from shedlight.graph.application import PERCENTILES, Stream
from shedlight.model.latency import (
    LatencyModel,
    Target,
    batches_per_event,
    check_feasible,
    likely_longest,
    node_limit,
)
from shedlight.model.model import NodeModel, OperatorModel, SinkModel
from tests.planning.models import application, pattern

percentiles = st.sampled_from(PERCENTILES)


def limit_of(latency, *, seconds=0.001, aim=1.0, **node):
    """Find the limit of a node with one pattern of one type."""
    operator = OperatorModel(
        name="w",
        node="n",
        types=("type=0",),
        sources={"s": np.array([100.0])},
        feeds={},
        patterns=(pattern("w", "Q", [0], [1], seconds),),
    )
    model = application(
        [NodeModel(name="n", **node)],
        [operator],
        [SinkModel(name="k", stream=Stream("Q", "w"))],
    )
    limit = node_limit(model, model.nodes["n"], Target(latency=latency, aim=aim))
    assert limit is not None
    check_feasible(limit, 100.0)
    return limit


@given(st.floats(1, 1000), st.floats(0.1, 10), st.integers(64, 99))
def test_the_percentile_of_mm1_is_the_bound(rate, bound, percentile):
    """The time in an M/M/1 queue is exponential, of mean rho / (rate (1 - rho))."""
    limit = limit_of(LatencyModel.MM1, bound=bound, percentile=percentile)
    busy = limit.at(rate, rate)
    mean = busy / (rate * (1 - busy))

    assert -mean * math.log(1 - percentile / 100) == pytest.approx(bound, rel=1e-6)


@given(st.floats(0.1, 10), percentiles)
def test_the_percentile_of_micro_batches_is_the_bound(bound, percentile):
    """Events arrive evenly during a micro-batch D, and leave at the end of the next."""
    fixed = 0.2 * bound
    limit = limit_of(LatencyModel.MICRO_BATCH, bound=bound, percentile=percentile, fixed=fixed)
    longest = fixed / (1 - limit.at(100.0, 100.0))
    waits = longest * (1 + np.linspace(0, 1, 1001))

    assert np.percentile(waits, percentile) == pytest.approx(bound, rel=1e-6)
    assert limit.mean == pytest.approx(1.5 * longest)


@pytest.mark.parametrize("latency", LatencyModel)
@given(st.floats(0.5, 10), percentiles, percentiles)
def test_a_higher_percentile_never_allows_more(latency, bound, one, other):
    """Nor does any of them allow more than the mean does."""
    rows = [
        limit_of(latency, bound=bound, percentile=p, fixed=0.1)
        for p in (None, *sorted((one, other)))
    ]
    loads = [float(row.costs[Stream("Q", "w")][0]) / row.at(100.0, 100.0) for row in rows]

    assert loads == sorted(loads)


@given(st.floats(1e-4, 10), st.integers(64, 99))
def test_the_longest_service_is_exact_for_exponential_and_constant_times(mean, percentile):
    """They are the two that the simulator draws."""
    longest = likely_longest(np.array([mean, mean]), np.array([mean**2, 0.0]), percentile)

    assert 1 - math.exp(-longest[0] / mean) == pytest.approx(percentile / 100)
    assert longest[1] == mean


@pytest.mark.parametrize(
    ("latency", "node", "message"),
    [
        (
            LatencyModel.MG1,
            {"bound": 1.0, "percentile": 95, "seconds": 0.5},
            "1 s at p95 whatever is shed: .* least feasible bound is more than 1.49787 s",
        ),
        (
            LatencyModel.MICRO_BATCH,
            {"bound": 1.0, "percentile": 90, "fixed": 0.6},
            "1 s at p90 whatever is shed: .* least feasible bound is more than 1.14 s",
        ),
    ],
)
def test_a_bound_that_no_plan_keeps_is_an_error(latency, node, message):
    """With the kind of the bound, and the least that can be kept."""
    with pytest.raises(PlanError, match=message):
        limit_of(latency, **node)


def test_half_of_the_events_wait_for_as_long_as_the_mean():
    """Of times that are evenly spread, the mean is the median."""
    assert batches_per_event(50) == batches_per_event(None)

"""The window-aware model says what the matcher finds, however few events a window has."""

from dataclasses import replace

import numpy as np
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.rates import predict
from shedlight.model.sampled.draw import RateHistory
from shedlight.model.sampled.windows import (
    DENSE_EVENTS_PER_WINDOW,
    sample_events,
    sampled_rates,
)
from shedlight.model.snapshot import Snapshot
from shedlight.shedding.shares import shares_by_label
from tests.workloads import workloads

WEIGHTS = next(one for one in workloads() if one.name.startswith("weights"))


def _model(workload, factor=1.0):
    rates = {
        Stream(name): {f"type={i}": factor * rate for i, rate in enumerate(rates)}
        for name, rates in workload.rates.items()
    }
    times = {stream: time / factor for stream, time in workload.processing_time.items()}
    return build_model(workload.application, Snapshot(rates=rates, processing_time=times))


def _sample(model, nodes):
    return sample_events(model, nodes, predict(model, None, nodes))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("number", [0, 2, 7, 9])
def test_it_predicts_what_is_found(number, share):
    """Within the noise of some hundred matches, where min() is far off."""
    workload = workloads()[number]
    model = _model(workload)
    patterns = [p for one in model.operators_on(workload.node) for p in one.patterns]
    keep = {p.stream: np.full(len(p.demand.uses), share) for p in patterns}
    sample = _sample(model, [workload.node])
    assert sample is not None

    predicted = sum(sampled_rates(sample, keep).values())

    done = simulate(
        workload.application,
        workload.events(5),
        Service(seconds={}),
        interval=workload.seconds,
        shares=shares_by_label(model, keep),
    )
    number = sum(len(table) for table in done.sinks.values())
    found = number / workload.seconds
    assert predicted == pytest.approx(found, rel=0.06 + 4 / max(number, 1) ** 0.5)


def test_half_of_sparse_types_leaves_far_less_than_half():
    """The response to shares is convex where windows are nearly empty."""
    model = _model(WEIGHTS, 0.3)
    sample = _sample(model, ["edge"])
    assert sample is not None
    patterns = model.patterns.values()
    some = {p.stream: np.full(len(p.demand.uses), 0.5) for p in patterns}
    left = sum(sampled_rates(sample, some).values()) / sum(sampled_rates(sample, {}).values())
    assert left < 0.35


def test_two_draws_are_the_same():
    """A plan must not depend on luck."""
    model = _model(WEIGHTS)
    one, other = (_sample(model, ["edge"]) for _ in range(2))
    keep = {p.stream: np.full(len(p.demand.uses), 0.4) for p in model.patterns.values()}
    assert sampled_rates(one, keep) == sampled_rates(other, keep)


def test_dense_streams_need_no_sample():
    """Then min() is near enough."""
    assert _sample(_model(WEIGHTS, DENSE_EVENTS_PER_WINDOW), ["edge"]) is None


def test_patterns_without_a_text_cannot_be_sampled():
    """A model made of numbers alone has no windows."""
    model = _model(WEIGHTS)
    operators = {
        name: replace(
            one, patterns=tuple(replace(pattern, pattern=None) for pattern in one.patterns)
        )
        for name, one in model.operators.items()
    }
    assert _sample(replace(model, operators=operators), ["edge"]) is None


def test_what_a_plan_cannot_change_is_as_measured():
    """Sinks of other nodes get what they get."""
    workload = workloads()[0]
    sample = _sample(_model(workload), ["edge-1"])
    assert sample is not None
    assert set(sampled_rates(sample, {})) == set(workload.application.sinks)


def test_bursts_are_drawn_as_rates_went():
    """As many events as the model says, at the times of the history."""
    model = _model(WEIGHTS)
    source = Stream("s1")
    history = RateHistory(5.0, {source: (1.0, 1.0, 8.0, 1.0, 1.0)})
    sample = sample_events(model, ["edge"], predict(model, None, ["edge"]), history)
    calm = _sample(model, ["edge"])
    assert sample is not None
    assert calm is not None
    drawn, usual = sample.drawn["w"], calm.drawn["w"]
    rate, usual_rate = len(drawn.time) / sample.seconds, len(usual.time) / calm.seconds
    assert rate == pytest.approx(usual_rate, rel=0.01)
    inside = (drawn.time / 1e6) % 25.0
    assert ((inside >= 10) & (inside < 15)).mean() == pytest.approx(8 / 12, abs=0.02)

"""The unshed sample in a simulation: what it keeps, what its shadow finds, what it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator import Service, simulate
from shedlight.shedding.shares import PatternShares
from tests.sampled_runs import (
    BOTH,
    OTHER,
    PAIR,
    keyed_application,
    keyed_events,
    results_by_key,
    sampled_keys,
)

STREAMS = (PAIR, OTHER, BOTH)
QUICK = Service(seconds=dict.fromkeys(STREAMS, 1e-6))


@settings(max_examples=4, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.floats(0, 1)] * 3),
    st.booleans(),
    st.sampled_from([1.0, 7.0, 100.0]),
)
def test_the_shadow_finds_what_the_plan_leaves(seed, kept, by_key, interval):
    """Each as a run of its own finds it.

    The sample's keys have all results at the sinks, others those of the plan.
    """
    rng, share = np.random.default_rng(seed), 0.4
    events = keyed_events(rng, 3000, 1000, 30.0)
    shares = {
        stream: PatternShares({}, by_key, default_share=one)
        for stream, one in zip(STREAMS, kept, strict=True)
    }

    def run(shares, sample):
        return simulate(
            keyed_application(),
            {"s": events},
            QUICK,
            interval=interval,
            shares=shares,
            with_outputs=True,
            unshed_sample=sample,
        )

    with_sample = run(shares, share)
    sampled, masked, unshed = (
        results_by_key(done.outputs, events)
        for done in (with_sample, run(shares, 0.0), run(None, 0.0))
    )
    mine = sampled_keys(events, share)
    others = set(events["key"].to_pylist()) - mine
    for stream in STREAMS:
        assert sampled[stream].of(mine) == unshed[stream].of(mine)
        assert sampled[stream].of(others) == masked[stream].of(others)
        assert sorted(with_sample.masked[stream]["id"].to_pylist()) == masked[stream].of(mine)
    assert unshed[PAIR].of(mine)


def test_the_sample_is_admitted_whatever_is_queued():
    """At three times the capacity, under p95; what others lose so, its shadow loses too."""
    events = keyed_events(np.random.default_rng(1), 20_000, 2_000, 40.0)
    service = Service(seconds=dict.fromkeys((PAIR, OTHER), 6 * 40 / 20_000))

    def run(sample, *, with_admission=True):
        return simulate(
            keyed_application(percentile=95),
            {"s": events},
            service,
            with_outputs=True,
            unshed_sample=sample,
            with_admission=with_admission,
        )

    done, unshed = run(0.1), run(0.0, with_admission=False)
    found, everything = (results_by_key(each.outputs, events) for each in (done, unshed))
    mine = sampled_keys(events, 0.1)
    others = set(events["key"].to_pylist()) - mine
    for stream in STREAMS:
        light = mine - {key for key in mine if (events["key"].to_numpy() == key).sum() > 15}
        assert found[stream].of(light) == everything[stream].of(light)
        left = len(found[stream].of(others)) / len(everything[stream].of(others))
        of_sample = len(done.masked[stream]) / len(everything[stream].of(mine))
        assert left < 0.6
        assert of_sample == pytest.approx(left, abs=0.15)

"""Generated streams: they are as described, in expectation and within what chance allows."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.generate.for_sources import SourceDemand, sparse_rate
from shedlight.generate.specs import Bursty, Drifting, RateStep, StreamSpec
from shedlight.generate.streams import (
    balanced,
    bursty,
    drifting,
    make_stream,
    scale_rate,
    skewed,
    stepped,
)

DOUBT = math.log(1e9)
"""A bound is broken by chance once in so many (e to this) times."""

STEPS = (
    RateStep(at=0, rate=50, shares=(0.5, 0.5, 0, 0)),
    RateStep(at=40, rate=400, shares=(0.1, 0.2, 0.3, 0.4)),
    RateStep(at=70, rate=0, shares=(1, 0, 0, 0)),
    RateStep(at=80, rate=100, shares=(0, 0, 0.5, 0.5)),
)
SPECS = {
    "balanced": balanced(rate=200, duration=100, seed=1),
    "skewed": skewed(rate=200, duration=100, seed=2),
    "bursty": bursty(rate=200, duration=100, seed=3),
    "drifting": drifting(rate=200, duration=100, seed=4),
    "sparse": balanced(rate=0.8, duration=10_000, seed=5),
    "stepped": stepped(STEPS, duration=100, seed=6),
}


def assert_poisson(count, mean):
    """Compare by Bernstein's inequality: `mean` events are expected."""
    assert mean - math.sqrt(2 * mean * DOUBT) <= count
    assert count <= mean + math.sqrt(2 * mean * DOUBT) + DOUBT / 3


def assert_shares(counts, shares):
    """Compare by the chi-square test; its quantile is bounded as Laurent and Massart do."""
    counts, expected = np.array(counts), np.array(shares) * sum(counts)
    assert not counts[expected == 0].any()
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = max(0, len(counts) - 1)
    bound = freedom + 2 * math.sqrt(freedom * DOUBT) + 2 * DOUBT
    assert float(((counts - expected) ** 2 / expected).sum()) <= bound


def seconds(stream):
    """Give the times of a stream in seconds."""
    return stream["time"].to_numpy() / 1e6


def types_between(stream, start, end):
    """Count the events of the types 0 to 3 in a stretch of seconds."""
    times = seconds(stream)
    kinds = stream["type"].to_numpy()[(times >= start) & (times < end)]
    return np.bincount(kinds, minlength=4).tolist()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_stream_has_its_columns_in_order_of_time(spec):
    """Whole microseconds within the duration; ids are the places."""
    stream = make_stream(spec)

    times = stream["time"].to_numpy()
    assert stream.schema == pa.schema([(name, pa.int64()) for name in ("time", "id", "type")])
    assert times[0] >= 0
    assert times[-1] < spec.duration * 1e6
    assert (np.diff(times) >= 0).all()
    assert stream["id"].to_pylist() == list(range(len(stream)))
    assert set(stream["type"].to_pylist()) <= {0, 1, 2, 3}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_same_seed_gives_the_same_bytes(spec):
    """And another seed other ones."""
    one, same, other = (as_bytes(make_stream(replace(spec, seed=seed))) for seed in (7, 7, 8))

    assert one == same
    assert one != other


def as_bytes(table):
    """Write a table as it would be sent."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", ["balanced", "skewed", "drifting", "sparse", "stepped"])
def test_the_rate_is_met(kind):
    """The count is Poisson; with bursts it is not, see there."""
    spec = SPECS[kind]

    assert_poisson(len(make_stream(spec)), spec.rate * spec.duration)


@pytest.mark.parametrize("kind", ["balanced", "skewed", "bursty", "sparse"])
def test_the_shares_are_met(kind):
    """Also in a stream whose rate is not constant."""
    spec = SPECS[kind]

    assert_shares(types_between(make_stream(spec), 0, spec.duration), spec.shares)


@given(st.integers(0, 2**32), st.floats(20, 300), st.integers(1, 6))
def test_rate_and_shares_are_met_for_any_seed(seed, rate, types):
    """The bounds are such that chance does not break them."""
    spec = skewed(rate=rate, duration=10, seed=seed, types=types)
    stream = make_stream(spec)

    assert_poisson(len(stream), rate * 10)
    assert_shares(np.bincount(stream["type"].to_numpy(), minlength=types), spec.shares)


def test_arrivals_at_one_rate_are_uniform():
    """Given how many there are, a twentieth of them is in each twentieth of the time."""
    counts, _ = np.histogram(seconds(make_stream(SPECS["balanced"])), 20, (0, 100))

    assert_shares(counts, [1 / 20] * 20)


def test_gaps_between_arrivals_are_exponential():
    """A tenth of the gaps lies in each tenth of the distribution."""
    gaps = np.diff(seconds(make_stream(SPECS["balanced"])))
    places = np.minimum((1 - np.exp(-gaps * 200)) * 10, 9).astype(int)

    assert_shares(np.bincount(places, minlength=10), [1 / 10] * 10)


def test_skewed_shares_are_those_of_zipf():
    """1, 1/2, 1/3 and 1/4 of 25/12."""
    assert SPECS["skewed"].shares == pytest.approx((0.48, 0.24, 0.16, 0.12))


def test_a_sparse_stream_has_a_handful_of_events_in_a_window():
    """4 in 5 s, the shorter window, are 0.8 a second."""
    demands = {str(w): SourceDemand("type", (0,), frozenset(), w) for w in (5.0, 20.0)}

    assert sparse_rate(demands) == pytest.approx(0.8)


def test_a_bursty_stream_varies_as_a_modulated_poisson_process_does():
    """Mean and variance of counts in a window of w seconds are known.

    The rate has the variance p (1-p) (b-c)^2 and forgets in t seconds, 1/t = 1/burst + 1/calm;
    so counts have the variance m + 2 v t^2 (w/t - 1 + exp(-w/t)). Of 400 streams of one window
    each, the mean is within 6 standard errors, and so is the variance, by its own spread.
    """
    spec = bursty(rate=50, duration=30, seed=0)
    counts = np.array([len(make_stream(replace(spec, seed=seed))) for seed in range(400)])

    mean = spec.rate * spec.duration
    forgets = 1 / (1 / spec.burst_seconds + 1 / spec.calm_seconds)
    jump = spec.calm_rate * (spec.burst_rate - 1)
    of_rate = spec.burst_share * (1 - spec.burst_share) * jump**2
    rest = spec.duration / forgets - 1 + math.exp(-spec.duration / forgets)
    variance = mean + 2 * of_rate * forgets**2 * rest
    squares = (counts - mean) ** 2
    assert abs(counts.mean() - mean) <= 6 * math.sqrt(variance / 400)
    assert abs(squares.mean() - variance) <= 6 * squares.std() / math.sqrt(400)
    assert variance > 100 * mean


def test_the_chain_of_bursts_covers_the_whole_stream():
    """Also if there are far more changes than in the first guess."""
    spec = Bursty(
        rate=10,
        duration=1_000,
        shares=(1.0,),
        seed=1,
        burst_rate=5,
        burst_share=0.5,
        burst_seconds=0.01,
    )
    ends, rates = spec.rate_segments(np.random.default_rng(1))

    assert ends[-1] == 1_000
    assert (np.diff(ends) > 0).all()
    assert (rates[1:] != rates[:-1]).all()
    assert rates.max() == pytest.approx(5 * rates.min())


def test_shares_drift_along_a_cosine():
    """At the start, in the middle and at the end; there, little happens in a tenth."""
    spec = SPECS["drifting"]
    stream = make_stream(replace(spec, rate=2_000))

    for start, end in ((0, 10), (45, 55), (90, 100)):
        places = np.linspace(start, end, 1_001)
        shares = [spec.shares_of(number, places).mean() for number in range(4)]
        assert_shares(types_between(stream, start, end), shares)
    assert spec.shares_of(0, np.array([0.0, 50, 100])) == pytest.approx([0.48, 0.3, 0.12])


def test_shares_come_back_after_a_period():
    """Here, twice."""
    spec = Drifting(rate=1, duration=40, shares=(1, 0), seed=0, other_shares=(0, 1), period=20)

    assert spec.shares_of(1, np.arange(0, 41, 10.0)) == pytest.approx([0, 1, 0, 1, 0])


def test_rates_and_shares_jump_at_their_times():
    """Each step is a stream of its own."""
    stream = make_stream(SPECS["stepped"])

    for step, end in zip(STEPS, (40, 70, 80, 100), strict=True):
        counts = types_between(stream, step.at, end)
        assert_poisson(sum(counts), step.rate * (end - step.at))
        assert_shares(counts, step.shares)


def test_keys_do_not_change_the_events():
    """They are drawn apart; all are alike."""
    spec = SPECS["balanced"]
    stream = make_stream(replace(spec, keys=8))

    assert stream.drop_columns("key") == make_stream(spec)
    assert_shares(np.bincount(stream["key"].to_numpy(), minlength=8), [1 / 8] * 8)


def test_ids_go_on_where_they_are_told_to():
    """So that they are unique over several sources."""
    stream = make_stream(SPECS["balanced"], first_id=1_000)

    assert stream["id"].to_pylist()[:2] == [1_000, 1_001]


@pytest.mark.parametrize("load", [0.5, 1.0, 3.7])
def test_a_stream_can_be_fed_faster(load):
    """Times are divided by the load; nothing else changes."""
    stream = make_stream(SPECS["skewed"])
    fed = scale_rate(stream, load)

    times, before = fed["time"].to_numpy(), stream["time"].to_numpy()
    assert fed.schema == stream.schema
    assert fed.drop_columns("time") == stream.drop_columns("time")
    assert np.abs(times - before / load).max() <= 1
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0}, "rate must be positive and finite, got 0"),
        ({"duration": math.inf}, "duration must be positive and finite, got inf"),
        ({"shares": (0.5, 0.4)}, r"shares must not be negative and sum to 1, got \(0.5, 0.4\)"),
        ({"shares": ()}, "shares must not be negative and sum to 1"),
        ({"keys": -1}, "keys must not be negative, got -1"),
    ],
)
def test_what_is_no_stream_is_refused(change, message):
    """With what was given."""
    with pytest.raises(ValueError, match=message):
        StreamSpec(**({"rate": 1, "duration": 1, "shares": (1.0,), "seed": 0} | change))


@pytest.mark.parametrize("times", [(5,), (0, 50, 50), (0, 200), (0, 60, 30)])
def test_steps_must_be_in_order_and_within_the_stream(times):
    """The first one is at 0."""
    steps = [RateStep(at=at, rate=1, shares=(1.0,)) for at in times]

    with pytest.raises(ValueError, match="steps must start at 0"):
        stepped(steps, duration=100, seed=0)


def test_bursts_and_drifts_that_cannot_be_are_refused():
    """A share of time is between 0 and 1; there are as many shares as types."""
    with pytest.raises(ValueError, match="burst_share must be between 0 and 1, got 1"):
        replace(bursty(rate=1, duration=1, seed=0), burst_share=1)
    with pytest.raises(ValueError, match="there must be 4 shares as elsewhere, got 2"):
        replace(drifting(rate=1, duration=1, seed=0), other_shares=(0.5, 0.5))
    with pytest.raises(ValueError, match="the rate of a step must not be negative, got -1"):
        stepped([replace(STEPS[0], rate=-1), *STEPS[1:]], duration=100, seed=0)
    with pytest.raises(ValueError, match="load must be positive and finite, got 0"):
        scale_rate(make_stream(SPECS["sparse"]), 0)

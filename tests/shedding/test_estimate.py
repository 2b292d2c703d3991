"""What a sample of keys says of a sink: whether it is right, and as sure as it should be."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.shedding.estimate import (
    MIN_KEYS,
    KeyedResults,
    SampleCounts,
    add_counts,
    count_results,
    estimate_sink,
)

RESULTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=60, unique=True)


def keyed(results):
    """Make results of pairs of a key and a number."""
    ids = pa.chunked_array([pa.array([f"{k}-{n}" for k, n in results], pa.string())])
    return KeyedResults(ids, np.array([key for key, _ in results], np.int64))


def rows(counts):
    """Give counts by key."""
    columns = (counts.keys, counts.unshed, counts.masked, counts.same)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@given(RESULTS, RESULTS, st.integers(0, 30))
def test_results_are_counted_by_key(unshed, masked, cut):
    """As sets do it; and in two batches as in one."""
    expected = []
    for key in sorted({key for key, _ in unshed + masked}):
        mine, theirs = ({r for r in one if r[0] == key} for one in (unshed, masked))
        expected.append((key, len(mine), len(theirs), len(mine & theirs)))
    assert rows(count_results(keyed(unshed), keyed(masked))) == expected
    batches = [
        [[r for r in one if (r[1] < cut) == first] for one in (unshed, masked)]
        for first in (True, False)
    ]
    parts = [count_results(keyed(one), keyed(other)) for one, other in batches]
    assert rows(add_counts(parts)) == expected


def counts_of(unshed, same):
    """Make counts of keys, one after the other."""
    unshed, same = np.array(unshed, np.int64), np.array(same, np.int64)
    return SampleCounts(np.arange(len(unshed)), unshed, same, same)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=MIN_KEYS, max_size=120),
    st.floats(0.001, 0.9),
    st.floats(0.1, 1e4),
    st.integers(0, 100),
)
def test_an_estimate_is_within_its_interval(keys, share, seconds, seed):
    """It is what the sample has, by its share; and a seed gives the same again."""
    unshed = [number for number, _ in keys]
    same = [int(number * kept) for number, kept in keys]
    found = estimate_sink(counts_of(unshed, same), share, seconds, seed)
    assert found.recall is not None
    assert found.rate is not None
    assert found.recall.value == pytest.approx(sum(same) / sum(unshed))
    assert found.rate.value == pytest.approx(sum(unshed) / share / seconds)
    assert 0 <= found.recall.low <= found.recall.value <= found.recall.high <= 1
    assert 0 <= found.rate.low <= found.rate.value <= found.rate.high
    assert found == estimate_sink(counts_of(unshed, same), share, seconds, seed)


@given(st.integers(0, MIN_KEYS - 1), st.integers(0, 50))
def test_of_too_few_keys_nothing_is_said(number, without):
    """Keys that have results only with the plan's mask do not count."""
    found = estimate_sink(
        counts_of([3] * number + [0] * without, [1] * number + [0] * without), 0.1, 60.0, 0
    )
    assert (found.recall, found.rate, found.keys) == (None, None, number)
    assert found.unknown == f"{number} of the sample's keys have results, 50 are needed"


@pytest.mark.parametrize("kept", [0, 1])
def test_a_sample_of_which_all_or_nothing_is_kept_is_not_sure_of_it(kept):
    """Of 60 keys, none of which is like that, about one in 15 may be all the same."""
    found = estimate_sink(counts_of([2] * 60, [2 * kept] * 60), 0.01, 60.0, 0).recall
    assert found is not None
    assert found.value == kept
    assert found.high - found.low == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("exponent", [0.0, 1.2])
def test_the_truth_is_in_the_intervals(exponent):
    """Of 20,000 keys, those of at most 0.1 % of all events, a tenth is drawn, 400 times."""
    rng = np.random.default_rng(1)
    shares = np.arange(1, 20_001) ** -exponent
    events = rng.multinomial(100_000, shares / shares.sum())
    results = rng.binomial(events[events <= 100] // 2, 0.5)
    by_key = rng.random(len(results)) < 0.5
    same = np.where(
        by_key, results * (rng.random(len(results)) < 0.6), rng.binomial(results, 0.6)
    )
    covered = np.zeros(2)
    for seed in range(400):
        drawn = rng.random(len(results)) < 0.1
        found = estimate_sink(counts_of(results[drawn], same[drawn]), 0.1, 1.0, seed)
        assert found.recall is not None
        assert found.rate is not None
        truths = (same.sum() / results.sum(), results.sum())
        covered += [
            one.low <= truth <= one.high
            for one, truth in zip((found.recall, found.rate), truths, strict=True)
        ]
    assert (covered / 400 > 0.92).all(), covered / 400

"""When events arrived, in a few numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.codec.pack import read_sketch
from shedlight.engines.spark.support.arrival_sketch import (
    MAX_POINTS,
    ArrivalSketch,
    merge_sketches,
    sketch_arrivals,
)

times = st.lists(st.integers(1_790_000_000_000_000, 1_790_000_100_000_000), min_size=1)


@given(st.lists(times, min_size=1, max_size=5))
def test_samples_together_are_the_sample_of_all(parts):
    """Exactly in number and mean; a quantile is between those at two points less and more."""
    whole = np.concatenate([np.array(part) for part in parts])
    both = merge_sketches(sketch_arrivals(np.array(part)) for part in parts)
    assert both is not None
    assert both.number == len(whole)
    assert abs(both.mean - whole.mean()) < 1
    ordered = np.sort(whole)
    for share in (0.01, 0.05, 0.5, 0.95):
        low = ordered[max(0, int((share - 2.5 / MAX_POINTS) * len(ordered)) - len(parts))]
        place = int((share + 2.5 / MAX_POINTS) * len(ordered)) + len(parts)
        high = ordered[min(len(ordered) - 1, place)]
        assert low <= both.at(share) <= high


def test_a_large_sample_is_small_and_near():
    """Of a million events that arrived evenly, in no order."""
    rng = np.random.default_rng(1)
    found = sketch_arrivals(rng.permutation(1_000_000))
    assert len(found.points) == MAX_POINTS
    for share in (0.02, 0.05, 0.5, 0.95):
        assert abs(found.at(share) - share * 1e6) < 1e6 / MAX_POINTS


def test_what_arrived_at_once_is_one_point():
    """However many there are."""
    assert sketch_arrivals(np.full(10_000, 7)) == ArrivalSketch(10_000, 7.0, (7,))
    assert read_sketch(3, 7.0, None) == ArrivalSketch(3, 7.0, (7,))


def test_nothing_has_no_sample():
    """A shard that got no events has no sketch."""
    assert merge_sketches([]) is None

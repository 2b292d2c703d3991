"""Arrays that share memory, and arrays that are computed when they are asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.arrays import (
    CachedArrays,
    LazyArrays,
    dot,
    index_range,
    is_nothing,
    repeat_value,
    repeat_zero,
)


@given(st.integers(0, 70))
def test_numbers_that_share_memory_cannot_be_changed(number):
    """They are what they would be in memory of their own."""
    assert index_range(number).tolist() == list(range(number))
    assert repeat_value(np.float64(0.5), number).tolist() == [0.5] * number
    for shared in (index_range(number), repeat_value(np.int64(3), number)):
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = 1


def test_lazy_arrays_are_a_mapping():
    """Of their keys, in order; each is computed when it is asked for and not before."""
    asked = []

    def compute(key):
        asked.append(key)
        return np.full(2, float(len(key)))

    arrays = LazyArrays(["bb", "a"], compute)

    assert list(arrays) == ["bb", "a"]
    assert len(arrays) == 2
    assert asked == []
    assert arrays["a"].tolist() == [1.0, 1.0]
    assert asked == ["a"]


def test_cached_arrays_are_computed_once():
    """When they are first asked for."""
    asked = []

    def compute(key):
        asked.append(key)
        return np.zeros(2)

    arrays = CachedArrays(compute)
    assert arrays["a"] is arrays["a"]
    assert asked == ["a"]


@pytest.mark.parametrize("length", [0, 1, 7, 10_000, 10_001])
def test_products_add_up_whatever_is_added(length):
    """With one number over and over, with few numbers, and with too many for BLAS."""
    rng = np.random.default_rng(length)
    left, right = rng.random(length), rng.random(length)
    assert dot(left, right) == pytest.approx(float((left * right).sum()))
    repeated = repeat_value(np.float64(0.3), length)
    assert dot(left, repeated) == pytest.approx(float(left.sum() * 0.3))


@pytest.mark.parametrize("length", [0, 3])
def test_nothing_is_known_by_its_one_number(length):
    """What has memory of its own may be nothing too: to find out takes as long as to use it."""
    assert is_nothing(repeat_zero(length))
    assert repeat_zero(length).tolist() == [0.0] * length
    assert not is_nothing(repeat_value(np.float64(0.3), 3))
    assert not is_nothing(np.zeros(3))

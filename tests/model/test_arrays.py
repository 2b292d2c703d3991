"""Arrays that share memory, and arrays that are computed when they are asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.arrays import LazyArrays, index_range, repeat_value


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

"""What patterns need, as arrays that share memory where they can."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.selectivity.needs import MatchDemand, counted, plain_needs, repeated


def _copied(needs):
    """Give the same needs with leaves in the opposite order, so that nothing is shared."""
    leaves = len(needs.leaf_leg)
    return MatchDemand(
        needs.uses,
        needs.watched,
        np.array(needs.leaf_leg),
        np.array(needs.leaf_need[::-1]),
        leaves - 1 - needs.entry_leaf,
        np.array(needs.entry_use),
    )


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_order_of_leaves_does_not_matter(counts):
    """Leaves that are listed as uses are need no counting; the outcome is the same."""
    needs = plain_needs(np.arange(len(counts)) * 2, np.array(counts, float))
    other = _copied(needs)
    assert needs.is_listed == (min(counts) > 0)
    assert needs.is_plain
    assert other.is_plain
    assert needs.per_use.tolist() == other.per_use.tolist() == counts
    for mine, its in zip(needs.takes, other.takes, strict=True):
        assert mine.tolist() == its.tolist()
    assert needs.size == other.size == sum(counts)


@given(st.integers(0, 70))
def test_numbers_that_share_memory_cannot_be_changed(number):
    """They are what they would be in memory of their own."""
    assert counted(number).tolist() == list(range(number))
    assert repeated(np.float64(0.5), number).tolist() == [0.5] * number
    for shared in (counted(number), repeated(np.int64(3), number)):
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = 1

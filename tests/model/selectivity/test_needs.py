"""What patterns need, as arrays that share memory where they can."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.arrays import index_range, repeat_value
from shedlight.model.selectivity.demand import MatchDemand, plain_demand


def _copied(demand):
    """Give the same needs with leaves in the opposite order, so that nothing is shared."""
    leaves = len(demand.leaf_leg)
    return MatchDemand(
        demand.uses,
        demand.watched,
        np.array(demand.leaf_leg),
        np.array(demand.leaf_need[::-1]),
        leaves - 1 - demand.entry_leaf,
        np.array(demand.entry_use),
    )


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_order_of_leaves_does_not_matter(counts):
    """Leaves that are listed as uses are need no counting; the outcome is the same."""
    demand = plain_demand(np.arange(len(counts)) * 2, np.array(counts, float))
    other = _copied(demand)
    assert demand.is_listed == (min(counts) > 0)
    assert demand.is_plain
    assert other.is_plain
    assert demand.per_use.tolist() == other.per_use.tolist() == counts
    for mine, its in zip(demand.takes, other.takes, strict=True):
        assert mine.tolist() == its.tolist()
    assert demand.size == other.size == sum(counts)


@given(st.integers(0, 70))
def test_numbers_that_share_memory_cannot_be_changed(number):
    """They are what they would be in memory of their own."""
    assert index_range(number).tolist() == list(range(number))
    assert repeat_value(np.float64(0.5), number).tolist() == [0.5] * number
    for shared in (index_range(number), repeat_value(np.int64(3), number)):
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = 1

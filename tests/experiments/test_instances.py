"""The drawn problems: what they have, and that they are problems."""

import numpy as np
import pytest

from experiments.instances import dense_instance, draw_arrays
from shedlight.planning.plan import make_plan


def test_every_type_is_in_its_share_of_the_queries():
    """Half of 8 queries is 4, for each of 50 types."""
    arrays = draw_arrays(50, 8, 0.5, seed=3)

    assert np.bincount(np.concatenate(arrays.uses)).tolist() == [4] * 50
    assert all((np.diff(uses) > 0).all() for uses in arrays.uses)


def test_all_types_are_in_all_queries_at_a_share_of_one():
    """The densest problem."""
    arrays = draw_arrays(5, 3, 1.0, seed=3)

    assert [uses.tolist() for uses in arrays.uses] == [[0, 1, 2, 3, 4]] * 3


def test_no_query_is_empty():
    """One type is in one query; the nine others take it too."""
    arrays = draw_arrays(1, 10, 0.1, seed=0)

    assert [uses.tolist() for uses in arrays.uses] == [[0]] * 10


def test_a_seed_is_an_instance():
    """The same seed gives the same arrays, another one others."""
    one, same, other = (draw_arrays(20, 4, 0.5, seed) for seed in (1, 1, 2))

    assert one.rates.tolist() == same.rates.tolist()
    assert [u.tolist() for u in one.uses] == [u.tolist() for u in same.uses]
    assert one.rates.tolist() != other.rates.tolist()


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_no_plan_loses_nothing(share):
    """The operator is overloaded by what matches need, not only by events to spare."""
    plan = make_plan(dense_instance(100, 10, share, seed=0))

    assert plan.nodes
    assert plan.objective < 0.9 * sum(
        sink.weight * rate
        for sink, rate in zip(
            dense_instance(100, 10, share, seed=0).sinks.values(),
            plan.unshed_rates.sinks.values(),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("types", "queries", "share"), [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0), (1, 1, 1.1)]
)
def test_impossible_sizes_are_refused(types, queries, share):
    """With what was given."""
    with pytest.raises(ValueError, match=f"got {types}, {queries} and {share}"):
        draw_arrays(types, queries, share, seed=0)

"""What patterns need of each type: branches, leaves and entries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.expression import Binary, Literal, Operator
from shedlight.language.ast.pattern import Element, elements, negated_elements
from shedlight.language.check.normal_form import min_events
from shedlight.model.selectivity.demand import MatchDemand, build_demand, plain_demand
from tests.strategies import patterns


def types_of(element: Element) -> list[int]:
    """Read `t = 3` as type 3, `t > 1` as all above up to 4, and anything else as all."""
    match element.condition:
        case Binary(Operator.EQUAL, _, Literal(int(value))):
            return [value]
        case Binary(_, _, Literal(int(value))):
            return list(range(value + 1, 5))
    return list(range(5))


def demand_of(where: str, **options: Any) -> MatchDemand:
    """Find what a pattern needs."""
    where = where if where.startswith("SEQ") else f"SEQ({where})"
    pattern = parse_pattern(f"SELECT * WHERE {where} WITHIN 1 s").pattern
    return build_demand(pattern.where, types_of, **options)


def shown(demand: MatchDemand) -> list[str]:
    """Write each leaf as `branch: need x types`."""
    return [
        f"{demand.leaf_branch[leaf]}: {demand.leaf_need[leaf]:g} x "
        + " ".join(
            str(demand.uses[use])
            for use, owner in zip(demand.entry_use, demand.entry_leaf, strict=True)
            if owner == leaf
        )
        for leaf in range(len(demand.leaf_branch))
    ]


@pytest.mark.parametrize(
    ("where", "leaves"),
    [
        ("SEQ(A.t = 0, B.t = 0, C.t = 1)", ["0: 2 x 0", "0: 1 x 1"]),
        ("AND(A.t = 1, B.t = 2, C.t = 3)", ["0: 1 x 1", "0: 1 x 2", "0: 1 x 3"]),
        ("A.t = 1 {3}, B.t = 2 {2,5}", ["0: 3 x 1", "0: 2 x 2"]),
        ("A.t = 1 {3}, B.t = 1", ["0: 4 x 1"]),
        ("A.t = 1+, B.t = 2?", ["0: 1 x 1"]),
        ("SEQ(A.t = 1, B.t = 2 {2}){3}", ["0: 3 x 1", "0: 6 x 2"]),
        ("A.t = 1, NOT(B.t = 2), C.t = 3", ["0: 1 x 1", "0: 1 x 3"]),
        ("A.t > 2, B.t > 2, C.t = 3", ["0: 2 x 3 4", "0: 1 x 3"]),
        ("OR(A.t = 1, B.t = 2)", ["1: 1 x 1", "2: 1 x 2"]),
        ("OR(A.t = 1, OR(B.t = 2, C.t = 3))", ["1: 1 x 1", "2: 1 x 2", "3: 1 x 3"]),
        (
            "A.t = 0, OR(SEQ(B.t = 1, C.t = 1), D.t = 1){2}",
            ["0: 1 x 0", "1: 2 x 1", "2: 1 x 1"],
        ),
        ("A.t = 0, OR(B.t = 1, C.t = 2?)", ["0: 1 x 0"]),
    ],
)
def test_parts_become_leaves(where, leaves):
    """A leaf is `branch: need x types`; branch 0 is that of the matches."""
    assert shown(demand_of(where)) == leaves


def test_an_or_is_split_into_its_branches():
    """As often as repetitions around it say, together or one alone."""
    where = "A.t = 0, OR(B.t = 1, SEQ(C.t = 2, OR(D.t = 3, E.t = 4))){2}"

    both, one = demand_of(where), demand_of(where, or_as="max")

    assert [(s.branch, s.times, s.alternatives) for s in both.splits] == [
        (0, 2.0, (1, 2)),
        (2, 1.0, (3, 4)),
    ]
    assert not any(split.exclusive for split in both.splits)
    assert all(split.exclusive for split in one.splits)
    assert both.branch_count == 5


def test_optional_and_watched_types_are_processed_too():
    """A type under NOT is watched even where another element takes it."""
    demand = demand_of("A.t = 1, NOT(B.t = 2), C.t = 3?, D.t = 2, NOT(E.t = 4), F.t = 1")

    assert demand.uses.tolist() == [1, 2, 3, 4]
    assert demand.watched.tolist() == [False, True, False, True]
    assert demand.per_use.tolist() == [2.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("where", "size"),
    [
        ("A.t = 1 {3}, B.t = 2?", 3),
        ("A.t = 0, OR(SEQ(B.t = 1, C.t = 2, D.t = 3), E.t = 4)", 2),
        ("OR(SEQ(B.t = 1, OR(C.t = 2, SEQ(D.t = 3, E.t = 4))), F.t = 1 {4}){2}", 4),
    ],
)
def test_the_size_of_a_match_is_that_of_the_shortest(where, size):
    """Of the branches of an OR the shortest counts."""
    assert demand_of(where).size == size


@given(patterns(cross=False))
def test_demand_agrees_with_the_tree(pattern):
    """In size, in what is used and in what is watched."""
    demand = build_demand(pattern.where, types_of)
    used = {one for each in elements(pattern.where) for one in types_of(each)}
    seen = {one for each in negated_elements(pattern.where) for one in types_of(each)}

    assert demand.size == min_events(pattern.where)
    assert demand.uses.tolist() == sorted(used)
    assert set(demand.uses[demand.watched].tolist()) == seen
    assert demand.branch_count == 1 + max(
        [0, *(b for s in demand.splits for b in s.alternatives)]
    )
    assert set(demand.leaf_branch.tolist()) <= set(range(demand.branch_count))
    assert np.all(np.diff(demand.entry_leaf) >= 0)


def _copied(demand):
    """Give the same demand with leaves in the opposite order, so that nothing is shared."""
    leaves = len(demand.leaf_branch)
    return MatchDemand(
        demand.uses,
        demand.watched,
        np.array(demand.leaf_branch),
        np.array(demand.leaf_need[::-1]),
        leaves - 1 - demand.entry_leaf,
        np.array(demand.entry_use),
    )


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_order_of_leaves_does_not_matter(counts):
    """Leaves that are listed as uses are need no counting; the outcome is the same."""
    demand = plain_demand(np.arange(len(counts)) * 2, np.array(counts, float))
    other = _copied(demand)
    assert demand.has_leaf_per_use == (min(counts) > 0)
    assert demand.is_plain
    assert other.is_plain
    assert demand.per_use.tolist() == other.per_use.tolist() == counts
    for mine, its in zip(demand.fixed_terms, other.fixed_terms, strict=True):
        assert mine.tolist() == its.tolist()
    assert demand.size == other.size == sum(counts)

"""Which condition is answered by an index, and by which key."""

import pytest

from shedlight.language import parse_pattern
from shedlight.matching.compile.indexes import Selectivity
from tests.kernel import operator_for

ORDERS = "SEQ(a.kind = 0, b.kind = 1)"


def _matcher(where, window="1 h"):
    text = f"SELECT a.x WHERE {where} WITHIN {window}"
    return operator_for(parse_pattern(text).pattern).matchers[0]


@pytest.mark.parametrize(
    ("condition", "key", "selectivity"),
    [
        ("b.x = a.key", "key", Selectivity.EQUALITY),
        ("b.x = a.key + 1", "key + 1", Selectivity.EQUALITY),
        ("b.x - a.key = 1", "key", Selectivity.EQUALITY),
        ("b.name = a.name AND b.x > a.x", "x", Selectivity.HALF_OPEN),  # the rest is a key
        ("b.name >= a.name", "name", Selectivity.HALF_OPEN),
        ("b.y > a.y * 1.02", "y * 1.02", Selectivity.HALF_OPEN),
        ("a.y * 1.02 < b.y", "y * 1.02", Selectivity.HALF_OPEN),
        ("b.y - a.y < 3", "y", Selectivity.HALF_OPEN),
        ("(b.y - a.y) / 2 < 3", "y", Selectivity.HALF_OPEN),
        ("b.y - a.y = 3", "y", Selectivity.CLOSED),  # doubles are rounded
        ("abs(b.y - a.y) < 0.3", "y", Selectivity.CLOSED),
        ("abs(a.x - b.x) <= b.key", "x", Selectivity.CLOSED),
        ("b.y BETWEEN a.y - 1 AND a.y + 1", "y", Selectivity.CLOSED),
        ("b.y > a.y AND b.x < a.x AND b.x > a.x - 5", "x", Selectivity.CLOSED),
        ("b.y > a.y AND b.x = a.key", "key", Selectivity.EQUALITY),
        ("b.y > a.y AND abs(b.x - a.x) < 2", "x", Selectivity.CLOSED),
    ],
)
def test_the_most_selective_condition_is_indexed(condition, key, selectivity):
    """Equality before a range with two ends before one with a single end."""
    none, index = _matcher(f"{ORDERS} AND {condition}").indexes
    assert none is None
    assert (str(index.key), index.selectivity) == (key, selectivity)
    assert (index.element, index.source) == (1, 0)


@pytest.mark.parametrize(
    "condition",
    [
        "b.x <> a.x",
        "b.y / a.y > 1.02",
        "abs(b.y - a.y) > 1",
        "(b.x = a.x OR b.y = a.y)",
        "(b.x - a.x) % 2 = 0",
        "(b.x - a.x) * 2 < 5",  # whole numbers overflow
        "coalesce(b.x, a.x) = 1",
        "a.y * b.y < 3",
    ],
)
def test_what_is_no_range_of_a_key_is_scanned(condition):
    """It is matched as before."""
    assert _matcher(f"{ORDERS} AND {condition}").indexes == (None, None)


def test_of_three_elements_one_pair_is_indexed():
    """The rest is checked on what is found; so is a condition between all three."""
    where = "SEQ(a.kind = 0, b.kind = 1, c.kind = 2) AND c.x > a.x AND abs(c.y - b.y) < 1"
    _, _, index = _matcher(f"{where} AND c.x > a.x + b.x").indexes
    assert (str(index.key), index.source, index.conditions) == ("y", 1, (1,))


def test_a_not_has_an_index_of_its_own():
    """By the key of an event that was taken."""
    where = "SEQ(a.kind = 0, NOT(n.kind = 3), b.kind = 1) AND n.key = a.key AND b.y > a.y"
    _, forbids, takes = _matcher(where).indexes
    assert (str(forbids.key), str(takes.key)) == ("key", "y")


@pytest.mark.parametrize(
    ("where", "window", "key"),
    [
        ("SEQ(a.kind = 0, b.kind = 1) AND b.key = a.key", "1 h", "key"),
        ("SEQ(a.kind = 0, b.kind = 1) AND b.key = a.key", "9 EVENTS", None),
        ("SEQ(a.kind = 0, b.kind = 1) AND b.key = a.x", "1 h", None),
        ("SEQ(a.kind = 0, b.kind = 1) AND b.key = a.key + 0", "1 h", None),
        ("SEQ(a.kind = 0, b.kind = 1, c.kind = 2) AND b.key = a.key", "1 h", None),
        (
            "SEQ(a.kind = 0, b.kind = 1 +, c.kind = 2) AND b.key = a.key AND c.key = b.key",
            "1 h",
            "key",
        ),
        (
            "SEQ(a.kind = 0, b.kind = 1 ?, c.kind = 2) AND b.key = a.key AND c.key = b.key",
            "1 h",
            None,
        ),
        ("SEQ(a.kind = 0 +, b.kind = 1) AND b.key = a.key", "1 h", None),
        ("SEQ(a.kind = 0, b.kind = 1){2} AND b.key = a.key", "1 h", None),
        ("AND(a.kind = 0, b.kind = 1) AND b.key = a.key", "1 h", "key"),
        (
            "AND(a.kind = 0, b.kind = 1, c.kind = 2) AND b.key = a.key AND c.key = a.key",
            "1 h",
            None,
        ),
        ("SEQ(a.kind = 0, NOT(n.kind = 3), b.kind = 1) AND b.key = a.key", "1 h", None),
        (
            "SEQ(a.kind = 0, NOT(n.kind = 3), b.kind = 1) AND b.key = a.key AND n.key = a.key",
            "1 h",
            "key",
        ),
        ("SEQ(a.kind = 0, NOT(n.kind = 1)) AND n.name = a.name", "1 h", "name"),
    ],
)
def test_a_key_is_implied_if_all_events_are_chained_by_it(where, window, key):
    """Each is compared when it comes with one that was surely taken; NOTs too."""
    found = _matcher(where, window).implicit_key
    assert (found and str(found.attribute)) == key


def test_what_is_left_besides_an_implicit_key_is_checked():
    """A key takes its conditions, no other."""
    matcher = _matcher("SEQ(a.kind = 0, b.kind = 1) AND b.key = a.key AND b.x > a.x")
    assert [str(c) for c in matcher.automaton.pattern.conditions] == ["b.x > a.x"]
    assert [str(c) for c in matcher.pattern.conditions] == ["b.key = a.key", "b.x > a.x"]
    assert str(matcher.indexes[1].key) == "x"

"""What `shedlight check` says of conditions across events."""

import pytest

from shedlight.graph import explain
from shedlight.graph.columns import Columns
from shedlight.graph.index_notes import explain_indexes
from shedlight.language import DataType, parse_pattern
from tests.graph.applications import loaded

COLUMNS = Columns(
    {
        "type": DataType.BIGINT,
        "user": DataType.STRING,
        "x": DataType.DOUBLE,
        "n": DataType.BIGINT,
    }
)


def _notes(conditions, where="SEQ(a.type = 0, b.type = 1)", window="1 h", columns=COLUMNS):
    text = f"SELECT a.x WHERE {where} AND {conditions} WITHIN {window}"
    return explain_indexes(parse_pattern(text).pattern, columns)


def test_it_says_which_condition_is_indexed_and_which_is_checked():
    """The index first, then what is checked on what it finds."""
    where = "SEQ(a.type = 0, b.type = 1, c.type = 2)"
    assert _notes("b.user = a.user AND abs(c.x - b.x) < 3 AND c.n > a.n", where) == {
        "index": "b finds a by equality of user, for b.user = a.user; "
        "c finds b by range of x, for abs(c.x - b.x) < 3",
        "candidates": "what c finds is checked for c.n > a.n",
    }


def test_it_says_which_condition_no_index_answers():
    """It works all the same, partial match by partial match."""
    assert _notes("b.x / a.x > 1.02") == {
        "scan": "b is compared with each partial match that waits for it, "
        "for no index answers b.x / a.x > 1.02"
    }


def test_a_key_is_suggested_only_where_it_means_the_same():
    """All events are chained by it, and the window is one of time; null differs."""
    notes = _notes("b.user = a.user AND b.n > a.n")
    assert notes["implicit key"].startswith("user, by b.user = a.user: as fast as PARTITION BY")
    assert notes["implicit key"].endswith("and would take null for a key")
    assert notes["index"] == "b finds a by order of n, for b.n > a.n"
    assert "implicit key" not in _notes("b.user = a.user", window="9 EVENTS")


@pytest.mark.parametrize("columns", [COLUMNS, Columns({}, frozenset({""}))])
def test_columns_need_not_be_known(columns):
    """Without a schema a column is taken for one of decimal numbers."""
    assert _notes("b.x > a.x * 1.02", columns=columns) == {
        "index": "b finds a by order of x * 1.02, for b.x > a.x * 1.02"
    }


def test_it_is_part_of_what_check_prints():
    """Beside how a pattern is shed, above its automaton."""
    text = explain(
        loaded(
            (
                "WHERE SEQ(E1.type = 0, E2.type = 1) WITHIN",
                "WHERE SEQ(E1.type = 0, E2.type = 1) AND E2.ts > E1.ts + 5 WITHIN",
            )
        )
    )
    assert "index: E2 finds E1 by order of ts + 5, for E2.ts > E1.ts + 5\n      state 0" in text

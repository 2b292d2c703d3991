"""Which rows of a batch are left out before they are moved."""

import pytest

from shedlight.engines.spark.find.relevant import relevant_sql
from shedlight.language import DataType, parse_pattern

SCHEMA = {"x": DataType.BIGINT, "at": DataType.TIMESTAMP}


def _sql(*texts):
    return relevant_sql(SCHEMA, [parse_pattern(text, SCHEMA).pattern for text in texts])


def test_an_event_is_relevant_if_some_element_of_some_pattern_can_take_it():
    """Those under NOT too; each condition is asked once."""
    sql = _sql(
        "SELECT a WHERE SEQ(a.x = 1, NOT(n.x = 2), b.x = 1) WITHIN 5 s",
        "SELECT a WHERE a.x = 3",
    )

    assert sql is not None
    assert sql.count(" OR ") == 2
    assert all(f"{number}L" in sql for number in (1, 2, 3))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a WHERE SEQ(a.x = 1, b.x = 2) WITHIN 5 EVENTS",
        "SELECT a WHERE unix_micros(a.at) = 5",
    ],
)
def test_all_events_stay_where_a_window_counts_them_or_a_condition_is_on_times(text):
    """A window of events counts those of no use; in SQL a time depends on the session."""
    assert _sql("SELECT a WHERE a.x = 3", text) is None

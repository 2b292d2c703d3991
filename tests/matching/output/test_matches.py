"""Events that are numbered through are taken as if they were in one table."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shedlight.matching.output.matches import view_events

INNER = pa.struct([pa.field("x", pa.int64())])
SCHEMA = pa.schema(
    {
        "whole": pa.int64(),
        "some": pa.int64(),
        "double": pa.float64(),
        "at": pa.timestamp("us", tz="UTC"),
        "short": pa.int8(),
        "text": pa.string(),
        "inner": INNER,
    }
)
_numbers = st.integers(-(1 << 62), 1 << 62)
_rows = st.fixed_dictionaries(
    {
        "whole": _numbers,
        "some": st.none() | _numbers,
        "double": st.floats(allow_nan=False),
        "at": st.integers(0, 1 << 50),
        "short": st.integers(-5, 5),
        "text": st.none() | st.text(max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"x": st.none() | _numbers}),
    }
)
_tables = st.lists(_rows, max_size=8)


def _table(rows, cut):
    """In two pieces, as tables often are."""
    both = [pa.Table.from_pylist(part, SCHEMA) for part in (rows[:cut], rows[cut:])]
    return pa.concat_tables(both)


@given(_tables, _tables, st.integers(0, 8), st.data())
def test_rows_are_those_of_both_put_together(stored, new, cut, data):
    """Of all kinds of columns, with nulls or without, and where a row is missing."""
    store, batch = _table(stored, cut), _table(new, 0).combine_chunks()
    both = pa.concat_tables([store, batch]).combine_chunks()
    number = st.integers(0, max(len(both) - 1, 0))
    rows = np.array(data.draw(st.lists(number, max_size=10 if len(both) else 0)), np.int64)
    drawn = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    some = st.lists(st.sampled_from(SCHEMA.names), unique=True, min_size=1)
    names = data.draw(st.none() | some)
    events = view_events(store, batch)
    for missing in (None, np.array(drawn, np.bool_)):
        found = events.take(rows, names, missing)
        expected = both.take(pa.array(rows, mask=missing))
        expected = expected if names is None else expected.select(names)
        assert found.schema.equals(expected.schema)
        assert found.to_pylist() == expected.to_pylist()


@given(_tables, _tables, st.data())
def test_whole_numbers_without_a_null_are_given_as_numbers(stored, new, data):
    """And no other column is."""
    store, batch = _table(stored, 1), _table(new, 0).combine_chunks()
    size = len(store) + len(batch)
    rows = data.draw(st.lists(st.integers(0, size - 1), max_size=9)) if size else []
    events, places = view_events(store, batch), np.array(rows, np.int64)
    values = [one["whole"] for one in (*stored, *new)]
    found = events.numbers("whole", places)
    assert found is not None
    assert found.tolist() == [values[row] for row in rows]
    assert events.numbers("double", places) is None
    assert events.numbers("text", places) is None
    has_null = any(one["some"] is None for one in (*stored, *new))
    assert (events.numbers("some", places) is None) == has_null

"""Equal events without an id get numbers, whatever the micro-batches."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.find.copies import number_copies
from shedlight.engines.spark.find.events import COPY, HASH
from shedlight.engines.tables import EVENT_TIME

SCHEMA = pa.schema([(EVENT_TIME, pa.int64()), (HASH, pa.int64())])
pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30)


def _table(rows):
    return pa.Table.from_pylist([{EVENT_TIME: t, HASH: h} for t, h in rows], SCHEMA)


@given(pairs, st.integers(0, 30))
def test_equal_events_are_numbered_in_the_order_of_arrival(rows, cut):
    """Those that wait in the reorder buffer came before."""
    waiting = number_copies(_table(rows[:cut]), _table([]))
    new = number_copies(_table(rows[cut:]), waiting)

    numbers = [*waiting[COPY].to_pylist(), *new[COPY].to_pylist()]
    counted: Counter[tuple[int, int]] = Counter()
    for row, number in zip(rows, numbers, strict=True):
        assert number == counted[row]
        counted[row] += 1

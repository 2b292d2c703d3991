"""Events of a group that complex events refer to by number, each kept once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.matching.jit import Array


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Events by number.

    Attributes:
        events: Those of earlier micro-batches, and after them those of this one.
        old: The numbers of the earlier ones, which rise.
        start: The number of the first one of this micro-batch; the others follow.
    """

    events: pa.Table
    old: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    start: int = 0

    def places(self, numbers: pa.Array) -> Array:
        """Find the rows of events; -1 for null."""
        if numbers.null_count == len(numbers):
            return np.full(len(numbers), -1, np.int64)
        known = numbers.fill_null(self.start).to_numpy()
        places = known - self.start + len(self.old)
        early = known < self.start
        if early.any():
            places[early] = np.searchsorted(self.old, known[early])
        if numbers.null_count:
            places[np.asarray(numbers.is_null())] = -1
        return np.asarray(places)

    def with_events(
        self, arrivals: Mapping[int, pa.Table]
    ) -> tuple["EventTable", Mapping[int, pa.Array]]:
        """Add the events of a micro-batch, and say what their numbers are."""
        numbers, start = {}, self.start + len(self.events) - len(self.old)
        for key, table in arrivals.items():
            numbers[key] = pa.array(np.arange(start, start + len(table)))
            start += len(table)
        some = [table for table in (self.events, *arrivals.values()) if len(table)]
        events = pa.concat_tables(some) if some else self.events
        return EventTable(events, self.old, self.start), numbers

    def kept(self, numbers: Array) -> "EventTable":
        """Keep events for later micro-batches."""
        old = np.unique(numbers)
        events = rows_in_order(self.events, self.places(pa.array(old)))
        return EventTable(events, old, self.start + len(self.events) - len(self.old))


def rows_in_order(table: pa.Table, rows: Array) -> pa.Table:
    """Take rows in order, from each piece of a table by itself; else all would be copied."""
    parts, start = [], 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, (start, start + len(batch)))
        if last > first:
            parts.append(batch.take(pa.array(rows[first:last] - start)))
        start += len(batch)
    return pa.Table.from_batches(parts, table.schema)

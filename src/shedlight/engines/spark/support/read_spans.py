"""Which micro-batches of a run may have read an event, by its timestamp.

Spark forgets which micro-batch read what. But each has on record up to which timestamp its
sources had been read before it, so an event that came in order is between two of them. One
that came out of order, by the lateness of its source at most, may have come in any of several.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shedlight.engines.spark.support.batch_record import Row
from shedlight.graph import Source
from shedlight.matching.jit import Array
from shedlight.matching.operators.reorder import FOREVER, NEVER


@dataclass(frozen=True, slots=True, eq=False)
class ReadSpans:
    """What each micro-batch on record may have read of a source, in their order."""

    low: Array  # what had been read before it: up to this timestamp, in microseconds, or later
    high: Array  # what had been read after it: up to this one, or earlier
    lateness: int

    def batches(self, time: Array) -> tuple[Array, Array]:
        """Give the places of the micro-batches that may have read events: from, and before.

        There are none for an event that was late, or was not read yet.
        """
        first = np.searchsorted(self.high, time, side="left")
        end = np.searchsorted(self.low, time + self.lateness, side="right")
        return first, np.maximum(first, end)


def read_spans(rows: Iterable[Row], active: Row | None, source: Source) -> ReadSpans:
    """Find the spans of a source; `active` says how far it was read in the end."""
    rows = tuple(rows)
    numbers = np.array([row["batch"] for row in rows], np.int64)
    low = np.array([_read_before(row, source) for row in rows], np.int64)
    high = np.full(len(rows), FOREVER, np.int64)
    for row in (*rows, *([] if active is None else [active])):
        # what it says is of micro-batches up to this one
        last = np.searchsorted(numbers, row.get("after", -1), side="right") - 1
        if last >= 0 and source.name in row.get("latest", {}):
            high[last] = min(high[last], row["latest"][source.name])
    return ReadSpans(
        np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1], source.lateness
    )


def _read_before(row: Row, source: Source) -> int:
    latest = row.get("latest", {}).get(source.name, NEVER)
    is_upper_bound = source.name in row.get("unseen", {})
    return int(latest - source.lateness if is_upper_bound else latest)

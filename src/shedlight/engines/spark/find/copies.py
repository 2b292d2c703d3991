"""Events without an id: equal ones differ in a number.

Which of two equal events has which number makes no difference to any pattern. All events of one
time become ready at once, so those that an event can be equal to are with it in a batch or
still in the reorder buffer.
"""

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.find.events import COPY, HASH
from shedlight.engines.tables import EVENT_TIME
from shedlight.matching.jit import Array


def number_copies(events: pa.Table, waiting: pa.Table) -> pa.Table:
    """Number events that are equal, after those that wait in the reorder buffer."""
    known = len(waiting)
    times = _joined(EVENT_TIME, waiting, events)
    hashes = _joined(HASH, waiting, events)
    order = np.lexsort((hashes, times))
    times, hashes = times[order], hashes[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (times[1:] != times[:-1]) | (hashes[1:] != hashes[:-1])
    starts = np.flatnonzero(is_first)
    position = np.arange(len(order))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = position - starts[np.cumsum(is_first) - 1]
    return events.append_column(COPY, pa.array(numbers[known:]))


def _joined(name: str, *tables: pa.Table) -> Array:
    return np.concatenate([table[name].to_numpy() for table in tables])

"""Events from the future, left out of files: they would make all that comes after them late.

A file has no clock but one: when it was written. What it has from later than that by more than
`max_jump` of its source cannot have happened. It is the rule of a run on Spark, where such an
event is late; a column that says when an event arrived counts here as it does there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from shedlight.engines.tables import event_time_of, with_declared_times, with_derived_columns
from shedlight.graph import Source
from shedlight.matching.jit import Array


@dataclass(frozen=True, slots=True)
class FutureEvents:
    """How many events of a source were left out, for their times are in the future."""

    source: str
    number: int
    max_jump: int  # how far after its arrival a time may be, in microseconds


OnFuture = Callable[[FutureEvents], None]
"""Called with what was left out of a file."""


def leave_out_future(
    source: Source, file: Path, table: pa.Table, on_future: OnFuture
) -> pa.Table:
    """Leave out the events of a file that are too far after it was written, or they arrived.

    An event whose time cannot be read stays, and is malformed.
    """
    written = file.stat().st_mtime_ns // 1000
    derived = {source.time, source.arrival} & source.columns.keys()
    whole = with_declared_times(source, table)
    whole = with_derived_columns(source, whole) if derived else whole
    if source.time not in whole.column_names:  # which is said where all columns are checked
        return table
    times = _times(source, whole, source.time, source.time_unit.value)
    arrivals = np.full(len(table), written)
    if source.arrival is not None and source.arrival in whole.column_names:
        arrivals = np.minimum(_times(source, whole, source.arrival, "us", written), written)
    is_future = times > arrivals + source.max_jump
    number = int(np.count_nonzero(is_future))
    if not number:
        return table
    on_future(FutureEvents(source.name, number, source.max_jump))
    return table.filter(pa.array(~is_future))


def _times(source: Source, table: pa.Table, name: str, unit: str, missing: int = 0) -> Array:
    """Read a column of times, in microseconds; where there is none, another stands in."""
    what = f"source {source.name}: {name!r}"
    times = event_time_of(table[name], unit, source.time_zone, what)
    return np.where(times.valid, times.values, missing)

"""Events from the future, left out of files: they would make all that comes after them late.

What is ahead of the clock by more than `max_jump` of its source cannot have happened. It is the
rule of a run on Spark, where such an event is late.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.tables import event_time_of, with_declared_times, with_derived_columns
from shedlight.graph import Source


@dataclass(frozen=True, slots=True)
class FutureEvents:
    """How many events of a source were left out, for their times are in the future."""

    source: str
    number: int
    max_jump: int  # how far ahead of the clock a time may be, in microseconds


OnFuture = Callable[[FutureEvents], None]
"""Called with what was left out of a file."""


def leave_out_future(
    source: Source, table: pa.Table, now: int, on_future: OnFuture
) -> pa.Table:
    """Leave out the events that are too far ahead of the clock (now, in microseconds).

    An event whose time cannot be read stays, and is malformed.
    """
    whole = with_declared_times(source, table)
    whole = with_derived_columns(source, whole) if source.time in source.columns else whole
    if source.time not in whole.column_names:  # which is said where all columns are checked
        return table
    what = f"source {source.name}: {source.time!r}"
    times = event_time_of(whole[source.time], source.time_unit.value, source.time_zone, what)
    is_future = times.valid & (times.values > now + source.max_jump)
    number = int(np.count_nonzero(is_future))
    if not number:
        return table
    on_future(FutureEvents(source.name, number, source.max_jump))
    return table.filter(pa.array(~is_future))

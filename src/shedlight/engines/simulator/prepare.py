"""Prepares a simulation: the application without what nobody reads, events in order of time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.tables import EVENT_TIME, prepare_source
from shedlight.generate.projection import ReadColumns, project_columns
from shedlight.graph import Application, Stream, with_schemas
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shedder import event_hashes


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast events arrive: their times, brought closer together from the first of all on."""

    first: int = 0  # the time of the first event, in microseconds
    factor: float = 1.0  # how many times as fast they arrive as their times say

    def arrivals(self, times: Array) -> Array:
        """Say when the events of these times arrive, in microseconds."""
        if self.factor == 1:
            return times
        arrivals = self.first + np.floor((times - self.first) / self.factor)
        return np.asarray(arrivals.astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """An application and its events, prepared for a simulation."""

    application: Application  # without what nobody reads
    sources: Mapping[str, tuple[StreamInput, pa.Table]]  # their events in order
    unique: frozenset[Stream]  # streams in which no id comes twice
    pace: Pace  # when events arrive


def prepare_run(
    application: Application,
    tables: Mapping[str, pa.Table],
    pace: float = 1.0,
    *,
    squeeze: bool = True,
) -> PreparedRun:
    """Prepare an application, and events that come so many times as fast as their times say.

    If they are squeezed their times are brought together, and windows hold more of them; else
    they keep their times, and only arrive faster.
    """
    schemas = {name: schema_of(table.schema) for name, table in tables.items()}
    application, read = project_columns(with_schemas(application, schemas), with_ids=True)
    sources = {}
    for name, source in application.sources.items():
        stream_input, table = prepare_source(source, tables[name])
        needed = _drop_unread(stream_input, table, read[Stream(name)])
        sources[name] = (stream_input, _order_by_time(needed))
    first = min((t[EVENT_TIME][0].as_py() for _, t in sources.values() if len(t)), default=0)
    unique = frozenset(_unique_streams(application, sources))
    given = Pace(first, pace)
    if not squeeze:
        return PreparedRun(application, sources, unique, given)
    squeezed = {n: (s, _with_arrivals(table, given)) for n, (s, table) in sources.items()}
    return PreparedRun(application, squeezed, unique, Pace())


def _unique_streams(
    application: Application, sources: Mapping[str, tuple[StreamInput, pa.Table]]
) -> Iterator[Stream]:
    """Find the streams in which no id comes twice: a match that reuses no event is unique."""
    for name, (stream_input, table) in sources.items():
        hashes = np.sort(event_hashes(table, stream_input.ids))
        if (hashes[1:] != hashes[:-1]).all():
            yield Stream(name)
    for spec in application.operators.values():
        for stream in spec.outputs:
            if not spec.patterns[stream.name].reuse:
                yield stream


def _drop_unread(stream_input: StreamInput, table: pa.Table, read: ReadColumns) -> pa.Table:
    """Leave out columns that nobody reads."""
    needed = {*stream_input.ids, stream_input.time, *read.names}
    if read.everything:
        return table
    return table.select([column for column in table.column_names if column in needed])


def _order_by_time(table: pa.Table) -> pa.Table:
    """Let events arrive at the time that they bear."""
    times = table[EVENT_TIME].to_numpy()
    if (times[1:] < times[:-1]).any():
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return table.combine_chunks()


def _with_arrivals(table: pa.Table, pace: Pace) -> pa.Table:
    """Let events bear the times at which they arrive."""
    arrivals = pa.array(pace.arrivals(table[EVENT_TIME].to_numpy()))
    return table.set_column(table.column_names.index(EVENT_TIME), EVENT_TIME, arrivals)

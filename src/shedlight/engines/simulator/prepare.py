"""Prepares a simulation: the application without what nobody reads, events in order of time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.tables import EVENT_TIME, prepare_source
from shedlight.generate.projection import ReadColumns, project_columns
from shedlight.graph import Application, Stream, with_schemas
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shedder import event_hashes


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """An application and its events, prepared for a simulation."""

    application: Application  # without what nobody reads
    sources: Mapping[str, tuple[StreamInput, pa.Table]]  # their events in order
    unique: frozenset[Stream]  # streams in which no id comes twice


def prepare_run(
    application: Application, tables: Mapping[str, pa.Table], pace: float = 1.0
) -> PreparedRun:
    """Prepare an application, and events that come so many times as fast as their times say."""
    schemas = {name: schema_of(table.schema) for name, table in tables.items()}
    application, read = project_columns(with_schemas(application, schemas))
    sources = {}
    for name, source in application.sources.items():
        stream_input, table = prepare_source(source, tables[name])
        needed = _drop_unread(stream_input, table, read[Stream(name)])
        sources[name] = (stream_input, _order_by_time(needed))
    first = min((t[EVENT_TIME][0].as_py() for _, t in sources.values() if len(t)), default=0)
    paced = {n: (s, _speed_up(table, pace, first)) for n, (s, table) in sources.items()}
    return PreparedRun(application, paced, frozenset(_unique_streams(application, sources)))


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


def _speed_up(table: pa.Table, pace: float, first: int) -> pa.Table:
    """Bring the times of events closer together, or apart, from the first of all on."""
    if pace == 1:
        return table
    times = first + np.floor((table[EVENT_TIME].to_numpy() - first) / pace).astype(np.int64)
    return table.set_column(table.column_names.index(EVENT_TIME), EVENT_TIME, pa.array(times))

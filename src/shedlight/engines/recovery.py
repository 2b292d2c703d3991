"""What shedding lost, found afterwards: a stretch matched without shedding, less what came.

A complex event has the id of its events, so that what a run has delivered and what is found
without shedding can be held against each other: what is missing is missed, and nothing comes
twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.event_pieces import EventPieces
from shedlight.engines.pieces_run import OperatorRun
from shedlight.engines.tables import (
    Result,
    RunOperator,
    event_time_of,
    run_application,
    run_operator,
    with_declared_times,
    with_derived_columns,
)
from shedlight.graph import Application, Sink, Source
from shedlight.matching.operators.cep_operator import CepOperator
from shedlight.matching.output.complex_events import ID, TIME


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A stretch of event time, in microseconds, both ends included; None: without an end."""

    since: int | None = None
    until: int | None = None

    def has(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Say which times are in it."""
        wanted = pa.chunked_array([np.ones(len(times), bool)])
        if self.since is not None:
            wanted = pc.and_(wanted, pc.greater_equal(times, self.since))
        if self.until is not None:
            wanted = pc.and_(wanted, pc.less_equal(times, self.until))
        return wanted


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """What a sink would have got of a stretch without shedding.

    Attributes:
        matches: How many complex events there are without shedding.
        delivered: How many of these the sink has got.
        missed: The others, in the columns of the sink; their times are timestamps in UTC.
    """

    matches: int
    delivered: int
    missed: pa.Table


def find_missed(
    application: Application,
    results: Mapping[str, Result],
    delivered: Mapping[str, pa.Array],
    stretch: TimeRange,
) -> Mapping[str, Recovery]:
    """Find what sinks missed of the complex events of a stretch.

    Args:
        application: The application.
        results: What its operators find without shedding in all stored events up to the end of
            the stretch, from their beginning on: which events a match takes depends on all
            matches before it.
        delivered: The ids that each sink has got; sinks that are not in it are left out.
        stretch: In which time complex events are looked for.

    Returns:
        What each sink missed.
    """
    found = {}
    for name, ids in delivered.items():
        table = _of_sink(results, application.sinks[name])
        table = table.filter(stretch.has(table[TIME]))
        came = pc.is_in(table[ID], value_set=ids)
        missed = _with_timestamps(table.filter(pc.invert(came)))
        found[name] = Recovery(len(table), len(table) - len(missed), missed)
    return found


def match_stored(
    application: Application,
    tables: Mapping[str, pa.Table],
    until: int | None,
    run: RunOperator = run_operator,
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
) -> Mapping[str, Result]:
    """Match the stored events of all sources up to the last one of a time, without shedding."""
    cut = {
        name: cut_behind(source, tables[name], until)
        for name, source in application.sources.items()
    }
    return run_application(application, cut, on_malformed=on_malformed, run=run)


def cut_behind(source: Source, table: pa.Table, until: int | None) -> pa.Table:
    """Leave out what arrived after the last event up to a time.

    Later events before it stay: they say which of the others were late.
    """
    if until is None:
        return table
    rows = _rows_until(source, table, until)
    return table if rows is None else table.slice(0, rows)


def cut_pieces(
    source: Source, pieces: EventPieces, again: EventPieces, until: int
) -> EventPieces:
    """Do so with events that come in pieces: what is read once says where to end `again`."""
    before, end = 0, 0
    for table in pieces.tables:
        rows = _rows_until(source, table, until)
        if rows is None:
            return again
        end = before + rows if rows else end
        before += len(table)
    return EventPieces(again.schema, again.number, _first_rows(again.tables, end))


def _first_rows(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    for table in tables:
        if rows <= 0:
            return
        yield table.slice(0, rows)
        rows -= len(table)


def _rows_until(source: Source, table: pa.Table, until: int) -> int | None:
    """Count the rows up to the last one of a time; None: there is no such column."""
    whole = with_derived_columns(source, with_declared_times(source, table))
    if source.time not in whole.column_names:  # which is said where all columns are checked
        return None
    what = f"source {source.name}: {source.time!r}"
    times = event_time_of(whole[source.time], source.time_unit.value, source.time_zone, what)
    rows = np.flatnonzero(times.valid & (times.values <= until))
    return int(rows[-1]) + 1 if len(rows) else 0


def run_in_pieces(
    operator: CepOperator,
    tables: Sequence[pa.Table],
    number: int,
    on_piece: Callable[[], None] = lambda: None,
    began: Mapping[str, int] = MappingProxyType({}),
) -> Result:
    """Run an operator over whole tables of its inputs, in so many pieces of each.

    What is found is what `run_operator` finds; `on_piece` is called when a piece is done. The
    patterns that `began` at a time see no events from before it.
    """
    run = OperatorRun(operator, began)
    cuts = [np.linspace(0, len(table), number + 1).astype(int) for table in tables]
    for piece in range(number):
        bounds = ((cut[piece], cut[piece + 1]) for cut in cuts)
        pairs = enumerate(zip(tables, bounds, strict=True))
        run.step(
            {index: table.slice(first, end - first) for index, (table, (first, end)) in pairs}
        )
        on_piece()
    run.step({}, frozenset(range(len(tables))))
    return run.result()


def _of_sink(results: Mapping[str, Result], sink: Sink) -> pa.Table:
    result = results[str(sink.input.operator)]
    by_pattern = result.timed_out if sink.timed_out else result.complex_events
    return by_pattern[sink.input.name]


def _with_timestamps(table: pa.Table) -> pa.Table:
    index = table.column_names.index(TIME)
    return table.set_column(index, TIME, table[TIME].cast(pa.timestamp("us", tz="UTC")))

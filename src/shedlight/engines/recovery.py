"""What shedding lost, found afterwards: a stretch matched without shedding, less what came.

A complex event has the id of its events, so that what a run has delivered and what is found
without shedding can be held against each other: what is missing is missed, and nothing comes
twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    tables: Mapping[str, pa.Table],
    delivered: Mapping[str, pa.Array],
    stretch: TimeRange,
    run: RunOperator = run_operator,
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
) -> Mapping[str, Recovery]:
    """Find what sinks missed of the complex events of a stretch.

    All stored events up to the end of the stretch are matched, from their beginning on: which
    events a match takes depends on all matches before it.

    Args:
        application: The application.
        tables: The stored events of each source.
        delivered: The ids that each sink has got; sinks that are not in it are left out.
        stretch: In which time complex events are looked for.
        run: How an operator is run over tables of its inputs.
        on_malformed: Called with malformed records of sources that have a place for them.

    Returns:
        What each sink missed.
    """
    cut = {
        name: cut_behind(source, tables[name], stretch.until)
        for name, source in application.sources.items()
    }
    results = run_application(application, cut, on_malformed=on_malformed, run=run)
    found = {}
    for name, ids in delivered.items():
        table = _of_sink(results, application.sinks[name])
        table = table.filter(stretch.has(table[TIME]))
        came = pc.is_in(table[ID], value_set=ids)
        missed = _with_timestamps(table.filter(pc.invert(came)))
        found[name] = Recovery(len(table), len(table) - len(missed), missed)
    return found


def cut_behind(source: Source, table: pa.Table, until: int | None) -> pa.Table:
    """Leave out what arrived after the last event up to a time.

    Later events before it stay: they say which of the others were late.
    """
    if until is None or not len(table):
        return table
    whole = with_derived_columns(source, with_declared_times(source, table))
    if source.time not in whole.column_names:  # which is said where all columns are checked
        return table
    what = f"source {source.name}: {source.time!r}"
    times = event_time_of(whole[source.time], source.time_unit.value, source.time_zone, what)
    rows = np.flatnonzero(times.valid & (times.values <= until))
    return table.slice(0, rows[-1] + 1 if len(rows) else 0)


def run_in_pieces(
    operator: CepOperator,
    tables: Sequence[pa.Table],
    number: int,
    on_piece: Callable[[], None] = lambda: None,
) -> Result:
    """Run an operator over whole tables of its inputs, in so many pieces of each.

    What is found is what `run_operator` finds; `on_piece` is called when a piece is done.
    """
    run = OperatorRun(operator)
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

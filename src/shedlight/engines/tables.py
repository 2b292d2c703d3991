"""Patterns, and whole applications, over finite tables: everything at once, without Spark.

At the end of a table its watermark is at infinity, so every event becomes ready and every
absence is settled. An operator downstream gets all that its upstream emits, in order of time.
The matches are those of a stream of the same events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.engines.event_files import stack_tables
from shedlight.engines.malformed import find_problems, split_records
from shedlight.errors import InputError, known_names
from shedlight.graph import Application, OperatorSpec, Source, Stream, operator_order
from shedlight.graph.function_columns import called_functions
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression, UserCall
from shedlight.language.ast.pattern import Pattern
from shedlight.language.eval.column import Column, data_type_of_arrow, to_arrow, to_column
from shedlight.language.eval.evaluate import evaluate
from shedlight.language.eval.times import midnights, read_timestamps
from shedlight.language.eval.user_calls import compute_call
from shedlight.language.functions import TIMES
from shedlight.matching.event_time import TIME_FORMS, read_event_times
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import StreamInput, require_values
from shedlight.matching.operators.step import count_partial_matches
from shedlight.matching.output.complex_events import EVENTS, ID, TIME
from shedlight.matching.permuted import row_column

EVENT_TIME = "#at"
"""The column of the timestamp in microseconds that `add_event_time` adds."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The matches of an operator in finite tables.

    Attributes:
        complex_events: By pattern.
        events: How many events were matched against.
        late: How many came behind their input's watermark and were not matched.
        duplicates: How many had an id that was there before.
        evicted: How many partial matches were closed because there were too many.
        dropped: How many assignments of partial matches were beyond the cap on them.
        timed_out: What timed out, by pattern; of those that were asked for it.
    """

    complex_events: Mapping[str, pa.Table]
    events: int
    late: int
    duplicates: int
    evicted: int
    dropped: int
    timed_out: Mapping[str, pa.Table] = field(default_factory=dict)


def add_event_time(
    table: pa.Table, column: str, unit: str, name: str, zone: str | None = None
) -> pa.Table:
    """Add the time in microseconds, from a column of times of any form.

    Raises:
        InputError: The column can have no times, or a time is null or cannot be read.
    """
    times = table[column]
    micros = event_time_of(times, unit, zone, f"{name}: {column!r}")
    if not micros.valid.all():
        require_values(name, column, np.asarray(times.is_valid()))
        row = int(np.argmin(micros.valid))
        raise InputError(
            f"{name}: {column!r} is no time in {np.count_nonzero(~micros.valid):,} of "
            f"{len(table):,} events, first in event {row + 1:,}: {times[row].as_py()!r}; "
            f"{TIME_FORMS}; put it right, name another column, or leave those events out"
        )
    return table.append_column(EVENT_TIME, pa.array(micros.values))


def event_time_of(times: pa.ChunkedArray, unit: str, zone: str | None, what: str) -> Column:
    """Read times, null where they cannot be; an InputError begins with what they are."""
    try:
        return read_event_times(times, unit, zone)
    except InputError as error:
        raise InputError(f"{what}: {error}") from error


def match_tables(
    inputs: Sequence[tuple[StreamInput, pa.Table]],
    patterns: Mapping[str, Pattern],
    *,
    timed_out: bool = False,
) -> Result:
    """Find the matches of an operator's patterns in finite tables.

    Args:
        inputs: The tables, each with what its columns mean; its time is in microseconds.
        patterns: What to look for, by name.
        timed_out: Whether to give, besides the matches, what timed out: the events of partial
            matches that their window closed.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        LanguageError: A pattern does not fit the columns.

    Example:
        >>> import pyarrow as pa
        >>> from shedlight import StreamInput, parse_pattern
        >>> table = pa.table({"id": [1, 2], "time": [0, 4_000_000], "type": ["A", "B"]})
        >>> pair = parse_pattern("SELECT * WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s")
        >>> stream = StreamInput("t", ("id",), "time")
        >>> result = match_tables([(stream, table)], {"AB": pair.pattern})
        >>> result.complex_events["AB"]["events"].to_pylist()
        [[1, 2]]
    """
    inputs = [(s, with_function_columns(table, patterns.values())) for s, table in inputs]
    schemas = [(stream, table.schema) for stream, table in inputs]
    operator = build_operator(schemas, patterns, timed_out=patterns if timed_out else ())
    return run_operator(operator, [table for _, table in inputs])


def run_operator(operator: CepOperator, tables: Sequence[pa.Table]) -> Result:
    """Run an operator over whole tables of its inputs."""
    all_inputs = frozenset(range(len(tables)))
    state, outcome = step_operator(
        operator, new_operator_state(operator), dict(enumerate(tables)), all_inputs
    )
    return result_of(state, outcome.complex_events, outcome.ready, outcome.timed_out)


def result_of(
    state: OperatorState,
    complex_events: Mapping[str, pa.Table],
    ready: int,
    timed_out: Mapping[str, pa.Table],
) -> Result:
    """Put together what an operator has found with what its state counted."""
    counts = [count_partial_matches(match_state) for match_state in state.states]
    return Result(
        complex_events,
        ready,
        sum(state.reorder_buffer.late),
        sum(state.reorder_buffer.duplicates),
        sum(count.evicted for count in counts),
        sum(count.dropped for count in counts),
        timed_out,
    )


RunOperator = Callable[[CepOperator, Sequence[pa.Table]], Result]
"""Runs an operator over whole tables of its inputs."""


def run_application(
    application: Application,
    tables: Mapping[str, pa.Table],
    *,
    timed_out: bool = False,
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
    run: RunOperator = run_operator,
) -> Mapping[str, Result]:
    """Run an application over finite tables of its sources.

    Args:
        application: The application.
        tables: The events of each source.
        timed_out: Whether to give what timed out of all patterns; else of those of which a
            sink takes it.
        on_malformed: Called with the malformed records of sources that have a place for them:
            `source`, `problem` and `record`; they are left out.
        run: How an operator is run over tables of its inputs.

    Returns:
        The result of each operator, in the order in which they ran.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ApplicationError: A pattern does not fit the columns.
    """
    application, streams = _prepare_streams(application, tables, on_malformed)
    results = {}
    for spec in operator_order(application):
        reported = {s.name for s in spec.outputs if timed_out or s in application.timed_out}
        results[spec.name] = _run_spec(spec, streams, reported, run)
    return results


def prepare_operator(
    application: Application,
    tables: Mapping[str, pa.Table],
    name: str,
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
) -> tuple[CepOperator, list[pa.Table]]:
    """Prepare one operator of an application, and run those that feed it.

    Gives the operator and the events of its inputs; for the other arguments and for errors see
    `run_application`.
    """
    application, streams = _prepare_streams(application, tables, on_malformed)
    needed = {name}
    for spec in reversed(operator_order(application)):
        if spec.name in needed:
            needed |= {stream.operator for stream in spec.inputs if stream.operator}
    for spec in operator_order(application):
        if spec.name in needed - {name}:
            _run_spec(spec, streams, set())
    inputs = [streams[stream] for stream in application.operators[name].inputs]
    columns = [(stream_input, table.schema) for stream_input, table in inputs]
    operator = build_operator(columns, application.operators[name].patterns)
    return operator, [table for _, table in inputs]


_Streams = dict[Stream, tuple[StreamInput, pa.Table]]


def _prepare_streams(
    application: Application,
    tables: Mapping[str, pa.Table],
    on_malformed: Callable[[pa.Table], None],
) -> tuple[Application, _Streams]:
    """Check an application against the columns of its sources, and prepare their events."""
    from shedlight.graph import with_schemas  # noqa: PLC0415  # patterns alone do not need it

    tables = leave_out_malformed(application, tables, on_malformed)
    schemas = {
        name: schema_of(with_declared_times(application.sources[name], table).schema)
        for name, table in tables.items()
    }
    application = with_schemas(application, schemas)
    return application, {
        Stream(name): prepare_source(source, tables[name])
        for name, source in application.sources.items()
    }


def _run_spec(
    spec: OperatorSpec,
    streams: _Streams,
    timed_out: set[str],
    run: RunOperator = run_operator,
) -> Result:
    """Run an operator, and add what it emits to the streams."""
    inputs = [streams[stream] for stream in spec.inputs]
    columns = [(stream_input, table.schema) for stream_input, table in inputs]
    operator = build_operator(columns, spec.patterns, timed_out=timed_out)
    result = run(operator, [table for _, table in inputs])
    for stream in spec.outputs:
        table = result.complex_events[stream.name].drop_columns([EVENTS])
        streams[stream] = (StreamInput(str(stream), (ID,), TIME), table)
    return result


def leave_out_malformed(
    application: Application,
    tables: Mapping[str, pa.Table],
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
) -> Mapping[str, pa.Table]:
    """Leave out events without a time or an id, of sources that have a place for them."""
    well_formed = {}
    for name, source in application.sources.items():
        well_formed[name] = tables[name]
        if source.malformed is not None:
            well_formed[name], malformed = split_malformed(source, tables[name])
            on_malformed(malformed)
    return well_formed


def split_malformed(source: Source, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Give the events of a source, and the records without a time or an id."""
    _check_names(source, table)
    events = with_derived_columns(source, with_declared_times(source, table))
    unit, what = source.time_unit.value, f"source {source.name}: {source.time!r}"
    has_time = event_time_of(events[source.time], unit, source.time_zone, what).valid
    problems = find_problems(events, source.id, source.time, has_time)
    return split_records(f"source {source.name}", table, problems)


def with_declared_times(source: Source, table: pa.Table) -> pa.Table:
    """Read text of columns that are declared as times, and give timestamps a time zone.

    Without one they are in UTC, or in the time zone of the source.
    """
    for index, column in enumerate(table.schema):
        declared = (source.schema or {}).get(column.name)
        is_local = pa.types.is_timestamp(column.type) and column.type.tz is None
        if is_local and source.time_zone is not None:
            times = event_time_of(table[column.name], "us", source.time_zone, column.name)
            read = Column(DataType.TIMESTAMP, times.values, times.valid)
        elif declared in TIMES and data_type_of_arrow(column.type) is DataType.STRING:
            read = read_timestamps(to_column(table[column.name]), source.time_zone)
            read = midnights(read) if declared is DataType.DATE else read
        else:
            continue
        table = table.set_column(index, column.name, to_arrow(read))
    return table


def prepare_source(source: Source, table: pa.Table) -> tuple[StreamInput, pa.Table]:
    """Add the derived columns and the time of a source."""
    _check_names(source, table)
    table = with_derived_columns(source, with_declared_times(source, table))
    unit, name = source.time_unit.value, source.name
    table = add_event_time(table, source.time, unit, name, source.time_zone)
    return StreamInput(
        source.name, source.id, EVENT_TIME, source.lateness, source.time in source.id
    ), table


def _check_names(source: Source, table: pa.Table) -> None:
    for name in (source.time, *source.id):
        if name not in table.column_names and name not in source.columns:
            raise InputError(
                f"source {source.name} has no column {name!r}; "
                f"{known_names(name, [*table.column_names, *source.columns])}"
            )


def with_derived_columns(source: Source, table: pa.Table) -> pa.Table:
    """Add the derived columns of a source."""
    for name, expression in source.columns.items():
        if isinstance(expression, UserCall):
            table = table.append_column(name, _computed(table, expression))
        else:
            table = table.append_column(name, _evaluated(table, expression))
    return table


def with_function_columns(table: pa.Table, patterns: Iterable[Pattern]) -> pa.Table:
    """Add what patterns need of functions of the user."""
    for name, call in called_functions(patterns).items():
        table = table.append_column(name, _computed(table, call))
    return table


def _evaluated(table: pa.Table, expression: Expression) -> pa.Array:
    return to_arrow(evaluate(expression, len(table), lambda node: row_column(table, node)))


def _computed(table: pa.Table, call: UserCall) -> pa.Array:
    arguments = [_evaluated(table, argument) for argument in call.arguments]
    return compute_call(call, arguments, len(table))


def combine_results(result: Result, *, timed_out: bool = False) -> pa.Table:
    """Put the complex events, or what timed out, into one table by time, `pattern` first.

    Times are timestamps in UTC.
    """
    by_pattern = result.timed_out if timed_out else result.complex_events
    tables = [
        table.rename_columns(["pattern" if n == "source" else n for n in table.column_names])
        for table in by_pattern.values()
    ]
    joined = stack_tables(tables)
    if len(tables) > 1:
        order = np.argsort(joined["time"].to_numpy(), kind="stable")
        joined = joined.take(pa.array(order))
    index = joined.column_names.index("time")
    return joined.set_column(index, "time", joined["time"].cast(pa.timestamp("us", tz="UTC")))

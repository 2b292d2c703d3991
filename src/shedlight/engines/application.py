"""A whole application over finished tables, operator by operator from sources to sinks.

An operator downstream sees all that its upstream emits, in order of time, and so finds what it
would find in a stream.
"""

from collections.abc import Mapping

import pyarrow as pa

from shedlight.engines.tables import AT, Result, run_operator, timed
from shedlight.errors import InputError, known_names
from shedlight.graph import Application, Source, Stream, operator_order, with_schemas
from shedlight.language.eval.column import arrow_of
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.operators.cep_operator import build_operator, schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.output.complex_events import EVENTS, ID, TIME
from shedlight.matching.permuted import row_column


def run_application(
    application: Application, tables: Mapping[str, pa.Table], *, timed_out: bool = False
) -> Mapping[str, Result]:
    """Run an application over finished tables of its sources.

    Args:
        application: The application.
        tables: The events of each source.
        timed_out: Whether to give what timed out of all patterns; else it is given of those
            that a sink asks for it.

    Returns:
        What each operator found, in the order in which they ran.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ApplicationError: A pattern does not fit the columns.
    """
    application = with_schemas(
        application, {name: schema_of(table.schema) for name, table in tables.items()}
    )
    streams: dict[Stream, tuple[StreamInput, pa.Table]] = {
        Stream(name): prepared_source(source, tables[name])
        for name, source in application.sources.items()
    }
    results = {}
    for spec in operator_order(application):
        inputs = [streams[stream] for stream in spec.inputs]
        schemas = [(one, table.schema) for one, table in inputs]
        asked = {one.name for one in spec.outputs if timed_out or one in application.timed_out}
        operator = build_operator(schemas, spec.patterns, timed_out=asked)
        result = run_operator(operator, [table for _, table in inputs])
        results[spec.name] = result
        for stream in spec.outputs:
            found = result.complex_events[stream.name].drop_columns([EVENTS])
            streams[stream] = (StreamInput(str(stream), (ID,), TIME), found)
    return results


def prepared_source(source: Source, table: pa.Table) -> tuple[StreamInput, pa.Table]:
    """Add the derived columns and the time of a source."""
    for name in (source.time, *source.id):
        if name not in table.column_names and name not in source.columns:
            raise InputError(
                f"source {source.name} has no column {name!r}; "
                f"{known_names(name, [*table.column_names, *source.columns])}"
            )
    for name, expression in source.columns.items():
        column = evaluate(expression, len(table), lambda node: row_column(table, node))  # noqa: B023
        table = table.append_column(name, arrow_of(column))
    table = timed(table, source.time, source.time_unit.value, source.name)
    return StreamInput(
        source.name, source.id, AT, source.lateness, source.time in source.id
    ), table

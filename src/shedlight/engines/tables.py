"""Patterns over finished tables: everything that there is, at once, without Spark.

At the end of a table its watermark is at infinity, so every event becomes ready and every
absence is settled. The matches are those of a stream of the same events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.event_files import stacked
from shedlight.errors import InputError
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.pattern import Pattern
from shedlight.language.eval.column import arrow_of, column_of
from shedlight.matching.operators.cep_operator import (
    Operator,
    build_operator,
    new_operator_state,
    step_operator,
)
from shedlight.matching.operators.reorder import FOREVER, StreamInput, refuse_nulls
from shedlight.matching.operators.step import count_partial_matches

AT = "#at"
"""The column of the timestamp in microseconds that `timed` adds."""

UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}
"""Units in which a column of numbers may tell the time, in microseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What an operator found in finished tables.

    Attributes:
        complex_events: By pattern.
        events: How many events were matched against.
        late: How many came behind their input's watermark and were not matched.
        duplicates: How many had an id that was there before.
        evicted: How many machines the cap closed.
        dropped: How many assignments of machines were beyond the cap on them.
        timed_out: What timed out, by pattern; of those that were asked for it.
    """

    complex_events: Mapping[str, pa.Table]
    events: int
    late: int
    duplicates: int
    evicted: int
    dropped: int
    timed_out: Mapping[str, pa.Table] = field(default_factory=dict)


def timed(table: pa.Table, column: str, unit: str, name: str) -> pa.Table:
    """Add the timestamp in microseconds, from a column of timestamps or of numbers.

    Raises:
        InputError: The column holds no times.
    """
    times = column_of(table[column])
    refuse_nulls(name, column, times.valid)
    if times.kind is DataType.TIMESTAMP or (times.kind is DataType.BIGINT and unit == "us"):
        return table.append_column(AT, arrow_of(times).cast(pa.int64()))
    if times.kind is DataType.NULL:
        return table.append_column(AT, pa.nulls(len(table), pa.int64()))
    if not times.kind.is_number:
        raise InputError(
            f"{name}: the time column {column!r} has {times.kind}; a timestamp or a number is "
            "needed"
        )
    scaled = np.rint(times.values * float(UNITS[unit]))
    refuse_nulls(name, column, np.abs(scaled) < FOREVER)
    if times.kind is DataType.BIGINT:
        scaled = times.values * UNITS[unit]
    return table.append_column(AT, pa.array(scaled.astype(np.int64)))


def match_tables(
    inputs: Sequence[tuple[StreamInput, pa.Table]],
    patterns: Mapping[str, Pattern],
    *,
    timed_out: bool = False,
) -> Result:
    """Find the matches of an operator's patterns in finished tables.

    Args:
        inputs: The tables, each with what its columns mean; its time is in microseconds.
        patterns: What to look for, by name.
        timed_out: Whether to give, besides the matches, what timed out: the events of machines
            that their window closed without a match.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        LanguageError: A pattern does not fit the columns.

    Example:
        >>> import pyarrow as pa
        >>> from shedlight import Input, parse_pattern
        >>> table = pa.table({"id": [1, 2], "time": [0, 4_000_000], "kind": ["A", "B"]})
        >>> pair = parse_pattern("SELECT * WHERE SEQ(a.kind = 'A', b.kind = 'B') WITHIN 5 s")
        >>> result = match_tables([(Input("t", ("id",), "time"), table)], {"AB": pair.pattern})
        >>> result.complex_events["AB"]["events"].to_pylist()
        [[1, 2]]
    """
    schemas = [(one, table.schema) for one, table in inputs]
    operator = build_operator(schemas, patterns, timed_out=patterns if timed_out else ())
    return run_operator(operator, [table for _, table in inputs])


def run_operator(operator: Operator, tables: Sequence[pa.Table]) -> Result:
    """Run an operator over all there is."""
    everyone = frozenset(range(len(tables)))
    state, outcome = step_operator(
        operator, new_operator_state(operator), dict(enumerate(tables)), everyone
    )
    tallies = [count_partial_matches(one) for one in state.states]
    return Result(
        outcome.complex_events,
        outcome.ready,
        sum(state.waiting.late),
        sum(state.waiting.duplicates),
        sum(one.evicted for one in tallies),
        sum(one.dropped for one in tallies),
        outcome.timed_out,
    )


def named(
    result: Result,
    times: pa.DataType | None = None,
    unit: str = "us",
    *,
    timed_out: bool = False,
) -> pa.Table:
    """Put the complex events of all patterns into one table, `pattern` first, by time.

    Args:
        result: What was found.
        times: The type of the time column that the events had; None for microseconds.
        unit: The unit of that column, if it is a number.
        timed_out: Whether to give what timed out instead of the matches.
    """
    found = result.timed_out if timed_out else result.complex_events
    tables = [
        table.rename_columns(["pattern" if n == "source" else n for n in table.column_names])
        for table in found.values()
    ]
    joined = stacked(tables)
    if len(tables) > 1:
        order = np.argsort(joined["time"].to_numpy(), kind="stable")
        joined = joined.take(pa.array(order))
    place = joined.column_names.index("time")
    return joined.set_column(place, "time", _told(joined["time"], times, unit))


def _told(micros: pa.ChunkedArray, times: pa.DataType | None, unit: str) -> pa.ChunkedArray:
    """Give times as the events told them."""
    if times is not None and pa.types.is_timestamp(times):
        return micros.cast(pa.timestamp("us", tz=times.tz))
    if times is not None and pa.types.is_floating(times):
        return pc.divide(micros.cast(pa.float64()), float(UNITS[unit]))
    return pc.divide(micros, UNITS[unit]) if unit != "us" else micros

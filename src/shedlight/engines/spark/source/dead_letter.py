"""Records that are no events: they cannot be parsed, or have no time or no id.

A source with a place for them has them written there by a small query of its own; the query of
a node counts them and leaves them out. Without such a place they end the query with an error
that names the source and the column.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StringType, StructField, StructType

from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.spark_errors import MALFORMED
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Source
from shedlight.language.eval.spark_sql import quote_name, quote_text
from shedlight.matching.operators.reorder import FOREVER

MALFORMED_ROWS = "refused "
"""What the observation of a source begins with that has a place for them."""
CORRUPT = "#malformed"
"""The column with the text of a record that cannot be parsed."""

_PARSED = frozenset({"json", "csv", "xml"})
"""The formats of text that may be broken."""
_PROBLEM = "#problem"
_SHOWN = 100
"""How many characters of a record an error shows."""


def is_parsed(source: Source) -> bool:
    """Whether records may be broken, and what then is left to us."""
    own = {name.lower() for name in source.options}
    return source.format in _PARSED and own.isdisjoint({"mode", "columnnameofcorruptrecord"})


def parsing_options(source: Source) -> dict[str, str]:
    """Have Spark hand over records that it cannot parse."""
    if not is_parsed(source):
        return {}
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def with_room(source: Source, schema: StructType) -> StructType:
    """Add the column for them to what is read."""
    if not is_parsed(source):
        return schema
    events = [one for one in schema if one.name != CORRUPT]
    return StructType([*events, StructField(CORRUPT, StringType())])


def with_event_time(source: Source, frame: DataFrame, time: str) -> DataFrame:
    """Add the time of each event; what is none is an error, or is counted and left out.

    Args:
        source: Where the events come from.
        frame: Them, with the derived columns.
        time: Their time in microseconds, in SQL.
    """
    tests = list(_tests(source, frame, time))
    if source.malformed is None:
        cases = [f"WHEN {test} THEN {_refusal(source, text)}" for test, text in tests]
        frame = frame.withColumn(EVENT_TIME, F.expr(f"CASE {' '.join(cases)} ELSE {time} END"))
    else:
        judged = frame.withColumn(_PROBLEM, F.expr(_problem(tests)))
        is_bad = F.col(quote_name(_PROBLEM)).isNotNull()
        seen = judged.observe(
            f"{MALFORMED_ROWS}{source.name}",
            F.count_if(is_bad).alias("number"),
            # which asks for all columns: else one that nobody needs would not be parsed
            F.max(F.when(is_bad, _whole(frame))).alias("example"),
        )
        frame = seen.where(~is_bad).withColumn(EVENT_TIME, F.expr(time)).drop(_PROBLEM)
    return frame.drop(CORRUPT)


def malformed_rows(source: Source, frame: DataFrame, time: str) -> DataFrame:
    """Give the records that are no events: what is wrong, the record, when it arrived.

    Args:
        source: Where the records come from.
        frame: All of them, with the derived columns and their arrival.
        time: The time of events in microseconds, in SQL.
    """
    judged = frame.withColumn(_PROBLEM, F.expr(_problem(_tests(source, frame, time))))
    text = _whole(frame)
    if CORRUPT in frame.columns:
        text = F.coalesce(F.col(quote_name(CORRUPT)), text)
    return judged.where(F.col(quote_name(_PROBLEM)).isNotNull()).select(
        F.col(quote_name(_PROBLEM)).alias("problem"),
        text.alias("record"),
        F.timestamp_micros(F.col(quote_name(ARRIVAL))).alias("arrived"),
    )


def malformed_count(row: Mapping[str, Any]) -> int:
    """Read how many were observed."""
    return int(row["number"])


def _whole(frame: DataFrame) -> Column:
    names = [quote_name(name) for name in frame.columns if not name.startswith("#")]
    return F.to_json(F.struct(*names), {"ignoreNullFields": "false"})


def _tests(source: Source, frame: DataFrame, time: str) -> Iterator[tuple[str, str]]:
    """List what a record must not be, in SQL and in words."""
    if CORRUPT in frame.columns:
        yield (
            f"{quote_name(CORRUPT)} IS NOT NULL",
            f"a record cannot be parsed as {source.format}",
        )
    for name in (*source.id, source.time):
        yield f"{quote_name(name)} IS NULL", f"{name!r} is null"
    far = f"{time} IS NULL OR {time} <= -{FOREVER}L OR {time} >= {FOREVER}L"
    yield far, f"{source.time!r} is too far away to be a time"


def _problem(tests: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> str:
    cases = [f"WHEN {test} THEN {quote_text(text)}" for test, text in tests]
    return f"CASE {' '.join(cases)} END"


def _refusal(source: Source, problem: str) -> str:
    """Write an error in place of a value."""
    start = f"{MALFORMED}source {source.name}: {problem}"
    elsewhere = f"have them written elsewhere with `malformed` of source {source.name}"
    if problem.startswith("a record"):
        shown = f"left({quote_name(CORRUPT)}, {_SHOWN})"
        end = quote_text(f"; put it right, or {elsewhere}")
        text = f"concat({quote_text(start + ': ')}, {shown}, {end})"
    else:
        text = quote_text(
            f"{start}; every event needs a time and an id: fill it in, name other columns, or "
            f"{elsewhere}"
        )
    return f"CAST(raise_error({text}) AS BIGINT)"

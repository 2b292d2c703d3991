"""Malformed records: they cannot be parsed, or have no time or no id.

A source with a side output for them has them written there by a small query of its own; the
query of a node counts them and leaves them out. Without a side output they end the query with
an error that names the source and the column.
"""

from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StringType, StructField, StructType

from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.spark_errors import MALFORMED
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Source
from shedlight.graph.kafka import record_names
from shedlight.language.eval.spark_sql import quote_name, quote_text
from shedlight.matching.operators.reorder import FOREVER

MALFORMED_ROWS = "malformed "
"""What the observation of a source begins with that has a side output for them."""
CORRUPT = "#malformed"  # the column with the text of a record that cannot be parsed

_PARSED = frozenset({"json", "csv", "xml"})  # the formats of text that may be broken
_PROBLEM = "#problem"
_MAX_SHOWN = 100  # how many characters of a record an error shows


def _is_parsed(source: Source) -> bool:
    """Whether records may be broken, and what then is left to us."""
    own = {name.lower() for name in source.options}
    return source.format in _PARSED and own.isdisjoint({"mode", "columnnameofcorruptrecord"})


def parsing_options(source: Source) -> dict[str, str]:
    """Have Spark hand over records that it cannot parse."""
    if not _is_parsed(source):
        return {}
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def with_corrupt_column(source: Source, schema: StructType) -> StructType:
    """Add the column for records that cannot be parsed to what is read."""
    if not _is_parsed(source):
        return schema
    events = [field for field in schema if field.name != CORRUPT]
    return StructType([*events, StructField(CORRUPT, StringType())])


def with_event_time(source: Source, frame: DataFrame, time: str) -> DataFrame:
    """Add the time of each event; a malformed record is an error, or is counted and left out.

    The time is given in microseconds, in SQL.
    """
    problems = _problems(source, frame, time)
    if source.malformed is None:
        errors = ((test, _error_sql(source, problem)) for test, problem in problems)
        return frame.withColumn(EVENT_TIME, F.expr(_case_sql(errors, time))).drop(CORRUPT)
    frame = _with_problem(frame, problems)
    is_malformed = F.col(quote_name(_PROBLEM)).isNotNull()
    observed = frame.observe(
        f"{MALFORMED_ROWS}{source.name}",
        F.count_if(is_malformed).alias("number"),
        # which asks for all columns: else one that nobody needs would not be parsed
        F.max(F.when(is_malformed, record_json(frame))).alias("example"),
    )
    events = observed.where(~is_malformed).withColumn(EVENT_TIME, F.expr(time))
    return events.drop(_PROBLEM, CORRUPT)


def malformed_rows(source: Source, frame: DataFrame, time: str) -> DataFrame:
    """Give the malformed records: what is wrong, the record, when it arrived."""
    record = record_json(frame)
    if CORRUPT in frame.columns:
        record = F.coalesce(F.col(quote_name(CORRUPT)), record)
    problem = F.col(quote_name(_PROBLEM))
    frame = _with_problem(frame, _problems(source, frame, time))
    return frame.where(problem.isNotNull()).select(
        problem.alias("problem"),
        record.alias("record"),
        *(F.col(quote_name(name)).alias(of) for of, name in _places(source).items()),
        F.timestamp_micros(F.col(quote_name(ARRIVAL))).alias("arrived"),
    )


def record_json(frame: DataFrame) -> Column:
    """Write the columns of a record as JSON."""
    names = [quote_name(name) for name in frame.columns if not name.startswith("#")]
    return F.to_json(F.struct(*names), {"ignoreNullFields": "false", "timeZone": "UTC"})


def _problems(source: Source, frame: DataFrame, time: str) -> Iterator[tuple[str, str]]:
    """List what may be wrong with a record: a condition in SQL, and what it means."""
    if CORRUPT in frame.columns:
        is_corrupt = f"{quote_name(CORRUPT)} IS NOT NULL"
        text_format = source.value.format if source.value else source.format
        yield is_corrupt, f"a record cannot be parsed as {text_format}"
    for name in (*source.id, source.time):
        yield f"{quote_name(name)} IS NULL", f"{name!r} is null"
    if isinstance(frame.schema[source.time].dataType, StringType):
        yield f"{time} IS NULL", f"{source.time!r} is no time in ISO-8601"
    far = f"{time} IS NULL OR {time} <= -{FOREVER}L OR {time} >= {FOREVER}L"
    yield far, f"{source.time!r} is too far away to be a time"


def _with_problem(frame: DataFrame, problems: Iterable[tuple[str, str]]) -> DataFrame:
    cases = ((test, quote_text(problem)) for test, problem in problems)
    return frame.withColumn(_PROBLEM, F.expr(_case_sql(cases, "NULL")))


def _case_sql(cases: Iterable[tuple[str, str]], otherwise: str) -> str:
    whens = " ".join(f"WHEN {test} THEN {value}" for test, value in cases)
    return f"CASE {whens} ELSE {otherwise} END"


def _error_sql(source: Source, problem: str) -> str:
    """Write an error in place of a value; of a record of Kafka it says where that is."""
    parts = [quote_text(f"{MALFORMED}source {source.name}: {problem}")]
    remedy = "every event needs a time and an id: fill it in, name other columns"
    if problem.startswith("a record"):
        parts += [quote_text(": "), f"left({quote_name(CORRUPT)}, {_MAX_SHOWN})"]
        remedy = "put it right"
    for of, name in _places(source).items():
        parts += [quote_text(f", {of} "), quote_name(name)]
    elsewhere = f"have them written elsewhere with `malformed` of source {source.name}"
    parts.append(quote_text(f"; {remedy}, or {elsewhere}"))
    return f"CAST(raise_error(concat({', '.join(parts)})) AS BIGINT)"


def _places(source: Source) -> dict[str, str]:
    """Name the columns that say where a record of Kafka is."""
    if source.value is None:
        return {}
    names = record_names(source.value)
    return {of: names[of] for of in ("topic", "partition", "offset")}

"""Sources as DataFrames: any format of Spark, with derived columns and the time of each event.

Times are whole microseconds in the column `#at`, for Spark converts timestamps one by one on
their way to Python. What is no event is refused, see `refused.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from shedlight.engines.spark.session.paths import local_path
from shedlight.engines.spark.source.arrival import FILES, with_arrivals, with_declared_arrival
from shedlight.engines.spark.source.dead_letter import (
    malformed_rows,
    parsing_options,
    with_event_time,
    with_room,
)
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import InputError, known_names
from shedlight.graph import Source
from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import Attribute, Expression
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.eval.spark_sql import quote_name, spark_sql
from shedlight.matching.operators.cep_operator import data_type_in, schema_of
from shedlight.matching.operators.reorder import StreamInput

_TYPES: Mapping[DataType, types.DataType] = {
    DataType.BOOLEAN: BooleanType(),
    DataType.BIGINT: LongType(),
    DataType.DOUBLE: DoubleType(),
    DataType.STRING: StringType(),
    DataType.TIMESTAMP: TimestampType(),
}
_TIMES = frozenset({DataType.TIMESTAMP, DataType.BIGINT})
_IDS = frozenset({DataType.BIGINT, DataType.STRING, DataType.TIMESTAMP, DataType.BOOLEAN})


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Give the columns of a DataFrame as Arrow has them; timestamps are in UTC."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def read_source(spark: SparkSession, source: Source, *, streaming: bool) -> DataFrame:
    """Read a source as it is.

    Raises:
        InputError: It is not there or cannot be read.
    """
    try:
        if not streaming:
            return _loaded(spark, source, streaming=False)
        if source.path is None:
            return _loaded(spark, source, streaming=True)
        schema = _declared(source) or _loaded(spark, source, streaming=False).schema
        return _loaded(spark, source, streaming=True, schema=with_room(source, schema))
    except SPARK_ERRORS as error:
        what = f"source {source.name} cannot be read as {source.format}"
        raise InputError(str(to_user_error(error, what))) from error


def _loaded(
    spark: SparkSession, source: Source, *, streaming: bool, schema: StructType | None = None
) -> DataFrame:
    if streaming:
        stream = spark.readStream.format(source.format).options(**_admitted(source))
        stream = stream.schema(schema) if schema is not None else stream
        file = _single_file(source)
        if file is None:
            return stream.load(source.path)
        return stream.option("pathGlobFilter", file.name).load(str(file.parent))
    options = {**source.options, **parsing_options(source)}
    batch = spark.read.format(source.format).options(**options)
    declared = _declared(source)
    batch = batch.schema(declared) if declared is not None else batch
    return batch.load(source.path)


def _single_file(source: Source) -> Path | None:
    """Find the file that a source is, if it is one: as a stream Spark reads folders only."""
    if source.path is None or source.format not in FILES:
        return None
    path = local_path(source.path)
    return path if path is not None and path.is_file() else None


_MOST_BYTES = 64 << 20
_MOST_RECORDS = 2_000_000


def _admitted(source: Source) -> dict[str, str]:
    """Limit what is read in a micro-batch, unless the source does: a backlog is no reason."""
    options = {**source.options, **parsing_options(source)}
    if any(name.lower().startswith("max") for name in options):
        return options
    if source.format in FILES:
        return options | {"maxBytesPerTrigger": str(_MOST_BYTES)}
    if source.format == "kafka":
        return options | {"maxOffsetsPerTrigger": str(_MOST_RECORDS)}
    return options


def _declared(source: Source) -> StructType | None:
    """Write a declared schema for Spark; a field of a struct is named after its column."""
    if source.schema is None:
        return None
    return StructType([_field(source.schema, name, "") for name in _level(source.schema, "")])


def _level(schema: Schema, prefix: str) -> list[str]:
    inner = (name.removeprefix(prefix) for name in schema if name.startswith(prefix))
    return [name for name in inner if "." not in name]


def _field(schema: Schema, name: str, prefix: str) -> StructField:
    kind, inside = schema[prefix + name], f"{prefix}{name}."
    if kind is DataType.STRUCT:
        return StructField(
            name, StructType([_field(schema, one, inside) for one in _level(schema, inside)])
        )
    return StructField(name, _TYPES[kind])


def data_types_of(frame: DataFrame) -> Schema:
    """Find the kinds of the columns of a source as it is read."""
    own = [one for one in arrow_schema(frame) if not one.name.startswith("#")]
    return schema_of(pa.schema(own))


def prepared_source(source: Source, frame: DataFrame) -> tuple[StreamInput, DataFrame]:
    """Add the derived columns and the time of a source.

    Raises:
        InputError: A column is missing, or is no time or id.
    """
    frame, time = _derived(source, frame)
    return (
        StreamInput(
            source.name, source.id, EVENT_TIME, source.lateness, source.time in source.id
        ),
        with_event_time(source, frame, time),
    )


def malformed_records(source: Source, frame: DataFrame) -> DataFrame:
    """Give the records of a source that are no events."""
    return malformed_rows(source, *_derived(source, frame))


def _derived(source: Source, frame: DataFrame) -> tuple[DataFrame, str]:
    """Add the derived columns and the arrival; give the time in SQL with them."""
    _check_names(source, frame.columns)
    if frame.isStreaming:
        frame = with_arrivals(frame, source.format)
    for name, expression in source.columns.items():
        schema = schema_of(arrow_schema(frame))
        text = derived_sql(schema, expression)
        frame = frame.withColumn(name, F.expr(text))
    schema = schema_of(arrow_schema(frame))
    time = _time(source, schema)
    if source.arrival is not None and frame.isStreaming:
        kind = schema[source.arrival]
        _check_kind(source, source.arrival, kind, _TIMES, "a timestamp or microseconds are")
        column = quote_name(source.arrival)
        is_time = kind is DataType.TIMESTAMP
        frame = with_declared_arrival(frame, f"unix_micros({column})" if is_time else column)
    return frame, time


def derived_sql(schema: Schema, expression: Expression) -> str:
    """Write an expression over columns of known kinds as Spark SQL of its own kind."""

    def scope(node: Expression) -> DataType:
        return data_type_in(schema, node)

    kind = data_type_of(expression, scope)
    return spark_sql(expression, scope, None if kind is DataType.NULL else kind)


def _check_names(source: Source, columns: Sequence[str]) -> None:
    there = [*columns, *source.columns]
    for name in filter(None, (source.time, *source.id, source.arrival)):
        if name not in there:
            raise InputError(
                f"source {source.name} has no column {name!r}; {known_names(name, there)}"
            )


def _time(source: Source, schema: Schema) -> str:
    """Write the time of an event in microseconds, in SQL."""
    for name in source.id:
        _check_kind(source, name, schema[name], _IDS, "whole numbers, text or timestamps are")
    _check_kind(
        source, source.time, schema[source.time], _TIMES, "a timestamp or whole numbers are"
    )
    return _time_sql(source, schema[source.time])


def _check_kind(
    source: Source, name: str, kind: DataType, wanted: frozenset[DataType], words: str
) -> None:
    if kind not in wanted:
        raise InputError(f"source {source.name}: {name!r} has {kind}; {words} needed")


def _time_sql(source: Source, kind: DataType) -> str:
    column = spark_sql(Attribute("", (source.time,)), lambda _: kind)
    factor = source.time_unit.microseconds
    if kind is DataType.TIMESTAMP:
        return f"unix_micros({column})"
    return column if factor == 1 else f"try_multiply({column}, {factor}L)"

"""Sources as DataFrames: any format of Spark, with derived columns and the time of each event.

Times are whole microseconds in the column `#at`, for Spark converts timestamps one by one on
their way to Python. Malformed records are left out here or are errors (`dead_letter.py`).
"""

from collections.abc import Mapping, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StructType

from shedlight.engines.spark.session.paths import local_path
from shedlight.engines.spark.session.pyspark_version import to_arrow_schema
from shedlight.engines.spark.source import dead_letter, read_limits
from shedlight.engines.spark.source.arrival import (
    FILES,
    hold_jumps,
    with_arrivals,
    with_declared_arrival,
)
from shedlight.engines.spark.source.carried import with_plain_text
from shedlight.engines.spark.source.event_time_sql import event_time_sql, with_zoned_timestamps
from shedlight.engines.spark.source.function_columns import (
    with_function_column,
    write_derived_sql,
)
from shedlight.engines.spark.source.kafka_records import unfold_records
from shedlight.engines.spark.source.text_times import (
    read_times,
    reads_times,
    with_text_for_times,
)
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import InputError, known_names
from shedlight.graph import Source
from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import UserCall
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.event_time import TIME_FORMS
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput

_IDS = frozenset(
    {DataType.BIGINT, DataType.STRING, DataType.TIMESTAMP, DataType.DATE, DataType.BOOLEAN}
)
_OF_TEXT = frozenset({"csv", "json", "xml"})  # the formats that write times as text
_DELTA = "delta"


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Give the columns of a DataFrame as Arrow has them; timestamps are in UTC."""
    return to_arrow_schema(frame.schema)


def read_source(
    spark: SparkSession, source: Source, *, streaming: bool, starts_small: bool = False
) -> DataFrame:
    """Read a source as it is; a stream may let little into its first micro-batch."""
    try:
        if not streaming:
            return _load(spark, source)
        options = _limited_options(source, starts_small=starts_small)
        if source.is_kafka:
            return unfold_values(source, _load_stream(spark, source, None, options))
        if source.path is None:
            return _load_stream(spark, source, None, options)
        if source.format.lower() == _DELTA:  # which knows its schema, and takes no other
            return _load_stream(spark, source, None, options)
        schema = _declared_schema(source) or _load(spark, source).schema
        asked = dead_letter.with_corrupt_column(source, _asked_schema(source, schema))
        return _read_times(source, _load_stream(spark, source, asked, options))
    except SPARK_ERRORS as error:
        what = f"source {source.name} cannot be read as {source.format}"
        raise InputError(str(to_user_error(error, what))) from error


def unfold_values(source: Source, records: DataFrame) -> DataFrame:
    """Give records of Kafka the columns of a source: what values are is up to us."""
    if source.value is None:
        return records
    fields = StructType.fromDDL(_fields_ddl(source.value.schema, ""))
    zone = source.time_zone or "UTC"
    return unfold_records(source.value, records, cast("StructType", fields), zone)


def _load(spark: SparkSession, source: Source) -> DataFrame:
    reader = spark.read.format(source.format)
    reader = reader.options(**_reading_options(source))
    declared = _declared_schema(source)
    if declared is None:
        return reader.load(source.path)
    return _read_times(source, reader.schema(_asked_schema(source, declared)).load(source.path))


def _asked_schema(source: Source, schema: StructType) -> StructType:
    """Give what Spark is to read: declared timestamps in text are ours to read."""
    return with_text_for_times(schema) if _reads_times(source) else schema


def _read_times(source: Source, frame: DataFrame) -> DataFrame:
    declared = _declared_schema(source)
    if declared is None or not _reads_times(source):
        return frame
    return read_times(frame, declared, source.time_zone, dead_letter.record_json(frame))


def _reads_times(source: Source) -> bool:
    is_text = source.format in _OF_TEXT and source.schema is not None
    return is_text and reads_times(source.options)


def _load_stream(
    spark: SparkSession,
    source: Source,
    schema: StructType | None,
    options: Mapping[str, str],
) -> DataFrame:
    reader = spark.readStream.format(source.format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    path = local_path(source.path) if source.format in FILES else None
    if path is not None and path.is_file():  # as a stream Spark reads folders only
        return reader.option("pathGlobFilter", path.name).load(str(path.parent))
    return reader.load(source.path)


def _reading_options(source: Source) -> dict[str, str]:
    """Say what a format needs, and in which time zone a text is that names none."""
    options = {**source.options, **dead_letter.parsing_options(source)}
    if source.format in _OF_TEXT and "timezone" not in {name.lower() for name in options}:
        options["timeZone"] = source.time_zone or "UTC"
    return options


def _limited_options(source: Source, *, starts_small: bool) -> dict[str, str]:
    """Limit what is read in a micro-batch, unless the source does: a backlog is no reason."""
    options = _reading_options(source)
    if source.value is not None:  # they are among the columns
        options["includeHeaders"] = "true"
    if any(name.lower().startswith("max") for name in options):
        return options
    if source.format in FILES:
        most = read_limits.FIRST_BYTES if starts_small else read_limits.MAX_BYTES
        return options | {"maxBytesPerTrigger": str(most)}
    if source.format.lower() == _DELTA:
        return options | {"maxBytesPerTrigger": str(read_limits.MAX_BYTES)}
    if source.is_kafka:
        most = read_limits.FIRST_RECORDS if starts_small else read_limits.MAX_RECORDS
        return options | {"maxOffsetsPerTrigger": str(most)}
    return options


def _declared_schema(source: Source) -> StructType | None:
    """Write a declared schema for Spark; a field of a struct is named after its column."""
    if source.schema is None:
        return None
    return cast("StructType", StructType.fromDDL(_fields_ddl(source.schema, "")))


def _fields_ddl(schema: Schema, prefix: str) -> str:
    fields = []
    for path, data_type in schema.items():
        name = path.removeprefix(prefix)
        if path.startswith(prefix) and "." not in name:
            inner = f"struct<{_fields_ddl(schema, f'{path}.')}>"
            written = inner if data_type is DataType.STRUCT else data_type.value
            fields.append(f"{quote_name(name)}{': ' if prefix else ' '}{written}")
    return ", ".join(fields)


def find_data_types(frame: DataFrame) -> Schema:
    """Find the data types of the columns of a source as it is read."""
    own = [field for field in arrow_schema(frame) if not field.name.startswith("#")]
    return schema_of(pa.schema(own))


def prepare_source(
    source: Source, frame: DataFrame, now: Column | None = None
) -> tuple[StreamInput, DataFrame]:
    """Add the derived columns and the time of a source; a stream has none beyond `now`."""
    frame, time = _with_derived_columns(source, frame)
    is_timed_id = source.time in source.id
    described = StreamInput(source.name, source.id, EVENT_TIME, source.lateness, is_timed_id)
    events = dead_letter.with_event_time(source, frame, time)
    return described, events if now is None else hold_jumps(source, events, now)


def malformed_records(source: Source, frame: DataFrame) -> DataFrame:
    """Give the malformed records of a source."""
    return dead_letter.malformed_rows(source, *_with_derived_columns(source, frame))


def _with_derived_columns(source: Source, frame: DataFrame) -> tuple[DataFrame, str]:
    """Add the derived columns and the arrival; give the time in SQL with them."""
    _check_names(source, frame.columns)
    frame = with_plain_text(frame)
    frame = with_zoned_timestamps(source, frame)
    if frame.isStreaming:
        frame = with_arrivals(frame, source.format)
    for name, expression in source.columns.items():
        schema = schema_of(arrow_schema(frame))
        if isinstance(expression, UserCall):
            frame = with_function_column(frame, schema, name, expression)
        else:
            frame = frame.withColumn(name, F.expr(write_derived_sql(schema, expression)))
    schema = schema_of(arrow_schema(frame))
    for name in source.id:
        _check_type(source, name, schema, _IDS, "whole numbers, text or timestamps are")
    time = _time_sql(source, frame, source.time, source.time_unit.value)
    if source.arrival is not None and frame.isStreaming:
        arrival = _time_sql(source, frame, source.arrival, "us")
        frame = with_declared_arrival(frame, arrival)
    return frame, time


def _check_names(source: Source, columns: Sequence[str]) -> None:
    there = [*columns, *source.columns]
    for name in filter(None, (source.time, *source.id, source.arrival)):
        if name not in there:
            raise InputError(
                f"source {source.name} has no column {name!r}; {known_names(name, there)}"
            )


def _check_type(
    source: Source, name: str, schema: Schema, wanted: frozenset[DataType], needed: str
) -> None:
    if schema.get(name) not in wanted:
        found = schema.get(name, "a type that cannot be compared")
        raise InputError(f"source {source.name}: {name!r} has {found}; {needed} needed")


def _time_sql(source: Source, frame: DataFrame, name: str, unit: str) -> str:
    """Write a time in microseconds, in SQL."""
    text = event_time_sql(frame, name, unit, source.time_zone)
    if text is None:
        found = frame.schema[name].dataType.simpleString()
        raise InputError(
            f"source {source.name}: {name!r} has {found}, which is no time; {TIME_FORMS}"
        )
    return text

"""Timestamps in formats of text, where a schema declares them.

Spark's parsers read fewer forms of ISO-8601 than `match` does, and some more that it does not.
So they hand the text over, and it is read as an event time is that is text
(`event_time_sql.py`). A text that is no timestamp makes its record malformed.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType

from shedlight.engines.spark.source.dead_letter import CORRUPT
from shedlight.language.eval.spark_text import quote_name, quote_text
from shedlight.language.eval.spark_times import timestamp_sql

_OWN_FORMATS = frozenset({"timestampformat", "timestampntzformat"})


def reads_times(options: Mapping[str, str]) -> bool:
    """Say whether text is read so; not where the options of a reader have a format for it."""
    return _OWN_FORMATS.isdisjoint(name.lower() for name in options)


def with_text_for_times(schema: StructType) -> StructType:
    """Give the schema with text in place of timestamps, those of structs too."""
    return StructType(
        [StructField(each.name, _text_for_times(each.dataType)) for each in schema]
    )


def read_times(
    frame: DataFrame, fields: StructType, zone: str | None, record: Column
) -> DataFrame:
    """Make timestamps of the text that was read in their place.

    Args:
        frame: The records; if they have a column for malformed ones, it is filled.
        fields: The columns as they are declared.
        zone: The time zone of a time that names none; None: UTC.
        record: The text of a record.
    """
    columns: dict[str, Column] = {}
    broken: list[str] = []
    for each in fields:
        if _has_times(each.dataType):
            name = quote_name(each.name)
            columns[each.name] = F.expr(_read_sql(name, each.dataType, zone))
            broken += _broken_sql(name, each.dataType, zone)
    if columns and CORRUPT in frame.columns:
        corrupt = F.col(quote_name(CORRUPT))
        text = F.when(F.expr(" OR ".join(broken)), F.coalesce(corrupt, record))
        columns[CORRUPT] = text.otherwise(corrupt)
    return frame.withColumns(columns)


def _text_for_times(data_type: DataType) -> DataType:
    if isinstance(data_type, TimestampType):
        return StringType()
    return with_text_for_times(data_type) if isinstance(data_type, StructType) else data_type


def _has_times(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_times(each.dataType) for each in data_type)
    return isinstance(data_type, TimestampType)


def _read_sql(path: str, data_type: DataType, zone: str | None) -> str:
    """Write a value with its timestamps read."""
    if isinstance(data_type, TimestampType):
        return timestamp_sql(path, zone)
    if not isinstance(data_type, StructType) or not _has_times(data_type):
        return path
    inner = ", ".join(
        f"{quote_text(each.name)}, {_read_sql(_field(path, each), each.dataType, zone)}"
        for each in data_type
    )
    return f"IF({path} IS NULL, NULL, named_struct({inner}))"


def _broken_sql(path: str, data_type: DataType, zone: str | None) -> Iterator[str]:
    """Write for each timestamp of a value that its text is none."""
    if isinstance(data_type, TimestampType):
        yield f"({path} IS NOT NULL AND {timestamp_sql(path, zone)} IS NULL)"
    elif isinstance(data_type, StructType):
        for each in data_type:
            yield from _broken_sql(_field(path, each), each.dataType, zone)


def _field(path: str, field: StructField) -> str:
    return f"{path}.{quote_name(field.name)}"

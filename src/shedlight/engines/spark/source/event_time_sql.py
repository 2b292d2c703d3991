"""When an event was, in Spark SQL: microseconds since 1970, as `matching/event_time.py` has it.

It does not depend on the session's time zone.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql import types as t

from shedlight.errors import InputError
from shedlight.graph import Source
from shedlight.language.eval.column import DAY
from shedlight.language.eval.spark_text import quote_name, quote_text
from shedlight.language.eval.spark_times import timestamp_sql
from shedlight.language.functions import WITHIN_BIGINT
from shedlight.matching.event_time import TIME_UNITS

_UTC = frozenset({"UTC", "Etc/UTC", "GMT"})


def event_time_sql(
    frame: DataFrame, name: str, unit: str = "us", zone: str | None = None
) -> str | None:
    """Write a column of times as microseconds; null where it cannot be read.

    It is None if the column has a type that is none of a time.
    """
    column, spark_type = quote_name(name), frame.schema[name].dataType
    match spark_type:
        case t.TimestampType():
            micros = f"unix_micros({column})"
        case t.TimestampNTZType():
            micros = _in_zone(_local_micros(column), zone)
        case t.DateType():
            micros = _in_zone(f"(unix_date({column}) * {DAY}L)", zone)
        case t.StringType():
            micros = f"unix_micros({timestamp_sql(column, zone)})"
        case t.ByteType() | t.ShortType() | t.IntegerType() | t.LongType():
            micros = _count_sql(f"CAST({column} AS BIGINT)", unit)
        case t.FloatType() | t.DoubleType() | t.DecimalType():
            micros = _rounded_sql(f"CAST({column} AS DOUBLE)", unit)
        case _:
            return None
    return micros


def with_zoned_timestamps(source: Source, frame: DataFrame) -> DataFrame:
    """Give timestamps that have no time zone that of the source, or UTC if it names none.

    In a session in UTC the latter is what Spark takes them for; in another one it does not.

    Raises:
        InputError: There are such timestamps where they would be taken for local ones.
    """
    is_utc = is_in_utc(frame.sparkSession)
    if source.time_zone is None and is_utc:
        return frame
    for field in frame.schema:
        is_plain = isinstance(field.dataType, t.TimestampNTZType)
        if not is_utc and not is_plain and has_local_times(field.dataType):
            raise InputError(
                f"source {source.name}: {field.name!r} is {field.dataType.simpleString()}, and "
                "the session's time zone is not UTC: timestamps without a time zone within it "
                "would mean another time; set spark.sql.session.timeZone to UTC, or make them "
                "columns of their own"
            )
        if is_plain:
            micros = _in_zone(_local_micros(quote_name(field.name)), source.time_zone)
            frame = frame.withColumn(field.name, F.expr(f"timestamp_micros({micros})"))
    return frame


def is_in_utc(spark: SparkSession) -> bool:
    """Say whether the time zone of a session is UTC."""
    return spark.conf.get("spark.sql.session.timeZone") in _UTC


def has_local_times(data_type: t.DataType) -> bool:
    """Say whether there are timestamps without a time zone in values of a type."""
    return "timestamp_ntz" in data_type.simpleString()


def _local_micros(column: str) -> str:
    """Write a timestamp without a time zone as if it were in UTC."""
    second = f"CAST(extract(SECOND FROM {column}) * 1000000 AS BIGINT)"
    clock = f"hour({column}) * 3600000000L + minute({column}) * 60000000L + {second}"
    return f"(unix_date(CAST({column} AS DATE)) * {DAY}L + {clock})"


def _in_zone(micros: str, zone: str | None) -> str:
    if zone is None:
        return micros
    return f"unix_micros(to_utc_timestamp(timestamp_micros({micros}), {quote_text(zone)}))"


def _count_sql(column: str, unit: str) -> str:
    if unit == "us":
        return column
    if unit == "ns":  # the microsecond that it is in, before 1970 too
        return f"({column} DIV 1000L - IF({column} % 1000L < 0L, 1L, 0L))"
    return f"try_multiply({column}, {TIME_UNITS[unit]}L)"


def _rounded_sql(column: str, unit: str) -> str:
    factor = f"{'/' if unit == 'ns' else '*'} {TIME_UNITS[unit]}.0D"
    return f"CAST({WITHIN_BIGINT.format(f'rint({column} {factor})')} AS BIGINT)"

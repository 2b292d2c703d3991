"""Records of Kafka as events: the fields of their values, and what Kafka knows of them.

A value that cannot be parsed is in the column for malformed records, as it is. Headers are one
text, a JSON object; of two with the same name the last counts, as in Kafka's own clients.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StringType, StructField, StructType

from shedlight.engines.spark.source.dead_letter import CORRUPT
from shedlight.engines.spark.source.text_times import (
    read_times,
    reads_times,
    with_text_for_times,
)
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.graph.kafka import RecordValue, record_names
from shedlight.language.eval.spark_sql import quote_name

_PARSED = "#parsed"
_VALUE = "#value"
_READERS = {"json": F.from_json, "csv": F.from_csv}
_LAST_OF_EACH = (
    "filter(headers, (h, i) -> NOT exists(slice(headers, i + 2, size(headers)), "
    "later -> later.key = h.key))"
)
_RECORD_SQL = {
    "key": "CAST(key AS STRING)",
    "topic": "topic",
    "partition": "CAST(partition AS BIGINT)",
    "offset": "offset",
    "timestamp": "timestamp",
    "headers": f"to_json(map_from_entries(transform({_LAST_OF_EACH}, "
    "h -> struct(h.key, CAST(h.value AS STRING)))))",
}


def unfold_records(
    value: RecordValue, records: DataFrame, fields: StructType, zone: str
) -> DataFrame:
    """Give the fields of the values and the columns of the records, as a source has them.

    A time in a value that names no zone is one of `zone`.
    """
    names = record_names(value)
    ours = reads_times(value.options)
    asked = with_text_for_times(fields) if ours else fields
    parsed = records.withColumn(_PARSED, _parse(value, asked, zone))
    # what is no object at all, or is not there, is parsed as nothing
    text = "coalesce(CAST(value AS STRING), '')"
    inner = f"{quote_name(_PARSED)}.{quote_name(CORRUPT)}"
    corrupt = f"CASE WHEN {quote_name(_PARSED)} IS NULL THEN {text} ELSE {inner} END"
    now = "unix_micros(current_timestamp())"
    unfolded = parsed.select(
        *(F.col(f"{quote_name(_PARSED)}.{quote_name(one.name)}") for one in fields),
        *(F.expr(_RECORD_SQL[name]).alias(column) for name, column in names.items()),
        F.expr(corrupt).alias(CORRUPT),
        F.expr(f"least(unix_micros(timestamp), {now})").alias(ARRIVAL),
        F.expr(text).alias(_VALUE),
    )
    if ours:
        unfolded = read_times(unfolded, fields, zone, F.col(quote_name(_VALUE)))
    return unfolded.drop(_VALUE)


def _parse(value: RecordValue, fields: StructType, zone: str) -> Column:
    """Parse a value into a struct, with the text of one that cannot be parsed."""
    ours = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    options = {"timeZone": zone, **value.options, **ours}
    schema = StructType([*fields, StructField(CORRUPT, StringType())])
    return _READERS[value.format](
        F.col("value").cast("string"), _schema_of(value, schema), options
    )


def _schema_of(value: RecordValue, schema: StructType) -> str:
    """Write a schema as the reader of the format takes it."""
    if value.format == "json":
        return str(schema.json())
    return ", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in schema)

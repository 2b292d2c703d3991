"""The outbox of a node: one folder of Parquet files with all that its operators emit.

A row has complex events that one pattern found in a shard, packed (`pack.py`), or its timed-out
partial matches, or late events, or the watermark of an operator in a shard. Everybody reads
the folder's root, which honours the log of what was committed, and takes the rows that he
wants.

What a shard emits in a micro-batch, complex events and watermarks, is in one file, and files
are read whole and in the order in which they were written: so nobody gets the watermark of a
shard before the complex events below it. That is why there is no folder for each pattern.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, LongType, NullType, StringType, StructField, StructType

from shedlight.engines.spark.codec.pack import LATE, OUTBOX_SCHEMA, unpacker
from shedlight.engines.spark.session.pyspark_version import to_arrow_schema
from shedlight.engines.spark.source.arrival import with_arrivals
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.graph import Stream
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.reorder import INPUT

_MAX_FILES = 64  # how many files of an outbox are read in a micro-batch at most
_WATERMARK = "origin", "watermark", "idle", "steps"
LATE_AT = "late_at"  # the column that says at which operator an event was late


def late_output(operator: str) -> Stream:
    """Name the output of the late events of an operator."""
    return Stream(LATE, operator)


def read_outbox(spark: SparkSession, root: str, *, streaming: bool) -> DataFrame:
    """Read an outbox, all that is committed in it."""
    if streaming:
        reader = spark.readStream.schema(OUTBOX_SCHEMA).option("maxFilesPerTrigger", _MAX_FILES)
        return with_arrivals(reader.parquet(root))
    return spark.read.schema(OUTBOX_SCHEMA).parquet(root)


def packed_of(outbox: DataFrame, output: Stream) -> DataFrame:
    """Give the rows of one output, packed."""
    return outbox.where(
        (F.col("operator") == str(output.operator)) & (F.col("name") == output.name)
    )


def events_of(outbox: DataFrame, output: Stream, schema: pa.Schema) -> DataFrame:
    """Give the events of one output, in the columns that they were made with."""
    fields = [StructField(f.name, _writable(from_arrow_type(f.type))) for f in schema]
    columns = ["events"]
    if ARRIVAL in outbox.columns:
        fields.append(StructField(ARRIVAL, LongType()))
        columns.append(ARRIVAL)
    struct = StructType(fields)
    packed = packed_of(outbox, output).select(*map(quote_name, columns))
    return packed.mapInArrow(unpacker(to_arrow_schema(struct)), struct)


def _writable(data_type: DataType) -> DataType:
    """Have what is always null be text, to be written."""
    return StringType() if isinstance(data_type, NullType) else data_type


def late_of(
    outbox: DataFrame, operator: str, number: int, schema: pa.Schema, names: Sequence[str]
) -> DataFrame:
    """Give the late events of one input of an operator, in its own columns.

    The schema has the columns of all inputs of the operator, the names are those of this one.
    """
    full = schema.append(pa.field(INPUT, pa.int32()))
    late = events_of(outbox, late_output(operator), full).where(
        f"{quote_name(INPUT)} = {number}"
    )
    where = [] if LATE_AT in names else [f"'{operator}' AS {LATE_AT}"]
    return late.selectExpr(*map(quote_name, names), *where)


def watermarks_of(outbox: DataFrame, operator: str) -> DataFrame:
    """Give the watermarks of an operator by shard: `origin`, `watermark`, `idle`, `steps`.

    With them is when they were written, if the outbox is read as a stream.
    """
    written = [quote_name(ARRIVAL)] if ARRIVAL in outbox.columns else []
    return packed_of(outbox, Stream("", operator)).select(*_WATERMARK, *written)

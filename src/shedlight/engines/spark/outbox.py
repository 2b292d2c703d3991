"""The outbox of a node: one folder of Parquet files with all that its operators say.

A row is a complex event of one output, or how far an operator of one group is. What a pattern
selects is in a struct that is named after the output, for two patterns may select columns of
one name and different kinds. Everybody reads the folder's root, which honours the log of
what was committed, and filters.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from shedlight.automaton.selection import ID, SOURCE, TIME
from shedlight.engines.spark.packing import FRONTIERS
from shedlight.engines.spark.sources import quoted
from shedlight.graph import Stream

OUTPUT, GROUP = "output", "group"
_OWN = (SOURCE, TIME, ID)


def outbox_schema(outputs: Mapping[Stream, pa.Schema]) -> StructType:
    """Find the columns of an outbox."""
    fields = [
        StructField(SOURCE, StringType()),
        StructField(TIME, LongType()),
        StructField(ID, StringType()),
        StructField(GROUP, IntegerType()),
    ]
    fields += [StructField(str(stream), _struct(schema)) for stream, schema in outputs.items()]
    return StructType([*fields, StructField(OUTPUT, StringType())])


def _struct(schema: pa.Schema) -> StructType:
    """Give what a pattern selects as a struct; what is always null is text, to be written."""
    return StructType(
        [
            StructField(field.name, _writable(from_arrow_type(field.type)))  # type: ignore[arg-type]
            for field in schema
            if field.name not in _OWN
        ]
    )


def _writable(kind: object) -> object:
    return StringType() if isinstance(kind, NullType) else kind


def read_outbox(
    spark: SparkSession, root: str, outputs: Mapping[Stream, pa.Schema], *, streaming: bool
) -> DataFrame:
    """Read an outbox, all that is committed in it."""
    schema = outbox_schema(outputs)
    if streaming:
        return spark.readStream.schema(schema).parquet(root)
    return spark.read.schema(schema).parquet(root)


def events_of(outbox: DataFrame, stream: Stream, schema: pa.Schema) -> DataFrame:
    """Give the complex events of one output, in the columns that they were made with."""
    output = str(stream)
    columns = [
        f"{quoted(output)}.{quoted(name)} AS {quoted(name)}" if name not in _OWN else name
        for name in schema.names
    ]
    return outbox.where(F.col(OUTPUT) == output).selectExpr(*columns)


def frontiers_of(outbox: DataFrame, operator: str) -> DataFrame:
    """Give how far an operator is by group: `origin` and `frontier`."""
    told = outbox.where((F.col(OUTPUT) == FRONTIERS) & (F.col(SOURCE) == operator))
    return told.selectExpr(f"{GROUP} AS origin", f"{TIME} AS frontier")

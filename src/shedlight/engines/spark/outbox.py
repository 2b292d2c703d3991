"""The outbox of a node: one folder of Parquet files with all that its operators say.

A row is a complex event of one output, or how far an operator of one group is. What a pattern
selects is in a struct that is named after the output, for two patterns may select columns of
one name and different kinds. Everybody reads the folder's root, which honours the log of
what was committed, and filters.

What a group says in a micro-batch, its complex events and how far it is, is in one file, and
files are read whole and in the order in which they were written: so nobody learns that a group
is further than the complex events that were read of it. That is why there is no folder for each
output.
"""

from collections.abc import Mapping, Sequence

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

from shedlight.automaton.intake import INPUT
from shedlight.automaton.selection import ID, SOURCE, TIME
from shedlight.engines.spark.arrivals import ARRIVAL, with_arrivals
from shedlight.engines.spark.packing import FRONTIERS, IDLE, late_output
from shedlight.engines.spark.sources import quoted

OUTPUT, GROUP = "output", "group"
_OWN = (SOURCE, TIME, ID)


Outputs = Mapping[str, pa.Schema]
"""What is in an outbox: the columns of each stream, or of the late events of an operator."""


def outbox_schema(outputs: Outputs) -> StructType:
    """Find the columns of an outbox."""
    fields = [
        StructField(SOURCE, StringType()),
        StructField(TIME, LongType()),
        StructField(ID, StringType()),
        StructField(GROUP, IntegerType()),
    ]
    fields += [
        StructField(output, _struct(_particular(output, schema)))
        for output, schema in outputs.items()
    ]
    return StructType([*fields, StructField(OUTPUT, StringType())])


def _particular(output: str, schema: pa.Schema) -> list[pa.Field]:
    """List what only this output has; late events are as they came, and of which input."""
    if output.startswith(late_output("")):
        return [*schema, pa.field(INPUT, pa.int32())]
    return [field for field in schema if field.name not in _OWN]


def _struct(fields: list[pa.Field]) -> StructType:
    """Give what a pattern selects as a struct; what is always null is text, to be written."""
    return StructType(
        [
            StructField(field.name, _writable(from_arrow_type(field.type)))  # type: ignore[arg-type]
            for field in fields
        ]
    )


def _writable(kind: object) -> object:
    return StringType() if isinstance(kind, NullType) else kind


MOST_FILES = 64
"""How many files of an outbox are read in a micro-batch at most."""


def read_outbox(
    spark: SparkSession, root: str, outputs: Outputs, *, streaming: bool
) -> DataFrame:
    """Read an outbox, all that is committed in it."""
    schema = outbox_schema(outputs)
    if streaming:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", MOST_FILES)
        return with_arrivals(reader.parquet(root))
    return spark.read.schema(schema).parquet(root)


def events_of(outbox: DataFrame, output: str, schema: pa.Schema) -> DataFrame:
    """Give the rows of one output, in the columns that they were made with."""
    columns = [
        f"{quoted(output)}.{quoted(name)} AS {quoted(name)}" if name not in _OWN else name
        for name in schema.names
    ]
    columns += [ARRIVAL] if ARRIVAL in outbox.columns else []
    return outbox.where(F.col(OUTPUT) == output).selectExpr(*map(_plain, columns))


def late_of(outbox: DataFrame, operator: str, number: int, names: Sequence[str]) -> DataFrame:
    """Give the late events of one input of an operator, as they came, and where they were late.

    Args:
        outbox: The outbox of the operator's node.
        operator: Where they were late.
        number: The number of the input.
        names: Its columns.
    """
    output = late_output(operator)
    events = [f"{quoted(output)}.{quoted(name)} AS {quoted(name)}" for name in names]
    where = [] if LATE_AT in names else [f"'{operator}' AS {LATE_AT}"]
    late = outbox.where(F.col(OUTPUT) == output)
    return late.where(f"{quoted(output)}.{quoted(INPUT)} = {number}").selectExpr(
        *events, *where
    )


LATE_AT = "late_at"
"""The column that says at which operator an event was late."""


def _plain(column: str) -> str:
    return quoted(column) if column == ARRIVAL else column


def frontiers_of(outbox: DataFrame, operator: str) -> DataFrame:
    """Give how far an operator is by group: `origin`, `frontier` and `idle`."""
    told = outbox.where((F.col(OUTPUT) == FRONTIERS) & (F.col(SOURCE) == operator))
    idle = F.coalesce(F.col(ID) == IDLE, F.lit(False)).alias("idle")  # noqa: FBT003
    return told.select(F.col(GROUP).alias("origin"), F.col(TIME).alias("frontier"), idle)

"""Events as packed rows on their way to matching, and complex events on their way back.

A packed row holds the events of one Arrow batch that go to one shard, as an Arrow stream. So
values of any data type reach Python as they are, and shards, where each row costs, get few and
large ones. Complex events are packed too (`encode.py`), until somebody wants the columns.

This is kept apart from matching, and imports next to nothing: Spark runs it in processes of
their own, which start the sooner.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.blobs import read_blob
from shedlight.engines.spark.codec.decode import decode_table, plain_bytes
from shedlight.engines.spark.support.arrival_sketch import (
    ARRIVAL,
    ArrivalSketch,
    sketch_arrivals,
)
from shedlight.engines.spark.support.worker import prepare_worker

SHARD = "#shard"  # the column of the shard that an event goes to

OUTBOX_SCHEMA = (
    "operator string, name string, origin int, watermark bigint, idle boolean, steps string, "
    "number int, events binary"
)
"""What a shard emits: complex events, how many, of which stream; the watermark of an operator
if the name is empty, with what was kept upstream as steps (`step/completeness.py`); or late
events."""
STEP_OUTPUT_SCHEMA = f"{OUTBOX_SCHEMA}, metrics string"
"""The same, and the metrics of the shard."""
PARTS = "batch", "part", "parts"
"""The columns that say with which record of a channel a row came; 0 parts: with none."""
PACKED = (
    f"shard int, {OUTBOX_SCHEMA}, arrival double, arrivals binary, "
    "batch bigint, part int, parts int"
)
"""A stream by operator (empty for a source) and name; the watermark counts if events is null.
Arrival is the mean of that of all events, arrivals are the points of an `ArrivalSketch`; null
if all events arrived at once."""
PLAN_ONLY = -1  # the number of events in a row that comes for the sake of the plan with it
LATE = "#late"  # what stands in place of the name of a pattern for late events

Batches = Iterable[pa.RecordBatch]

_ARROW = {"boolean": "bool", "int": "int32", "bigint": "int64"}


def arrow_columns(ddl: str) -> pa.Schema:
    """Give columns as named for Spark above as Arrow has them."""
    columns = (column.split(" ") for column in ddl.split(", "))
    return pa.schema(
        [
            (name, pa.type_for_alias(_ARROW.get(data_type, data_type)))
            for name, data_type in columns
        ]
    )


_PACKED = arrow_columns(PACKED)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give the columns of a table that a schema has the data types of the schema.

    Spark writes timestamps in the time zone of the session.
    """
    known = set(schema.names)
    fields = [schema.field(f.name) if f.name in known else f for f in table.schema]
    if table.schema.types == [field.type for field in fields]:
        return table
    return table.cast(pa.schema(fields))


def packer(
    operator: str, name: str, schema: pa.Schema, woken: Sequence[int] = ()
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that packs the events of a stream, of some columns, by shard.

    Shards that are woken get a row whether or not there are events for them.
    """

    def row(shard: int, **values: object) -> pa.RecordBatch:
        start: dict[str, object] = dict.fromkeys(("origin", "watermark", *PARTS), 0)
        start |= {"idle": False, "operator": operator, "name": name}
        return pa.RecordBatch.from_pylist([{"shard": shard, **start, **values}], _PACKED)

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for shard in woken:
            yield row(shard, number=PLAN_ONLY)
        for batch in batches:
            shards = batch.column(SHARD).to_numpy()
            arrivals = batch.column(ARRIVAL).to_numpy()
            table = conform(pa.table(batch).drop_columns([SHARD, ARRIVAL]), schema)
            for shard in np.unique(shards).tolist():
                mine = shards == shard
                every = bool(mine.all())
                events = table if every else table.filter(pa.array(mine))
                sketch = sketch_arrivals(arrivals if every else arrivals[mine])
                points = None if len(sketch.points) == 1 else np.array(sketch.points).tobytes()
                yield row(
                    shard,
                    number=len(events),
                    events=plain_bytes(events),
                    arrival=sketch.mean,
                    arrivals=points,
                )

    return pack


def read_sketch(number: int, arrival: float, arrivals: bytes | None) -> ArrivalSketch:
    """Read the arrival sketch of a packed row."""
    if arrivals is None:
        return ArrivalSketch(number, arrival, (round(arrival),))
    return ArrivalSketch(number, arrival, tuple(np.frombuffer(arrivals, np.int64).tolist()))


def unpacker(schema: pa.Schema) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that gives packed events as rows, with the columns of a schema."""

    def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for row in batch.to_pylist():
                table = decode_table(read_blob(row["events"])).combine_chunks()
                if ARRIVAL in schema.names:
                    arrival = pa.repeat(pa.scalar(row[ARRIVAL], pa.int64()), len(table))
                    table = table.append_column(ARRIVAL, arrival)
                columns = [
                    table[f.name].cast(f.type)
                    if f.name in table.column_names  # what is ours may have come with a change
                    else pa.nulls(len(table), f.type)
                    for f in schema
                ]
                yield from pa.table(columns, schema=schema).to_batches()

    return unpack

"""The channel of a node: a topic of Kafka with what its outbox has for other nodes.

A query of its own reads the outbox and writes records. All that a shard has said in a
micro-batch of that query, of one operator, is written by one task, into the partition of the
shard: complex events, and once the watermark after them, with what was kept upstream. Delivery
is at least once: a task that failed leaves some of its records, and not always the first ones.
So each record says of which micro-batch it is, which of how many, and how far its operator is
after all of them; who reads it believes the watermark once he has them all (`step/parts.py`).

A record has the fingerprint of the application, and who wrote it. Another one is an error.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.codec.blobs import read_blob
from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.malloc import keep_memory
from shedlight.engines.spark.support.plan_store import batch_id
from shedlight.engines.spark.support.spark_errors import STATE_ERROR
from shedlight.graph import Stream
from shedlight.graph.kafka import KAFKA
from shedlight.language.eval.spark_sql import quote_name
from shedlight.language.eval.spark_text import quote_text

VERSION = 1  # of the records of a channel
MAX_RECORD_BYTES = 1 << 19
"""How many bytes of complex events are in a record: brokers take 1 MB if nobody says more."""
CHANNEL_DEFAULTS = {"kafka.max.in.flight.requests.per.connection": "1"}
"""Options of the writer, unless the application says otherwise. A topic that was just made may
have no leader yet: of several requests the first would be refused and a later one taken, and
the broker waits for the first in vain."""
_MAX_RECORDS = 4_000  # how many records are read in a micro-batch at most
_HEADER = "shedlight"
_HEAD = (
    "version int, application string, sender string, operator string, name string, origin int, "
    "batch bigint, part int, parts int, watermark bigint, idle boolean, steps string, "
    "number int"
)
_RECORD = (
    "partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
)
_FROM_HEAD = (
    "name, origin, batch, part, parts, watermark, idle, steps, number"  # besides `operator`
)
_ROW = ("operator", "name", "origin", "watermark", "idle", "steps", "number", "events", ARRIVAL)

Batches = Iterable[pa.RecordBatch]
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Letterhead:
    """What all records of a channel say."""

    application: str  # the fingerprint of the application
    sender: str  # the checkpoint of the node that wrote it
    version: int = VERSION


def channel_records(
    outbox: DataFrame, streams: Iterable[Stream], shards: int, head: Letterhead
) -> DataFrame:
    """Write what an outbox has of some streams, and the watermarks of their operators."""
    names = sorted({(str(s.operator), name) for s in streams for name in (s.name, "")})
    pairs = ", ".join(f"({quote_text(of)}, {quote_text(name)})" for of, name in names)
    wanted = outbox.where(f"(operator, name) IN ({pairs})").select(*map(quote_name, _ROW))
    return wanted.repartition(shards, "origin").mapInArrow(_writer(asdict(head)), _RECORD)


def _writer(head: Mapping[str, object]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that writes what shards have said in a micro-batch as records."""

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        keep_memory()
        said: dict[tuple[int, str], list[_Row]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                said.setdefault((row["origin"], row["operator"]), []).append(row)
        for (origin, _), rows in sorted(said.items(), key=lambda each: each[0]):
            heads, values = parts_of(rows, batch_id())
            for each, value in zip(heads, values, strict=True):
                text = json.dumps({**head, **each})
                record = {
                    "partition": origin,
                    "key": str(origin).encode(),
                    "value": value,
                    "headers": [{"key": _HEADER, "value": text.encode()}],
                }
                yield pa.RecordBatch.from_pylist([record], _RECORD_SCHEMA)

    return write


_RECORD_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def parts_of(rows: Sequence[_Row], batch: int) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Give the heads and values of the records that say what some rows of an outbox say.

    They are of one operator in one shard; the last of them is about the watermark alone. The
    same rows in another order give the same records.
    """
    marks = [row for row in rows if row["name"] == ""]
    found = sorted(
        (row for row in rows if row["name"] != ""),
        key=lambda row: (row[ARRIVAL], row["name"], row["events"]),
    )
    pieces = [
        ({"name": row["name"], "number": number}, value)
        for row in found
        for number, value in _split(read_blob(row["events"]), int(row["number"]))
    ]
    pieces.append(({"name": "", "number": 0, "steps": _merge_steps(marks)}, b""))
    latest = max((row["watermark"], row[ARRIVAL]) for row in marks)
    common = {
        "operator": rows[0]["operator"],
        "origin": rows[0]["origin"],
        "batch": batch,
        "parts": len(pieces),
        "watermark": latest[0],
        "idle": all(row["idle"] for row in marks if (row["watermark"], row[ARRIVAL]) == latest),
    }
    heads = [{**common, **own, "part": number} for number, (own, _) in enumerate(pieces)]
    return heads, [value for _, value in pieces]


def _split(payload: bytes | pa.Buffer, number: int) -> Iterator[tuple[int, bytes]]:
    """Divide complex events until a record takes each part, or there is nothing to divide."""
    data = payload if isinstance(payload, bytes) else payload.to_pybytes()
    if len(data) <= MAX_RECORD_BYTES or number <= 1:
        yield number, data
        return
    events, half = decode_table(data), number // 2
    for start, length in ((0, half), (half, number - half)):
        yield from _split(encode_table(events.slice(start, length)), length)


def _merge_steps(marks: Iterable[_Row]) -> str | None:
    """Put together what was kept upstream between watermarks."""
    merged: dict[str, list[object]] = {}
    for text in sorted({str(row["steps"]) for row in marks if row["steps"] is not None}):
        for stream, steps in json.loads(text).items():
            merged.setdefault(stream, []).extend(steps)
    return json.dumps(merged) if merged else None


def read_channel(
    spark: SparkSession, topic: str, options: Mapping[str, str], head: Letterhead
) -> DataFrame:
    """Read a channel as an outbox is read, with which part of which micro-batch each row is."""
    limited = {"maxOffsetsPerTrigger": str(_MAX_RECORDS), **options}
    fixed = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    records = spark.readStream.format(KAFKA).options(**limited).options(**fixed).load()
    text = F.expr("CAST(element_at(headers, 1).value AS STRING)")
    now = F.expr("unix_micros(current_timestamp())")  # another clock wrote it
    heads = records.select(
        F.from_json(text, _HEAD).alias("head"),
        F.col("value").alias("events"),
        F.least(F.expr("unix_micros(timestamp)"), now).alias(ARRIVAL),
    ).select("head.*", "events", quote_name(ARRIVAL))
    is_ours = " AND ".join(
        f"{name} <=> {quote_text(value) if isinstance(value, str) else value}"
        for name, value in asdict(head).items()
    )
    problem = quote_text(f"{STATE_ERROR}{foreign_data(topic)}")
    operator = f"IF({is_ours}, operator, raise_error({problem})) AS operator"
    return heads.selectExpr(operator, *_FROM_HEAD.split(", "), "events", quote_name(ARRIVAL))


def foreign_data(topic: str) -> str:
    """Say that a topic has the data of somebody else."""
    return (
        f"the topic {topic} has records that are of another application, of another version "
        "of it, or of a checkpoint that is not this one; delete the topic, or set another "
        "`prefix` of `channels`, and start all nodes with new checkpoints"
    )


def marks_of(channel: DataFrame, operator: str) -> DataFrame:
    """Give what all records of an operator say of its watermark, and which parts they are."""
    columns = ["origin", "watermark", "idle", "steps", "batch", "part", "parts"]
    return channel.where(F.col("operator") == operator).select(*columns)

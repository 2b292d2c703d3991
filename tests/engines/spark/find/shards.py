"""Calls the functions of `find` as Spark does, without a session: partitions and shards."""

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import Row, StructType

from shedlight.engines.spark.find.chains import define_chains, group_by_key, output_columns
from shedlight.engines.spark.find.partition import GROUP, PartitionStep, partition_function
from shedlight.engines.spark.find.result import result_schema
from shedlight.engines.spark.find.shard_rows import packer, shard_column
from shedlight.engines.spark.find.shard_step import (
    ShardStep,
    shard_function,
    unpacker,
)
from shedlight.engines.tables import EVENT_TIME, match_tables
from shedlight.language import Pattern
from shedlight.matching.hashing import hash_keys
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.permuted import row_column

ID = "id"
_TIMES = pa.timestamp("us", tz="UTC")

Rows = list[str]
"""Complex events as text, so that NaN is NaN, in order."""


def as_rows(tables: Iterator[pa.Table | pa.RecordBatch]) -> Rows:
    """Write complex events as text, in order; the two zeros are one."""
    return sorted(
        repr({name: _plain(row[name]) for name in sorted(row)})
        for table in tables
        for row in table.to_pylist()
    )


def _plain(value: object) -> object:
    return value + 0.0 if isinstance(value, float) else value


def expected(
    patterns: Mapping[str, Pattern], events: pa.Table, before: int | None = None
) -> Rows:
    """Find what `shedlight match` finds, if need be only before a time in microseconds."""
    stream = StreamInput("events", (ID,), EVENT_TIME)
    found = match_tables([(stream, events)], patterns).complex_events
    columns = {
        name: table.drop_columns(["source", "events"]).schema for name, table in found.items()
    }
    schema = result_schema(columns, _TIMES, is_named=True)
    rows = []
    for name, table in found.items():
        own = (
            table
            if before is None
            else table.filter(pa.array(table["time"].to_numpy() < before))
        )
        arrays = {
            field.name: own[field.name].cast(field.type)
            if field.name in own.column_names
            else pa.nulls(len(own), field.type)
            for field in schema
        }
        rows.append(pa.table({**arrays, "pattern": pa.repeat(name, len(own))}))
    return as_rows(iter(rows))


def in_partition(
    patterns: Mapping[str, Pattern], events: pa.Table, cuts: Sequence[int], lateness: int = 0
) -> Rows:
    """Match events that are in order as one partition of a DataFrame, cut anywhere."""
    groups = group_by_key(patterns)
    stream = StreamInput("events", (ID,), EVENT_TIME, lateness)
    result = _result(stream, events.schema, groups)
    step = PartitionStep(stream, events.schema, tuple(own for _, own in groups), result)
    tagged = [
        batch.append_column(GROUP, pa.array(np.full(len(batch), number, np.int32)))
        for batch in _pieces(events, cuts)
        for number in range(len(groups))
    ]
    batches = [b for table in tagged for b in table.to_batches()]
    return as_rows(partition_function(step)(batches))


def _result(stream, schema, groups):
    chains = define_chains(stream, schema, groups, 1)
    outputs = output_columns(chains)
    names = [name for _, own in groups for name in own]
    return result_schema({name: outputs[name] for name in names}, _TIMES, is_named=True)


def _pieces(events: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
    return [events.slice(a, b - a) for a, b in pairwise(bounds)]


@dataclass
class Stream:
    """A streaming query of `find`: its shards and their states, micro-batch by micro-batch."""

    patterns: Mapping[str, Pattern]
    schema: pa.Schema
    lateness: int = 0
    shards: int = 2
    idle: int | None = None
    now: int = 1_000  # milliseconds of the clock
    states: dict[int, tuple[tuple[object, ...], int]] = field(default_factory=dict)

    def __post_init__(self):
        """Plan the query, as the driver does."""
        self.groups = group_by_key(self.patterns)
        stream = StreamInput("events", (ID,), EVENT_TIME, self.lateness)
        self.chains = define_chains(stream, self.schema, self.groups, self.shards)
        definitions = tuple(chain.definition for chain in self.chains)
        step = pickle.loads(pickle.dumps(ShardStep(definitions, self.schema, self.idle)))  # noqa: S301
        self._function = shard_function(step)
        self._unpack = unpacker(_result(stream, self.schema, self.groups))

    def batch(self, events: pa.Table) -> Rows:
        """Run a micro-batch with events, and whoever has timed out by now."""
        packed: dict[int, list[bytes]] = {}
        for row in self._packed(events):
            packed.setdefault(row["shard"], []).append(row["events"])
        due = [shard for shard, (_, at) in self.states.items() if 0 <= at <= self.now]
        found = []
        for shard in dict.fromkeys([*due, *packed]):
            found += self._call(shard, packed.get(shard, []))
        return as_rows(iter(found))

    def _packed(self, events: pa.Table) -> list[dict[str, Any]]:
        if not len(events):
            return []
        for number, ((key, _), chain) in enumerate(zip(self.groups, self.chains, strict=True)):
            numbers = chain.spec.placement.shards
            hashes = np.zeros(len(events), np.int64)
            if key:
                hashes, _ = hash_keys([row_column(events, each) for each in key], len(events))
            shards = (hashes % len(numbers) + numbers[0]).astype(np.int32)
            events = events.append_column(shard_column(number), pa.array(shards))
        return [r for b in packer(len(self.groups))(events.to_batches()) for r in b.to_pylist()]

    def _call(self, shard: int, rows: list[bytes]) -> list[pa.RecordBatch]:
        state = self._state(shard, has_timed_out=not rows)
        frames = iter([pd.DataFrame({"shard": shard, "events": rows})] if rows else [])
        payloads = [
            pa.RecordBatch.from_pandas(frame, preserve_index=False)
            for frame in self._function((shard,), frames, state)
            if len(frame)
        ]
        saved = json.loads(state.json())
        self.states[shard] = tuple(state.get), saved["timeoutTimestamp"]
        return list(self._unpack(payloads))

    def _state(self, shard: int, *, has_timed_out: bool) -> GroupState:
        value, _ = self.states.get(shard, (None, -1))
        return GroupState(
            optionalValue=Row() if value is None else Row(*value),
            batchProcessingTimeMs=self.now,
            eventTimeWatermarkMs=-1,
            timeoutConf=GroupStateTimeout.NoTimeout
            if self.idle is None
            else GroupStateTimeout.ProcessingTimeTimeout,
            hasTimedOut=has_timed_out,
            watermarkPresent=False,
            defined=value is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=-1,
            keyAsUnsafe=b"",
            valueSchema=StructType(),
        )

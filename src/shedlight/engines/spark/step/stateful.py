"""The stateful step of a node: Spark calls it for each shard of a micro-batch."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from shedlight.engines.spark.codec.blobs import BlobFile, read_blob
from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.codec.pack import LATE, sample_in
from shedlight.engines.spark.step.advance import (
    StepResult,
    WatermarkUpdate,
    advance,
    encode_output,
    watermarks_of,
)
from shedlight.engines.spark.step.chain import (
    ChainRuntime,
    ChainState,
    build_chain,
    new_chain_state,
)
from shedlight.engines.spark.step.metrics import ShardMetrics
from shedlight.engines.spark.step.saved_chain import from_bytes, to_bytes
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch, merge_sketches
from shedlight.engines.spark.support.malloc import keep_memory
from shedlight.engines.spark.support.placement import ChainSpec
from shedlight.engines.spark.support.plan_store import PlanStore, batch_id
from shedlight.graph import Stream
from shedlight.shedding.shares import Shares

STATE = "state binary"

Frames = Iterator[pd.DataFrame]
Pieces = Iterator[tuple[int, bytes]]
"""The number of complex events in a piece, and what stands for it in the outbox."""


@dataclass(frozen=True, slots=True)
class Step:
    """The stateful step of a node.

    Attributes:
        chains: What its parts are; it travels to where the shards run.
        published_streams: The streams that others read.
        published_watermarks: The operators whose watermarks others read.
        blobs: The folder of large payloads.
        min_blob_bytes: From how many bytes on a payload is large.
        late: The operators whose late events go to a side output.
        plans: The folder of the plans, if any operator sheds.
    """

    chains: tuple[ChainSpec, ...]
    published_streams: frozenset[Stream]
    published_watermarks: frozenset[str]
    blobs: str
    min_blob_bytes: int
    late: frozenset[str] = frozenset()
    plans: str | None = None


def stateful_function(step: Step) -> Callable[[Any, Frames, GroupState], Frames]:
    """Make the function that Spark calls."""
    definition = pickle.dumps(step)

    def match(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        keep_memory()
        start = time.perf_counter()
        step, built = _built(definition)
        shard = int(key[0])
        chain = built[shard]
        taken = _taken_apart(frames)
        old = from_bytes(chain, state.get[0]) if state.exists else new_chain_state(chain)
        file = BlobFile(Path(step.blobs), step.min_blob_bytes)
        packed: dict[Stream, Pieces] = {}

        def leaves(stream: Stream, table: pa.Table, shelves: Mapping[str, EventTable]) -> None:
            if stream in step.published_streams:
                most = _piece(table)
                packed[stream] = encode_output(chain, stream, table, shelves, most, file.put)

        new, done = advance(chain, old, taken.events, taken.marks, _shares(step), leaves)
        saved = to_bytes(chain, new)
        state.update((saved,))
        rows = [
            *_rows(shard, packed),
            *_late_rows(step, shard, done.late, file.put),
            *_told(step, shard, chain, new, done),
        ]
        file.close()  # all that threads write to it is written
        spent = time.perf_counter() - start
        metrics = ShardMetrics(
            shard, spent, len(saved), done.metrics, taken.kept, done.parallelism_ratio
        )
        rows.append(("", "", shard, 0, False, 0, None, metrics.encoded()))
        yield _found(rows)

    return match


def _shares(step: Step) -> Shares | None:
    """Find what patterns keep in this micro-batch, where that is decided in the shard."""
    if step.plans is None:
        return None
    plans = PlanStore(Path(step.plans))
    return plans.shares(plans.plan_for_batch(batch_id()))


_Row = tuple[str | None, str, int, int, bool, int, bytes | None, str | None]

_PIECE = 1 << 16
"""How many events a packed row has at most."""
_PIECE_BYTES = 1 << 25
"""How many bytes they have at most, unpacked: who reads them has to hold them."""


def _rows(shard: int, packed: Mapping[Stream, Pieces]) -> Iterator[_Row]:
    """Give the complex events that others read."""
    for stream, pieces in packed.items():
        for number, data in pieces:
            yield (stream.operator, stream.name, shard, 0, False, number, data, None)


def _late_rows(
    step: Step,
    shard: int,
    late: Mapping[str, pa.Table],
    put: Callable[[pa.Buffer], bytes],
) -> Iterator[_Row]:
    """Give the late events that others read."""
    for name in step.late & late.keys():
        most = _piece(late[name])
        for start in range(0, len(late[name]), most):
            part = late[name].slice(start, most)
            yield (name, LATE, shard, 0, False, len(part), put(encode_table(part)), None)


def _piece(table: pa.Table) -> int:
    """Say how many events of a table to pack together."""
    bytes_each = table.nbytes / max(len(table), 1)
    return max(1, min(_PIECE, int(_PIECE_BYTES / max(bytes_each, 1))))


def _told(
    step: Step, shard: int, chain: ChainRuntime, state: ChainState, done: StepResult
) -> Iterator[_Row]:
    """Say how far the operators are that others ask for."""
    for operator, watermark in watermarks_of(chain, state).items():
        if operator in step.published_watermarks:
            yield (operator, "", shard, watermark, operator in done.idle, 0, None, None)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """What came to a shard: events by stream, when they had arrived, and marks."""

    events: dict[Stream, pa.Table]
    kept: dict[str, ArrivalSketch]
    marks: list[WatermarkUpdate]


def _taken_apart(frames: Frames) -> _Taken:
    """Sort packed rows."""
    tables: dict[Stream, list[pa.Table]] = {}
    samples: dict[str, list[ArrivalSketch]] = {}
    marks: list[WatermarkUpdate] = []
    for frame in frames:
        for row in frame.itertuples():
            stream = Stream(row.name, row.operator or None)
            if row.events is None:
                mark = WatermarkUpdate(
                    stream, int(row.origin), int(row.watermark), bool(row.idle)
                )
                marks.append(mark)
                continue
            tables.setdefault(stream, []).append(decode_table(read_blob(row.events)))
            sample = sample_in(int(row.number), row.arrival, row.arrivals)
            samples.setdefault(str(stream), []).append(sample)
    both = ((name, merge_sketches(some)) for name, some in samples.items())
    return _Taken(
        {s: pa.concat_tables(chains) for s, chains in tables.items()},
        {name: one for name, one in both if one is not None},
        marks,
    )


_KINDS = {
    "operator": "object",
    "name": "object",
    "origin": "int32",
    "watermark": "int64",
    "idle": "bool",
    "number": "int32",
    "events": "object",
    "metrics": "object",
}


def _found(rows: Sequence[_Row]) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_KINDS)
    return pd.DataFrame(
        {
            name: pd.Series(list(values), dtype=kind)
            for (name, kind), values in zip(_KINDS.items(), columns, strict=True)
        }
    )


@cache
def _built(definition: bytes) -> tuple[Step, dict[int, ChainRuntime]]:
    """Build the operators of each shard, once in a process."""
    step: Step = pickle.loads(definition)  # noqa: S301  # our own, from the driver
    built = {}
    for given in step.chains:
        chain = build_chain(given)
        built.update(dict.fromkeys(given.placement.shards, chain))
    return step, built

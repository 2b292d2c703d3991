"""The stateful step of a node: Spark calls it for each shard of a micro-batch."""

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from shedlight.engines.spark.codec.blobs import BlobFile, read_blob
from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.codec.pack import PLAN_ONLY, read_sketch
from shedlight.engines.spark.step import emit
from shedlight.engines.spark.step.advance import advance, operator_watermarks
from shedlight.engines.spark.step.chain import (
    ChainDefinition,
    ChainRuntime,
    build_chain,
)
from shedlight.engines.spark.step.divided import read_division, steps_on_the_way
from shedlight.engines.spark.step.held_states import HeldState, held_in_worker
from shedlight.engines.spark.step.metrics import METRICS_JSON, ShardMetrics
from shedlight.engines.spark.step.parts import RecordPart, WatermarkUpdate
from shedlight.engines.spark.step.state_files import StateFiles, read_state, write_state
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch, merge_by_stream
from shedlight.engines.spark.support.batch_plan import BatchPlan, from_text
from shedlight.engines.spark.support.placement import NodeContext
from shedlight.engines.spark.support.worker import prepare_worker
from shedlight.graph import Stream

STATE = "state binary"

Frames = Iterator[pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Step:
    """The stateful step of a node."""

    chains: tuple[ChainDefinition, ...]  # its operator chains
    slots: Mapping[int, int]  # by which number Spark groups the rows of each shard
    context: NodeContext  # what others read of it
    blobs: str  # the folder of large payloads
    min_blob_bytes: int  # from how many bytes on a payload is large
    states: StateFiles  # large states


def stateful_function(step: Step) -> Callable[[Any, Frames, GroupState], Frames]:
    """Make the function that Spark calls."""
    pickled = pickle.dumps(step)

    def match(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        prepare_worker()
        start = time.perf_counter()
        step, chains = _build_step(pickled)
        shard = next(shard for shard, slot in step.slots.items() if slot == int(key[0]))
        chain = chains[shard]
        given = _decode_input(frames)
        files = step.states.of_shard(shard)
        held = held_in_worker()
        blobs = BlobFile(Path(step.blobs), step.min_blob_bytes)
        if chain.spec.earlier is None or state.exists:
            old = read_state(chain, files, held, state.get[0] if state.exists else None)
            rows: list[emit.Row] = []
        else:
            old, rows = _begin_divided(step, chain, shard, given.plan, blobs.put)
        payloads: dict[Stream, emit.Payloads] = {}
        sizes: list[tuple[Stream, int]] = []  # threads write to it

        def on_output(
            stream: Stream, table: pa.Table, event_tables: Mapping[str, EventTable]
        ) -> None:
            if stream in step.context.published_streams:
                payloads[stream] = emit.encode_output(
                    chain, stream, table, event_tables, partial(_put, blobs, sizes, stream)
                )

        new, result = advance(
            chain, old.state, given.events, given.watermarks, given.plan, on_output
        )
        saved, size = write_state(files, held, old, new)
        state.update((saved,))
        rows += [
            *emit.output_rows(shard, _in_outbox(step, payloads)),
            *emit.late_rows(
                shard,
                {name: late for name, late in result.late.items() if name in step.context.late},
                blobs.put,
            ),
            *(
                emit.watermark_row(
                    shard,
                    operator,
                    watermark,
                    idle=operator in result.idle,
                    steps=result.steps.get(operator),
                )
                for operator, watermark in operator_watermarks(chain, new).items()
                if operator in step.context.published_watermarks
            ),
        ]
        blobs.close()  # all that threads write to it is written
        metrics = ShardMetrics(
            shard,
            time.perf_counter() - start,
            size,
            result.metrics,
            given.kept,
            result.parallelism_ratio,
            result.samples,
            _sent(step, sizes),
        )
        text = METRICS_JSON.dump_json(metrics).decode()
        yield emit.rows_frame([*rows, emit.metrics_row(shard, text)])

    return match


def _put(
    blobs: BlobFile, sizes: list[tuple[Stream, int]], stream: Stream, payload: pa.Buffer
) -> bytes:
    """Write a payload, and note how large it is."""
    sizes.append((stream, payload.size))
    return blobs.put(payload)


def _sent(step: Step, sizes: list[tuple[Stream, int]]) -> dict[str, int]:
    """Add up the bytes of patterns that other nodes read by channels."""
    sent: Counter[str] = Counter()
    for stream, size in sizes:
        if stream in step.context.by_channel:
            sent[str(stream)] += size
    return dict(sent)


def _in_outbox(
    step: Step, payloads: Mapping[Stream, emit.Payloads]
) -> Mapping[Stream, emit.Payloads]:
    """Name what was found as it is called in the outbox."""
    versions = step.context.versions
    return {versions.in_outbox(stream): found for stream, found in payloads.items()}


def _begin_divided(
    step: Step, chain: ChainRuntime, shard: int, plan: BatchPlan | None, put: emit.Put
) -> tuple[HeldState, list[emit.Row]]:
    """Make the state of a new shard of those that there were before, and what that finds."""
    rows: list[emit.Row] = []

    def on_output(
        stream: Stream, table: pa.Table, event_tables: Mapping[str, EventTable]
    ) -> None:
        if stream in step.context.published_streams and len(table):
            found = emit.encode_output(chain, stream, table, event_tables, put)
            rows.extend(emit.output_rows(shard, _in_outbox(step, {stream: found})))

    division = read_division(chain, step.states.folder)
    state, results = division.state_of(shard, plan, on_output)
    for operator, watermark, steps in steps_on_the_way(chain, state, results):
        if operator in step.context.published_watermarks:
            rows.append(emit.watermark_row(shard, operator, watermark, idle=False, steps=steps))
    return HeldState(chain, state), rows


@cache
def _build_step(pickled: bytes) -> tuple[Step, dict[int, ChainRuntime]]:
    """Build the chain of each shard, once in a process."""
    step: Step = pickle.loads(pickled)  # noqa: S301  # our own, from the driver
    chains = {}
    for definition in step.chains:
        chain = build_chain(definition)
        chains.update(dict.fromkeys(definition.spec.placement.shards, chain))
    return step, chains


@dataclass(frozen=True, slots=True, eq=False)
class _ShardInput:
    """What came to a shard: events by stream, when they had arrived, watermarks, the plan."""

    events: dict[Stream, pa.Table]
    kept: dict[str, ArrivalSketch]
    watermarks: list[WatermarkUpdate]
    plan: BatchPlan | None


def _decode_input(frames: Frames) -> _ShardInput:
    """Decode packed rows, and put those of each stream together."""
    tables: dict[Stream, list[pa.Table]] = {}
    sketches: dict[str, list[ArrivalSketch]] = {}
    watermarks: list[WatermarkUpdate] = []
    plan: str | None = None
    for frame in frames:
        for row in frame.itertuples():
            plan = row.plan
            stream = Stream(row.name, row.operator or None)
            if row.number == PLAN_ONLY:
                continue
            if row.events is None:
                numbers = int(row.origin), int(row.watermark)
                part = RecordPart(int(row.batch), int(row.part), int(row.parts))
                update = WatermarkUpdate(stream, *numbers, bool(row.idle), row.steps)
                if part.of:
                    update = replace(update, part=part)
                elif row.arrival == row.arrival:  # not NaN
                    update = replace(update, written=row.arrival)
                watermarks.append(update)
                continue
            tables.setdefault(stream, []).append(decode_table(read_blob(row.events)))
            sketch = read_sketch(int(row.number), row.arrival, row.arrivals)
            sketches.setdefault(str(stream), []).append(sketch)
    events = {
        stream: pa.concat_tables(of_stream, promote_options="default")
        for stream, of_stream in tables.items()
    }
    return _ShardInput(
        events, merge_by_stream(sketches), watermarks, from_text(plan) if plan else None
    )

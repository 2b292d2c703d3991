"""Streaming DataFrames: the stateful step, called for each shard of a micro-batch.

A shard is an operator chain of one operator, advanced as those of `shedlight run` are
(`step/advance.py`); its state is saved as theirs is, with the fingerprints of its patterns. Its
watermark is its own: the latest time that it has seen, less the lateness. With `idle`, once it
has had no event for so long its watermark is at the latest time seen, and from there on goes
with the clock as long as something waits for it.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.find.chains import EVENTS
from shedlight.engines.spark.find.copies import number_copies
from shedlight.engines.spark.find.events import COPY
from shedlight.engines.spark.find.result import to_result
from shedlight.engines.spark.find.shard_rows import Batches, unpack_events
from shedlight.engines.spark.step import emit
from shedlight.engines.spark.step.advance import advance
from shedlight.engines.spark.step.chain import (
    ChainDefinition,
    ChainRuntime,
    ChainState,
    build_chain,
    new_chain_state,
)
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.support.worker import prepare_worker
from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.matching.operators.reorder import NEVER
from shedlight.matching.operators.step import count_partial_matches

STATE = "state binary, latest bigint, arrived bigint, shards int"
"""A saved state, the latest time seen, when an event came last, in milliseconds of the clock,
and how many shards there are."""

Frames = Iterator[pd.DataFrame]


@dataclass(frozen=True, slots=True, eq=False)
class ShardStep:
    """What is done in each shard."""

    chains: tuple[ChainDefinition, ...]  # one for each key that patterns have
    schema: pa.Schema  # the columns of events
    idle: int | None  # after how many milliseconds without an event a shard is idle


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """What a shard remembers."""

    chain: ChainState
    latest: int = NEVER  # the latest time of an event, in microseconds
    arrived: int = 0  # when an event came last, in milliseconds of the clock


def shard_function(step: ShardStep) -> Callable[[Any, Frames, GroupState], Frames]:
    """Make the function that Spark calls."""
    pickled = pickle.dumps(step)

    def match(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        prepare_worker()
        step, chains = _build_chains(pickled)
        chain = chains[int(key[0])]
        memory = _read(chain, len(chains), state)
        now = int(state.getCurrentProcessingTimeMs()) if step.idle is not None else 0
        if state.hasTimedOut:
            arrivals: dict[Stream, pa.Table] = {}
            since_idle = max(0, now - memory.arrived - (step.idle or 0))
            # an event is ready when the watermark is beyond its time
            updates = [WatermarkUpdate(EVENTS, 0, memory.latest + 1 + 1_000 * since_idle)]
        else:
            arrivals, updates = {EVENTS: _arrivals(step, memory, frames)}, []
            times = arrivals[EVENTS][EVENT_TIME].to_numpy()
            memory = _Memory(memory.chain, max(memory.latest, int(times.max())), now)
        new, result = advance(chain, memory.chain, arrivals, updates)
        state.update((to_bytes(chain, new), memory.latest, memory.arrived, len(chains)))
        if step.idle is not None and _is_waiting(chain, new):
            state.setTimeoutDuration(step.idle)
        for stream, table in result.outputs.items():
            yield _found(chain, stream, table, result.event_tables)

    return match


@cache
def _build_chains(pickled: bytes) -> tuple[ShardStep, dict[int, ChainRuntime]]:
    """Build the chain of each shard, once in a process."""
    step: ShardStep = pickle.loads(pickled)  # noqa: S301  # our own, from the driver
    chains = {}
    for definition in step.chains:
        chain = build_chain(definition)
        chains.update(dict.fromkeys(definition.spec.placement.shards, chain))
    return step, chains


def _read(chain: ChainRuntime, shards: int, state: GroupState) -> _Memory:
    if not state.exists:
        return _Memory(new_chain_state(chain))
    saved, latest, arrived, number = state.get
    if number != shards:
        raise StateError(
            f"the checkpoint is of {number} shards, now there are {shards}; keep `shards` and "
            "the keys of the patterns as they were, or start with a new checkpoint"
        )
    return _Memory(from_bytes(chain, saved), latest, arrived)


def _arrivals(step: ShardStep, memory: _Memory, frames: Frames) -> pa.Table:
    packed = [data for frame in frames for data in frame["events"]]
    events = unpack_events(packed, step.schema)
    if COPY not in step.schema.names:
        return events
    return number_copies(events, memory.chain.operators[0].reorder_buffer.buffer)


def _is_waiting(chain: ChainRuntime, state: ChainState) -> bool:
    """Say whether time alone can bring a match: of an event not ready, or of an absence."""
    operator, of_operator = chain.operators[0], state.operators[0]
    if len(of_operator.reorder_buffer.buffer):
        return True
    return any(
        matcher.automaton.absence and count_partial_matches(each).open
        for matcher, each in zip(operator.matchers, of_operator.states, strict=True)
    )


def _found(
    chain: ChainRuntime, stream: Stream, table: pa.Table, event_tables: Mapping[str, EventTable]
) -> pd.DataFrame:
    payloads = emit.encode_output(chain, stream, table, event_tables, pa.Buffer.to_pybytes)
    rows = [(stream.name, data) for _, data in payloads]
    return pd.DataFrame(rows, columns=["pattern", "events"], dtype=object)


def unpacker(schema: pa.Schema) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that gives what shards found as rows of the result."""

    def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for row in batch.to_pylist():
                yield from to_result(schema, row["pattern"], decode_table(row["events"]))

    return unpack

"""The nodes of an application as Spark runs them, micro-batch by micro-batch, without Spark.

What the JVM does, shedding by hash and sending events to shards, is done here by Python; the
stateful step, its states and what travels between nodes are those of Spark.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.spark.shed.shard_plan import ShardNeeds, find_needs
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.step import keep_flags
from shedlight.engines.spark.step.advance import advance, operator_watermarks
from shedlight.engines.spark.step.chain import (
    ChainRuntime,
    ChainState,
    define_chain,
    new_chain_state,
    outside_input,
)
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.sample_counts import SampleMetrics
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.support.batch_plan import BatchPlan, from_text, to_text
from shedlight.engines.spark.support.placement import (
    ChainSpec,
    node_context,
    node_order,
    operator_chains,
)
from shedlight.engines.spark.support.sample_spec import EMITTED, FOUND
from shedlight.engines.spark.support.versions import Versions, next_versions
from shedlight.graph import Application, OperatorSpec, Stream
from shedlight.graph.application import parse_stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.hashing import hash_rows
from shedlight.matching.operators.cep_operator import CepOperator, ingest, new_operator_state
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.output.complex_events import EVENTS
from shedlight.matching.permuted import row_column
from shedlight.shedding.shares import Shares
from tests.law import BEGINNING, Kept

SHARDS = 2
_KEY = Attribute("", ("key",))


@dataclass
class _Inbox:
    """What was sent to a node and not read yet."""

    events: dict[Stream, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    updates: list[WatermarkUpdate] = field(default_factory=list)


class StepNode:
    """A node: its chains, the states of their shards, and what its driver knows."""

    def __init__(self, chains: list[ChainRuntime]) -> None:
        self.chains = chains
        self.states: dict[int, tuple[ChainRuntime, ChainState]] = {
            shard: (chain, new_chain_state(chain))
            for chain in chains
            for shard in chain.spec.placement.shards
        }
        self.needs: ShardNeeds = find_needs(chains, type_catalogs(chains))
        self.inbox = _Inbox()
        self.batch, self.after = 0, -1
        self.read: dict[str, int] = {}  # the latest timestamps in all micro-batches
        self.latest: dict[str, int] = {}  # of which the driver knows these

    def go_on(self, before: "StepNode", versions: Versions) -> None:
        """Take over from the node before the application changed."""
        for shard, (chain, _) in self.states.items():
            self.states[shard] = chain, from_bytes(chain, to_bytes(*before.states[shard]))
        self.batch, self.after = before.batch, before.after
        self.read, self.latest = before.read, before.latest
        self.inbox.updates = before.inbox.updates
        self.inbox.events |= {
            stream: tables
            for stream, tables in before.inbox.events.items()
            if not versions.has_changed(stream, versions.number - 1)
        }

    def plan(self, shares: Shares, heavy: tuple[int, ...]) -> BatchPlan:
        """Write the plan of the next micro-batch down, and read it again."""
        whole = {
            stream: shares[stream].whole_share(labels) if stream in shares else 1.0
            for stream, labels in self.needs.guarded.items()
        }
        kept = {stream: each for stream, each in shares.items() if stream in self.needs.decided}
        plan = BatchPlan(
            batch=self.batch,
            after=self.after,
            latest=self.latest,
            whole=whole,
            shares=kept,
            heavy=heavy,
        )
        return from_text(to_text(plan))


class StepWorld:
    """All nodes of an application over the events of its source."""

    def __init__(
        self, application: Application, shares: Shares, versions: Versions | None = None
    ) -> None:
        self.application = application
        context = node_context(application, shares)
        self.context = replace(context, versions=versions or Versions())
        self.nodes: dict[str, StepNode] = {}
        self._readers: dict[Stream, list[str]] = defaultdict(list)
        self.outputs: dict[Stream, list[pa.Table]] = defaultdict(list)
        self.record: list[Kept] = []
        self.heavy: tuple[int, ...] = ()  # the hashes of heavy hitters
        self.samples: dict[tuple[str, int], SampleMetrics] = {}  # by pattern and shard
        for name in node_order(application):
            self.nodes[name] = self._build(name)

    def _build(self, name: str) -> StepNode:
        chains = []
        for placement in operator_chains(self.application, name, SHARDS):
            inputs, origins = {}, {}
            for stream in placement.external:
                self._readers[stream].append(name)
                inputs[stream], origins[stream] = self._input(stream)
            chains.append(define_chain(ChainSpec(placement, inputs, origins, self.context)))
        return StepNode(chains)

    def _input(self, stream: Stream) -> tuple[tuple[StreamInput, pa.Schema], tuple[int, ...]]:
        if stream.operator is None:
            source = self.application.sources[stream.name]
            described = StreamInput(source.name, source.id, source.time, source.lateness)
            columns = {str(name): pa.int64() for name in source.schema or ()}
            return (described, pa.schema(columns)), (0,)
        node = self.nodes[self.application.operators[stream.operator].node]
        chain = next(c for c in node.chains if stream in c.spec.placement.outputs)
        shards = tuple(chain.spec.placement.shards)
        return outside_input(stream, chain.definition.outputs[stream]), shards

    def changed(self, application: Application, shares: Shares) -> "StepWorld":
        """Go on with another application, as a restart of the run does.

        Of patterns that are others than they were, nothing is left of what they found.
        """
        latest: dict[str, int] = {}
        for node in self.nodes.values():
            for name, time in node.read.items():
                latest[name] = max(time, latest.get(name, time))
        versions = next_versions(self.application, application, self.context.versions, latest)
        new = StepWorld(application, shares, versions)
        new.heavy = self.heavy
        before = versions.number - 1
        new.outputs |= {
            stream: tables
            for stream, tables in self.outputs.items()
            if not versions.has_changed(stream, before)
        }
        began = versions.began(versions.patterns, before)
        new.record = [each for each in self.record if each.stream not in began]
        new.record += [Kept(s, BEGINNING, time, 0.0) for s, time in began.items()]
        for name, node in new.nodes.items():
            if name in self.nodes:
                node.go_on(self.nodes[name], versions)
        return new

    def send(self, source: str, events: pa.Table) -> None:
        """Have events of a source arrive."""
        for name in self._readers[Stream(source)]:
            self.nodes[name].inbox.events[Stream(source)].append(events)

    def send_watermark(self, source: str, watermark: int) -> None:
        """Have the driver send the watermark of a source to all shards."""
        for name in self._readers[Stream(source)]:
            update = WatermarkUpdate(Stream(source), 0, watermark)
            self.nodes[name].inbox.updates.append(update)

    def run(self, name: str, shares: Shares) -> None:
        """Run a micro-batch of a node with all that has arrived there."""
        node = self.nodes[name]
        inbox, node.inbox = node.inbox, _Inbox()
        events = {stream: pa.concat_tables(tables) for stream, tables in inbox.events.items()}
        for stream, table in events.items():
            if stream.operator is None and len(table):
                last = max(table["time"].to_pylist())
                node.read[stream.name] = max(node.read.get(stream.name, last), last)
        plan = node.plan(shares, self.heavy)
        for shard, (chain, state) in node.states.items():
            mine = {
                stream: table
                for stream, all_of_it in events.items()
                if stream in chain.spec.placement.external
                and len(table := _kept(chain, stream, all_of_it, shares, self.heavy, shard))
            }
            updates = [u for u in inbox.updates if u.stream in chain.spec.placement.external]
            new, result = advance(chain, state, mine, updates, plan)
            node.states[shard] = chain, from_bytes(chain, to_bytes(chain, new))
            self._publish(shard, result.outputs, result.steps)
            self.samples |= {(of, shard): said for of, said in result.samples.items()}
            for operator, watermark in operator_watermarks(chain, new).items():
                self._publish_watermark(
                    operator, shard, watermark, result.steps.get(operator), result.idle
                )
        node.batch += 1

    def tell_driver(self, name: str) -> None:
        """Have the driver of a node know of all micro-batches so far."""
        node = self.nodes[name]
        node.after, node.latest = node.batch - 1, dict(node.read)

    def _publish(
        self, shard: int, outputs: Mapping[Stream, pa.Table], steps: Mapping[str, str]
    ) -> None:
        for stream, table in outputs.items():
            self.outputs[stream].append(emitted(table))
            for name in self._readers.get(stream, ()):
                without = [c for c in table.column_names if c != EVENTS]
                self.nodes[name].inbox.events[stream].append(table.select(without))
        for operator, text in steps.items():
            self.record += kept_rows(operator, shard, text)

    def _publish_watermark(
        self, operator: str, shard: int, watermark: int, steps: str | None, idle: frozenset[str]
    ) -> None:
        for stream in self.application.operators[operator].outputs:
            for name in self._readers.get(stream, ()):
                update = WatermarkUpdate(stream, shard, watermark, operator in idle, steps)
                self.nodes[name].inbox.updates.append(update)

    def shard_of(self, name: str, key: int) -> int:
        """Say to which shard of a node a key goes, as the JVM does."""
        shards = self.nodes[name].chains[0].spec.placement.shards
        hashed = hash_rows([row_column(pa.table({"key": [key]}), _KEY)], 1)[0]
        return shards[0] + int(hashed) % len(shards)


def _kept(
    chain: ChainRuntime,
    stream: Stream,
    events: pa.Table,
    shares: Shares,
    heavy: Sequence[int],
    shard: int,
) -> pa.Table:
    """Shed and route as the JVM does: the events that a shard gets, with their keep flags."""
    ids = chain.spec.inputs[stream][0].ids
    events = events.sort_by([(name, "ascending") for name in ("time", *ids)])
    wanted = np.zeros(len(events), np.bool_)
    flags: dict[str, pa.Array] = {}
    for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
        if stream not in spec.inputs:
            continue
        if not any(each in chain.spec.context.shares for each in spec.outputs):
            wanted[:] = True
            continue
        number = spec.inputs.index(stream)
        others = frozenset(range(len(spec.inputs)))
        fresh = new_operator_state(operator)
        _, ready, _ = ingest(operator, fresh, {number: events}, others, unique=True)
        assert len(ready.time) == len(events)
        words = _words(chain, spec, operator, ready, shares, heavy)
        windows = [pattern.within for pattern in spec.patterns.values()]
        if any(w is not None and w.unit is WindowUnit.EVENTS for w in windows):
            wanted[:] = True
        number = len(keep_flags.flag_streams(chain.spec, spec))
        (name,), (data_type,) = (
            keep_flags.flag_names(spec.name, number),
            keep_flags.flag_types(number),
        )
        flags[name] = pa.array(words).cast(data_type)
        wanted |= words != 0
    for name, column in flags.items():
        events = events.append_column(name, column)
    shards = chain.spec.placement.shards
    if len(shards) > 1:
        keys = hash_rows([row_column(events, a) for a in chain.spec.placement.key], len(events))
        wanted &= shards[0] + keys % len(shards) == shard
    return events.filter(pa.array(wanted))


def _words(
    chain: ChainRuntime,
    spec: OperatorSpec,
    operator: CepOperator,
    ready: ReadyBatch,
    shares: Shares,
    heavy: Sequence[int],
) -> np.ndarray:
    """Say which patterns keep each event, and which the plan alone keeps it for."""
    words, sample = np.zeros(len(ready.time), np.int64), chain.spec.context.sample
    for bit, stream in enumerate(keep_flags.flag_streams(chain.spec, spec)):
        mask = keep_flags._masks_by_hash(  # noqa: SLF001  # what the JVM is to do
            chain.spec, stream, operator, ready, keep_flags.HashPlan(shares)
        )
        if bit < len(spec.outputs) and stream in sample.groups:
            keys = ready.keys[spec.patterns[stream.name].partition_by][0]
            mask = mask | sample.choose(keys, np.array(heavy, np.int64))
        words |= mask.astype(np.int64) << bit
    return words


def emitted(table: pa.Table) -> pa.Table:
    """Leave out what only shadows found, as sinks do."""
    if FOUND not in table.column_names:
        return table
    is_emitted = pc.not_equal(pc.bit_wise_and(table[FOUND], EMITTED), 0)
    return table.filter(is_emitted).drop_columns([FOUND])


def kept_rows(operator: str, shard: int, text: str) -> list[Kept]:
    """Read what came with a watermark of an operator about its own patterns."""
    streams = {parse_stream(name): rows for name, rows in json.loads(text).items()}
    return [
        Kept(stream, since, until, share, shard)
        for stream, rows in streams.items()
        if stream.operator == operator
        for since, until, share in rows
    ]


def slices(rng: random.Random, events: pa.Table, number: int) -> Iterator[pa.Table]:
    """Cut events into micro-batches."""
    cuts = sorted(rng.randrange(len(events) + 1) for _ in range(number - 1))
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        yield events.slice(start, end - start)

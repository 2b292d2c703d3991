"""An application deployed on Spark: the query of each node, each after those that it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.engines.spark.outbox.channel_records import CHANNEL_DEFAULTS, marks_of
from shedlight.engines.spark.outbox.delivery import LATE, SINK, Delivery
from shedlight.engines.spark.outbox.outbox import (
    events_of,
    late_of,
    late_output,
    packed_of,
    read_outbox,
    watermarks_of,
)
from shedlight.engines.spark.outbox.writers import Writer, with_writers
from shedlight.engines.spark.run.batch_time import batch_time
from shedlight.engines.spark.run.channels import find_channels, keep_senders
from shedlight.engines.spark.run.fingerprint import (
    CheckpointRecord,
    application_digest,
    check_fingerprint,
    fingerprint_lines,
    recorded_sharding,
)
from shedlight.engines.spark.run.neighbours import (
    Neighbour,
    announce_node,
    keep_neighbours,
    wait_for_neighbours,
)
from shedlight.engines.spark.run.node_query import (
    InputStream,
    NodeQuery,
    build_node_chain,
    node_query,
)
from shedlight.engines.spark.run.outbox_readers import operators_reading, outbox_readers
from shedlight.engines.spark.run.sharding import choose_sharding
from shedlight.engines.spark.session.master import count_cores
from shedlight.engines.spark.session.pyspark_version import check_pyspark
from shedlight.engines.spark.session.workers import check_workers
from shedlight.engines.spark.source import reader
from shedlight.engines.spark.source.given_frames import number_streams, with_frames
from shedlight.engines.spark.source.skipped import keep_skipped, skip_stored, skipped_before
from shedlight.engines.spark.source.starting_offsets import (
    STARTING_OFFSETS,
    keep_starting_offsets,
    starting_offsets,
)
from shedlight.engines.spark.source.watermark_files import WatermarkFiles
from shedlight.engines.spark.step.chain import outside_input
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.checkpoint import check_logs
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.kafka_admin import check_kafka
from shedlight.engines.spark.support.placement import OperatorChain, node_context
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.engines.spark.support.sample_spec import EMITTED, FOUND
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.graph import Application, Source, Stream, with_schemas
from shedlight.graph.kafka import KAFKA, TOPIC
from shedlight.graph.part import part_of
from shedlight.graph.strata import find_stratified
from shedlight.graph.topology import selected_key
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.compile.matcher import BEGAN
from shedlight.matching.output.complex_events import ID
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, eq=False)
class UserStreams:
    """What the user reads and writes himself: DataFrames and writers, by source and sink."""

    sources: Mapping[str, DataFrame] = field(default_factory=dict)
    sinks: Mapping[str, Writer] = field(default_factory=dict)

    def of(self, application: Application) -> "UserStreams":
        """Give those for which an application has names."""
        sources = {n: frame for n, frame in self.sources.items() if n in application.sources}
        sinks = {n: writer for n, writer in self.sinks.items() if n in application.sinks}
        return UserStreams(sources, sinks)


class Deployment:
    """The queries of an application.

    What patterns keep at first is in `shares`, and in `plan` if the first plan is another; a
    pattern that is not in `shares` never sheds, one that is not in `plan` keeps everything. A
    checkpoint that begins has as many `shards` as somebody says, or else as the session has
    cores; one that goes on has those that it had (`divide.py` changes them).
    If it `starts_small`, sources let little into the first micro-batches of nodes. A checkpoint
    that begins leaves out what arrived before `skip_until`, in seconds since 1970. One whose
    application has changed has another `record`, once it is asked to `begin`. With `strata`,
    keys may be shed in them.

    Attributes:
        application: With the columns of its sources.
        chains: The operator chains of each node, each node after those that it reads.
        context: What nodes have to know of each other.
        readers: Who reads the outbox of each node.
        frames: The streams that DataFrames of the user read, by number.
        sharding: Into how many shards keys are divided.
        record: What the checkpoint says of the application.
        neighbours: The nodes that these read, and that run elsewhere.
        digest: The fingerprint that nodes and the controller have in common.
        own: The application with the sources and sinks of these nodes alone.
    """

    def __init__(  # noqa: PLR0913  # what to run, where, and what is kept
        self,
        application: Application,
        spark: SparkSession,
        checkpoint: StoredPath,
        shares: Shares,
        shards: int | None,
        plan: Shares | None = None,
        *,
        given: UserStreams | None = None,
        starts_small: bool = False,
        skip_until: float | None = None,
        node: str | None = None,
        record: CheckpointRecord | None = None,
        strata: bool = False,
    ) -> None:
        check_pyspark()
        check_workers(spark)
        self._given = given or UserStreams()
        application = with_frames(application, self._given.sources)
        application = with_writers(application, self._given.sinks)
        self.frames = number_streams(self._given.sources)
        self._spark, self.paths = spark, CheckpointPaths(checkpoint)
        self.digest = application_digest(application, shares)
        own = part_of(application, node)
        check_kafka(spark, own)
        self._skipped_before = skipped_before(
            self.paths.skipped_before, skip_until, has_begun=self.paths.fingerprint.exists()
        )
        self._begin = self._find_starting_offsets(own)
        self._frames = dict(self._given.sources) | {
            name: self._read_source(source, starts_small=starts_small)
            for name, source in own.sources.items()
            if name not in self._given.sources
        }
        data_types = {
            name: reader.find_data_types(frame) for name, frame in self._frames.items()
        }
        self.application = with_schemas(application, data_types)
        self.own = part_of(self.application, node)
        self.sharding = choose_sharding(
            recorded_sharding(self.paths.fingerprint), shards, count_cores(spark)
        )
        self._find_channels(application, node)
        lines = fingerprint_lines(self.application, shares)
        self.record = record or check_fingerprint(
            self.paths.fingerprint, lines, self.sharding, self.application
        )
        self._keep_beginning()
        self.readers = outbox_readers(self.own, self.chains, self.paths, self.frames)
        self.context = replace(
            node_context(self.application, shares), versions=self.record.versions
        )
        self._strata = find_stratified(self.application) if strata else {}
        self.nodes: dict[str, NodeQuery] = {}
        for name in self.chains:
            self.nodes[name] = self._build_query(name)
        self._shares, self._plan = shares, plan
        if record is None:
            self.begin()
        self._announce(node)

    def _announce(self, node: str | None) -> None:
        """Say to nodes that read this one, and run elsewhere, what it finds and where."""
        if node is not None and node in self.channels:
            known = Neighbour(self.channels[node], self.chains[node], self.nodes[node].outputs)
            shards = self.sharding.shards
            announce_node(self._spark, self.application, node, known, shards)

    def _find_channels(self, application: Application, node: str | None) -> None:
        """Find the operator chains and channels of nodes here, and of those that they read."""
        chains = self.sharding.chains(self.application)
        self.chains = chains if node is None else {node: chains[node]}
        self.channels = find_channels(
            self._spark, application, self.chains, self.digest, self.paths
        )
        self.neighbours = wait_for_neighbours(
            self._spark, application, self.digest, self._read_elsewhere(), self.paths
        )

    def _keep_beginning(self) -> None:
        """Write down what a checkpoint keeps from its beginning on."""
        keep_senders(self.channels, self.paths)
        keep_neighbours(self.neighbours, self.paths)
        keep_skipped(self.paths.skipped_before, self._skipped_before)
        for name, offsets in self._begin.items():
            keep_starting_offsets(self.paths.starting_offsets(name), offsets)

    def _read_elsewhere(self) -> set[str]:
        """Name the nodes that are read, and run elsewhere."""
        read = (s for chains in self.chains.values() for c in chains for s in c.external)
        return {self._node_of(s) for s in read if s.operator} - self.chains.keys()

    def begin(self) -> None:
        """Have nodes have a plan of this version of the application."""
        version, is_controlled = self.record.versions.number, self._plan is not None
        for query in self.nodes.values():
            first = query.own_shares(self._shares if self._plan is None else self._plan)
            plans, active = query.plans, query.plans.active
            if active is not None and active.version != version:
                kept = self._carried(query, first, active) if is_controlled else first
                pressure = active.pressure if is_controlled else 1.0
                plan = query.publish(kept)
                active = replace(active, plan=plan, pressure=pressure, version=version)
            elif active is None or (not is_controlled and plans.shares(active) != first):
                number = query.publish(first)
                active = replace(active or ActivePlan(number), plan=number, pressure=1.0)
            plans.activate(replace(active, awaited=is_controlled, version=version))

    def _carried(self, query: NodeQuery, first: Shares, active: ActivePlan) -> Shares:
        """Have patterns that are as they were keep what they kept."""
        before = query.plans.shares(replace(active, pressure=1.0))
        changed = self.context.versions.began(first, active.version)
        return {s: first[s] if s in changed else before.get(s, first[s]) for s in first}

    def _read_source(self, source: Source, *, starts_small: bool = False) -> DataFrame:
        begun = _begin_at(source, self._begin.get(source.name))
        return reader.read_source(self._spark, begun, streaming=True, starts_small=starts_small)

    def _find_starting_offsets(self, application: Application) -> dict[str, str]:
        found = {
            name: starting_offsets(self._spark, source, self.paths.starting_offsets(name))
            for name, source in application.sources.items()
        }
        return {name: offsets for name, offsets in found.items() if offsets is not None}

    def _build_query(self, node: str) -> NodeQuery:
        self.paths.outbox(node).mkdir(parents=True, exist_ok=True)
        chains = self.chains[node]
        inputs = {s: self._read_input(node, s) for chain in chains for s in chain.external}
        earlier = self.sharding.earlier(self.application)
        built = tuple(
            build_node_chain(chain, inputs, self.context, before)
            for chain, before in zip(chains, earlier[node], strict=True)
        )
        return node_query(
            self._spark,
            built,
            inputs,
            self.context,
            self.paths.node_folders(node),
            self._strata,
        )

    def _read_outbox_of(self, node: str) -> DataFrame:
        """Read what a node has for others, from its channel if it has one."""
        if node in self.neighbours:
            return self.neighbours[node].channel.read(self._spark)
        if node in self.channels:
            return self.channels[node].read(self._spark)
        return self._read_outbox(node, streaming=True)

    def _read_input(self, node: str, stream: Stream) -> InputStream:
        if stream.operator is None:
            source = self.application.sources[stream.name]
            now = batch_time(self._spark, self.paths.query(node))
            described, events = reader.prepare_source(source, self._frames[stream.name], now)
            events = skip_stored(events, self._skipped_before)
            watermarks = self.watermark_files(node).read(self._spark, stream.name)
            return InputStream(described, events, watermarks, (0,))
        written_by = self._node_of(stream)
        outbox = self._read_outbox_of(written_by)
        outputs, chains = self._known_of(written_by)
        described, columns = outside_input(stream, outputs[stream])
        named = self.context.versions.in_outbox(stream)
        events = events_of(outbox, named, columns)
        marks = watermarks_of if self.application.channels is None else marks_of
        watermarks = marks(outbox, stream.operator)
        origins = next(
            tuple(chain.shards)
            for chain in chains
            if any(spec.name == stream.operator for spec in chain.operators)
        )
        return InputStream(described, events, watermarks, origins, packed_of(outbox, named))

    def _known_of(
        self, node: str
    ) -> tuple[Mapping[Stream, pa.Schema], tuple[OperatorChain, ...]]:
        """Give the columns of what a node finds, and its operator chains."""
        if node in self.neighbours:
            return self.neighbours[node].outputs, self.neighbours[node].chains
        return self.nodes[node].outputs, self.chains[node]

    def watermark_files(self, node: str) -> WatermarkFiles:
        """Find the watermark files of a node."""
        return WatermarkFiles(self.paths.watermarks(node))

    def _node_of(self, stream: Stream) -> str:
        return self.application.operators[str(stream.operator)].node

    def _read_outbox(self, node: str, *, streaming: bool) -> DataFrame:
        return read_outbox(self._spark, str(self.paths.outbox(node)), streaming=streaming)

    def events(self, stream: Stream, *, streaming: bool = False) -> DataFrame:
        """Give the complex events of a pattern, or its timed-out partial matches."""
        node = self._node_of(stream)
        outbox = self._read_outbox(node, streaming=streaming)
        named = self.context.versions.in_outbox(stream)
        events = events_of(outbox, named, self.nodes[node].outputs[stream])
        if FOUND in events.columns:  # what only shadows found is for other operators
            found = f"coalesce({quote_name(FOUND)}, {EMITTED})"  # or nobody asked then
            events = events.where(f"{found} & {EMITTED} != 0")
        return events.drop(BEGAN, FOUND)

    def late_events(self, source: str) -> DataFrame:
        """Give the late events of a source that has a side output for them, as a stream."""
        _, events = reader.prepare_source(
            self.application.sources[source], self._frames[source]
        )
        names = [name for name in events.columns if not name.startswith("#")]
        late = [
            late_of(
                self._read_outbox(spec.node, streaming=True),
                spec.name,
                spec.inputs.index(Stream(source)),
                self.nodes[spec.node].outputs[late_output(spec.name)],
                names,
            )
            for spec in operators_reading(self.application, source)
            if spec.node in self.nodes
        ]
        return reduce(DataFrame.unionByName, late)

    def channel_writer(self, node: str) -> DataStreamWriter:
        """Write the query that writes the channel of a node."""
        channel = self.channels[node]
        records = channel.records(self._read_outbox(node, streaming=True))
        folder = self.paths.channel(node)
        check_logs(folder)
        writer = records.writeStream.format(KAFKA).queryName(f"shedlight channel {node}")
        fixed = {TOPIC: channel.topic, "checkpointLocation": str(folder)}
        return writer.options(**{**CHANNEL_DEFAULTS, **channel.options, **fixed})

    def delivery(self, name: str) -> Delivery:
        """Find what a delivery delivers, and where to; `delivery_names` has the names.

        No name of a sink has a dot, so that side outputs have folders of their own.
        """
        output, _, of = name.partition(" ")
        if output == SINK:
            sink = self.application.sinks[of]
            events = self.events(sink.stream, streaming=True)
            if of in self.record.sinks:  # what was found before it came is not for it
                since = round(self.record.sinks[of] * 1e6)
                events = events.where(F.col(quote_name(ARRIVAL)) >= since)
            events = events.drop(ARRIVAL)
            key = selected_key(self.application.pattern(sink.input)) or (ID,)
            folder, write = self.paths.delivery(of), self._given.sinks.get(of)
            return Delivery(name, sink, events, folder, key, write)
        source = self.application.sources[of]
        if output == LATE:
            events = self.late_events(of)
        else:  # of which there is no doubling
            given = self._given.sources.get(of)
            records = self._read_source(source) if given is None else given
            events = reader.malformed_records(source, records)
        folder, target = self.paths.delivery(f"{of}.{output}"), source.side_outputs[output]
        logs = _own_logs(self.frames[of]) if output != LATE and of in self.frames else None
        return Delivery(name, target, events, folder, logs=logs)


def _own_logs(streams: Sequence[int]) -> tuple[int, ...]:
    """Number the logs of a query that reads streams of a DataFrame alone."""
    distinct = list(dict.fromkeys(streams))
    return tuple(map(distinct.index, streams))


def _begin_at(source: Source, offsets: str | None) -> Source:
    if offsets is None:
        return source
    others = {n: v for n, v in source.options.items() if n.lower() != STARTING_OFFSETS.lower()}
    return replace(source, options=others | {STARTING_OFFSETS: offsets})

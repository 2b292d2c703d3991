"""The queries of all nodes of an application, each after those that it reads.

checkpoint/
    application      what it is of
    <node>/query     where Spark remembers what was read and where matching stands
    <node>/outbox    what the node's operators say
    <node>/pieces    what of that is large
    <node>/marks     what the driver tells its shards
    <node>/plan      what patterns keep, and what each micro-batch used
    deliveries       where Spark remembers what was delivered to sinks
    lock             which process works with it
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.outbox.outbox import (
    events_of,
    late_of,
    late_output,
    packed_of,
    read_outbox,
    watermarks_of,
)
from shedlight.engines.spark.run.fingerprint import check_fingerprint, fingerprint_lines
from shedlight.engines.spark.run.node_query import (
    InputStream,
    NodeContext,
    NodeQuery,
    build_node_chain,
    node_query,
)
from shedlight.engines.spark.shed.keep_sql import plan_tables
from shedlight.engines.spark.source.reader import (
    data_types_of,
    malformed_records,
    prepared_source,
    read_source,
)
from shedlight.engines.spark.source.watermark_files import WatermarkFiles
from shedlight.engines.spark.step.chain import outside_input
from shedlight.engines.spark.support.checkpoint import LogReader
from shedlight.engines.spark.support.placement import node_order, operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.errors import InputError
from shedlight.graph import Application, OperatorSpec, Stream, with_schemas
from shedlight.graph.keys import longest_windows
from shedlight.shedding.shares import Shares


class Deployment:
    """The queries of an application.

    Args:
        application: The application.
        spark: The session; its time zone must be UTC.
        checkpoint: A folder that belongs to this run of this application.
        shares: What patterns keep at first; a pattern that is not in it never sheds.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided.
        plan: The first plan, if it is another; a pattern that is not in it keeps everything.

    Attributes:
        application: With the columns of its sources.
        nodes: The query of each node, each after those that it reads.

    Raises:
        InputError: A source cannot be read, or has no time or id.
        ApplicationError: A pattern does not fit the columns, or nodes feed each other.
        StateError: The checkpoint is of another application, or damaged.
    """

    def __init__(
        self,
        application: Application,
        spark: SparkSession,
        checkpoint: Path,
        shares: Shares,
        shards: int,
        plan: Shares | None = None,
    ) -> None:
        _check_session(spark)
        self._spark, self._checkpoint = spark, checkpoint
        raw = {
            name: read_source(spark, source, streaming=True)
            for name, source in application.sources.items()
        }
        kinds = {name: data_types_of(frame) for name, frame in raw.items()}
        self.application = with_schemas(application, kinds)
        lines = fingerprint_lines(self.application, shards, shares)
        check_fingerprint(checkpoint / "application", lines)
        self._setting = node_context(self.application, shares)
        self._first, self._is_fixed = shares if plan is None else plan, plan is None
        self._shards: dict[str, tuple[int, ...]] = {}
        self._raw = raw
        self.nodes: dict[str, NodeQuery] = {}
        for node in node_order(self.application):
            self._build(node, shards)

    def _build(self, node: str, shards: int) -> None:
        chains = operator_chains(self.application, node, shards)
        self.outbox(node).mkdir(parents=True, exist_ok=True)
        channels = {
            s: self._channel(node, s) for placement in chains for s in placement.external
        }
        chain = tuple(
            build_node_chain(placement, channels, self._setting) for placement in chains
        )
        plans = self.plans(node)
        built = node_query(
            self._spark, chain, channels, self._setting, plans.folder, self.pieces(node)
        )
        self.nodes[node] = built
        for placement in chains:
            for spec in placement.operators:
                self._shards[spec.name] = tuple(placement.shards)
        now = plans.active
        first = self._at(node, self._first)
        if now is None or (self._is_fixed and plans.shares(now) != first):
            plans.activate(ActivePlan(self.publish(node, first)))

    def publish(self, node: str, shares: Shares) -> int:
        """Write down what the patterns of a node keep; give the number of the plan."""
        tables = {}
        for chain in self.nodes[node].chains:
            tables.update(plan_tables(chain, shares))
        return self.plans(node).publish(self._at(node, shares), tables)

    def _at(self, node: str, shares: Shares) -> Shares:
        specs = self.application.operators.values()
        return {s: shares[s] for o in specs if o.node == node for s in o.outputs if s in shares}

    def plans(self, node: str) -> PlanStore:
        """Find the plans of a node."""
        return PlanStore(self._checkpoint / node / "plan")

    def marks(self, node: str) -> WatermarkFiles:
        """Find the marks of a node."""
        return WatermarkFiles(self._checkpoint / node / "marks")

    def outbox(self, node: str) -> Path:
        """Find the outbox of a node."""
        return self._checkpoint / node / "outbox"

    def pieces(self, node: str) -> Path:
        """Find the folder of what is large in the outbox of a node."""
        return self._checkpoint / node / "pieces"

    def query_folder(self, node: str) -> Path:
        """Find the folder where Spark remembers where the query of a node stands."""
        return self._checkpoint / node / "query"

    def delivery_folder(self, name: str) -> Path:
        """Find the folder where Spark remembers what was delivered to a sink or beside it."""
        return self._checkpoint / "deliveries" / name

    def sources_of(self, node: str) -> list[str]:
        """List the sources that a node reads."""
        read = {
            stream.name: None
            for chain in self.nodes[node].chains
            for stream in chain.spec.placement.external
            if stream.operator is None
        }
        return list(read)

    def logs_of(self, node: str) -> list[int]:
        """Number Spark's logs of what a node reads, in the order of the query.

        A source has one for its events and one for its marks; of an outbox both are read
        from the same files, and logged once.
        """
        logs: list[int] = []
        for chain in self.nodes[node].chains:
            for stream in chain.spec.placement.external:
                first = logs[-1] + 1 if logs else 0
                logs += [first, first + (stream.operator is None)]
        return logs

    def readers(self, node: str) -> list[LogReader]:
        """Find all that read the outbox of a node."""
        return [one for of, one in (*self._reading_nodes(), *self._delivered()) if of == node]

    def _reading_nodes(self) -> Iterator[tuple[str, LogReader]]:
        for name, query in self.nodes.items():
            read = [
                stream for chain in query.chains for stream in chain.spec.placement.external
            ]
            for number, (stream, log) in enumerate(
                zip(read, self.logs_of(name)[::2], strict=True)
            ):
                if stream.operator:
                    yield (
                        self._node(stream),
                        LogReader(self.query_folder(name), 2 * number, log),
                    )

    def _delivered(self) -> Iterator[tuple[str, LogReader]]:
        for name, sink in self.application.sinks.items():
            yield self._node(sink.takes), LogReader(self.delivery_folder(name), 0, 0)
        for name, source in self.application.sources.items():
            for log, spec in enumerate(self._reading(name) if source.late else ()):
                yield spec.node, LogReader(self.delivery_folder(f"{name}.late"), log, log)

    def _reading(self, source: str) -> list[OperatorSpec]:
        specs = self.application.operators.values()
        return [spec for spec in specs if Stream(source) in spec.inputs]

    def _channel(self, node: str, stream: Stream) -> InputStream:
        if stream.operator is None:
            source = self.application.sources[stream.name]
            one, events = prepared_source(source, self._raw[stream.name])
            marks = self.marks(node).read(self._spark, stream.name)
            return InputStream(one, events, marks, (0,))
        outbox = self._read(self._node(stream), streaming=True)
        one, columns = outside_input(stream, self._columns(stream))
        events = events_of(outbox, stream, columns)
        told = watermarks_of(outbox, stream.operator)
        shards = self._shards[stream.operator]
        return InputStream(one, events, told, shards, packed_of(outbox, stream))

    def _node(self, stream: Stream) -> str:
        return self.application.operators[str(stream.operator)].node

    def _read(self, node: str, *, streaming: bool) -> DataFrame:
        return read_outbox(self._spark, str(self.outbox(node)), streaming=streaming)

    def _columns(self, output: Stream) -> pa.Schema:
        return self.nodes[self._node(output)].outputs[output]

    def events(self, stream: Stream, *, streaming: bool = False) -> DataFrame:
        """Give the complex events of a stream, or what timed out of it."""
        outbox = self._read(self._node(stream), streaming=streaming)
        return events_of(outbox, stream, self._columns(stream))

    def late(self, source: str, *, streaming: bool = False) -> DataFrame:
        """Give the late events of a source that has a place for them, at all operators."""
        stream = Stream(source)
        _, events = prepared_source(self.application.sources[source], self._raw[source])
        names = [name for name in events.columns if not name.startswith("#")]
        found = [
            late_of(
                self._read(spec.node, streaming=streaming),
                spec.name,
                spec.inputs.index(stream),
                self._columns(late_output(spec.name)),
                names,
            )
            for spec in self._reading(source)
        ]
        return reduce(DataFrame.unionByName, found)

    def malformed_records(self, source: str) -> DataFrame:
        """Give the records of a source that are no events, as they come."""
        return malformed_records(self.application.sources[source], self._raw[source])


def _check_session(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in {"UTC", "Etc/UTC", "GMT"}:
        raise InputError(
            f"the time zone of the Spark session is {zone!r}; "
            "set spark.sql.session.timeZone to UTC"
        )


def node_context(application: Application, shares: Shares) -> NodeContext:
    """Find what all nodes have to know of each other."""
    sunk = {sink.takes for sink in application.sinks.values()}
    crossing = {
        stream
        for spec in application.operators.values()
        for stream in spec.inputs
        if stream.operator and application.operators[stream.operator].node != spec.node
    }
    return NodeContext(
        shares,
        longest_windows(application),
        frozenset(sunk),
        frozenset(sunk | crossing),
        frozenset(str(stream.operator) for stream in crossing),
        frozenset(
            spec.name
            for spec in application.operators.values()
            for stream in spec.inputs
            if stream.operator is None and application.sources[stream.name].late
        ),
        application.timed_out,
    )


def sink_frames(deployment: Deployment) -> Mapping[str, DataFrame]:
    """Give what is in each sink so far."""
    sinks = deployment.application.sinks
    return {name: deployment.events(sink.takes) for name, sink in sinks.items()}

"""An application that runs on Spark until it is stopped.

Every node is a query, every sink a delivery from the outbox of the node before it. One thread
reads the progress of all queries, gives it to the control loop, sends watermarks of sources to
shards, and restarts a query that failed, after a delay that grows.

It asks each query for its progress as text. A listener of Spark would be called instead, but
PySpark takes the progress apart by calls into the JVM, one for each number: measured a fifth of
a core.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.control.controller import ControlSettings, Decision
from shedlight.engines.spark.control.activity import LoopTiming
from shedlight.engines.spark.control.kafka_links import NodeLink
from shedlight.engines.spark.control.latest_times import with_latest
from shedlight.engines.spark.control.loop import ControlLoop, micro_batch_settings
from shedlight.engines.spark.control.micro_batch import MicroBatchReport, read_report
from shedlight.engines.spark.control.override_store import OverrideOutcome, OverrideWatcher
from shedlight.engines.spark.control.remote_loop import RemoteLoop
from shedlight.engines.spark.control.sample_tracker import build_tracker, follow_sample
from shedlight.engines.spark.control.strata_tracker import KeyTracker
from shedlight.engines.spark.outbox.delivery import delivery_names
from shedlight.engines.spark.outbox.retention import Retention
from shedlight.engines.spark.outbox.writers import Writer
from shedlight.engines.spark.run.catch_up import CatchUp
from shedlight.engines.spark.run.change import change, check_changed
from shedlight.engines.spark.run.deployment import Deployment, UserStreams
from shedlight.engines.spark.run.divide import deploy
from shedlight.engines.spark.run.fingerprint import (
    ApplicationChangedError,
    CheckpointRecord,
    recorded_shares,
)
from shedlight.engines.spark.run.open_checkpoint import open_checkpoint
from shedlight.engines.spark.run.outbox_readers import source_names
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.run.supervisor import POLL_INTERVAL_S, Supervisor
from shedlight.engines.spark.run.warm_up import warm_up
from shedlight.engines.spark.session.master import count_cores
from shedlight.engines.spark.source.idleness import IdlenessTracker
from shedlight.engines.spark.source.read_limits import can_double, double_limits
from shedlight.engines.spark.source.schema_check import FileColumns
from shedlight.engines.spark.source.watermark_files import (
    SourceWatermark,
    WatermarkSender,
    end_of,
)
from shedlight.engines.spark.support.batch_record import SEGMENT
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.engines.spark.support.run_clock import RunClock
from shedlight.engines.spark.support.spark_errors import translating_spark_errors
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.engines.spark.support.tolerance import FailureLog
from shedlight.graph import Application, OnStart
from shedlight.graph.part import alone
from shedlight.shedding.shares import Shares, sheddable, sheddable_by_pressure

_TRIED_AGAIN = "the run goes on without, and the next micro-batch tries again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run an application until it is stopped.

    Attributes:
        shares: What patterns keep, for good; None: the controller decides.
        settings: How to control; None: for micro-batches, with our rule.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided; None:
            as many as the session has cores when the checkpoint begins. A checkpoint with
            another number is divided anew.
        trigger: How often a query looks for new events, in seconds.
        delivery_interval: How often deliveries look for complex events, in seconds; a sink of
            files has a file for each time that there were some.
        watermark_interval: How often watermarks of sources are sent to shards, in seconds.
        idle_timeout: After how long an idle source holds nobody back, in seconds, where the
            application does not say.
        restarts: How often a query is restarted, if it does not run for long in between.
        restart_delay: How long to wait before that, in seconds; twice as long each time.
        retention: For how long outboxes are kept once everybody has read them, in seconds; the
            longer, the more it costs to look for what is new in them.
        record_retention: For how long it stays on record which plan a micro-batch used, in
            seconds: so long it can be said of an event whether it was shed, and why.
        on_start: What becomes of events that were stored before it began: they are shed as
            bounds ask for, or all matched before bounds count, or skipped if the checkpoint is
            new.
        strata: Whether keys that are not alike are planned and shed apart, by the controller;
            not where a node runs alone.
    """

    shares: Shares | None = None
    settings: ControlSettings | None = None
    shards: int | None = None
    trigger: float = 0.2
    delivery_interval: float = 0.1
    watermark_interval: float = 2.0
    idle_timeout: float = 10.0
    restarts: int = 5
    restart_delay: float = 1.0
    retention: float = 120.0
    record_retention: float = 7 * 86400.0
    on_start: OnStart = OnStart.SHED
    strata: bool = False


@dataclass(frozen=True, slots=True)
class RunListener:
    """Callbacks for micro-batches, decisions and overrides.

    Attributes:
        on_micro_batch: Called after every micro-batch of a node.
        on_decision: Called with every decision of the controller.
        on_override: Called with every override of bounds or weights, applied or rejected.
    """

    on_micro_batch: Callable[[MicroBatchReport], None] | None = None
    on_decision: Callable[[Decision], None] | None = None
    on_override: Callable[[OverrideOutcome], None] | None = None


class Live:
    """A running application; use it in a `with`, or call `start` and `stop`.

    Args:
        application: The application.
        spark: The session, in any time zone.
        checkpoint: A folder that belongs to this run of this application, or its address on a
            file system of Hadoop, such as hdfs://host:8020/folder.
        sources: Streaming DataFrames to read, by the name of the source, in place of what the
            application says.
        sinks: Functions from a DataFrame to a DataStreamWriter, by the name of the sink, to
            write with in place of what the application says. Delivery is at least once: what
            is delivered again after a failure has the same ids.
        options: How to run; None: as `run` of the application says.
        listener: What to call when something happens.
        locked: Whether the caller has the lock of the checkpoint, and keeps it.
        node: The only node to run; its controller and the others are elsewhere. None: all.

    Raises:
        InputError: A source cannot be read or the checkpoint not be reached, or what was given
            for a source or a sink is not right.
        ApplicationError: A pattern does not fit the columns, or nodes feed each other.
        StateError: The checkpoint is of another application, or damaged.

    Example:
        with Live(application, spark, checkpoint="state") as running:
            running.wait(600)
    """

    def __init__(  # noqa: PLR0913  # as many as there are choices
        self,
        application: Application,
        spark: SparkSession,
        *,
        checkpoint: str,
        sources: Mapping[str, DataFrame] | None = None,
        sinks: Mapping[str, Writer] | None = None,
        options: Options | None = None,
        listener: RunListener | None = None,
        locked: bool = False,
        node: str | None = None,
    ) -> None:
        application = alone(application, node)
        self._options = options or Options(**application.run.given)
        self._listener = listener or RunListener()
        self._spark, self._clock = spark, RunClock()
        shares, on_start = self._options.shares, self._options.on_start
        with ExitStack() as held:
            opened = held.enter_context(open_checkpoint(spark, checkpoint, locked=locked))
            folder = opened.root
            given, self._node = UserStreams(sources or {}, sinks or {}), node
            self.deployment = self._deploy(application, folder, given)
            self._checkpoint, self._held = opened, held.pop_all()
        self._link: NodeLink | None = None
        self.loop = self._control_loop(folder, node) if shares is None else None
        readers, paths = self.deployment.readers, self.deployment.paths
        self._retention = Retention(paths, readers, self._options.retention)
        self._stopping, self._failures = threading.Event(), FailureLog()
        self._supervisor = Supervisor(
            self._starters(),
            self._options.restarts,
            self._options.restart_delay,
            self._stopping,
        )
        self._idleness: dict[str, IdlenessTracker] = {}
        self._senders: dict[str, WatermarkSender] = {}
        self._sample = build_tracker(
            self.deployment.application,
            self.deployment.context.sample,
            self.deployment.chains,
            self.deployment.nodes,
        )
        self._thread = threading.Thread(
            target=self._supervise_loop, name="shedlight", daemon=True
        )
        self._problem: Exception | None = None
        self._began = 0.0
        self._catch_up: CatchUp | None = None
        if self.loop is not None and on_start is OnStart.CATCH_UP:
            chains = self.deployment.chains.items()
            self._catch_up = CatchUp(self.loop, (n for n, each in chains if source_names(each)))
        self._admitting_little: set[str] = set()  # nodes whose sources let in little as yet

    def _deploy(
        self, application: Application, folder: StoredPath, given: UserStreams
    ) -> Deployment:
        """Make the deployment; what goes on may have changed, or be divided anew."""
        make = partial(self._make_deployment, folder, given)
        paths, shards = CheckpointPaths(folder), self._options.shards
        try:
            return deploy(self._spark, paths, shards, partial(make, application))
        except ApplicationChangedError as changed:
            sharding = changed.record.sharding
            if shards not in {None, sharding.shards}:  # what cannot be is said before a change
                sharding.divided(application, shards)
            deployment = change(self._spark, changed, make)
            if shards in {None, deployment.sharding.shards}:
                return deployment
            return deploy(self._spark, paths, shards, partial(make, application))

    def _make_deployment(
        self,
        folder: StoredPath,
        given: UserStreams,
        application: Application,
        record: CheckpointRecord | None = None,
        *,
        is_earlier: bool = False,
    ) -> Deployment:
        shares, on_start = self._options.shares, self._options.on_start
        may_shed = sheddable(application)
        first = may_shed if shares is None else shares
        if is_earlier and record is not None:  # it may have been run with another shedder
            first = recorded_shares(record.lines, first, may_shed)
        deployment = Deployment(
            application,
            self._spark,
            folder,
            first,
            self._options.shards,
            sheddable_by_pressure(application) if shares is None else None,
            given=given.of(application) if is_earlier else given,
            starts_small=can_double(self._spark),
            skip_until=self._clock.wall() if on_start is OnStart.SKIP else None,
            record=record,
            node=self._node,
            strata=_sheds_strata(self._options, self._node),
        )
        if not is_earlier:  # before it is on record that the application has changed
            self._columns = FileColumns(deployment.own)
            self._columns.check()
        return deployment

    def _control_loop(self, folder: StoredPath, node: str | None) -> ControlLoop:
        timing = LoopTiming(
            clock=self._clock.steady,
            is_busy=lambda name: self._supervisor.is_busy(_query_name(name)),
            trigger=self._options.trigger,
        )
        deployment = self.deployment
        if node is not None:
            digest = deployment.digest
            self._link = NodeLink(self._spark, deployment.application, digest, node)
            planned, taken = deployment.nodes[node], deployment.paths.taken
            return RemoteLoop(
                deployment.application, node, planned, self._link, taken, timing=timing
            )
        settings, tracker = self._options.settings or micro_batch_settings(), None
        if _sheds_strata(self._options, self._node):
            settings = replace(settings, strata=replace(settings.strata, enabled=True))
            tracker = KeyTracker(deployment.application, deployment.nodes)
        return ControlLoop(
            deployment.application,
            deployment.nodes,
            settings,
            on_decision=self._listener.on_decision,
            overrides=OverrideWatcher(folder),
            on_override=self._listener.on_override,
            timing=timing,
            strata=tracker,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None:
            self.check()

    def start(self) -> None:
        """Start all queries, each after those that it reads."""
        self._began = self._clock.wall()
        if self.loop is not None:
            self.loop.start(self._began)
        if self._catch_up is not None:
            self._catch_up.start()
        options = self._options
        for node, chains in self.deployment.chains.items():
            names = source_names(chains)
            sources = {name: self.deployment.application.sources[name] for name in names}
            self._idleness[node] = IdlenessTracker(
                sources,
                options.watermark_interval,
                options.idle_timeout,
                self._clock.steady(),
            )
            self._senders[node] = WatermarkSender(self.deployment.watermark_files(node))
            # a micro-batch before there are events
            self._senders[node].send(map(SourceWatermark, names))
        operators = self.deployment.application.operators.values()
        patterns = [pattern for spec in operators for pattern in spec.patterns.values()]
        with self._failures.tolerate("the warm-up of Python workers", "the run goes on"):
            warm_up(self._spark, patterns, count_cores(self._spark))
        try:
            with translating_spark_errors():
                self._supervisor.start()
        except BaseException:
            self.stop()
            raise
        self._thread.start()

    def check_change(self, application: Application) -> None:
        """See that the run can go on with another application from its checkpoint.

        Raises:
            ShedlightError: It cannot, or the application is wrong.
        """
        check_changed(self.deployment, application)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is stopped or fails, or for some time.

        Returns:
            Whether it still runs.

        Raises:
            ShedlightError: It failed.
        """
        over = self._stopping.wait(seconds)
        self.check()
        return not over

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Stop all queries; what was read is in the outboxes, and a new run goes on there."""
        self._stopping.set()
        if self._thread.is_alive():  # first, for it may be restarting a query
            self._thread.join(timeout=30)
        try:
            self._supervisor.stop()
            if self._thread.ident is not None:
                self._checkpoint.check()  # who has lost it writes no more there
                self._note_rest()
        finally:  # the JVM may be gone
            self._held.close()
            if self._link is not None:
                with suppress(Py4JError):
                    self._link.close()

    def ask_to_stop(self) -> None:
        """Let `wait` end; whoever waits stops the queries."""
        self._stopping.set()

    def end(self, source: str) -> None:
        """Say that a source is at its end: nothing waits for it any more."""
        for node, chains in self.deployment.chains.items():
            if source in source_names(chains):
                self._send(node, [end_of(source)])

    def process_all(self) -> None:
        """Wait until all that has arrived is through all nodes and in the sinks.

        Raises:
            ShedlightError: It failed.
        """
        self._supervisor.process_all()
        self.check()

    def _starters(self) -> Mapping[str, Callable[[], StreamingQuery]]:
        """Name the queries, each after those that it reads, and say how to start them."""
        interval = self._options.delivery_interval
        starters: dict[str, Callable[[], StreamingQuery]] = {}
        for node in self.deployment.nodes:
            starters[_query_name(node)] = partial(self._start_node, node)
            if node in self.deployment.channels:
                starters[f"channel {node}"] = partial(self._start_channel, node)
        return starters | {
            name: partial(lambda name: self.deployment.delivery(name).start(interval), name)
            for name in delivery_names(self.deployment.own)
        }

    def _start_node(self, node: str) -> StreamingQuery:
        trigger = f"{round(self._options.trigger * 1e3)} milliseconds"
        writer = outbox_writer(self.deployment, node).trigger(processingTime=trigger)
        if can_double(self._spark):
            self._admitting_little.add(node)
        self._idleness[node].restart(self._clock.steady())
        with with_query_conf(self._spark, self.deployment.nodes[node]):
            return writer.option(
                "retention",
                self._retention.begin(node, self._clock.wall(), self._clock.steady()),
            ).start()

    def _start_channel(self, node: str) -> StreamingQuery:
        trigger = f"{round(self._options.delivery_interval * 1e3)} milliseconds"
        return self.deployment.channel_writer(node).trigger(processingTime=trigger).start()

    def _supervise_loop(self) -> None:
        """Look after everything that runs, until it is stopped or fails."""
        try:
            while not self._stopping.wait(POLL_INTERVAL_S):
                self._checkpoint.check()
                self._columns.check()
                self._began = min(self._began, self._clock.wall())  # it may have been set
                if self.loop is not None:
                    self.loop.poll_overrides(self._clock.wall())
                for node in self.deployment.nodes:
                    for progress in self._supervisor.new_progress(_query_name(node)):
                        self._on_progress(node, progress)
                self._supervisor.restart_failed()
                self._keep_unread()
                self._send_watermarks()
        except Exception as error:  # noqa: BLE001  # it is raised where somebody waits
            self._problem = error
            self._stopping.set()

    def _on_progress(self, node: str, progress: StreamingQueryProgress) -> None:
        batch = read_report(node, progress, self._began)
        if batch is None:
            return
        self._admit_more(batch)
        batch = self._follow_sample(batch)
        if self._catch_up is not None:
            self._catch_up.on_micro_batch(batch, self._began, self._clock.wall())
        began = self._clock.steady_start(batch.start, batch.seconds)
        self._idleness[node].on_micro_batch(batch.arrived, began, self._clock.steady())
        if self.loop is not None:
            self.loop.on_micro_batch(batch)
        else:
            self._note_latest(batch)
        if batch.number % SEGMENT == 0:
            before = self._clock.wall() - self._options.record_retention
            where = f"removing old records of the plans of node {node}"
            with self._failures.tolerate(where, _TRIED_AGAIN):
                self.deployment.nodes[node].plans.prune(before)
            threading.Thread(target=self._put_together, args=(node,), daemon=True).start()
        with self._failures.tolerate(f"removing old files of node {node}", _TRIED_AGAIN):
            self._retention.remove_old(node, self._clock.wall(), self._clock.steady())
        if self._listener.on_micro_batch is not None:
            self._listener.on_micro_batch(batch)

    def _keep_unread(self) -> None:
        """Start the query of a node again that would forget files before all have read them."""
        for node in self.deployment.nodes:
            is_behind = False
            with self._failures.tolerate(f"looking who reads node {node}", _TRIED_AGAIN):
                is_behind = self._retention.is_short(
                    node, self._clock.wall(), self._clock.steady()
                )
            name = _query_name(node)
            if is_behind and self._supervisor.query(name).isActive:  # else it will be anyway
                self._supervisor.restart(name, "its outbox must wait for who reads it")

    def _put_together(self, node: str) -> None:
        """Put the record of a node together, where it is in many files: that takes seconds."""
        where = f"putting the record of node {node} together"
        with self._failures.tolerate(where, _TRIED_AGAIN):
            self.deployment.nodes[node].plans.record.put_together()

    def _note_latest(self, batch: MicroBatchReport) -> None:
        """Note how far a node has read its sources."""
        plans = self.deployment.nodes[batch.node].plans
        with self._failures.tolerate(f"writing the plan of node {batch.node}", _TRIED_AGAIN):
            active = plans.active or ActivePlan(1)
            plans.activate(with_latest(active, self.deployment.application, batch))

    def _note_rest(self) -> None:
        """Note how far nodes have read that are stopped, so that nothing is left unseen."""
        for node in self.deployment.nodes:
            for progress in self._supervisor.new_progress(_query_name(node)):
                batch = read_report(node, progress, self._began)
                if batch is not None:
                    self._note_latest(batch)

    def _admit_more(self, batch: MicroBatchReport) -> None:
        """Let more into the next micro-batch of a node, after one with events."""
        node, is_more = batch.node, True
        if not batch.events or node not in self._admitting_little:
            return
        with self._failures.tolerate(f"admitting more events at node {node}", _TRIED_AGAIN):
            is_more = double_limits(self._spark, self._supervisor.query(_query_name(node)))
        if not is_more:
            self._admitting_little.discard(node)

    def _follow_sample(self, batch: MicroBatchReport) -> MicroBatchReport:
        """Give a micro-batch with what the unshed sample says, if there is one and it can."""
        if self._sample is None:
            return batch
        adopt = self.loop.adopt if self.loop else None
        with self._failures.tolerate("the estimate from the unshed sample", _TRIED_AGAIN):
            return follow_sample(self._sample, self.deployment.nodes, batch, adopt)
        return batch

    def _send_watermarks(self) -> None:
        """Send the watermarks of sources to shards, and which sources are idle."""
        for node, idleness in self._idleness.items():
            is_busy = partial(self._supervisor.is_busy, _query_name(node))
            updates = idleness.updates(self._clock.steady(), is_busy)
            self._send(node, updates)

    def _send(self, node: str, updates: Iterable[SourceWatermark]) -> None:
        with self._failures.tolerate(f"sending watermarks to node {node}", _TRIED_AGAIN):
            self._senders[node].send(updates)


def _sheds_strata(options: Options, node: str | None) -> bool:
    """Whether keys are shed in strata; a node that runs alone has no controller for it."""
    settings = options.settings
    is_asked = options.strata or (settings is not None and settings.strata.enabled)
    return is_asked and options.shares is None and node is None


def _query_name(node: str) -> str:
    return f"node {node}"

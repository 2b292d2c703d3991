"""An application that runs on Spark until it is told to stop.

Every node is a query, every sink a delivery from the outbox of the node before it. One thread
looks at the progress of all queries, tells the control loop, tells shards how far sources are,
and restarts a query that failed, after a while that grows.

It asks each query for its progress as text. A listener would be told, but PySpark takes what it
is told apart by calls into the JVM, one for each number: measured a fifth of a core.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.control.controller import ControlSettings, Decision
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.micro_batch import MicroBatchReport, read_report
from shedlight.engines.spark.control.override_store import OverrideOutcome, OverrideWatcher
from shedlight.engines.spark.outbox.delivery import deliveries, started
from shedlight.engines.spark.outbox.retention import Retention
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.finite import outbox_writer, with_query_conf
from shedlight.engines.spark.session.jvm_stderr import suppress_jvm_stderr
from shedlight.engines.spark.session.paths import local_folder
from shedlight.engines.spark.source.idleness import IdlenessTracker
from shedlight.engines.spark.source.schema_check import FileColumns
from shedlight.engines.spark.source.watermark_files import SourceWatermark, ended
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.engines.spark.support.spark_errors import full_message, root_cause, to_user_error
from shedlight.errors import ShedlightError
from shedlight.graph import Application
from shedlight.shedding.shares import Shares, sheddable, sheddable_by_pressure

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run.

    Attributes:
        shares: What patterns keep, for good; None: the controller says.
        settings: How to control; None: for micro-batches, with our rule.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided.
        trigger: How often a query looks for new events, in seconds.
        deliver: How often complex events are delivered to the sinks, in seconds.
        pulse: How often shards are told how far sources are, in seconds.
        idle: After how long a silent source holds nobody back, in seconds, if it does not say.
        restarts: How often a query is started again, if it does not run for long in between.
        back_off: How long to wait before that, in seconds; twice as long each time.
        retention: For how long outboxes are kept once everybody has read them, in seconds.
    """

    shares: Shares | None = None
    settings: ControlSettings | None = None
    shards: int = 2
    trigger: float = 0.2
    deliver: float = 3.0
    pulse: float = 2.0
    idle: float = 10.0
    restarts: int = 5
    back_off: float = 1.0
    retention: float = 3600.0


@dataclass(slots=True)
class _Running:
    """A query, what was last seen of it, and how often it failed."""

    query: StreamingQuery
    started: float
    failures: int = 0
    again: float | None = None
    seen: int = -1


@dataclass(frozen=True, slots=True)
class RunListener:
    """Who is told what happens.

    Attributes:
        batch: Is told every micro-batch of a node, and the plan and pressure that it used.
        decision: Is told every decision of the controller.
        wish: Is told every wish for other bounds or weights that was left in the checkpoint.
    """

    batch: Callable[[MicroBatchReport], None] | None = None
    decision: Callable[[Decision], None] | None = None
    wish: Callable[[OverrideOutcome], None] | None = None


class Live:
    """A running application; use it in a `with`, or call `start` and `stop`.

    Args:
        application: The application.
        spark: The session; its time zone must be UTC.
        checkpoint: A folder that belongs to this run of this application.
        options: How to run.
        watcher: Who is told what happens.

    Example:
        with Live(application, spark, checkpoint="state") as running:
            running.wait(600)
    """

    def __init__(
        self,
        application: Application,
        spark: SparkSession,
        *,
        checkpoint: str,
        options: Options | None = None,
        watcher: RunListener | None = None,
    ) -> None:
        self._options, self._watcher = options or Options(), watcher or RunListener()
        self._spark = spark
        shares = self._options.shares
        folder = local_folder(checkpoint)
        with ExitStack() as held:
            held.enter_context(lock_checkpoint(folder))
            self.deployment = Deployment(
                application,
                spark,
                folder,
                sheddable(application) if shares is None else shares,
                self._options.shards,
                sheddable_by_pressure(application) if shares is None else None,
            )
            self._columns = FileColumns(self.deployment.application)
            self._columns.check()
            self._held = held.pop_all()
        self.loop = None
        if shares is None:
            self.loop = ControlLoop(
                self.deployment,
                self._options.settings,
                self._watcher.decision,
                wishes=OverrideWatcher(folder),
                heard=self._watcher.wish,
            )
        self._retention = Retention(self.deployment, self._options.retention)
        self._running: dict[str, _Running] = {}
        self._idleness: dict[str, IdlenessTracker] = {}
        self._thread = threading.Thread(target=self._follow, name="shedlight", daemon=True)
        self._stopping = threading.Event()
        self._problem: Exception | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is None:
            self.check()

    def start(self) -> None:
        """Start all queries, each after those that it reads."""
        suppress_jvm_stderr(quiet=False)
        self._began = now = time.time()
        if self.loop is not None:
            self.loop.start(now)
        for node in self.deployment.nodes:
            names = self.deployment.sources_of(node)
            sources = {name: self.deployment.application.sources[name] for name in names}
            pulse, idle = self._options.pulse, self._options.idle
            self._idleness[node] = IdlenessTracker(sources, pulse, idle, now)
            # a micro-batch before there are events
            self.deployment.marks(node).write(map(SourceWatermark, names))
        try:
            for name in self._starters():
                self._begin(name)
        except BaseException:
            self.stop()
            raise
        self._thread.start()

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
        if self._thread.is_alive():  # first, for it may be starting a query again
            self._thread.join(timeout=30)
        for one in self._running.values():
            self._let_end(one.query)
        suppress_jvm_stderr(quiet=True)
        for one in self._running.values():
            one.query.stop()
        self._held.close()

    def _let_end(self, query: StreamingQuery) -> None:
        """Let a micro-batch end that is under way, if it does not take too long."""
        over = time.monotonic() + _ENDING
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < over:
            time.sleep(_GLANCE)

    def ask_to_stop(self) -> None:
        """Let `wait` end; whoever waits stops the queries."""
        self._stopping.set()

    def end(self, source: str) -> None:
        """Say that a source is at its end: everything that waits for it goes on."""
        for node in self.deployment.nodes:
            if source in self.deployment.sources_of(node):
                self.deployment.marks(node).write([ended(source)])

    def process_all(self) -> None:
        """Wait until all that has arrived is through all nodes and in the sinks."""
        for name in self._starters():
            while not self._stopping.is_set():
                query = self._running[name].query
                query.processAllAvailable()
                if query.isActive and query is self._running[name].query:
                    break
                time.sleep(_GLANCE)  # it is being started again

    def _starters(self) -> Mapping[str, Callable[[], StreamingQuery]]:
        nodes = {
            f"node {name}": partial(self._start_node, name) for name in self.deployment.nodes
        }
        others = deliveries(self.deployment.application)
        return nodes | {name: partial(self._start_delivery, name) for name in others}

    def _begin(self, name: str) -> None:
        query = self._starters()[name]()
        before = self._running.get(name)
        failures = before.failures if before else 0
        self._running[name] = _Running(query, time.monotonic(), failures)

    def _start_node(self, node: str) -> StreamingQuery:
        every = f"{round(self._options.trigger * 1e3)} milliseconds"
        writer = outbox_writer(self.deployment, node).trigger(processingTime=every)
        with with_query_conf(self._spark, self.deployment.nodes[node]):
            return writer.option("retention", self._retention.begin(node, time.time())).start()

    def _start_delivery(self, name: str) -> StreamingQuery:
        return started(self.deployment, name, self._options.deliver)

    def _follow(self) -> None:
        """Do what there is to do, until it is all over."""
        try:
            while not self._stopping.wait(_GLANCE):
                self._columns.check()
                if self.loop is not None:
                    self.loop.heed(time.time())
                for node in self.deployment.nodes:
                    for progress in _news(self._running[f"node {node}"]):
                        self._progressed(node, progress)
                self._supervise()
                self._tell_shards()
        except Exception as error:  # noqa: BLE001  # it is raised where somebody waits
            self._problem = error
            self._stopping.set()

    def _progressed(self, node: str, progress: StreamingQueryProgress) -> None:
        batch = read_report(node, progress, self._began)
        if batch is None:
            return
        self._idleness[node].on_micro_batch(batch.arrived, batch.start, time.time())
        if self.loop is not None:
            self.loop.take(batch)
        if batch.number % _KEPT_BATCHES == 0:
            self.deployment.plans(node).prune(batch.number - _KEPT_BATCHES)
        if not self._retention.look_after(node, time.time()):
            self._start_again(f"node {node}", "its outbox must wait for who reads it")
        if self._watcher.batch is not None:
            self._watcher.batch(batch)

    def _start_again(self, name: str, why: str) -> None:
        """Stop a query, and start it with other settings."""
        _LOG.warning("%s is started again: %s", name, why)
        query = self._running[name].query
        self._let_end(query)
        query.stop()
        self._begin(name)

    def _tell_shards(self) -> None:
        """Send the shards the watermarks of sources, and which of them are idle."""
        for node, idleness in self._idleness.items():
            marks = idleness.updates(time.time(), partial(self._is_at_work, node))
            self.deployment.marks(node).write(marks)

    def _is_at_work(self, node: str) -> bool:
        query = self._running[f"node {node}"].query
        return not query.isActive or bool(query.status["isTriggerActive"])

    def _supervise(self) -> None:
        """Start queries again that failed, unless it would be of no use."""
        for name, one in list(self._running.items()):
            if one.query.isActive or self._stopping.is_set():
                continue
            if one.again is None:
                self._failed(name, one)
            elif time.monotonic() >= one.again:
                self._begin(name)

    def _failed(self, name: str, one: _Running) -> None:
        error = one.query.exception()
        if error is None:  # somebody stopped it, and not through us
            raise ShedlightError(f"the query of {name} was stopped from outside")
        problem = to_user_error(error)
        lasted = time.monotonic() - one.started
        one.failures = 1 if lasted > _LONG else one.failures + 1
        if isinstance(problem, ShedlightError):
            raise problem
        if one.failures > self._options.restarts:
            raise ShedlightError(
                f"the query of {name} failed {one.failures} times in a row, last with: "
                f"{root_cause(full_message(problem))}"
            ) from problem
        wait = self._options.back_off * 2 ** (one.failures - 1)
        _LOG.warning(
            "%s failed, again in %g s: %s", name, wait, root_cause(full_message(problem))
        )
        one.again = time.monotonic() + wait


_ENDING, _GLANCE = 5.0, 0.1
_KEPT_BATCHES = 1000
"""Of how many micro-batches at least it is kept on record what they used."""
_LONG = 60.0
"""A query that ran for so long is not held to have failed in a row."""


def _news(running: _Running) -> list[StreamingQueryProgress]:
    """List the micro-batches that were not seen yet."""
    last = running.query.lastProgress
    if last is None or last.batchId <= running.seen or "addBatch" not in last.durationMs:
        return []  # nothing new, or it looked and there was nothing to do
    found = [last]
    if 0 <= running.seen < last.batchId - 1:
        recent = running.query.recentProgress
        found = [one for one in recent if one.batchId > running.seen]
    running.seen = last.batchId
    return found

"""Supervises the queries of a run: starts them, restarts those that fail, stops them all."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.engines.spark.session.jvm_stderr import suppress_jvm_stderr
from shedlight.engines.spark.support.disk_full import is_disk_full
from shedlight.engines.spark.support.spark_errors import full_message, root_cause, to_user_error
from shedlight.errors import ShedlightError

_LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
_SHUTDOWN_GRACE_S = 5.0
"""How long a micro-batch may take to its end before its query is stopped."""
_STABLE_RUN_S = 60.0  # a query that ran for so long has not failed in a row
_MAX_FULL_DELAY_S = 5.0  # between two looks whether a disk has room again


@dataclass(slots=True)
class _SupervisedQuery:
    """A query, its failures in a row, when to restart it, and the last batch that was seen."""

    query: StreamingQuery
    started: float
    failures: int = 0
    full: int = 0  # how often in a row it failed because a disk was full
    restart_at: float | None = None
    last_batch: int = -1


class Supervisor:
    """Runs queries by name.

    A query that fails is restarted so many times, if it does not run for long in between,
    after a delay in seconds that doubles each time; nothing is started when it is stopping.
    One that fails because a disk is full is restarted until there is room.
    """

    def __init__(
        self,
        starters: Mapping[str, Callable[[], StreamingQuery]],
        restarts: int,
        restart_delay: float,
        stopping: threading.Event,
    ) -> None:
        self._starters, self._stopping = starters, stopping
        self._restarts, self._restart_delay = restarts, restart_delay
        self._running: dict[str, _SupervisedQuery] = {}

    def start(self) -> None:
        """Start all queries, in the order of their names."""
        for name in self._starters:
            self._start_query(name)

    def stop(self) -> None:
        """Stop all queries, after the micro-batches that are under way."""
        with suppress_jvm_stderr():
            for running in self._running.values():
                await_batch_end(running.query)
                running.query.stop()

    def process_all(self) -> None:
        """Wait until every query has processed all that had arrived for it.

        One that fails is waited for while it is restarted.
        """
        for name in self._starters:
            while not self._stopping.is_set():
                query = self._running[name].query
                with suppress(StreamingQueryException):
                    query.processAllAvailable()
                if query.isActive and query is self._running[name].query:
                    break
                time.sleep(POLL_INTERVAL_S)  # it is being restarted

    def restart(self, name: str, why: str) -> None:
        """Stop a query, and start it with other settings."""
        _LOG.warning("%s is started again: %s", name, why)
        running = self._running[name]
        await_batch_end(running.query)
        running.query.stop()
        self._restart_query(name, running)

    def restart_failed(self) -> None:
        """Restart queries that failed, when their delay is over.

        Raises:
            ShedlightError: A query failed for good.
        """
        for name, running in list(self._running.items()):
            if running.query.isActive or self._stopping.is_set():
                continue
            if running.restart_at is None:
                self._on_failure(name, running)
            elif time.monotonic() >= running.restart_at:
                self._restart_query(name, running)

    def new_progress(self, name: str) -> list[StreamingQueryProgress]:
        """List the micro-batches of a query that were not listed yet."""
        running = self._running[name]
        last, seen = running.query.lastProgress, running.last_batch
        if last is None or last.batchId <= seen or "addBatch" not in last.durationMs:
            return []  # nothing new, or it looked and there was nothing to do
        running.last_batch = last.batchId
        if 0 <= seen < last.batchId - 1:
            recent = running.query.recentProgress
            return [progress for progress in recent if progress.batchId > seen]
        return [last]

    def query(self, name: str) -> StreamingQuery:
        """Give a query as it runs now."""
        return self._running[name].query

    def is_busy(self, name: str) -> bool:
        """Say whether a query runs a micro-batch, or has not looked since it was started."""
        query = self._running[name].query
        status = query.status
        is_starting = status["message"].startswith("Initializing")
        return not query.isActive or is_starting or bool(status["isTriggerActive"])

    def _start_query(self, name: str) -> None:
        query = self._starters[name]()
        before = self._running.get(name)
        failures, full = (before.failures, before.full) if before else (0, 0)
        self._running[name] = _SupervisedQuery(query, time.monotonic(), failures, full)

    def _restart_query(self, name: str, running: _SupervisedQuery) -> None:
        try:
            self._start_query(name)
        except ConnectionError as error:  # its checkpoint is elsewhere
            running.failures += 1
            self._try_again(name, running, error)
        except Exception as error:
            if not is_disk_full(error):
                raise
            self._await_room(name, running, error)

    def _on_failure(self, name: str, running: _SupervisedQuery) -> None:
        error = running.query.exception()
        if error is None:  # somebody stopped it, and not through us
            raise ShedlightError(f"the query of {name} was stopped from outside")
        lasted = time.monotonic() - running.started
        if lasted > _STABLE_RUN_S or not is_disk_full(error):
            running.full = 0
        if is_disk_full(error):
            self._await_room(name, running, error)
            return
        problem = to_user_error(error)
        running.failures = 1 if lasted > _STABLE_RUN_S else running.failures + 1
        if isinstance(problem, ShedlightError):
            raise problem
        self._try_again(name, running, problem)

    def _try_again(self, name: str, running: _SupervisedQuery, problem: BaseException) -> None:
        """Restart a query after a while, unless it has failed too often."""
        cause = root_cause(full_message(problem))
        if running.failures > self._restarts:
            raise ShedlightError(
                f"the query of {name} failed {running.failures} times in a row, last with: "
                f"{cause}"
            ) from problem
        delay = self._restart_delay * 2 ** (running.failures - 1)
        _LOG.warning("%s failed, again in %g s: %s", name, delay, cause)
        running.restart_at = time.monotonic() + delay

    def _await_room(self, name: str, running: _SupervisedQuery, error: Exception) -> None:
        """Restart a query that found a disk full after a while, and say so the first time."""
        delay = min(self._restart_delay * 2**running.full, _MAX_FULL_DELAY_S)
        if not running.full:
            _LOG.warning(
                "%s stopped, for a disk is full: %s; make room for the checkpoint, for what it "
                "writes and for temporary files: it goes on where it was, by itself",
                name,
                root_cause(full_message(error)),
            )
        running.full += 1
        running.restart_at = time.monotonic() + delay


def await_batch_end(query: StreamingQuery) -> None:
    """Let a micro-batch end that is under way, if it does not take too long.

    Under load the next one begins at once: it is stopped while Spark plans it.
    """
    over = time.monotonic() + _SHUTDOWN_GRACE_S
    first = _last_ended(query)
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < over:
        if _last_ended(query) != first:
            return
        time.sleep(POLL_INTERVAL_S)


def _last_ended(query: StreamingQuery) -> int | None:
    """Give the number of the micro-batch that ended last."""
    last = query.lastProgress
    return None if last is None else int(last["batchId"])

"""The run that the web UI shows: its log as far as it was read, and whether it is under way.

The log is read on from where reading stopped, so an update costs what was written since. What
is kept in memory is bounded by the application, however long the run is: totals, and the latest
of everything else.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shedlight.control.planning_input import planning_input_path
from shedlight.engines.spark.support.checkpoint import LOCK, is_in_use
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.runlog.aggregate import RunTotals
from shedlight.runlog.follow import Follower
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord, Record, RunHeader
from shedlight.runlog.series import NodeSeries

MAX_DECISIONS = 1_000  # how many decisions can be looked back at
_WINDOW_S = 10.0
"""Rates are of the micro-batches that ended in the last seconds before the latest."""
_MAX_WINDOW_BATCHES = 20
_READ_INTERVAL_S = 0.5  # after how many seconds the log is read again, however many ask
_LOCK_CHECK_INTERVAL_S = 3.0
"""After how many seconds it is checked again whether the run holds its checkpoint."""
_LIVE_S = 30.0
"""A log whose checkpoint is not known is of a run under way if it grew in this time."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run writes what the web UI reads."""

    log: Path  # its log
    # its checkpoint; None: it is not known, and nothing can be changed
    checkpoint: StoredPath | None = None
    # its application file, whose sources have the events; None: it is not known
    application: Path | None = None


def run_paths(log: Path) -> RunPaths:
    """Find the checkpoint of a log, which is the folder that it is in, if it is one."""
    folder = log.parent
    return RunPaths(log, folder if (folder / LOCK).exists() else None)


@dataclass(slots=True)
class RecentBatches:
    """The latest micro-batches of a node."""

    batches: deque[MicroBatchRecord] = field(
        default_factory=lambda: deque(maxlen=_MAX_WINDOW_BATCHES)
    )

    def add(self, batch: MicroBatchRecord) -> None:
        """Add a micro-batch; those that ended long before it go."""
        if self.batches and batch.time < self.batches[-1].time:
            self.batches.clear()  # somebody has set the clock
        self.batches.append(batch)
        while self.batches[0].time < batch.time - _WINDOW_S and len(self.batches) > 1:
            self.batches.popleft()

    def rate(self, count: Callable[[MicroBatchRecord], float]) -> float:
        """Measure how much of something there was in a second, from the end of the first on."""
        if not self.batches:
            return 0.0
        first, *others = self.batches
        span = self.batches[-1].time - first.time
        if not others or span <= 0:
            return count(first) / first.seconds if first.seconds > 0 else 0.0
        return sum(map(count, others)) / span


class RunView:
    """A run, as far as its log was read; times are seconds since 1970."""

    def __init__(self, paths: RunPaths, clock: Callable[[], float] = time.time) -> None:
        self.paths, self.clock = paths, clock
        self.totals = RunTotals()
        self.windows: dict[str, RecentBatches] = {}
        self.series: dict[str, NodeSeries] = {}  # of each node
        self.decisions: deque[DecisionRecord] = deque(maxlen=MAX_DECISIONS)  # oldest first
        self.version = 0  # how many records were read
        self.first: float | None = None  # the time of the first record, if there is one
        self.latest: float | None = None  # the time of the latest record, if there is one
        self._follower = Follower(paths.log)
        self._read_at = self._checked_at = float("-inf")
        self._in_use = False

    def refresh(self) -> None:
        """Read what was written since the last time, unless that was just done."""
        now = self.clock()
        if abs(now - self._read_at) < _READ_INTERVAL_S:
            return
        self._read_at = now
        for records in self._follower.read_chunks():
            for record in records:
                self.add(record)

    def add(self, record: Record) -> None:
        """Add a record."""
        self.totals.add(record)
        self.version += 1
        self.first = record.time if self.first is None else self.first
        self.latest = record.time
        match record:
            case RunHeader():
                self.windows.clear()
                for series in self.series.values():
                    series.before = None
            case MicroBatchRecord():
                self._add_batch(record)
            case DecisionRecord():
                self.decisions.append(record)
                for name in {**record.loads, **record.statuses}:
                    self.series.setdefault(name, NodeSeries()).add_decision(record, name)
            case _:
                pass

    def window(self, node: str) -> RecentBatches:
        """Find the latest micro-batches of a node."""
        return self.windows.get(node) or RecentBatches()

    @property
    def problem(self) -> str:
        """Why the log is none of a run; empty: it may be one."""
        return self._follower.parser.problem()

    @property
    def live(self) -> bool:
        """Whether the run is under way."""
        now = self.clock()
        if self.paths.checkpoint is None:
            return self.latest is not None and now - self.latest < _LIVE_S
        if abs(now - self._checked_at) >= _LOCK_CHECK_INTERVAL_S:
            self._checked_at = now
            self._in_use = is_in_use(self.paths.checkpoint)
        return self._in_use

    @property
    def can_apply(self) -> bool:
        """Whether bounds and weights can be changed: it is under way, and decides."""
        decides = planning_input_path(self.paths.log).exists()
        return self.paths.checkpoint is not None and decides and self.live

    def close(self) -> None:
        """Close the log."""
        self._follower.close()

    def _add_batch(self, batch: MicroBatchRecord) -> None:
        self.windows.setdefault(batch.node, RecentBatches()).add(batch)
        series = self.series.setdefault(batch.node, NodeSeries())
        series.add_batch(batch, timed=self.totals.timed)

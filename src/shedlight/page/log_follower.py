"""What the page has read of a log so far, and how much of it it keeps in mind.

It reads on where it stopped, so an update costs what was written since. What it keeps is
bounded by the application, however long the run is: sums, and the latest of everything else.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shedlight.runlog.aggregate import RunTotals
from shedlight.runlog.follow import Follower
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord, Record, RunHeader

MOST_POINTS = 7_200
"""How many micro-batches of a node can be looked back at."""
MOST_DECISIONS = 1_000
"""How many decisions can be looked back at."""
_WINDOW = 10.0
"""Rates are of the micro-batches that ended in the last seconds before the latest."""
_MOST_IN_WINDOW = 20


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """The latency of a node's events at the end of a micro-batch."""

    time: float
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(slots=True)
class RecentBatches:
    """The latest micro-batches of a node."""

    batches: deque[MicroBatchRecord] = field(
        default_factory=lambda: deque(maxlen=_MOST_IN_WINDOW)
    )

    def take(self, batch: MicroBatchRecord) -> None:
        """Take in a micro-batch; those that ended long before it go."""
        if self.batches and batch.time < self.batches[-1].time:
            self.batches.clear()  # somebody has set the clock
        self.batches.append(batch)
        while self.batches[0].time < batch.time - _WINDOW and len(self.batches) > 1:
            self.batches.popleft()

    def rate(self, counted: Callable[[MicroBatchRecord], float]) -> float:
        """Say how much of something there was in a second, from the end of the first on."""
        if not self.batches:
            return 0.0
        first, *others = self.batches
        span = self.batches[-1].time - first.time
        if not others or span <= 0:
            return counted(first) / first.seconds if first.seconds > 0 else 0.0
        return sum(map(counted, others)) / span


class LogView:
    """Follows a log.

    Args:
        log: The log; it need not be there yet.

    Attributes:
        tally: What is known of the run.
        windows: The latest micro-batches of each node.
        points: The latencies of each node, oldest first.
        decisions: The latest decisions, oldest first.
        version: How many records were read.
        latest: The time of the latest record, in seconds since 1970; None: there is none.
    """

    def __init__(self, log: Path) -> None:
        self.tally = RunTotals()
        self.windows: dict[str, RecentBatches] = {}
        self.points: dict[str, deque[LatencyPoint]] = {}
        self.decisions: deque[DecisionRecord] = deque(maxlen=MOST_DECISIONS)
        self.version = 0
        self.latest: float | None = None
        self._follower = Follower(log)

    def refresh(self) -> bool:
        """Read what was written since the last time; say whether there was anything."""
        before = self.version
        for records in self._follower.read_chunks():
            for record in records:
                self.take(record)
        return self.version > before

    def take(self, record: Record) -> None:
        """Take in a record."""
        self.tally.add(record)
        self.version += 1
        self.latest = record.time
        match record:
            case RunHeader():
                self.windows.clear()
            case MicroBatchRecord():
                self._take_batch(record)
            case DecisionRecord():
                self.decisions.append(record)
            case _:
                pass

    @property
    def is_foreign(self) -> bool:
        """Whether there is something, and none of it is a record."""
        lines = self._follower.parser
        return not self.version and bool(lines.skipped or lines.unknown)

    def window(self, node: str) -> RecentBatches:
        """Find the latest micro-batches of a node."""
        return self.windows.get(node) or RecentBatches()

    def close(self) -> None:
        """Close the log."""
        self._follower.close()

    def _take_batch(self, batch: MicroBatchRecord) -> None:
        self.windows.setdefault(batch.node, RecentBatches()).take(batch)
        header = self.tally.header
        mean = batch.latency.get("mean")
        if mean is None or (header is not None and not header.timed):
            return
        line = self.points.setdefault(batch.node, deque(maxlen=MOST_POINTS))
        told = (batch.latency.get(name, mean) for name in ("p50", "p95", "p99"))
        line.append(LatencyPoint(batch.time, mean, *told))


def downsample(
    points: Iterable[LatencyPoint], since: float, most: int
) -> Iterator[LatencyPoint]:
    """Give the points since a time, neighbours put together if they are too many.

    The mean of some is their mean, a high quantile of some their highest: no peak is lost.
    """
    chosen = [one for one in points if one.time >= since]
    size = -(-len(chosen) // most) if chosen else 1
    for start in range(0, len(chosen), size):
        some = chosen[start : start + size]
        yield LatencyPoint(
            time=some[-1].time,
            mean=sum(one.mean for one in some) / len(some),
            p50=sum(one.p50 for one in some) / len(some),
            p95=max(one.p95 for one in some),
            p99=max(one.p99 for one in some),
        )

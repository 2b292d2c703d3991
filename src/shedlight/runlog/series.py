"""A node over time: a point for each micro-batch, and fewer for what is long past."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeVar

from shedlight.runlog.aggregate import span_of, utilisation_of
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord

LATENCIES = ("mean", "p50", "p95", "p99")
"""The keys of a latency, in the log and wherever it is shown."""

MAX_POINTS = 3_000
"""How many points of a node are kept; when there are more, the older half is halved."""
MAX_STATUSES = 1_000
"""How many changes of the status of a node are kept; the oldest go."""

_Item = TypeVar("_Item")


def split_evenly(items: Sequence[_Item], most: int) -> Iterator[Sequence[_Item]]:
    """Split items into at most so many chunks of neighbours, to be drawn as one point each.

    Example:
        >>> list(split_evenly("abcdefg", 3))
        ['abc', 'def', 'g']
    """
    size = max(1, -(-len(items) // most))
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoint:
    """A node at the end of a micro-batch, or of several; None: it is not known."""

    time: float  # when it ended, in seconds since 1970
    span: float  # the seconds since the micro-batch before
    mean: float | None = None  # the mean latency of its events, in seconds
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    rate: float  # events read per second of its span
    kept_rate: float  # events kept per second of its span
    kept: float | None  # the share of its relevant events that some pattern kept
    pressure: float | None  # the factor by which the shares of the plan were lowered
    busy: float | None  # the share of its span that the micro-batch took
    load: float | None  # the busy time as a share of its limit, as decided last
    took: float  # the seconds that the micro-batch took


def merge_points(points: Sequence[NodePoint]) -> NodePoint:
    """Put neighbours together; quantiles are the highest, so that no peak is lost."""
    if len(points) == 1:
        return points[0]
    spans = [point.span for point in points]
    return NodePoint(
        time=points[-1].time,
        span=sum(spans),
        mean=_mean([point.mean for point in points]),
        p50=_mean([point.p50 for point in points]),
        p95=_most([point.p95 for point in points]),
        p99=_most([point.p99 for point in points]),
        rate=_mean([point.rate for point in points], spans) or 0.0,
        kept_rate=_mean([point.kept_rate for point in points], spans) or 0.0,
        kept=_mean([point.kept for point in points]),
        pressure=_mean([point.pressure for point in points]),
        busy=_mean([point.busy for point in points], spans),
        load=points[-1].load,
        took=max(point.took for point in points),
    )


def _mean(values: Sequence[float | None], weights: Sequence[float] = ()) -> float | None:
    known = [index for index, value in enumerate(values) if value is not None]
    if not known:
        return None
    chosen = [values[index] or 0.0 for index in known]
    heavy = [weights[index] for index in known] if weights else []
    return fmean(chosen, heavy) if sum(heavy) > 0 else fmean(chosen)


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


@dataclass(slots=True)
class NodeSeries:
    """A node over time, from the beginning of its log on, in memory that does not grow."""

    points: list[NodePoint] = field(default_factory=list)  # oldest first
    # when it came to have which status, oldest first
    statuses: list[tuple[float, str]] = field(default_factory=list)
    load: float | None = None  # its busy time as a share of its limit, as decided last
    before: MicroBatchRecord | None = None  # the micro-batch before the next, if it is known

    def add_batch(self, batch: MicroBatchRecord, *, timed: bool) -> None:
        """Add a micro-batch; `timed` says whether its latency counts."""
        self.points.append(_point_of(batch, self.before, self.load, timed=timed))
        self.before = batch
        if len(self.points) > MAX_POINTS:
            old = self.points[: MAX_POINTS // 2]
            self.points[: len(old)] = map(merge_points, split_evenly(old, len(old) // 2))

    def add_decision(self, decision: DecisionRecord, node: str) -> None:
        """Add what a decision says of the node."""
        self.load = decision.loads.get(node, self.load)
        status = decision.statuses.get(node)
        if status is not None and (not self.statuses or self.statuses[-1][1] != status):
            self.statuses.append((decision.time, status))
            del self.statuses[:-MAX_STATUSES]


def _point_of(
    batch: MicroBatchRecord,
    before: MicroBatchRecord | None,
    load: float | None,
    *,
    timed: bool,
) -> NodePoint:
    span = span_of(batch, before)
    mean = batch.latency.get("mean") if timed else None
    per_second = 1 / span if span else 0.0
    return NodePoint(
        time=batch.time,
        span=span,
        mean=mean,
        p50=None if mean is None else batch.latency.get("p50", mean),
        p95=None if mean is None else batch.latency.get("p95", mean),
        p99=None if mean is None else batch.latency.get("p99", mean),
        rate=batch.events * per_second,
        kept_rate=batch.kept * per_second,
        kept=min(1.0, batch.kept / batch.offered) if batch.offered else None,
        pressure=batch.pressure,
        busy=utilisation_of(batch, before),
        load=load,
        took=batch.seconds,
    )

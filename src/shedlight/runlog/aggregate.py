"""Totals of a run, added up record by record.

The summary, the metrics, the report and the web UI are all made from them, whether the records
come from a log or from the run itself.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    Record,
    RunHeader,
    SampleRecord,
)

_LOGGED = (50, 95, 99)  # the percentiles of latency in a micro-batch record
STATUSES = ("OK", "SHEDDING", "BOUND-AT-RISK", "INFEASIBLE")
"""The statuses of a node, from best to worst."""
STARTING = "STARTING"
"""The status of a node that has had no micro-batch since the run was started."""
LATENCY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 120)
"""Upper limits in seconds of the buckets that latencies are counted in; one more has none."""


@dataclass(slots=True)
class NodeTotals:
    """Totals of a node."""

    bound: float | None = None  # the time that an event may spend here, in seconds
    percentile: int | None = None  # of which percentile that is; None: of the mean
    batches: int = 0  # how many micro-batches there were
    events: int = 0  # how many events were read
    kept: int = 0  # how many of them some pattern kept
    # how many were not kept; `exact` says whether only relevant ones were counted
    shed: int = 0
    exact: bool = True
    irrelevant_seen: int = 0  # how many no pattern can take, of micro-batches that say so
    busy: float = 0.0  # the seconds of all micro-batches
    waited: float = 0.0  # the seconds that all kept events together spent here
    timed: int = 0  # how many events that is of
    # how many of these events there are in each bucket of latency
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    timed_batches: int = 0  # how many micro-batches had a latency
    over: int = 0  # in how many of those the mean, or the percentile, was above the bound
    empty_batches: int = 0  # how many micro-batches kept nothing of what is relevant
    # how many of all kept events took longer than the bound, by the quantiles that are logged
    events_over: float = 0.0
    # the highest mean, or percentile, of a micro-batch, and when that was
    worst: tuple[float, float] | None = None
    # the share of the time since the micro-batch before that the last one took
    utilisation: float | None = None
    last: MicroBatchRecord | None = None  # the last micro-batch since the last start
    # the mean latency of the last micro-batch that had one, in seconds
    latency: float | None = None
    load: float | None = None  # the busy time as a share of its limit
    status: str = "OK"  # one of `STATUSES`
    advice: str = ""  # what can be done about it

    @property
    def current_status(self) -> str:
        """Its status now: `STARTING`, or one of `STATUSES`."""
        return STARTING if self.last is None else self.status

    @property
    def irrelevant(self) -> int | None:
        """How many events no pattern can take; None: the log does not tell them apart."""
        return self.irrelevant_seen if self.exact else None

    @property
    def mean_latency(self) -> float | None:
        """The mean latency of all that was kept, in seconds."""
        return self.waited / self.timed if self.timed else None

    @property
    def over_share(self) -> float | None:
        """The share of the kept events that took longer than the bound, to four digits."""
        return round(self.events_over / self.timed, 4) if self.bound and self.timed else None

    @property
    def allowed_over(self) -> float | None:
        """The share of events that may take longer than the bound; None: it is of the mean."""
        return None if self.percentile is None else round(1 - self.percentile / 100, 2)

    @property
    def keeps_bound(self) -> bool:
        """Whether the events that were kept are within the bound; not if there were none."""
        if self.bound is None or self.mean_latency is None:
            return self.bound is None
        if self.allowed_over is None:
            return self.mean_latency <= self.bound
        return (self.over_share or 0.0) <= self.allowed_over

    def add(self, batch: MicroBatchRecord, *, timed: bool) -> None:
        """Add a micro-batch; `timed` says whether its latency counts."""
        self.batches += 1
        self.events += batch.events
        self.kept += batch.kept
        self.shed += batch.shed
        self.irrelevant_seen += max(0, batch.events - batch.offered)
        self.exact &= batch.relevant_events is not None or not batch.events
        self.busy += batch.seconds
        self.utilisation = utilisation_of(batch, self.last)
        self.last = batch
        self.empty_batches += bool(batch.relevant_events) and not batch.kept
        mean = batch.latency.get("mean")
        if timed and batch.kept and mean is not None:
            self._add_latency(batch, mean)

    def _add_latency(self, batch: MicroBatchRecord, mean: float) -> None:
        self.latency = mean
        self.waited += max(0.0, mean) * batch.kept
        self.timed += batch.kept
        self.timed_batches += 1
        held = held_latency(batch.latency, self.percentile, mean)
        if self.bound is not None:
            self.over += held > self.bound
            self.events_over += share_over(batch.latency, self.bound, mean) * batch.kept
        if self.worst is None or held > self.worst[0]:
            self.worst = (held, batch.time)
        slow, slowest = batch.kept // 2, batch.kept // 20
        counts = {"p50": batch.kept - slow, "p95": slow - slowest, "p99": slowest}
        for quantile, number in counts.items():  # an event counts as slow as its quantile
            seconds = batch.latency.get(quantile, mean)
            self.buckets[bisect_left(LATENCY_BUCKETS, seconds)] += number


@dataclass(slots=True)
class PatternTotals:
    """Totals of a pattern; partial matches are those of its last micro-batch."""

    kept: int = 0
    matches: int = 0
    seconds: float = 0.0
    partial_matches: int = 0
    cancelled: int = 0
    types: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RunTotals:
    """Totals of a run."""

    header: RunHeader | None = None  # what is run, as of the last start
    starts: int = 0  # how often it was started, as far as the log says
    nodes: dict[str, NodeTotals] = field(default_factory=dict)  # by name
    patterns: dict[str, PatternTotals] = field(default_factory=dict)  # by operator and name
    decisions: int = 0  # how many there were
    plans: int = 0  # how many of them brought a new plan
    planning: float = 0.0  # the seconds that all decisions took
    decision: DecisionRecord | None = None  # the last one
    # what one more busy millisecond per second of a node would bring
    prices: dict[str, float] = field(default_factory=dict)
    # what a complex event is worth at each sink
    weights: dict[str, float] = field(default_factory=dict)
    # how many events were late at each operator, since the checkpoint was begun
    late: dict[str, int] = field(default_factory=dict)
    # what the unshed sample says of each sink; nothing of a run without one
    unshed_sample: dict[str, SampleRecord] = field(default_factory=dict)
    _malformed: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def timed(self) -> bool:
        """Whether events come while it runs; if not, latency says nothing."""
        return self.header is None or self.header.timed

    @property
    def start_time(self) -> float | None:
        """When it was last started, in seconds since 1970."""
        return self.header.time if self.header else None

    @property
    def decision_time(self) -> float | None:
        """When the last decision was made, in seconds since 1970."""
        return self.decision.time if self.decision else None

    @property
    def reason(self) -> str:
        """Why the last decision was made."""
        return self.decision.reason if self.decision else ""

    @property
    def malformed(self) -> dict[str, int]:
        """How many records of each source were malformed; each node that reads it sees all."""
        totals: dict[str, int] = {}
        for (_, source), number in self._malformed.items():
            totals[source] = max(totals.get(source, 0), number)
        return totals

    def add(self, record: Record) -> None:
        """Add a record."""
        match record:
            case RunHeader():
                self._add_start(record)
            case MicroBatchRecord():
                self._add_batch(record)
            case DecisionRecord():
                self._add_decision(record)
            case OverrideRecord():
                self._add_override(record)

    def _add_start(self, header: RunHeader) -> None:
        self.header = header
        self.starts += 1
        self.unshed_sample = {}
        self.weights = dict(header.weights)
        used = {spec.node for spec in header.operators.values()} or set(header.bounds)
        for name, bound in header.bounds.items():
            if name in used:
                node = self.nodes.setdefault(name, NodeTotals())
                node.bound, node.last = bound, None
                node.percentile = header.percentiles.get(name)

    def _add_batch(self, batch: MicroBatchRecord) -> None:
        self.nodes.setdefault(batch.node, NodeTotals()).add(batch, timed=self.timed)
        for name, record in batch.patterns.items():
            pattern = self.patterns.setdefault(name, PatternTotals())
            pattern.kept += record.kept
            pattern.matches += record.matches
            pattern.seconds += record.seconds
            pattern.partial_matches = record.partial_matches
            pattern.cancelled += record.cancelled
            for label, number in record.types.items():
                pattern.types[label] = pattern.types.get(label, 0) + number
        self.unshed_sample |= batch.unshed_sample
        for source, number in batch.malformed.items():
            key = (batch.node, source)
            self._malformed[key] = self._malformed.get(key, 0) + number
        for operator, number in batch.late.items():  # idle shards may be missing
            self.late[operator] = max(self.late.get(operator, 0), number)

    def _add_decision(self, decision: DecisionRecord) -> None:
        self.decisions += 1
        self.plans += decision.replanned
        self.planning += decision.seconds
        self.decision = decision
        self.prices = dict(decision.prices) if decision.replanned else self.prices
        for name, load in decision.loads.items():
            self.nodes.setdefault(name, NodeTotals()).load = load
        for name, status in decision.statuses.items():
            node = self.nodes.setdefault(name, NodeTotals())
            node.status, node.advice = status, decision.advice.get(name, "")

    def _add_override(self, override: OverrideRecord) -> None:
        if override.rejected:
            return
        self.weights |= override.weights
        for name, bound in override.bounds.items():
            self.nodes.setdefault(name, NodeTotals()).bound = bound


def run_totals(records: Iterable[Record]) -> RunTotals:
    """Add up records."""
    totals = RunTotals()
    for record in records:
        totals.add(record)
    return totals


def held_latency(latency: Mapping[str, float], percentile: int | None, mean: float) -> float:
    """Give the latency that a bound is of: the mean, or the next percentile that is logged.

    Example:
        >>> held_latency({"p95": 2.0, "p99": 4.0}, 90, 1.0), held_latency({}, None, 1.0)
        (2.0, 1.0)
    """
    if percentile is None:
        return mean
    names = [f"p{each}" for each in _LOGGED if each >= percentile]
    return next((latency[name] for name in names if name in latency), mean)


def share_over(latency: Mapping[str, float], bound: float, mean: float) -> float:
    """Estimate the share of events that took longer than a bound, between logged quantiles.

    Example:
        >>> latency = {"p50": 1.0, "p95": 3.0, "p99": 5.0}
        >>> [round(share_over(latency, bound, 1.5), 3) for bound in (0.5, 2.0, 3.0, 4.0, 6.0)]
        [1.0, 0.275, 0.05, 0.03, 0.0]
    """
    known = [(latency[f"p{p}"], 1 - p / 100) for p in _LOGGED if f"p{p}" in latency]
    if not known:
        return float(mean > bound)
    if bound < known[0][0]:
        return 1.0
    for (low, more), (high, less) in pairwise(known):
        if low <= bound < high:
            return more - (more - less) * (bound - low) / (high - low)
    return 0.0


def span_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float:
    """Measure the seconds from the end of the micro-batch before to the end of this one."""
    span = batch.seconds if before is None else batch.time - before.time
    return span if span > 0 else batch.seconds


def utilisation_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float | None:
    """Measure the share of the time since the micro-batch before that this one took."""
    span = span_of(batch, before)
    return min(1.0, batch.seconds / span) if span > 0 else None

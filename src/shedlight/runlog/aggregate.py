"""Totals of a run, added up record by record.

The summary, the metrics, the report and the web UI are all made from them, whether the records
come from a log or from the run itself.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    Record,
    RunHeader,
)

STATUSES = ("OK", "SHEDDING", "BOUND-AT-RISK", "INFEASIBLE")
"""The statuses of a node, from best to worst."""
LATENCY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 120)
"""Upper limits in seconds of the buckets that latencies are counted in; one more has none."""


@dataclass(slots=True)
class NodeTotals:
    """Totals of a node."""

    bound: float | None = None  # the mean time that an event may spend here, in seconds
    batches: int = 0  # how many micro-batches there were
    events: int = 0  # how many events were read
    kept: int = 0  # how many of them some pattern kept
    # how many were not kept; `exact` says whether only relevant ones were counted
    shed: int = 0
    exact: bool = True
    busy: float = 0.0  # the seconds of all micro-batches
    waited: float = 0.0  # the seconds that all kept events together spent here
    timed: int = 0  # how many events that is of
    # how many of these events there are in each bucket of latency
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    timed_batches: int = 0  # how many micro-batches had a latency
    over: int = 0  # how many of those were above the bound on average
    # the highest mean of a micro-batch, and when that was
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
    def mean_latency(self) -> float | None:
        """The mean latency of all that was kept, in seconds."""
        return self.waited / self.timed if self.timed else None

    def add(self, batch: MicroBatchRecord, *, timed: bool) -> None:
        """Add a micro-batch; `timed` says whether its latency counts."""
        self.batches += 1
        self.events += batch.events
        self.kept += batch.kept
        self.shed += batch.shed
        self.exact &= batch.relevant_events is not None or not batch.events
        self.busy += batch.seconds
        self.utilisation = utilisation_of(batch, self.last)
        self.last = batch
        mean = batch.latency.get("mean")
        if timed and batch.kept and mean is not None:
            self._add_latency(batch, mean)

    def _add_latency(self, batch: MicroBatchRecord, mean: float) -> None:
        self.latency = mean
        self.waited += max(0.0, mean) * batch.kept
        self.timed += batch.kept
        self.timed_batches += 1
        self.over += self.bound is not None and mean > self.bound
        if self.worst is None or mean > self.worst[0]:
            self.worst = (mean, batch.time)
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
        self.weights = dict(header.weights)
        used = {spec.node for spec in header.operators.values()} or set(header.bounds)
        for name, bound in header.bounds.items():
            if name in used:
                node = self.nodes.setdefault(name, NodeTotals())
                node.bound, node.last = bound, None

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


def span_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float:
    """Measure the seconds from the end of the micro-batch before to the end of this one."""
    span = batch.seconds if before is None else batch.time - before.time
    return span if span > 0 else batch.seconds


def utilisation_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float | None:
    """Measure the share of the time since the micro-batch before that this one took."""
    span = span_of(batch, before)
    return min(1.0, batch.seconds / span) if span > 0 else None

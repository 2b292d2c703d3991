"""What is known of a run so far, summed up record by record.

The metrics tell it to machines, the report and the page to people: one state for all of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    Record,
    RunHeader,
)

STATES = ("OK", "SHEDDING", "BOUND-AT-RISK", "INFEASIBLE")
"""How a node can be, from best to worst."""


@dataclass(slots=True)
class NodeTotals:
    """What is known of a node.

    Attributes:
        bound: The mean time that an event may spend here, in seconds.
        batches: How many micro-batches there were.
        events: How many events were read.
        kept: How many of them some pattern kept.
        shed: How many were not kept; `exact` says whether those of no use are left out.
        busy: The seconds of all micro-batches.
        waited: The seconds that all kept events together spent here.
        timed: How many events that is of.
        looked_at: How many micro-batches had a latency.
        over: How many of those were above the bound on average.
        worst: The highest mean of a micro-batch, and when that was.
        utilisation: The share of the time that the last micro-batch took, up to the one before.
        last: The last micro-batch.
        load: The busy time as a share of its limit.
        state: How it is, in a word.
        remedy: What can be done about it.
    """

    bound: float | None = None
    batches: int = 0
    events: int = 0
    kept: int = 0
    shed: int = 0
    exact: bool = True
    busy: float = 0.0
    waited: float = 0.0
    timed: int = 0
    looked_at: int = 0
    over: int = 0
    worst: tuple[float, float] | None = None
    utilisation: float | None = None
    last: MicroBatchRecord | None = None
    load: float | None = None
    state: str = "OK"
    remedy: str = ""

    @property
    def mean(self) -> float | None:
        """The mean latency of all that was kept, in seconds."""
        return self.waited / self.timed if self.timed else None

    def take(self, batch: MicroBatchRecord, *, timed: bool) -> None:
        """Take in a micro-batch."""
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
            self._take_latency(batch, mean)

    def _take_latency(self, batch: MicroBatchRecord, mean: float) -> None:
        self.waited += max(0.0, mean) * batch.kept
        self.timed += batch.kept
        self.looked_at += 1
        self.over += self.bound is not None and mean > self.bound
        if self.worst is None or mean > self.worst[0]:
            self.worst = (mean, batch.time)


@dataclass(slots=True)
class PatternTotals:
    """What is known of a pattern: what it was given, found and took, and is waiting for."""

    kept: int = 0
    found: int = 0
    seconds: float = 0.0
    partial_matches: int = 0
    types: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RunTotals:
    """What is known of a run.

    Attributes:
        header: How it began, the last time.
        starts: How often it began, as far as the log says.
        nodes: By name.
        patterns: By operator and name.
        decisions: How many there were.
        plans: How many of them brought a new plan.
        decision: The last one.
        prices: What one more busy millisecond per second of a node would bring.
        weights: What a complex event is worth at each sink.
        late: How many events were late at each operator, since the checkpoint was begun.
    """

    header: RunHeader | None = None
    starts: int = 0
    nodes: dict[str, NodeTotals] = field(default_factory=dict)
    patterns: dict[str, PatternTotals] = field(default_factory=dict)
    decisions: int = 0
    plans: int = 0
    planning: float = 0.0
    decision: DecisionRecord | None = None
    prices: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    _refused: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def refused(self) -> dict[str, int]:
        """How many records of each source were no events; each node that reads it sees all."""
        found: dict[str, int] = {}
        for (_, source), number in self._refused.items():
            found[source] = max(found.get(source, 0), number)
        return found

    def take(self, record: Record) -> None:
        """Take in a record."""
        match record:
            case RunHeader():
                self._begin(record)
            case MicroBatchRecord():
                self._take_batch(record)
            case DecisionRecord():
                self._take_decision(record)
            case OverrideRecord():
                self._take_wish(record)

    def _begin(self, header: RunHeader) -> None:
        self.header = header
        self.starts += 1
        self.weights = dict(header.weights)
        used = {one.node for one in header.operators.values()} or set(header.bounds)
        for name, bound in header.bounds.items():
            if name in used:
                node = self.nodes.setdefault(name, NodeTotals())
                node.bound, node.last = bound, None

    def _take_batch(self, batch: MicroBatchRecord) -> None:
        timed = self.header is None or self.header.timed
        self.nodes.setdefault(batch.node, NodeTotals()).take(batch, timed=timed)
        for name, one in batch.patterns.items():
            pattern = self.patterns.setdefault(name, PatternTotals())
            pattern.kept += one.kept
            pattern.found += one.found
            pattern.seconds += one.seconds
            pattern.partial_matches = one.partial_matches
            for label, number in one.types.items():
                pattern.types[label] = pattern.types.get(label, 0) + number
        for source, number in batch.refused.items():
            key = (batch.node, source)
            self._refused[key] = self._refused.get(key, 0) + number
        for operator, number in batch.late.items():  # groups that were silent may be missing
            self.late[operator] = max(self.late.get(operator, 0), number)

    def _take_decision(self, decision: DecisionRecord) -> None:
        self.decisions += 1
        self.plans += decision.replanned
        self.planning += decision.seconds
        self.decision = decision
        self.prices = dict(decision.prices) if decision.replanned else self.prices
        for name, load in decision.loads.items():
            self.nodes.setdefault(name, NodeTotals()).load = load
        for name, state in decision.states.items():
            node = self.nodes.setdefault(name, NodeTotals())
            node.state, node.remedy = state, decision.remedies.get(name, "")

    def _take_wish(self, wish: OverrideRecord) -> None:
        if wish.refused:
            return
        self.weights |= wish.weights
        for name, bound in wish.bounds.items():
            self.nodes.setdefault(name, NodeTotals()).bound = bound


def run_totals(records: Iterable[Record]) -> RunTotals:
    """Sum up records."""
    tally = RunTotals()
    for record in records:
        tally.take(record)
    return tally


def span_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float:
    """Say how many seconds passed from the end of the micro-batch before to the end of this."""
    span = batch.seconds if before is None else batch.time - before.time
    return span if span > 0 else batch.seconds


def utilisation_of(batch: MicroBatchRecord, before: MicroBatchRecord | None) -> float | None:
    """Say what share of the time since the micro-batch before this one took, at most 1."""
    span = span_of(batch, before)
    return min(1.0, batch.seconds / span) if span > 0 else None

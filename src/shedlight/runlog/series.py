"""A run over time: points of its nodes and patterns, its keep shares, its decisions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shedlight.runlog.aggregate import span_of, utilisation_of
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord, Record, RunHeader

LATENCIES = ("mean", "p50", "p95", "p99")
"""The keys of a latency, in the log and wherever it is shown."""

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
    """A node at the end of a micro-batch."""

    batch: MicroBatchRecord  # the micro-batch
    rate: float  # events read per second since the end of the micro-batch before
    kept_rate: float  # those that were kept, per second
    utilisation: float | None  # the share of this time that the micro-batch took
    # in seconds, under the names in `LATENCIES`; empty if it says nothing
    latency: Mapping[str, float]


@dataclass(slots=True)
class NodeSeries:
    """A node over time."""

    points: list[NodePoint] = field(default_factory=list)  # a point for each micro-batch
    # its busy time as a share of its limit, at each decision
    loads: list[tuple[float, float]] = field(default_factory=list)
    # when it came to have which status
    statuses: list[tuple[float, str]] = field(default_factory=list)

    def add_decision(self, decision: DecisionRecord, node: str) -> None:
        """Add what a decision says of the node."""
        if node in decision.loads:
            self.loads.append((decision.time, decision.loads[node]))
        status = decision.statuses.get(node)
        if status is not None and (not self.statuses or self.statuses[-1][1] != status):
            self.statuses.append((decision.time, status))


def node_series(records: Iterable[Record]) -> dict[str, NodeSeries]:
    """Follow each node that had a micro-batch over time."""
    timed = True
    before: dict[str, MicroBatchRecord] = {}
    series: dict[str, NodeSeries] = {}
    for record in records:
        match record:
            case RunHeader():
                timed = record.timed
                before.clear()
            case MicroBatchRecord():
                point = _node_point(record, before.get(record.node), timed=timed)
                series.setdefault(record.node, NodeSeries()).points.append(point)
                before[record.node] = record
            case DecisionRecord():
                for node in {**record.loads, **record.statuses}:
                    series.setdefault(node, NodeSeries()).add_decision(record, node)
            case _:
                pass
    return {node: line for node, line in series.items() if line.points}


def _node_point(
    batch: MicroBatchRecord, before: MicroBatchRecord | None, *, timed: bool
) -> NodePoint:
    span = span_of(batch, before)
    return NodePoint(
        batch=batch,
        rate=batch.events / span if span else 0.0,
        kept_rate=batch.kept / span if span else 0.0,
        utilisation=utilisation_of(batch, before),
        latency=batch.latency if timed else {},
    )


def match_series(records: Iterable[Record]) -> dict[str, list[tuple[float, float]]]:
    """Follow how many complex events each pattern has found up to a time."""
    series: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        if isinstance(record, MicroBatchRecord):
            for name, pattern in record.patterns.items():
                points = series.setdefault(name, [])
                matches = (points[-1][1] if points else 0.0) + pattern.matches
                points.append((record.time, matches))
    return series


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepShareRow:
    """What a pattern keeps of a type."""

    pattern: str  # by operator and name
    type: str  # the label of the type
    current: float | None  # the keep share; None if the last plan does not name it
    lowest: float  # the lowest share there was
    highest: float  # the highest share there was
    changed: float  # when it last became another


def keep_share_rows(decisions: Sequence[DecisionRecord]) -> list[KeepShareRow]:
    """List what each pattern keeps of each type, those that are kept least first."""
    changes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for decision in decisions:
        for pattern, shares in decision.shares.items():
            for label, share in shares.items():
                times = changes.setdefault((pattern, label), [])
                if not times or times[-1][1] != share:
                    times.append((decision.time, share))
    last = decisions[-1].shares if decisions else {}
    rows = [
        KeepShareRow(
            pattern=pattern,
            type=label,
            current=last.get(pattern, {}).get(label),
            lowest=min(share for _, share in times),
            highest=max(share for _, share in times),
            changed=times[-1][0],
        )
        for (pattern, label), times in changes.items()
    ]
    return sorted(
        rows, key=lambda row: (row.pattern, -1 if row.current is None else row.current)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEntry:
    """An entry of the list of decisions: one, and those after it that changed nothing."""

    decision: DecisionRecord  # the first of them
    last: DecisionRecord  # the last of them
    number: int  # how many there are
    changes: Mapping[str, str]  # which nodes came to have another status, and which


def decision_entries(decisions: Iterable[DecisionRecord]) -> list[DecisionEntry]:
    """List decisions; those that change neither plan nor status are put together."""
    entries: list[DecisionEntry] = []
    statuses: Mapping[str, str] = {}
    for decision in decisions:
        changes = {n: s for n, s in decision.statuses.items() if statuses.get(n, "OK") != s}
        last = entries[-1] if entries else None
        changed = decision.replanned or changes
        if not changed and last and not last.decision.replanned and not last.changes:
            entries[-1] = replace(last, last=decision, number=last.number + 1)
        else:
            entries.append(
                DecisionEntry(decision=decision, last=decision, number=1, changes=changes)
            )
        statuses = {**statuses, **decision.statuses}
    return entries

"""How a run went over time: for each node and pattern, and what was decided when."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from shedlight.runlog.aggregate import span_of, utilisation_of
from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    Record,
    RunHeader,
)

_Item = TypeVar("_Item")

LATENCIES = ("mean", "p50", "p95", "p99")


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
    """A node at the end of a micro-batch.

    Attributes:
        time: In seconds since 1970.
        rate: Events read per second since the end of the micro-batch before.
        kept_rate: Those that were kept, per second.
        share: The share of the events that was kept; None if there were none.
        seconds: How long the micro-batch took.
        utilisation: What share of the time since the one before that is, at most 1.
        pressure: To what the node lowered the shares of its plan by itself, if it was logged.
        latency: In seconds, under the names in `LATENCIES`.
    """

    time: float
    rate: float
    kept_rate: float
    share: float | None
    seconds: float
    utilisation: float | None
    pressure: float | None
    latency: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeries:
    """A node over time.

    Attributes:
        node: Its name.
        bound: The mean time that an event may spend there in seconds, if it is known.
        points: A point for each micro-batch.
        loads: Its busy time as a share of its limit, at each decision.
        statuses: When it came to be in which status.
    """

    node: str
    bound: float | None
    points: tuple[NodePoint, ...]
    loads: tuple[tuple[float, float], ...]
    statuses: tuple[tuple[float, str], ...]


def node_series(records: Sequence[Record]) -> dict[str, NodeSeries]:
    """Follow each node over time."""
    timed = True
    bounds: dict[str, float | None] = {}
    before: dict[str, MicroBatchRecord] = {}
    points: dict[str, list[NodePoint]] = {}
    for record in records:
        match record:
            case RunHeader():
                timed = record.timed
                bounds |= record.bounds
                before.clear()
            case MicroBatchRecord():
                point = _point(record, before.get(record.node), timed=timed)
                points.setdefault(record.node, []).append(point)
                before[record.node] = record
            case OverrideRecord() if not record.rejected:
                bounds |= record.bounds
            case _:
                pass
    decisions = [one for one in records if isinstance(one, DecisionRecord)]
    return {
        name: NodeSeries(
            node=name,
            bound=bounds.get(name),
            points=tuple(found),
            loads=tuple((d.time, d.loads[name]) for d in decisions if name in d.loads),
            statuses=_states(name, decisions),
        )
        for name, found in points.items()
    }


def _point(
    batch: MicroBatchRecord, before: MicroBatchRecord | None, *, timed: bool
) -> NodePoint:
    span = span_of(batch, before)
    return NodePoint(
        time=batch.time,
        rate=batch.events / span if span else 0.0,
        kept_rate=batch.kept / span if span else 0.0,
        share=min(1.0, batch.kept / batch.events) if batch.events else None,
        seconds=batch.seconds,
        utilisation=utilisation_of(batch, before),
        pressure=batch.pressure,
        latency=batch.latency if timed else {},
    )


def _states(node: str, decisions: Iterable[DecisionRecord]) -> tuple[tuple[float, str], ...]:
    found: list[tuple[float, str]] = []
    for one in decisions:
        status = one.statuses.get(node)
        if status is not None and (not found or found[-1][1] != status):
            found.append((one.time, status))
    return tuple(found)


def match_series(records: Iterable[Record]) -> dict[str, list[tuple[float, float]]]:
    """Follow how many complex events each pattern has found up to a time."""
    found: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        if isinstance(record, MicroBatchRecord):
            for name, one in record.patterns.items():
                line = found.setdefault(name, [])
                line.append((record.time, (line[-1][1] if line else 0.0) + one.matches))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a pattern keeps of a type.

    Attributes:
        pattern: By operator and name.
        type: The type, by its label.
        now: The share that it keeps; None if the last plan does not say.
        least: The lowest share there was.
        most: The highest share there was.
        changed: When it last became another.
    """

    pattern: str
    type: str
    now: float | None
    least: float
    most: float
    changed: float


def share_table(decisions: Sequence[DecisionRecord]) -> tuple[Share, ...]:
    """Say what each pattern keeps of each type, those that are kept least first."""
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in decisions:
        for pattern, shares in one.shares.items():
            for label, share in shares.items():
                line = seen.setdefault((pattern, label), [])
                if not line or line[-1][1] != share:
                    line.append((one.time, share))
    last = decisions[-1].shares if decisions else {}
    found = [
        Share(
            pattern=pattern,
            type=label,
            now=last.get(pattern, {}).get(label),
            least=min(share for _, share in line),
            most=max(share for _, share in line),
            changed=line[-1][0],
        )
        for (pattern, label), line in seen.items()
    ]
    return tuple(sorted(found, key=lambda s: (s.pattern, -1 if s.now is None else s.now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEntry:
    """A line of the decision log: a decision, and those after it that changed nothing.

    Attributes:
        decision: The first of them.
        last: The last of them.
        number: How many there are.
        news: Which nodes came to be in another status, and which.
    """

    decision: DecisionRecord
    last: DecisionRecord
    number: int
    news: Mapping[str, str]


def decision_log(decisions: Iterable[DecisionRecord]) -> tuple[DecisionEntry, ...]:
    """List what was decided; decisions that change neither plan nor status are put together."""
    found: list[DecisionEntry] = []
    statuses: Mapping[str, str] = {}
    for one in decisions:
        news = {node: s for node, s in one.statuses.items() if statuses.get(node, "OK") != s}
        quiet = not one.replanned and not news
        if quiet and found and not found[-1].decision.replanned and not found[-1].news:
            first = found.pop()
            found.append(replace(first, last=one, number=first.number + 1))
        else:
            found.append(DecisionEntry(decision=one, last=one, number=1, news=news))
        statuses = {**statuses, **one.statuses}
    return tuple(found)

"""Running averages of the counts of a node, over an adjustable number of events."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from shedlight.graph.application import Stream

TypeCounts = Mapping[Stream, Mapping[str, float]]  # for each stream a number for each type


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCounts:
    """The counts of an operator in an interval."""

    arrivals: TypeCounts  # events from each input, of each type, before shedding
    # events that each pattern kept, of each type that it uses
    kept: TypeCounts = field(default_factory=dict)
    processed: TypeCounts = field(default_factory=dict)  # events that each pattern processed
    busy: TypeCounts = field(default_factory=dict)  # seconds that this took
    # the squares of these seconds, added up event by event
    squares: TypeCounts = field(default_factory=dict)
    # complex events of each pattern
    outputs: Mapping[Stream, float] = field(default_factory=dict)
    # of each pattern, at the end
    partial_matches: Mapping[Stream, float] = field(default_factory=dict)

    @property
    def events(self) -> float:
        """How many events arrived."""
        return sum(sum(types.values()) for types in self.arrivals.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """The counts of a node in an interval."""

    node: str  # its name
    time: float  # when the interval ended, in seconds
    seconds: float  # how long it was
    operators: Mapping[str, OperatorCounts]  # the counts of each operator
    backlog: float = 0.0  # busy seconds that are queued at the end
    busy: float = 0.0  # seconds that the node was busy
    waited: float = 0.0  # seconds that processed events spent there, added up
    processed: float = 0.0  # how many events these were

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError(f"seconds must be more than zero, got {self.seconds}")


class Measure(Enum):
    """What is averaged."""

    ARRIVALS = "arrivals"
    KEPT = "kept"
    OUTPUTS = "outputs"
    TIME = "processing_time"
    MOMENT = "second_moment"
    PARTIAL_MATCHES = "partial_matches"
    BACKLOG = "backlog"
    BUSY = "busy"
    LATENCY = "latency"
    FIXED = "micro_batch_fixed"
    READING = "micro_batch_reading"
    TRANSPORT = "transport"
    BYTES = "event_bytes"


@dataclass(frozen=True, slots=True)
class Key:
    """Names an average."""

    measure: Measure  # what is averaged
    of: str  # the operator or the node
    stream: Stream | None = None  # the input or the pattern, if it is one's
    label: str = ""  # the type, if it is one's


Averages = Mapping[Key, float]


def window(
    recent: tuple[NodeCounts, ...], operator: str, events: float
) -> tuple[NodeCounts, ...]:
    """Find the fewest latest intervals that have so many events of an operator."""
    total = 0.0
    for start in range(len(recent) - 1, -1, -1):
        counts = recent[start].operators.get(operator)
        total += counts.events if counts else 0.0
        if total >= events:
            return recent[start:]
    return recent


def averages(recent: tuple[NodeCounts, ...], events: float) -> Averages:
    """Average over the latest intervals, of each operator those with so many of its events.

    What is of the node is averaged over those of its busiest operator; a backlog is as it is.
    """
    latest = recent[-1]
    values: dict[Key, float] = {}
    spans = []
    for name in latest.operators:
        span = window(recent, name, events)
        spans.append(span)
        values.update(_operator_averages(name, span))
    shortest = min(spans, key=len, default=recent)
    seconds = sum(each.seconds for each in shortest)
    values[Key(Measure.BACKLOG, latest.node)] = latest.backlog
    values[Key(Measure.BUSY, latest.node)] = sum(each.busy for each in shortest) / seconds
    processed = sum(each.processed for each in shortest)
    if processed:
        waited = sum(each.waited for each in shortest)
        values[Key(Measure.LATENCY, latest.node)] = waited / processed
    return values


def _operator_averages(name: str, span: tuple[NodeCounts, ...]) -> Iterator[tuple[Key, float]]:
    counts = [each.operators[name] for each in span if name in each.operators]
    seconds = sum(each.seconds for each in span)
    for measure in (Measure.ARRIVALS, Measure.KEPT):
        for (stream, label), total in _add(counts, measure.value).items():
            yield Key(measure, name, stream, label), total / seconds
    for stream in {s: None for each in counts for s in each.outputs}:
        outputs = sum(each.outputs.get(stream, 0.0) for each in counts)
        yield Key(Measure.OUTPUTS, name, stream), outputs / seconds
    processed = _add(counts, "processed")
    for measure, section in ((Measure.TIME, "busy"), (Measure.MOMENT, "squares")):
        for (stream, label), total in _add(counts, section).items():
            if processed.get((stream, label)):
                yield Key(measure, name, stream, label), total / processed[stream, label]
    for stream, number in counts[-1].partial_matches.items():
        yield Key(Measure.PARTIAL_MATCHES, name, stream), number


def _add(counts: list[OperatorCounts], section: str) -> Mapping[tuple[Stream, str], float]:
    """Add up the numbers by stream and type that the counts have in a section."""
    totals: dict[tuple[Stream, str], float] = {}
    for each in counts:
        for stream, types in getattr(each, section).items():
            for label, number in types.items():
                totals[stream, label] = totals.get((stream, label), 0.0) + number
    return totals

"""Running averages of what is counted at a node, over an adjustable number of events."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from shedlight.graph.application import Stream

Tallies = Mapping[Stream, Mapping[str, float]]
"""For each stream a number for each type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCounts:
    """What was counted at an operator in an interval.

    Attributes:
        arrivals: Events from each input, of each type, before shedding.
        kept: Events that each pattern kept, of each type that it uses.
        processed: Events that each pattern processed.
        busy: Seconds that this took.
        squares: The squares of these seconds, added up event by event.
        outputs: Complex events of each pattern.
        partial_matches: Open machines of each pattern at the end.
    """

    arrivals: Tallies
    kept: Tallies = field(default_factory=dict)
    processed: Tallies = field(default_factory=dict)
    busy: Tallies = field(default_factory=dict)
    squares: Tallies = field(default_factory=dict)
    outputs: Mapping[Stream, float] = field(default_factory=dict)
    partial_matches: Mapping[Stream, float] = field(default_factory=dict)

    @property
    def events(self) -> float:
        """How many events arrived."""
        return sum(sum(types.values()) for types in self.arrivals.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """What was counted at a node in an interval.

    Attributes:
        node: Its name.
        time: When the interval ended, in seconds.
        seconds: How long it was.
        operators: What was counted at each operator.
        backlog: Busy seconds that are queued at the end.
        busy: Seconds that the node was busy.
        waited: Seconds that processed events spent there, added up.
        processed: How many events these were.
    """

    node: str
    time: float
    seconds: float
    operators: Mapping[str, OperatorCounts]
    backlog: float = 0.0
    busy: float = 0.0
    waited: float = 0.0
    processed: float = 0.0

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


@dataclass(frozen=True, slots=True)
class Key:
    """What a number is of.

    Attributes:
        measure: What is averaged.
        of: The operator or the node.
        stream: The input or the pattern, if it is one's.
        label: The type, if it is one's.
    """

    measure: Measure
    of: str
    stream: Stream | None = None
    label: str = ""


Averages = Mapping[Key, float]


def window(
    recent: tuple[NodeCounts, ...], operator: str, events: float
) -> tuple[NodeCounts, ...]:
    """Find the fewest latest intervals that have so many events of an operator."""
    seen = 0.0
    for place in range(len(recent) - 1, -1, -1):
        tally = recent[place].operators.get(operator)
        seen += tally.events if tally else 0.0
        if seen >= events:
            return recent[place:]
    return recent


def averages(recent: tuple[NodeCounts, ...], events: float) -> Averages:
    """Average over the latest intervals, of each operator those with so many of its events.

    What is of the node is averaged over those of its busiest operator; a backlog is as it is.
    """
    latest = recent[-1]
    found: dict[Key, float] = {}
    spans = []
    for name in latest.operators:
        span = window(recent, name, events)
        spans.append(span)
        found.update(_operator_averages(name, span))
    shortest = min(spans, key=len, default=recent)
    seconds = sum(each.seconds for each in shortest)
    found[Key(Measure.BACKLOG, latest.node)] = latest.backlog
    found[Key(Measure.BUSY, latest.node)] = sum(each.busy for each in shortest) / seconds
    processed = sum(each.processed for each in shortest)
    if processed:
        waited = sum(each.waited for each in shortest)
        found[Key(Measure.LATENCY, latest.node)] = waited / processed
    return found


def _operator_averages(name: str, span: tuple[NodeCounts, ...]) -> Iterator[tuple[Key, float]]:
    tallies = [each.operators[name] for each in span if name in each.operators]
    seconds = sum(each.seconds for each in span)
    for measure, read in _RATES:
        for (stream, label), count in _added(map(read, tallies)).items():
            yield Key(measure, name, stream, label), count / seconds
    for stream in {s: None for tally in tallies for s in tally.outputs}:
        total = sum(tally.outputs.get(stream, 0.0) for tally in tallies)
        yield Key(Measure.OUTPUTS, name, stream), total / seconds
    processed = _added(tally.processed for tally in tallies)
    for measure, read in _MEANS:
        for (stream, label), total in _added(map(read, tallies)).items():
            number = processed.get((stream, label), 0.0)
            if number:
                yield Key(measure, name, stream, label), total / number
    for stream, number in tallies[-1].partial_matches.items():
        yield Key(Measure.PARTIAL_MATCHES, name, stream), number


_Read = Callable[[OperatorCounts], Tallies]
_RATES: tuple[tuple[Measure, _Read], ...] = (
    (Measure.ARRIVALS, lambda tally: tally.arrivals),
    (Measure.KEPT, lambda tally: tally.kept),
)
_MEANS: tuple[tuple[Measure, _Read], ...] = (
    (Measure.TIME, lambda tally: tally.busy),
    (Measure.MOMENT, lambda tally: tally.squares),
)


def _added(tallies: Iterable[Tallies]) -> Mapping[tuple[Stream, str], float]:
    found: dict[tuple[Stream, str], float] = {}
    for each in tallies:
        for stream, types in each.items():
            for label, number in types.items():
                found[stream, label] = found.get((stream, label), 0.0) + number
    return found

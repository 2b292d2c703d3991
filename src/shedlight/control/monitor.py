"""The monitor of a node: running averages, reported when they have moved.

Each operator averages over the last intervals that have an adjustable number of its events, so
a busy one is quick and a quiet one sure. What is more than a threshold off what was last
reported is reported, and nothing else: with a stable stream nothing is sent. The monitor counts
what it sends, for load on the network is what it is meant to save.

`merge_reports` keeps what was last reported of all nodes, and `observation_of` reads it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from shedlight.control.averages import Averages, Key, Measure, NodeCounts, averages, window
from shedlight.control.observation import Observation
from shedlight.graph.application import Stream
from shedlight.model.snapshot import MicroBatchCosts


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """The averages of a node that have moved."""

    node: str  # its name
    time: float  # when, in seconds
    values: Averages  # the new averages

    def encode(self) -> bytes:
        """Write it as it is sent."""
        rows = [
            [key.measure.value, key.of, str(key.stream or ""), key.label, value]
            for key, value in self.values.items()
        ]
        return json.dumps([self.node, self.time, rows], separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingRule:
    """Over what to average, and when to report."""

    events: float = 1000.0  # over how many events of an operator to average
    # by how much, relatively, an average must have moved to be reported
    threshold: float = 0.05
    # over how many intervals to average at most, however few events they have
    longest: int = 60

    def __post_init__(self) -> None:
        if self.longest < 1 or self.threshold < 0:
            raise ValueError(f"longest must be from 1 on and threshold from 0 on, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorMemory:
    """What the monitor of a node remembers."""

    rule: ReportingRule = field(default_factory=ReportingRule)  # when to report what
    recent: tuple[NodeCounts, ...] = ()  # the latest intervals, oldest first
    reported: Averages = field(default_factory=dict)  # what was last reported
    messages: int = 0  # how many reports were sent
    bytes: int = 0  # how long they were together


def observe(
    memory: MonitorMemory, counts: NodeCounts
) -> tuple[MonitorMemory, MonitorReport | None]:
    """Take an interval into the averages, and report those that have moved."""
    rule = memory.rule
    recent = (*memory.recent, counts)[-rule.longest :]
    current = averages(recent, rule.events)
    moved = find_moved(memory.reported, current, rule.threshold)
    memory = replace(memory, recent=_still_averaged(recent, rule.events))
    if not moved:
        return memory, None
    report = MonitorReport(counts.node, counts.time, moved)
    return replace(
        memory,
        reported={**memory.reported, **moved},
        messages=memory.messages + 1,
        bytes=memory.bytes + len(report.encode()),
    ), report


def find_moved(reported: Averages, current: Averages, threshold: float) -> Averages:
    """Find the averages that are more than a threshold off what was last reported."""
    gone = {key: 0.0 for key in reported if key not in current and _is_zero_when_gone(key)}
    return {
        key: value
        for key, value in {**gone, **current}.items()
        if _has_moved(value, reported.get(key), threshold)
    }


def _is_zero_when_gone(key: Key) -> bool:
    """Whether what is not seen any more is none; a time stays as it was last measured."""
    return key.measure not in {Measure.TIME, Measure.MOMENT, Measure.LATENCY, Measure.BYTES}


def _has_moved(value: float, reported: float | None, threshold: float) -> bool:
    return reported is None or abs(value - reported) > threshold * abs(reported)


def _still_averaged(recent: tuple[NodeCounts, ...], events: float) -> tuple[NodeCounts, ...]:
    """Forget the intervals that no operator averages over any more."""
    names = recent[-1].operators
    return recent[-max((len(window(recent, name, events)) for name in names), default=1) :]


_OF_PATTERNS = (Measure.OUTPUTS, Measure.PARTIAL_MATCHES, Measure.BYTES)
"""What is one number for each pattern."""


def merge_reports(before: Averages, reports: Iterable[MonitorReport]) -> Averages:
    """Take reports into what is known of all nodes."""
    values = dict(before)
    for report in reports:
        values.update(report.values)
    return values


def observation_of(values: Averages, time: float, interval: float) -> Observation:
    """Make an observation of what was last reported of all nodes; the interval ended then."""
    arrivals: dict[str, dict[Stream, dict[str, float]]] = {}
    typed: dict[Measure, dict[Stream, dict[str, float]]] = {}
    plain: dict[Measure, dict[Stream, float]] = {}
    nodes: dict[Measure, dict[str, float]] = {}
    for key, value in values.items():
        if key.stream is None:
            nodes.setdefault(key.measure, {})[key.of] = value
        elif key.measure is Measure.ARRIVALS:
            inputs = arrivals.setdefault(key.of, {})
            inputs.setdefault(key.stream, {})[key.label] = value
        elif key.measure in _OF_PATTERNS:
            plain.setdefault(key.measure, {})[key.stream] = value
        else:
            typed.setdefault(key.measure, {}).setdefault(key.stream, {})[key.label] = value
    return Observation(
        time=time,
        interval=interval,
        arrivals=arrivals,
        kept=typed.get(Measure.KEPT, {}),
        outputs=plain.get(Measure.OUTPUTS, {}),
        processing_time=_time_of_all_types(typed.get(Measure.TIME, {})),
        second_moment=_time_of_all_types(typed.get(Measure.MOMENT, {})),
        partial_matches=plain.get(Measure.PARTIAL_MATCHES, {}),
        backlog=nodes.get(Measure.BACKLOG, {}),
        busy=nodes.get(Measure.BUSY, {}),
        latency=nodes.get(Measure.LATENCY, {}),
        micro_batch={
            name: MicroBatchCosts(fixed, nodes[Measure.READING].get(name, 0.0))
            for name, fixed in nodes.get(Measure.FIXED, {}).items()
        },
        transport=nodes.get(Measure.TRANSPORT, {}),
        event_bytes=plain.get(Measure.BYTES, {}),
    )


def values_of(observation: Observation) -> Averages:
    """Take an observation apart into averages, of which `observation_of` makes it again."""
    return dict(chain(_rates(observation), _of_patterns(observation), _of_nodes(observation)))


def _rates(observation: Observation) -> Iterator[tuple[Key, float]]:
    for operator, inputs in observation.arrivals.items():
        for stream, types in inputs.items():
            for label, rate in types.items():
                yield Key(Measure.ARRIVALS, operator, stream, label), rate


def _of_patterns(observation: Observation) -> Iterator[tuple[Key, float]]:
    for measure in (Measure.KEPT, Measure.TIME, Measure.MOMENT, *_OF_PATTERNS):
        for stream, found in getattr(observation, measure.value).items():
            types = found if isinstance(found, Mapping) else {"": found}
            for label, value in types.items():
                yield Key(measure, str(stream.operator), stream, label), value


def _of_nodes(observation: Observation) -> Iterator[tuple[Key, float]]:
    for measure in (Measure.BACKLOG, Measure.BUSY, Measure.LATENCY, Measure.TRANSPORT):
        for node, value in getattr(observation, measure.value).items():
            yield Key(measure, node), value
    for node, costs in observation.micro_batch.items():
        yield Key(Measure.FIXED, node), costs.fixed
        yield Key(Measure.READING, node), costs.reading


def _time_of_all_types(
    times: Mapping[Stream, Mapping[str, float]],
) -> dict[Stream, Mapping[str, float] | float]:
    """Give times that are of all types as numbers."""
    return {
        stream: types[""] if types.keys() == {""} else types for stream, types in times.items()
    }

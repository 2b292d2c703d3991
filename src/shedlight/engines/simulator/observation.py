"""From what happened in intervals of a simulation to what a controller is told."""

from collections.abc import Iterable, Mapping

from shedlight.control.observation import Observation
from shedlight.engines.simulator.api import Interval


def observation_of(interval: Interval) -> Observation:
    """Say what a monitor would say of an interval."""
    length = interval.length
    number = {stream: sum(kept.values()) for stream, kept in interval.kept.items()}
    timed = {s: n for s, n in number.items() if n and interval.spent[s][0] > 0}
    return Observation(
        time=interval.start + length,
        interval=length,
        arrivals={
            operator: {stream: _rates(counts, length) for stream, counts in by_input.items()}
            for operator, by_input in interval.arrivals.items()
        },
        kept={stream: _rates(counts, length) for stream, counts in interval.kept.items()},
        outputs={
            stream: count / length
            for stream, count in interval.outputs.items()
            if stream in interval.kept  # what timed out is of no use to a plan
        },
        processing_time={stream: interval.spent[stream][0] / n for stream, n in timed.items()},
        second_moment={stream: interval.spent[stream][1] / n for stream, n in timed.items()},
        backlog=interval.backlog,
        busy={node: busy / length for node, busy in interval.busy.items()},
        latency={
            node: spent / interval.processed[node]
            for node, spent in interval.latency.items()
            if interval.processed[node]
        },
    )


def _rates(counts: Mapping[str, int], length: float) -> dict[str, float]:
    return {label: count / length for label, count in counts.items()}


def join_intervals(intervals: Iterable[Interval]) -> Interval:
    """Put intervals together that follow each other."""
    parts = list(intervals)
    last = parts[-1]
    return Interval(
        start=parts[0].start,
        length=sum(one.length for one in parts),
        arrivals={
            name: {
                stream: _added(one.arrivals[name][stream] for one in parts)
                for stream in by_input
            }
            for name, by_input in last.arrivals.items()
        },
        kept={stream: _added(one.kept[stream] for one in parts) for stream in last.kept},
        spent={
            stream: (
                sum(one.spent[stream][0] for one in parts),
                sum(one.spent[stream][1] for one in parts),
            )
            for stream in last.spent
        },
        outputs={s: sum(one.outputs[s] for one in parts) for s in last.outputs},
        busy={node: sum(one.busy[node] for one in parts) for node in last.busy},
        backlog=last.backlog,
        processed={n: sum(one.processed[n] for one in parts) for n in last.processed},
        latency={node: sum(one.latency[node] for one in parts) for node in last.latency},
        unknown=last.unknown,
        shed={node: sum(one.shed[node] for one in parts) for node in last.shed},
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for label, number in one.items():
            total[label] = total.get(label, 0) + number
    return total

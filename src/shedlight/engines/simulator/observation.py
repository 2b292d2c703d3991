"""Observations for a controller, from intervals of a simulation."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shedlight.control.observation import Observation
from shedlight.engines.simulator.api import Interval

_SUMS = ("outputs", "busy", "processed", "latency", "shed", "not_admitted")


def observation_of(interval: Interval) -> Observation:
    """Give the observation that a monitor would make of an interval."""
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
            if stream in interval.kept  # a plan does not count what timed out
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


def join_intervals(intervals: Sequence[Interval]) -> Interval:
    """Join intervals that follow each other."""
    last = intervals[-1]

    def total(name: str) -> dict[Any, Any]:
        return {
            key: sum(getattr(interval, name)[key] for interval in intervals)
            for key in getattr(last, name)
        }

    return replace(
        last,
        start=intervals[0].start,
        length=sum(interval.length for interval in intervals),
        arrivals={
            name: {
                stream: _add(interval.arrivals[name][stream] for interval in intervals)
                for stream in by_input
            }
            for name, by_input in last.arrivals.items()
        },
        kept={s: _add(interval.kept[s] for interval in intervals) for s in last.kept},
        spent={
            s: (sum(i.spent[s][0] for i in intervals), sum(i.spent[s][1] for i in intervals))
            for s in last.spent
        },
        **{name: total(name) for name in _SUMS},
    )


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter[str]()))

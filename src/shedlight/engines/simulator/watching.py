"""From what happened in an interval of a simulation to what a controller is told."""

from collections.abc import Mapping

from shedlight.control.observation import Observation
from shedlight.engines.simulator.values import Interval


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
        outputs={stream: count / length for stream, count in interval.outputs.items()},
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

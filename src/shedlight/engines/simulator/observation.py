"""Observations for a controller, from intervals of a simulation."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shedlight.control.observation import Observation, StratumObservation
from shedlight.engines.simulator.api import Interval, StratumCounts
from shedlight.model.snapshot import MicroBatchCosts
from shedlight.model.spark_costs import Costs

_SUMS = (
    "outputs",
    "busy",
    "processed",
    "latency",
    "shed",
    "not_admitted",
    "processing",
    "reading",
    "links",
)


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
        strata={
            name: {stratum: _observe(counts, 1 / length) for stratum, counts in strata.items()}
            for name, strata in interval.strata.items()
        },
        key_histories=interval.key_histories,
        event_bytes=interval.event_bytes,
    )


def _observe(counts: StratumCounts, factor: float) -> StratumObservation:
    """Turn counts of a stratum into rates."""
    return StratumObservation(
        _scaled(counts.arrivals, factor),
        {name: _scaled(kept, factor) for name, kept in counts.kept.items()},
        _scaled(counts.outputs, factor),
    )


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """What a node of micro-batches has read in a time."""

    seconds: float  # in which time its events arrived
    waiting: float  # how long its latest micro-batch took, in which others arrived
    costs: Costs  # what a micro-batch costs


def observe_micro_batches(
    interval: Interval, spans: Mapping[str, ReadSpan], node_of: Mapping[str, str]
) -> Observation:
    """Give the observation of micro-batches, as on Spark.

    Rates are events over the time in which they arrived, which micro-batches do not read in
    step with an interval. The backlog is what the next micro-batch takes if it reads all that
    arrived during the last. The nodes of operators are given by name.
    """
    seen = observation_of(interval)
    factor = {
        n: interval.length / span.seconds if span.seconds else 1.0 for n, span in spans.items()
    }
    by_operator = {name: factor[node] for name, node in node_of.items()}
    busy = {name: factor[name] * value for name, value in seen.busy.items()}
    work = {n: busy[n] + factor[n] * interval.reading[n] / interval.length for n in spans}
    return replace(
        seen,
        arrivals={
            name: {
                stream: _scaled(rates, by_operator[name]) for stream, rates in inputs.items()
            }
            for name, inputs in seen.arrivals.items()
        },
        kept={
            s: _scaled(rates, by_operator[str(s.operator)]) for s, rates in seen.kept.items()
        },
        outputs={s: rate * by_operator[str(s.operator)] for s, rate in seen.outputs.items()},
        backlog={n: span.costs.fixed + span.waiting * work[n] for n, span in spans.items()},
        busy=busy,
        micro_batch={
            n: MicroBatchCosts(span.costs.fixed, span.costs.reading)
            for n, span in spans.items()
        },
        transport={name: span.costs.carrying for name, span in spans.items()},
        strata={
            name: {
                stratum: StratumObservation(
                    _scaled(each.arrivals, by_operator[name]),
                    {p: _scaled(kept, by_operator[name]) for p, kept in each.kept.items()},
                    _scaled(each.outputs, by_operator[name]),
                )
                for stratum, each in strata.items()
            }
            for name, strata in seen.strata.items()
        },
    )


def _scaled(rates: Mapping[str, float], factor: float) -> dict[str, float]:
    return {label: rate * factor for label, rate in rates.items()}


def _rates(counts: Mapping[str, int], length: float) -> dict[str, float]:
    return {label: count / length for label, count in counts.items()}


def join_intervals(intervals: Sequence[Interval]) -> Interval:
    """Join intervals that follow each other."""
    last = intervals[-1]

    def total(name: str) -> Any:  # noqa: ANN401  # counts of streams or of nodes
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
        strata={name: _add_strata(intervals, name) for name in last.strata},
        event_bytes={s: size for each in intervals for s, size in each.event_bytes.items()},
        **{name: total(name) for name in _SUMS},
    )


def _add_strata(intervals: Sequence[Interval], operator: str) -> dict[str, StratumCounts]:
    """Add up the counts of the strata that the last interval has."""
    added = {}
    for stratum, last in intervals[-1].strata[operator].items():
        counts = [
            i.strata[operator][stratum] for i in intervals if stratum in i.strata[operator]
        ]
        added[stratum] = StratumCounts(
            _add(each.arrivals for each in counts),
            {name: _add(each.kept.get(name, {}) for each in counts) for name in last.kept},
            _add(each.outputs for each in counts),
        )
    return added


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter[str]()))

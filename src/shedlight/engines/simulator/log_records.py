"""A simulation as the log of a run, which the web UI and the report are made from.

A micro-batch record is an interval of a node; times are virtual.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from shedlight.engines.simulator.api import Interval, ServedEvents
from shedlight.engines.simulator.scenario_run import ScenarioResult
from shedlight.graph import Application, Stream
from shedlight.model.arrays import Floats
from shedlight.runlog.decisions import decision_record
from shedlight.runlog.records import (
    MicroBatchRecord,
    PatternRecord,
    Record,
    run_header,
    sample_record,
)

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Latency = Mapping[str, Mapping[str, float]]
"""The latency of the events of each node: its mean and quantiles, in seconds."""


class IntervalLatencies:
    """Collects the latency of processed events, interval by interval."""

    def __init__(self) -> None:
        self.ended: list[Latency] = []  # of the intervals that are over
        self._spent: dict[str, list[Floats]] = {}

    def add(self, served: ServedEvents) -> None:
        """Add events."""
        if len(served.time):
            spent = self._spent.setdefault(served.node, [])
            spent.append(served.queueing + served.processing)

    def end_interval(self) -> None:
        """Begin the next interval."""
        self.ended.append({name: _summary(spent) for name, spent in self._spent.items()})
        self._spent = {}


def _summary(spent: list[Floats]) -> dict[str, float]:
    times = np.concatenate(spent)
    values = np.quantile(times, list(_QUANTILES.values())).tolist()
    return {"mean": float(times.mean()), **dict(zip(_QUANTILES, values, strict=True))}


def log_records(
    application: Application,
    outcome: ScenarioResult,
    unshed: tuple[Interval, ...],
    latencies: IntervalLatencies,
    *,
    version: str,
) -> Iterator[Record]:
    """Make the records of a simulation, in the order of their times.

    What each pattern can take is what it kept in `unshed`, where nothing was shed.
    """
    latencies.end_interval()  # the last, in which nothing is decided
    intervals = outcome.simulation.intervals
    relevant: dict[Stream, set[str]] = {}
    for interval in unshed:
        for stream, kept in interval.kept.items():
            relevant.setdefault(stream, set()).update(kept)
    start = run_header(application, intervals[0].start, version=version)
    yield start.model_copy(update={"simulated": True})
    estimates = outcome.simulation.estimates
    samples = {sink: sample_record(estimate) for sink, estimate in estimates.items()}
    decisions = iter([*outcome.decisions, None])
    decision, plans = next(decisions), 0
    for number, interval in enumerate(intervals):
        for node in application.nodes:
            spent = latencies.ended[number].get(node, {})
            record = _micro_batch(application, node, number, interval, relevant)
            found = samples if number == len(intervals) - 1 else {}
            update = {"latency": spent, "unshed_sample": found, "plan": plans or None}
            yield record.model_copy(update=update)
        while decision is not None and decision.time <= interval.start + interval.length:
            # how long planning took differs from one simulation to the next
            yield decision_record(decision).model_copy(update={"seconds": 0.0})
            plans += decision.plan is not None
            decision = next(decisions)


def _micro_batch(
    application: Application,
    node: str,
    number: int,
    interval: Interval,
    relevant: Mapping[Stream, set[str]],
) -> MicroBatchRecord:
    """Make the record of a node in an interval."""
    operators = [spec for spec in application.operators.values() if spec.node == node]
    own = {stream for spec in operators for stream in spec.outputs}
    read: dict[Stream, int] = {}
    for spec in operators:
        for stream, counts in interval.arrivals.get(spec.name, {}).items():
            if stream not in own:  # what several operators read is read once
                read[stream] = max(read.get(stream, 0), sum(counts.values()))
    kept = interval.processed.get(node, 0)
    offered = kept + interval.shed.get(node, 0)
    busy = interval.busy.get(node, 0.0) + interval.reading.get(node, 0.0)
    return MicroBatchRecord(
        time=interval.start + interval.length,
        node=node,
        number=number,
        seconds=min(busy, interval.length),
        events=max(offered, sum(read.values())),
        kept=kept,
        relevant_events=offered,
        arrived={
            spec.name: {
                str(stream): sum(counts.values())
                for stream, counts in interval.arrivals.get(spec.name, {}).items()
            }
            for spec in operators
        },
        patterns={
            str(stream): _pattern(interval, stream, relevant.get(stream, set()))
            for stream in own
            if stream in interval.kept
        },
        pressure=interval.pressure.get(node),
    )


def _pattern(interval: Interval, stream: Stream, relevant: set[str]) -> PatternRecord:
    arrivals = interval.arrivals.get(str(stream.operator), {}).values()
    kept = sum(interval.kept[stream].values())
    offered = sum(
        number for counts in arrivals for t, number in counts.items() if t in relevant
    )
    return PatternRecord(
        kept=kept,
        offered=max(kept, offered),
        seconds=interval.spent.get(stream, (0.0, 0.0))[0],
        matches=interval.outputs.get(stream, 0),
    )

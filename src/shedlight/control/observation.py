"""Observations of an application in an interval, and the snapshots made from them.

What arrives at an operator from another is what that one *emitted*: an overloaded operator
cannot count more events per second than it takes in. Only how these events are spread over
types is as their readers counted.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from shedlight.graph.application import Application, Stream
from shedlight.graph.topology import descendants, operators_on, readers
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.snapshot import ByType, MicroBatchCosts, Snapshot, StratumRates

_KEEPS_ALL = 0.99
"""A pattern that keeps less than this of a type sheds it; counts are not exact."""

_Times = float | ByType


@dataclass(frozen=True, slots=True)
class StratumObservation:
    """What was observed of a stratum of the keys of an operator, in events per second."""

    arrivals: ByType  # of each type, before shedding
    kept: Mapping[str, ByType]  # of each type, by each pattern
    outputs: Mapping[str, float]  # complex events of each pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The averages of one interval, for the whole application.

    Attributes:
        time: When the interval ended, in seconds.
        interval: How long it was, in seconds.
        arrivals: Events per second at each operator, from each of its inputs, of each type,
            before shedding.
        kept: Events per second that each pattern kept of each type that it uses; a type that
            is shed altogether has 0.
        outputs: Complex events per second of each pattern.
        processing_time: Mean seconds per event of each pattern, for all types or for each.
        second_moment: Mean of the squared seconds, likewise.
        partial_matches: How many each pattern has.
        backlog: Busy seconds that are queued at each node.
        busy: Busy seconds per second of each node, for events that were kept: what a
            micro-batch costs besides is not in it.
        latency: Mean seconds that a processed event spent at each node.
        micro_batch: What a micro-batch costs at each node.
        transport: Seconds per event that any pattern keeps, at each node.
        event_bytes: Bytes of a complex event of each pattern that other nodes read.
        strata: What was observed of the strata of keys, by operator and name, where keys are
            shed in strata.
        key_histories: The histories of a sample of keys, by operator, where an engine has them.
    """

    time: float
    interval: float
    arrivals: Mapping[str, Mapping[Stream, ByType]]
    kept: Mapping[Stream, ByType] = field(default_factory=dict)
    outputs: Mapping[Stream, float] = field(default_factory=dict)
    processing_time: Mapping[Stream, _Times] = field(default_factory=dict)
    second_moment: Mapping[Stream, _Times] = field(default_factory=dict)
    partial_matches: Mapping[Stream, float] = field(default_factory=dict)
    backlog: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)
    micro_batch: Mapping[str, MicroBatchCosts] = field(default_factory=dict)
    transport: Mapping[str, float] = field(default_factory=dict)
    event_bytes: Mapping[Stream, float] = field(default_factory=dict)
    strata: Mapping[str, Mapping[str, StratumObservation]] = field(default_factory=dict)
    key_histories: Mapping[str, KeyHistory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError(f"interval must be longer than zero, got {self.interval}")


def remember_times(observation: Observation, before: Observation | None) -> Observation:
    """Add from an earlier observation what cannot be measured now.

    The processing times of patterns that took no event, and the bytes of complex events of
    those that found none.
    """
    if before is None:
        return observation
    new, times = observation.second_moment, observation.processing_time
    old = {s: moment for s, moment in before.second_moment.items() if s not in times}
    return replace(
        observation,
        processing_time={**before.processing_time, **times},
        second_moment={**old, **{s: moment for s, moment in new.items() if s in times}},
        event_bytes={**before.event_bytes, **observation.event_bytes},
    )


def snapshot_of(
    observation: Observation,
    application: Application,
    calibration: Mapping[Stream, float] | None = None,
    shed: Collection[Stream] | None = None,
    strata: Mapping[str, Mapping[str, StratumRates]] | None = None,
) -> Snapshot:
    """Make the snapshot that plans are made from.

    What the patterns that shed and all behind them emit says nothing about an application that
    does not, so the model stands in for it. None: those that kept less than arrived.
    """
    shedding = shed_patterns(observation, application) if shed is None else shed
    changed = {*shedding, *(d for s in shedding for d in descendants(application, s))}
    times = _fill_times(_times(observation, application), application)
    sources = {
        Stream(name): _merge_counts(observation, application, Stream(name))
        for name in application.sources
    }
    return Snapshot(
        rates={**sources, **_spreads(observation, application)},
        output_rates={k: v for k, v in observation.outputs.items() if k not in changed},
        processing_time=times,
        second_moment=dict(_moments(observation, times)),
        backlog=observation.backlog,
        micro_batch=observation.micro_batch,
        transport=observation.transport,
        event_bytes=observation.event_bytes,
        calibration=calibration or {},
        strata=strata or {},
        file=f"observation at {observation.time:g} s",
    )


def shed_patterns(observation: Observation, application: Application) -> frozenset[Stream]:
    """Find the patterns that kept less than arrived."""
    shedding = set()
    for spec in application.operators.values():
        offered = offered_to(observation, spec.name)
        for stream in spec.outputs:
            kept = observation.kept.get(stream, {})
            if any(rate < _KEEPS_ALL * offered.get(label, 0.0) for label, rate in kept.items()):
                shedding.add(stream)
    return frozenset(shedding)


def offered_to(observation: Observation, operator: str) -> ByType:
    """Add up what arrives at an operator, by type."""
    offered: dict[str, float] = {}
    for rates in observation.arrivals.get(operator, {}).values():
        for label, rate in rates.items():
            offered[label] = offered.get(label, 0.0) + rate
    return offered


def _merge_counts(observation: Observation, application: Application, stream: Stream) -> ByType:
    """Put together what the readers of a stream counted of the same events.

    Each knows its own types and calls the rest other. The greatest count of a type stands, for
    an overloaded reader counts too few; other is what is left of the greatest total.
    """
    arrivals = [observation.arrivals.get(s.name, {}) for s in readers(application, stream)]
    counts = [by_input.get(stream, {}) for by_input in arrivals]
    greatest: dict[str, float] = {}
    for rates in counts:
        for label, rate in rates.items():
            if label not in {OTHER, ""}:
                greatest[label] = max(greatest.get(label, 0.0), rate)
    total = max((sum(rates.values()) for rates in counts), default=0.0)
    left = total - sum(greatest.values())
    return {**greatest, OTHER: left} if left > total * 1e-9 else greatest


def _spreads(observation: Observation, application: Application) -> dict[Stream, ByType]:
    """Say how complex events are spread over types; if none was seen yet, they are other."""
    spreads = {}
    for spec in application.operators.values():
        for stream in spec.outputs:
            if readers(application, stream):
                merged = _merge_counts(observation, application, stream)
                spreads[stream] = merged if sum(merged.values()) else {OTHER: 1.0}
    return spreads


def _times(observation: Observation, application: Application) -> dict[Stream, _Times]:
    """Take the processing times; a type that was not processed has the mean of the others."""
    times: dict[Stream, _Times] = {}
    for spec in application.operators.values():
        arrivals = observation.arrivals.get(spec.name, {})
        # whether all types of the complex events that the operator reads are known
        is_known = all(
            stream.operator is None or arrivals.get(stream) for stream in spec.inputs
        )
        for stream in spec.outputs:
            given = observation.processing_time.get(stream, 0.0)
            mean = _mean(given, observation.kept.get(stream, {}))
            if not mean:
                continue
            if not isinstance(given, Mapping) or not is_known:
                times[stream] = mean
                continue
            known = {label: value for label, value in given.items() if value > 0}
            times[stream] = dict.fromkeys(offered_to(observation, spec.name), mean) | known
    return times


def _fill_times(
    times: Mapping[Stream, _Times], application: Application
) -> dict[Stream, _Times]:
    """Give a pattern that has processed nothing yet the mean of the others on its node."""
    filled = dict(times)
    for node in application.nodes:
        streams = [s for spec in operators_on(application, node) for s in spec.outputs]
        known = [_mean(times[stream], {}) for stream in streams if stream in times]
        for stream in streams if known else ():
            filled.setdefault(stream, sum(known) / len(known))
    return filled


def _moments(
    observation: Observation, times: Mapping[Stream, _Times]
) -> Iterator[tuple[Stream, _Times]]:
    """Take the second moments; none is less than the square of its mean."""
    for stream, given in observation.second_moment.items():
        mean = times.get(stream)
        if mean is None:
            continue
        if not isinstance(mean, Mapping):
            moment = _mean(given, observation.kept.get(stream, {}))
            if moment:
                yield stream, max(moment, mean * mean)
        elif isinstance(given, Mapping):
            known = {k: v for k, v in given.items() if v > 0 and k in mean}
            yield stream, {k: max(v, mean[k] ** 2) for k, v in known.items()}
        elif given > 0:
            yield stream, {k: max(given, v * v) for k, v in mean.items()}


def _mean(values: _Times, weights: ByType) -> float:
    """Find the mean over types, by how much is kept of each; 0 if nothing is known."""
    if not isinstance(values, Mapping):
        return values
    known = {label: value for label, value in values.items() if value > 0}
    total = sum(weights.get(label, 0.0) for label in known)
    if total:
        return sum(value * weights.get(label, 0.0) for label, value in known.items()) / total
    return sum(known.values()) / len(known) if known else 0.0

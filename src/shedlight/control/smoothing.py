"""Averages of observations: a plan is made for what is usual, not for the latest noise.

An observation of a few seconds counts some hundred matches, give or take a tenth. A plan that
is made from it alone stays for long, and with it what was chance. So plans are made from the
mean of the latest observations, for as long as these are alike; after a sudden change only what
came after it counts. What is urgent is never averaged: how many events there are in all, the
backlog, busy time and latency.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shedlight.control.observation import Observation, offered_to
from shedlight.graph.application import Stream
from shedlight.model.sampled.draw import RateHistory

_Name = TypeVar("_Name")
_MIN_STEPS = 5  # how many observations a history of rates has at least


@dataclass(frozen=True, slots=True)
class SmoothingSettings:
    """How observations are averaged.

    Attributes:
        most: How many observations count at most; 1: only the latest.
        settled: After how many observations that are alike a plan is made anew that was made
            from fewer.
        jump_threshold: What part of all events of an operator must have moved, in number or
            to other types, so that what was before counts no more.
    """

    most: int = 20
    settled: int = 12
    jump_threshold: float = 0.25


@dataclass(frozen=True, slots=True)
class SmoothedObservation:
    """The average of the latest observations."""

    mean: Observation | None = None  # the average; None before the first observation
    number: int = 0  # how many observations it is of
    seen: int = 0  # how many there were at all
    # complex events per second of each pattern, on average of all of late
    outputs: Mapping[Stream, float] = field(default_factory=dict)
    load: float = 0.0  # events per second at the operators that shed, likewise
    # the rates of each source and pattern, observation by observation
    rate_history: tuple[Mapping[Stream, float], ...] = ()


def smooth(
    smoothed: SmoothedObservation,
    observation: Observation,
    smoothing: SmoothingSettings,
    operators: Iterable[str],
) -> SmoothedObservation:
    """Add an observation to the average, or begin anew with it after a sudden change.

    What patterns emit that no plan can change waits in windows for what is shed. So in a burst
    of the latter it is not what they emit now that counts but what they do on average, and of a
    burst of twice the average as much may find a partner as if there were twice as many. In a
    lull there are no fewer partners than on average: they come whether or not anybody waits.
    The operators are those that may shed.
    """
    arriving = sum(sum(offered_to(observation, name).values()) for name in operators)
    before, seen = smoothed.mean, smoothed.seen + 1
    rate_history = (*smoothed.rate_history, _rates(observation))[-smoothing.most :]
    if before is None:
        current = observation.outputs
        return SmoothedObservation(observation, 1, seen, current, arriving, rate_history)
    part = 1 / min(seen, smoothing.most)
    outputs = _blend(smoothed.outputs, observation.outputs, part)
    load = smoothed.load + part * (arriving - smoothed.load)
    scale = max(1.0, arriving / load) if load else 1.0
    scaled = {stream: rate * scale for stream, rate in outputs.items()}
    number, arrivals = 1, observation.arrivals
    if not _has_jumped(before, observation, smoothing.jump_threshold):
        number = min(smoothed.number + 1, smoothing.most)
        arrivals = _blend_arrivals(before, observation, 1 / number)
    mean = replace(observation, arrivals=arrivals, outputs=scaled)
    return SmoothedObservation(mean, number, seen, outputs, load, rate_history)


def rate_history_of(smoothed: SmoothedObservation) -> RateHistory | None:
    """Say how rates went of late; None if too little is known to say."""
    if smoothed.mean is None or len(smoothed.rate_history) < _MIN_STEPS:
        return None
    steps = smoothed.rate_history
    streams = dict.fromkeys(stream for step in steps for stream in step)
    rates = {stream: tuple(step.get(stream, 0.0) for step in steps) for stream in streams}
    return RateHistory(smoothed.mean.interval, rates)


def _rates(observation: Observation) -> Mapping[Stream, float]:
    """Give the rates of sources, and of patterns."""
    by_stream = dict(observation.outputs)
    for by_input in observation.arrivals.values():
        for stream, rates in by_input.items():
            if stream.operator is None:
                by_stream[stream] = max(by_stream.get(stream, 0.0), sum(rates.values()))
    return by_stream


def _blend_arrivals(
    before: Observation, latest: Observation, part: float
) -> dict[str, dict[Stream, dict[str, float]]]:
    """Blend how events are spread over types, at every operator and from every input."""
    return {
        operator: {
            stream: _blend_types(before.arrivals.get(operator, {}).get(stream, {}), rates, part)
            for stream, rates in by_input.items()
        }
        for operator, by_input in latest.arrivals.items()
    }


def _has_jumped(before: Observation, latest: Observation, jump_threshold: float) -> bool:
    """Whether a large part of the events of an operator is new, gone or of other types."""
    for operator in latest.arrivals:
        old, new = offered_to(before, operator), offered_to(latest, operator)
        total = max(sum(old.values()), sum(new.values()))
        labels = {**old, **new}
        moved = sum(abs(new.get(label, 0.0) - old.get(label, 0.0)) for label in labels)
        if moved > jump_threshold * total:
            return True
    return False


def _blend_types(
    old: Mapping[str, float], new: Mapping[str, float], part: float
) -> dict[str, float]:
    """Blend how events are spread over types; in all there are as many as now."""
    blended = _blend(old, new, part)
    total = sum(blended.values())
    factor = sum(new.values()) / total if total else 0.0
    return {label: rate * factor for label, rate in blended.items()}


def _blend(
    old: Mapping[_Name, float], new: Mapping[_Name, float], part: float
) -> dict[_Name, float]:
    """Take a part of the new and the rest of the old."""
    names = {**old, **new}
    return {n: old.get(n, 0.0) * (1 - part) + new.get(n, 0.0) * part for n in names}

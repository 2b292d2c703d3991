"""Averages of observations: a plan is made for what is usual, not for the latest noise.

An observation of a few seconds counts some hundred matches, give or take a tenth. A plan that
is made from it alone stays for long, and with it what was chance. So plans are made from the
mean of the latest observations, for as long as these are alike; after a sudden change only what
came after it counts. What is urgent is never averaged: how many events there are in all, the
backlog, busy time and latency.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from shedlight.control.observation import Observation, offered_to

_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How observations are averaged.

    Attributes:
        most: How many observations count at most; 1: only the latest.
        settled: After how many observations that are alike a plan is made anew that was made
            from fewer.
        sudden: What part of all events of an operator must have moved, in number or to other
            types, so that what was before counts no more.
    """

    most: int = 20
    settled: int = 12
    sudden: float = 0.25


@dataclass(frozen=True, slots=True)
class Recent:
    """What was observed of late.

    Attributes:
        mean: The average; None before the first observation.
        number: How many observations it is of.
        seen: How many there were at all.
    """

    mean: Observation | None = None
    number: int = 0
    seen: int = 0


def averaged(recent: Recent, observation: Observation, smoothing: Smoothing) -> Recent:
    """Add an observation to the average, or begin anew with it after a sudden change."""
    before, seen = recent.mean, recent.seen + 1
    if before is None:
        return Recent(observation, 1, seen)
    outputs = _blended(before.outputs, observation.outputs, 1 / min(seen, smoothing.most))
    observation = replace(observation, outputs=outputs)
    if _has_jumped(before, observation, smoothing.sudden):
        return Recent(observation, 1, seen)
    number = min(recent.number + 1, smoothing.most)
    arrivals = {
        operator: {
            stream: _spread(
                before.arrivals.get(operator, {}).get(stream, {}), rates, 1 / number
            )
            for stream, rates in by_input.items()
        }
        for operator, by_input in observation.arrivals.items()
    }
    return Recent(replace(observation, arrivals=arrivals), number, seen)


def _has_jumped(before: Observation, now: Observation, sudden: float) -> bool:
    """Whether a large part of the events of an operator is new, gone or of other types."""
    for operator in now.arrivals:
        old, new = offered_to(before, operator), offered_to(now, operator)
        total = max(sum(old.values()), sum(new.values()))
        moved = sum(abs(new.get(one, 0.0) - old.get(one, 0.0)) for one in _names(old, new))
        if moved > sudden * total:
            return True
    return False


def _names(*counts: Mapping[str, float]) -> Iterable[str]:
    return {label: None for one in counts for label in one}


def _spread(
    old: Mapping[str, float], new: Mapping[str, float], part: float
) -> dict[str, float]:
    """Blend how events are spread over types; in all there are as many as now."""
    blended = _blended(old, new, part)
    total = sum(blended.values())
    factor = sum(new.values()) / total if total else 0.0
    return {label: rate * factor for label, rate in blended.items()}


def _blended(
    old: Mapping[_Name, float], new: Mapping[_Name, float], part: float
) -> dict[_Name, float]:
    """Take a part of the new and the rest of the old."""
    names = {**old, **new}
    return {one: old.get(one, 0.0) * (1 - part) + new.get(one, 0.0) * part for one in names}

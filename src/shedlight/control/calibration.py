"""What patterns really yield: matches as measured over matches as modelled.

The model knows rates, not windows, keys or the order of events. What it misses is learned as
one factor per pattern from what a pattern kept and what it emitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from shedlight.control.observation import Observation, offered_to
from shedlight.graph.application import Stream
from shedlight.model.flows import match_rate
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.model.quantity import FACTOR

Factors = Mapping[Stream, float]
"""The factor of each pattern; 1 for one that is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How factors are learned.

    Attributes:
        smoothing: What the latest interval counts against all before it, 0 to 1.
        enough: How many complex events an interval must have, measured or modelled.
    """

    smoothing: float = 0.2
    enough: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing must be from 0 to 1, got {self.smoothing}")


def learned(
    factors: Factors, observation: Observation, model: Model, learning: Learning
) -> Factors:
    """Learn from an interval.

    A node with a queue longer than its bound is left out: its patterns kept what they have not
    processed yet, so what they emitted says nothing about what they keep.
    """
    found = dict(factors)
    for operator in model.operators.values():
        node = model.nodes[operator.node]
        waits = observation.backlog.get(node.name, 0.0)
        if waits > (observation.interval if node.bound is None else node.bound):
            continue
        for pattern in operator.patterns:
            ratio = _ratio(observation, operator, pattern, learning.enough)
            if ratio is not None:
                old = found.get(pattern.stream, 1.0)
                found[pattern.stream] = within(old + learning.smoothing * (ratio - old))
    return found


def within(factor: float) -> float:
    """Bring a factor into the range that a snapshot takes."""
    return min(max(factor, FACTOR.least), FACTOR.most)


def _ratio(
    observation: Observation, operator: OperatorModel, pattern: PatternModel, enough: float
) -> float | None:
    """Compare what a pattern emitted with the model; None if it is too little to tell."""
    measured = observation.outputs.get(pattern.stream)
    if measured is None:
        return None
    rates = observation.kept.get(pattern.stream) or offered_to(observation, operator.name)
    kept = np.array([rates.get(operator.types[use], 0.0) for use in pattern.needs.uses])
    modelled = pattern.emits * match_rate(pattern.needs, kept)
    if modelled <= 0 or max(measured, modelled) * observation.interval < enough:
        return None
    return within(measured / modelled)


def calibrated(model: Model, factors: Factors) -> Model:
    """Put factors into a model."""
    operators = {
        name: replace(
            operator,
            patterns=tuple(
                replace(one, calibration=factors.get(one.stream, 1.0))
                for one in operator.patterns
            ),
        )
        for name, operator in model.operators.items()
    }
    return replace(model, operators=operators)

"""Calibration: the matches of patterns as measured, over those as modelled.

The model knows rates, not windows, keys or the order of events. What it misses is learned as
one factor per pattern from what a pattern kept and what it emitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from shedlight.control.observation import Observation, offered_to
from shedlight.graph.application import Stream
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.model.quantity import FACTOR
from shedlight.model.selectivity.flow_lp import match_rate

Factors = Mapping[Stream, float]  # the factor of each pattern; 1 for one that is not in it


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """How calibration factors are learned.

    Attributes:
        smoothing: What the latest interval counts against all before it, 0 to 1.
        enough: How many complex events an interval must have, measured or modelled.
    """

    smoothing: float = 0.2
    enough: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing must be from 0 to 1, got {self.smoothing}")


@dataclass(frozen=True, slots=True)
class YieldEstimate:
    """Running averages of the complex events per second of a pattern."""

    measured: float  # as measured
    modelled: float  # as modelled, for what it kept
    most: float  # what they cannot be more than, as a factor of each other, for long

    @property
    def factor(self) -> float:
        """What is measured over what is modelled.

        The averages are divided, not the intervals: a pattern that pairs what it has stored
        while nothing arrives brings very much more than the model says of that interval.
        """
        factor = min(self.most, self.measured / self.modelled)
        return min(max(factor, FACTOR.least), FACTOR.most)


Yields = Mapping[Stream, YieldEstimate]


def update_yields(
    yields: Yields, observation: Observation, model: Model, calibration: CalibrationSettings
) -> Yields:
    """Update the estimates by an interval.

    A node with a queue longer than its bound is left out: its patterns kept what they have not
    processed yet, so what they emitted says nothing about what they keep.
    """
    updated = dict(yields)
    for operator in model.operators.values():
        node = model.nodes[operator.node]
        backlog = observation.backlog.get(node.name, 0.0)
        if backlog > (observation.interval if node.bound is None else node.bound):
            continue
        for pattern in operator.patterns:
            new = _estimate(observation, operator, pattern, calibration.enough)
            if new is not None:
                old = updated.get(pattern.stream, replace(new, measured=new.modelled))
                if old.modelled > 0:
                    updated[pattern.stream] = _blend(old, new, calibration.smoothing)
    return updated


def _blend(old: YieldEstimate, new: YieldEstimate, part: float) -> YieldEstimate:
    return YieldEstimate(
        old.measured + part * (new.measured - old.measured),
        old.modelled + part * (new.modelled - old.modelled),
        new.most,
    )


def _estimate(
    observation: Observation, operator: OperatorModel, pattern: PatternModel, enough: float
) -> YieldEstimate | None:
    """Find what a pattern emitted, and what by the model; None if it is too little to tell."""
    measured = observation.outputs.get(pattern.stream)
    if measured is None:
        return None
    rates = observation.kept.get(pattern.stream)
    if rates is None:  # nobody counted what it kept, so it kept all
        rates = offered_to(observation, operator.name)
    kept = np.array([rates.get(operator.types[use], 0.0) for use in pattern.demand.uses])
    modelled = pattern.emits * match_rate(pattern.demand, kept)
    if max(measured, modelled) * observation.interval < enough:
        return None
    # the model knows the most matches there can be, if not how many events each emits
    return YieldEstimate(measured, modelled, 1.0 if pattern.emits == 1 else FACTOR.most)


def apply_calibration(model: Model, factors: Factors) -> Model:
    """Put factors into a model."""
    operators = {
        name: replace(
            operator,
            patterns=tuple(
                replace(pattern, calibration=factors.get(pattern.stream, 1.0))
                for pattern in operator.patterns
            ),
        )
        for name, operator in model.operators.items()
    }
    return replace(model, operators=operators)

"""Which share of which type each pattern keeps, as engines want it: by name, not by number.

A share that is *exempt* is not lowered by pressure: types that are never to be shed, and all
that a pattern with a NOT processes, which must see everything or be off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Application, OperatorSpec, ShedBy, Stream
from shedlight.language.ast.pattern import Pattern, WindowUnit, negated_elements
from shedlight.model.arrays import Floats
from shedlight.model.model import Keep, Model, OperatorModel, PatternModel


@dataclass(frozen=True, slots=True)
class PatternShares:
    """What one pattern keeps.

    Attributes:
        shares: The share of each type that it uses, by label, from 0 to 1.
        by_key: Whether whole keys are kept or shed, and not single events.
        pressure_exempt: The labels that pressure does not touch.
        default_share: What is kept of all types if no share of any is known.
    """

    shares: Mapping[str, float]
    by_key: bool = False
    pressure_exempt: frozenset[str] = frozenset()
    default_share: float = 1.0

    def __post_init__(self) -> None:
        for label, share in self.shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {label} must be from 0 to 1, got {share}")

    @property
    def mean(self) -> float:
        """What is kept of a type that the plan does not know."""
        return float(np.mean(list(self.shares.values()))) if self.shares else self.default_share

    def lower_by(self, pressure: float) -> "PatternShares":
        """Lower all shares that are not exempt by a factor."""
        if pressure >= 1:
            return self
        lowered = {
            label: share if label in self.pressure_exempt else share * pressure
            for label, share in self.shares.items()
        }
        return PatternShares(
            lowered, self.by_key, self.pressure_exempt, self.default_share * pressure
        )


Shares = Mapping[Stream, PatternShares]
"""What all patterns keep; a pattern that is not in it keeps everything."""


def shares_by_label(model: Model, keep: Keep) -> Shares:
    """Name the types of a plan's shares."""
    return {
        pattern.stream: _pattern_shares(operator, pattern, keep[pattern.stream])
        for operator in model.operators.values()
        for pattern in operator.patterns
        if pattern.stream in keep
    }


def _pattern_shares(
    operator: OperatorModel, pattern: PatternModel, keep: Floats
) -> PatternShares:
    labels = [operator.types[number] for number in pattern.demand.uses]
    exempt = [label for label, flag in zip(labels, pattern.protected, strict=False) if flag]
    if pattern.demand.has_not and not pattern.key:
        exempt = labels
    shares = dict(zip(labels, keep.tolist(), strict=True))
    return PatternShares(shares, bool(pattern.key), frozenset(exempt))


def sheddable(application: Application) -> Shares:
    """Say which patterns may shed before there is a plan: all on nodes with a bound."""
    return {
        stream: PatternShares({}, _by_key(spec, spec.patterns[stream.name]))
        for spec in application.operators.values()
        if application.nodes[spec.node].bound is not None
        for stream in spec.outputs
    }


def sheddable_by_pressure(application: Application) -> Shares:
    """Say which of them may be shed by pressure alone, which knows no types."""
    return {
        stream: shares
        for stream, shares in sheddable(application).items()
        for spec in [application.operators[str(stream.operator)]]
        if not (spec.never_shed or _needs_every_event(spec.patterns[stream.name]))
        and stream not in application.timed_out  # a match with an event shed would time out
    }


def _by_key(spec: OperatorSpec, pattern: Pattern) -> bool:
    return bool(pattern.partition_by) and spec.shed_by is not ShedBy.EVENT


def _needs_every_event(pattern: Pattern) -> bool:
    """Whether a pattern finds matches that are none if any of its events may be shed."""
    counts = pattern.within is not None and pattern.within.unit is WindowUnit.EVENTS
    return counts or bool(negated_elements(pattern.where))

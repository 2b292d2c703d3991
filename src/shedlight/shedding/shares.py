"""Which share of which type each pattern keeps, as engines want it: by name, not by number.

A share that is *firm* is not touched by pressure: types that are never to be shed, and all that
a pattern with a NOT processes, which must see everything or be off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.model import Keep, Model, OperatorModel, PatternModel


@dataclass(frozen=True, slots=True)
class PatternShares:
    """What one pattern keeps.

    Attributes:
        shares: The share of each type that it uses, by label, from 0 to 1.
        by_key: Whether whole keys are kept or shed, and not single events.
        firm: The labels that pressure does not touch.
        others: What is kept of all types if no share of any is known.
    """

    shares: Mapping[str, float]
    by_key: bool = False
    firm: frozenset[str] = frozenset()
    others: float = 1.0

    def __post_init__(self) -> None:
        for label, share in self.shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {label} must be from 0 to 1, got {share}")

    @property
    def mean(self) -> float:
        """What is kept of a type that the plan does not know."""
        return float(np.mean(list(self.shares.values()))) if self.shares else self.others

    def under(self, pressure: float) -> "PatternShares":
        """Lower all shares that are not firm by a factor."""
        if pressure >= 1:
            return self
        lowered = {
            label: share if label in self.firm else share * pressure
            for label, share in self.shares.items()
        }
        return PatternShares(lowered, self.by_key, self.firm, self.others * pressure)


Shares = Mapping[Stream, PatternShares]
"""What all patterns keep; a pattern that is not in it keeps everything."""


def shares_by_label(model: Model, keep: Keep) -> Shares:
    """Name the types of a plan's shares."""
    found = {}
    for operator in model.operators.values():
        for pattern in operator.patterns:
            if pattern.stream in keep:
                found[pattern.stream] = _of(operator, pattern, keep)
    return found


def _of(operator: OperatorModel, pattern: PatternModel, keep: Keep) -> PatternShares:
    labels = [operator.types[number] for number in pattern.needs.uses]
    shares = dict(zip(labels, keep[pattern.stream].tolist(), strict=True))
    watches = pattern.needs.has_not and not pattern.key
    firm = (
        labels
        if watches
        else [label for label, flag in zip(labels, pattern.protected, strict=False) if flag]
    )
    return PatternShares(shares, bool(pattern.key), frozenset(firm))

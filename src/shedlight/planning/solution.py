"""What the reduced program says, as rates that patterns keep."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats
from shedlight.model.selectivity.flow_lp import NONE
from shedlight.planning.kept_terms import KeptRateTerms


@dataclass(frozen=True, slots=True, eq=False)
class LpSolution:
    """What the program says.

    Attributes:
        terms: What each planned pattern keeps, in terms of the program's variables.
        values: The variables.
        by_key: The share of keys that a pattern keeps, for those shed by key.
        on: Whether each planned pattern has any match.
        objective: What the patterns that the plan can change bring.
        prices: What one more busy second per second of each planned node would bring.
    """

    terms: Mapping[Stream, KeptRateTerms]
    values: Floats
    by_key: Mapping[Stream, float]
    on: Mapping[Stream, bool]
    objective: float
    prices: Mapping[str, float]

    def is_off(self, stream: Stream) -> bool:
        """Whether a planned pattern surely keeps nothing."""
        alone = self.terms[stream].alone
        return alone != NONE and bool(self.values[alone] <= 0)

    def kept(self, stream: Stream) -> Floats:
        """Give the rate at which a planned pattern keeps each of its uses."""
        rates = self.terms[stream].at(self.values)
        np.maximum(rates, 0.0, out=rates)
        return rates

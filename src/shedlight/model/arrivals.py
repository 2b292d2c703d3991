"""What arrives at a node: how much of it patterns use, and how much must be read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.model import Model, OperatorModel
from shedlight.model.selectivity.needs import Flags


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What arrives at a node, as a constant and a multiple of what each pattern emits.

    Attributes:
        used: Events per second from sources that a pattern uses.
        read: All events per second from sources.
        shares: The share of each pattern's complex events that a pattern here uses.
    """

    used: float
    read: float
    shares: Mapping[Stream, float]

    def at(self, outputs: Mapping[Stream, float]) -> tuple[float, float]:
        """Add up what is used and what is read."""
        fed = sum(outputs[stream] * share for stream, share in self.shares.items())
        read = sum(outputs[stream] for stream in self.shares)
        return self.used + fed, self.read + read


def node_arrivals(model: Model, node: str) -> Arrivals:
    """Count what arrives at a node; a stream that several operators read is counted once.

    Operators may tell different types apart, so of such a stream the operator that uses most of
    it counts: the limit is then never too high.
    """
    used: dict[str, float] = {}
    read: dict[str, float] = {}
    shares: dict[Stream, float] = {}
    for operator in model.operators_on(node):
        wanted = _wanted(operator)
        for name, rates in operator.sources.items():
            used[name] = max(used.get(name, 0.0), float(rates[wanted].sum()))
            everything = float(rates.sum()) + operator.unused.get(name, 0.0)
            read[name] = max(read.get(name, 0.0), everything)
        for stream, spread in operator.feeds.items():
            shares[stream] = max(shares.get(stream, 0.0), float(spread[wanted].sum()))
    return Arrivals(sum(used.values()), sum(read.values()), shares)


def _wanted(operator: OperatorModel) -> Flags:
    wanted = np.zeros(len(operator.types), np.bool_)
    for pattern in operator.patterns:
        wanted[pattern.needs.uses] = True
        if wanted.all():
            break
    return wanted

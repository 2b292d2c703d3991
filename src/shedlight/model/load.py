"""What arrives at a node and how much work that makes, against its limit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.latency import Limit
from shedlight.model.model import Model, OperatorModel
from shedlight.model.needs import dot
from shedlight.model.rates import Rates


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


@dataclass(frozen=True, slots=True)
class Work:
    """How busy a node is.

    Attributes:
        cost: What counts against the limit.
        busy: Busy seconds per second.
        limit: What the cost may be.
    """

    cost: float
    busy: float
    limit: float

    @property
    def fits(self) -> bool:
        """Whether the limit is kept."""
        return self.cost <= self.limit * (1 + 1e-9) + 1e-12

    @property
    def busy_limit(self) -> float:
        """The limit in busy seconds, for events in the same proportions."""
        return self.limit * (self.busy / self.cost if self.cost > 0 else 1.0)


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


def work_of(model: Model, limit: Limit, rates: Rates) -> Work:
    """Find out how busy a node is at these rates."""
    name = limit.node.name
    cost = busy = 0.0
    for operator in model.operators_on(name):
        any_kept = np.zeros(len(operator.types))
        for pattern in operator.patterns:
            kept, uses = rates.kept[pattern.stream], pattern.needs.uses
            cost += dot(kept, limit.costs[pattern.stream])
            busy += dot(kept, pattern.seconds)
            any_kept[uses] = np.maximum(any_kept[uses], kept)
        cost += limit.transport * float(any_kept.sum())
        busy += limit.node.transport * float(any_kept.sum())
    return Work(cost, busy, limit.at(*node_arrivals(model, name).at(rates.outputs)))


def _wanted(operator: OperatorModel) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    wanted = np.zeros(len(operator.types), np.bool_)
    for pattern in operator.patterns:
        wanted[pattern.needs.uses] = True
    return wanted

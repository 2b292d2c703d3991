"""How much work there is at a node, against its limit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import Limit
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.model.rates import Rates


@dataclass(frozen=True, slots=True)
class NodeLoad:
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


class LoadAccumulator:
    """How busy nodes are, added up pattern by pattern.

    Args:
        limits: Of the nodes.
    """

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        self._limits = limits
        self._costs = dict.fromkeys(limits, 0.0)
        self._busy = dict.fromkeys(limits, 0.0)

    def add(self, operator: OperatorModel, pattern: PatternModel, kept: Floats) -> None:
        """Add what a pattern of an operator keeps, if its node is one of them."""
        node, limit = operator.node, self._limits.get(operator.node)
        if limit is not None:
            self._costs[node] += dot(kept, limit.costs[pattern.stream])
            self._busy[node] += dot(kept, pattern.seconds)

    def loads(self, model: Model, rates: Rates) -> Mapping[str, NodeLoad]:
        """Put it together, when all patterns are added."""
        found = {}
        for name, limit in self._limits.items():
            once = 0.0
            if limit.transport:
                once = sum(_kept_by_any(one, rates) for one in model.operators_on(name))
            found[name] = NodeLoad(
                self._costs[name] + limit.transport * once,
                self._busy[name] + limit.node.transport * once,
                limit.at(*limit.arrivals.at(rates.outputs)),
            )
        return found


def node_loads(
    model: Model, limits: Mapping[str, Limit], rates: Rates
) -> Mapping[str, NodeLoad]:
    """Find out how busy nodes are at these rates."""
    loads = LoadAccumulator(limits)
    for name in limits:
        for operator in model.operators_on(name):
            for pattern in operator.patterns:
                loads.add(operator, pattern, rates.kept[pattern.stream])
    return loads.loads(model, rates)


def node_load(model: Model, limit: Limit, rates: Rates) -> NodeLoad:
    """Find out how busy a node is at these rates."""
    return node_loads(model, {limit.node.name: limit}, rates)[limit.node.name]


def _kept_by_any(operator: OperatorModel, rates: Rates) -> float:
    """Count the events per second that any pattern keeps."""
    most = np.zeros(len(operator.types))
    for pattern in operator.patterns:
        uses = pattern.demand.uses
        most[uses] = np.maximum(most[uses], rates.kept[pattern.stream])
    return float(most.sum())

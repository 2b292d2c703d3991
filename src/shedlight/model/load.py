"""The load of a node against its limit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import Limit
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.model.rates import Rates


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """How busy a node is."""

    cost: float  # what counts against the limit
    busy: float  # busy seconds per second
    limit: float  # what the cost may be

    @property
    def fits(self) -> bool:
        """Whether the limit is kept."""
        return self.cost <= self.limit * (1 + 1e-9) + 1e-12

    @property
    def busy_limit(self) -> float:
        """The limit in busy seconds, for events in the same proportions."""
        return self.limit * (self.busy / self.cost if self.cost > 0 else 1.0)


class LoadAccumulator:
    """How busy nodes are, added up pattern by pattern."""

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        self._limits = limits
        self._costs = dict.fromkeys(limits, 0.0)
        self._busy = dict.fromkeys(limits, 0.0)

    def add(self, operator: OperatorModel, pattern: PatternModel, kept: Floats) -> None:
        """Add what a pattern of an operator keeps, if its node is one of them."""
        node = operator.node
        if node in self._limits:
            self._costs[node] += dot(kept, self._limits[node].costs[pattern.stream])
            self._busy[node] += dot(kept, pattern.seconds)

    def loads(self, model: Model, rates: Rates) -> Mapping[str, NodeLoad]:
        """Add what any pattern keeps, when all patterns are added."""
        loads = {}
        for name, limit in self._limits.items():
            kept = 0.0
            if limit.transport:
                kept = sum(_kept_by_any(op, rates) for op in model.operators_on(name))
            loads[name] = NodeLoad(
                self._costs[name] + limit.transport * kept,
                self._busy[name] + limit.node.transport * kept,
                limit.budget(rates.outputs),
            )
        return loads


def node_load(model: Model, limit: Limit, rates: Rates) -> NodeLoad:
    """Find out how busy a node is at these rates."""
    name = limit.node.name
    accumulator = LoadAccumulator({name: limit})
    for operator in model.operators_on(name):
        for pattern in operator.patterns:
            accumulator.add(operator, pattern, rates.kept[pattern.stream])
    return accumulator.loads(model, rates)[name]


def _kept_by_any(operator: OperatorModel, rates: Rates) -> float:
    """Count the events per second that any pattern keeps."""
    most = np.zeros(len(operator.types))
    for pattern in operator.patterns:
        uses = pattern.demand.uses
        most[uses] = np.maximum(most[uses], rates.kept[pattern.stream])
    return float(most.sum())

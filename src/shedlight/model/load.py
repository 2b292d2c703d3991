"""How much work there is at a node, against its limit."""

from dataclasses import dataclass

import numpy as np

from shedlight.model.latency import Limit
from shedlight.model.model import Model, OperatorModel
from shedlight.model.needs import dot
from shedlight.model.rates import Rates


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


def work_of(model: Model, limit: Limit, rates: Rates) -> Work:
    """Find out how busy a node is at these rates."""
    cost = busy = 0.0
    for operator in model.operators_on(limit.node.name):
        for pattern in operator.patterns:
            kept = rates.kept[pattern.stream]
            cost += dot(kept, limit.costs[pattern.stream])
            busy += dot(kept, pattern.seconds)
        if limit.transport:
            once = _kept_by_any(operator, rates)
            cost += limit.transport * once
            busy += limit.node.transport * once
    return Work(cost, busy, limit.at(*limit.arrivals.at(rates.outputs)))


def _kept_by_any(operator: OperatorModel, rates: Rates) -> float:
    """Count the events per second that any pattern keeps."""
    most = np.zeros(len(operator.types))
    for pattern in operator.patterns:
        uses = pattern.needs.uses
        most[uses] = np.maximum(most[uses], rates.kept[pattern.stream])
    return float(most.sum())

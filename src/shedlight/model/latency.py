"""Bounds on latency as limits on work.

A node has a bound on the time that an event spends there: on its mean, or on a percentile. Each
latency model turns it into a row of the form

    sum of (cost of an event) x (rate at which it is kept)  <=  limit(rate of arrivals)

- M/M/1, as in the paper: the cost is the processing time s, the limit is the utilisation
  lambda B / (1 + lambda B), which is lambda p* with the paper's p* = 1 / (lambda + 1/B).
- M/G/1: waiting = (sum of kept x m2) / (2 (1 - sum of kept x s)) with second moments m2, and
  the longest service s_max after it, must stay within B. Multiplied out, the cost is
  s + m2 / (2 (B - s_max)) and the limit is 1.
- Micro-batch: a batch takes D = a + D (lambda b_in + sum of kept x s), an event waits for half
  a batch and then for its own, so D <= B / 1.5 and the limit is 1 - 1.5 a / B - lambda b_in.

A bound B of percentile p becomes one of the mean. Queues are close to exponential: the share p
of the events waits for at most B if the mean is B / ln(1 / (1 - p)). That is exact for M/M/1;
for M/G/1 it is said of B - s_max. What an event spends in micro-batches is evenly spread from D
to 2 D, so D <= B / (1 + p). Plans are made for that; admission holds single events to B.

The limit is taken times an aim below 1, for near it the latency is a cliff, and less what it
takes to work off a backlog in time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import log

import numpy as np

from shedlight.errors import PlanError
from shedlight.graph.application import Stream, bound_kind
from shedlight.model.arrays import CachedArrays, Floats
from shedlight.model.model import Model, NodeModel, OperatorModel, PatternModel
from shedlight.model.rates import Arrivals, node_arrivals

_MUCH_READING = 0.25
"""What part of a node's time reading must take so that fewer events are a remedy."""


def batches_per_event(percentile: int | None) -> float:
    """Say how many micro-batches an event spends: a part of one until it is read, then its own.

    Half of one on average, or what a percentile of the events do not exceed.

    Example:
        >>> batches_per_event(None), batches_per_event(95)
        (1.5, 1.95)
    """
    return 1.5 if percentile is None else 1 + percentile / 100


def likely_longest(mean: Floats, variance: Floats, percentile: int | None) -> Floats:
    """Say what the times of a percentile of services do not exceed; at least their means.

    It is exact for constant times, and for exponential ones if that is more than their mean;
    between them it is by their spread.

    Example:
        >>> mean = np.array([2.0, 2.0])
        >>> likely_longest(mean, np.array([4.0, 0.0]), 95).round(3).tolist()
        [5.991, 2.0]
    """
    if percentile is None:
        return mean
    spread: Floats = np.sqrt(variance)
    return mean + max(0.0, -log(1 - percentile / 100) - 1) * spread


def mean_bound(bound: float, percentile: int | None) -> float:
    """Give the mean of an exponential time of which a percentile is a bound, or the bound.

    Example:
        >>> mean_bound(3.0, None), round(mean_bound(3.0, 95), 3), mean_bound(3.0, 50)
        (3.0, 1.001, 3.0)
    """
    return bound if percentile is None else bound / max(1.0, -log(1 - percentile / 100))


class LatencyModel(Enum):
    """How a bound becomes a limit."""

    MM1 = "mm1"
    MG1 = "mg1"
    MICRO_BATCH = "micro-batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How bounds are to be kept.

    Attributes:
        latency: The latency model.
        aim: The share of the limit to aim at.
        horizon: In how many seconds a backlog beyond the bound is to be worked off.
    """

    latency: LatencyModel = LatencyModel.MG1
    aim: float = 0.9
    horizon: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.aim <= 1:
            raise ValueError(f"aim must be above 0 and at most 1, got {self.aim}")
        if self.horizon <= 0:
            raise ValueError(f"horizon must be longer than zero, got {self.horizon}")


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """What a node can do."""

    node: NodeModel  # the node
    bound: float  # its bound, in seconds
    target: Target  # how it is to be kept
    costs: Mapping[Stream, Floats]  # for each of its patterns, what an event of each use costs
    # what an event costs besides, once, if any pattern of an operator keeps it
    transport: float
    arrivals: Arrivals  # what arrives there

    def at(self, arrivals: float, read: float) -> float:
        """Give the limit at a rate of arrivals that patterns use, and of all that is read."""
        full = 1.0
        if self.target.latency is LatencyModel.MM1:
            full = arrivals * self.mean / (1 + arrivals * self.mean)
        elif self.target.latency is LatencyModel.MICRO_BATCH:
            waiting = batches_per_event(self.node.percentile) * self.node.fixed / self.bound
            full = 1 - waiting - read * self.node.reading
        return max(0.0, self._aim * full - self.backlog_share)

    def budget(self, outputs: Mapping[Stream, float]) -> float:
        """Give the limit at what arrives if patterns upstream emit so much."""
        return self.at(*self.arrivals.at(outputs))

    def slopes(self, arrivals: float) -> tuple[float, float]:
        """Say how the limit grows with arrivals that patterns use, and with all of them."""
        if self.target.latency is LatencyModel.MM1:
            return self._aim * self.mean / (1 + arrivals * self.mean) ** 2, 0.0
        if self.target.latency is LatencyModel.MICRO_BATCH:
            return 0.0, -self._aim * self.node.reading
        return 0.0, 0.0

    @property
    def _aim(self) -> float:
        return self.target.aim * self.node.boost

    @property
    def mean(self) -> float:
        """The mean latency that the bound allows, in seconds."""
        percentile = self.node.percentile
        if self.target.latency is LatencyModel.MICRO_BATCH:
            return self.bound * batches_per_event(None) / batches_per_event(percentile)
        return mean_bound(self.bound, percentile)

    @property
    def backlog_share(self) -> float:
        """The part of the limit that goes to the backlog."""
        return max(0.0, self.node.backlog - self.bound) / self.target.horizon


def node_limit(model: Model, node: NodeModel, target: Target) -> Limit | None:
    """Find the limit of a node; None if it has no bound or its processing times are not known.

    Raises:
        PlanError: The bound cannot be kept whatever is shed, or only some times are known.
    """
    operators = model.operators_on(node.name)
    patterns = [pattern for operator in operators for pattern in operator.patterns]
    untimed = [str(pattern.stream) for pattern in patterns if not pattern.is_timed]
    if node.bound is None or len(untimed) == len(patterns):
        return None
    if untimed:
        raise PlanError(
            f"node {node.name!r}: the processing time of {untimed[0]} is missing; "
            "give that of all patterns of a node, or of none"
        )
    costs: Mapping[Stream, Floats] = {p.stream: p.seconds for p in patterns}
    transport = node.transport
    if target.latency is LatencyModel.MG1:
        services = {operator.name: _service_by_type(operator) for operator in operators}
        longest = {
            operator.name: _longest_service(operator, services[operator.name], node.percentile)
            for operator in operators
        }
        others = {op.name: _longest_of_others(op, operators, longest) for op in operators}
        spare = node.bound - transport - max(longest[name] + others[name] for name in longest)
        if spare <= 0:
            raise _too_tight(node, node.bound - spare, "a single event takes that long")
        spare = mean_bound(spare, node.percentile)
        by_stream = {pattern.stream: pattern for pattern in patterns}
        services = {name: services[name] + others[name] + 2 * transport for name in services}

        def cost(stream: Stream) -> Floats:
            name = str(stream.operator)
            return _with_waiting(by_stream[stream], services[name], spare)

        # whoever asks needs the other arrays of the pattern too, then they are at hand
        costs = CachedArrays(cost)
        transport += transport * transport / (2 * spare)
    return Limit(node, node.bound, target, costs, transport, node_arrivals(model, node.name))


def check_feasible(limit: Limit, read: float) -> None:
    """See that micro-batches can keep a bound if all is shed; a PlanError has the least."""
    node = limit.node
    if limit.target.latency is not LatencyModel.MICRO_BATCH or not node.fixed:
        return
    left = 1 - read * node.reading
    if left <= 0:
        raise PlanError(
            f"node {node.name!r} cannot keep any bound: reading {read:,.0f} events/s at "
            f"{node.reading:g} s each takes all of its time; give it more cores or fewer events"
        )
    batches = batches_per_event(node.percentile)
    least = batches * node.fixed / left
    if least >= limit.bound:
        why = (
            f"a micro-batch takes {node.fixed:.3g} s even if it is empty, and an event spends "
            f"{batches:g} of them"
        )
        if read * node.reading > _MUCH_READING:
            why += f"; reading {read:,.0f} events/s takes {100 - 100 * left:.0f} % of the time"
            remedy = "ask for more than that, or for fewer events"
        else:
            remedy = "ask for more than that; more cores make no empty micro-batch shorter"
        raise _too_tight(node, least, why, remedy)


def _too_tight(node: NodeModel, least: float, why: str, remedy: str = "") -> PlanError:
    return PlanError(
        f"node {node.name!r} cannot keep its bound of {node.bound:g} s "
        f"{bound_kind(node.percentile)} whatever is shed: {why}; "
        f"the least feasible bound is more than {least:g} s{remedy and f': {remedy}'}"
    )


def _service_by_type(operator: OperatorModel) -> Floats:
    """Find the mean service of an event of each type that all patterns keep."""
    total = np.zeros(len(operator.types))
    for pattern in operator.patterns:
        if len(pattern.demand.uses) == len(total):  # all types: they ascend
            total += pattern.seconds
        else:
            np.add.at(total, pattern.demand.uses, pattern.seconds)
    return total


def _longest_service(
    operator: OperatorModel, services: Floats, percentile: int | None
) -> float:
    """Find the longest service of an event, by its mean or by a percentile."""
    variances = np.zeros(len(services))
    if percentile is not None:
        for pattern in operator.patterns:
            of_uses = np.maximum(pattern.moments - pattern.seconds**2, 0.0)
            np.add.at(variances, pattern.demand.uses, of_uses)
    return float(likely_longest(services, variances, percentile).max(initial=0.0))


def _longest_of_others(
    operator: OperatorModel, operators: tuple[OperatorModel, ...], longest: Mapping[str, float]
) -> float:
    """Add up the longest services of the other operators that read the same events."""
    inputs = {*operator.sources, *operator.feeds}
    return sum(
        longest[other.name]
        for other in operators
        if other is not operator and not inputs.isdisjoint({*other.sources, *other.feeds})
    )


def _with_waiting(pattern: PatternModel, services: Floats, spare: float) -> Floats:
    """Add to the processing time of an event what it makes others wait.

    Services are those of all that is done for an event of each type.

    An event that several patterns keep is served for all of them at a stretch: the second
    moment of a sum has cross terms. At most the lesser of two rates is kept by both patterns,
    which is at most half of their sum, so a pattern is charged s x (the time of the others).
    """
    uses = pattern.demand.uses
    cost = (services if len(uses) == len(services) else services[uses]) - pattern.seconds
    cost *= pattern.seconds  # in place from here: arrays are long
    cost += pattern.moments
    cost /= 2 * spare
    cost += pattern.seconds
    return cost

"""What is left of the budget is spent: a bare optimum keeps only what the model can use.

Node by node, in three steps, each as far as every limit allows: more of the types that the
plan keeps, by one factor; then the types of patterns that have matches, up to all; then all the
rest. The model ignores chance and order, so what it has no use for still brings matches.
"""

from dataclasses import dataclass, replace

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.load import Work, work_of
from shedlight.model.model import Keep, PatternModel
from shedlight.model.needs import Flags, Floats, dot
from shedlight.planning.scope import Scope
from shedlight.planning.shares import scalable

_MOST_STEPS = 60
_CLOSE = 1e-6
"""How much of a step may be left undone."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The shares of one node in one row.

    Attributes:
        patterns: Its patterns.
        shares: Of all uses of its patterns, one pattern after the other.
        work: What keeping all of each costs.
    """

    patterns: tuple[PatternModel, ...]
    shares: Floats
    work: Floats

    def plan(self, shares: Floats) -> dict[Stream, Floats]:
        """Cut a row of shares into those of the patterns."""
        ends = np.cumsum([len(one.needs.uses) for one in self.patterns])[:-1]
        pieces = np.split(shares, ends)
        return {p.stream: piece for p, piece in zip(self.patterns, pieces, strict=True)}


def filled(scope: Scope, keep: Keep, on: frozenset[Stream]) -> Keep:
    """Spend what is left.

    Args:
        scope: What the plan is for.
        keep: The plan so far.
        on: The patterns that have matches in it.
    """
    result = dict(keep)
    for node in _in_order(scope):
        alone = _stands_alone(scope, node)
        part, work = _part(scope, node, result)
        for number in range(3):
            cost = dot(part.work, part.shares) if alone else work.cost
            if work.limit - cost <= _CLOSE * work.limit:
                break
            free = [_may_rise(p, result[p.stream], number, on) for p in part.patterns]
            step = _Step(part, np.concatenate(free), work.limit - cost, number == 0)
            shares = step.at(1.0 if alone else _reach(scope, step, result))
            result |= part.plan(shares)
            if alone:
                part = replace(part, shares=shares)
            else:
                part, work = _part(scope, node, result)
    return result


def _in_order(scope: Scope) -> list[str]:
    """List the planned nodes, upstream first as far as that can be said of nodes."""
    order = dict.fromkeys(one.node for one in scope.model.operators.values())
    return [node for node in order if node in scope.nodes]


def _part(scope: Scope, node: str, keep: Keep) -> tuple[_Part, Work]:
    """Put the shares of a node in a row, and say how busy it is with them."""
    rates, limit = scope.rates(keep), scope.limits[node]
    patterns = scope.patterns_on(node)
    work = [
        rates.arrivals[str(p.stream.operator)][p.needs.uses] * limit.costs[p.stream]
        for p in patterns
    ]
    shares = np.concatenate([keep[p.stream] for p in patterns])
    part = _Part(patterns, shares, np.concatenate(work))
    return part, work_of(scope.model, limit, rates)


def _may_rise(
    pattern: PatternModel, shares: Floats, number: int, on: frozenset[Stream]
) -> Flags:
    """Say which shares a step may raise."""
    free = scalable(pattern)
    if number == 0:
        return free & (shares > 0)
    if number == 1 and pattern.stream not in on:
        return np.zeros_like(free)
    if pattern.needs.has_not and not pattern.key and pattern.stream not in on:
        return np.zeros_like(free)  # with a NOT it is on or off, nothing between
    return free


class _Step:
    """One step at one node: how far it can go by the node's own limit, and what it makes.

    Args:
        part: The node's shares.
        free: Which of them may rise.
        left: What they may cost more.
        by_factor: Whether shares are multiplied, or else raised towards all.
    """

    def __init__(self, part: _Part, free: Flags, left: float, by_factor: bool) -> None:  # noqa: FBT001
        self.part, self._free, self._by_factor = part, free, by_factor
        shares, work = part.shares, part.work
        if not free.all():
            shares, work = shares[free], work[free]
        self._extent = _factor(shares, work, left) if by_factor else _extent(shares, work, left)

    def at(self, reach: float) -> Floats:
        """Give the shares after a part of the step."""
        shares, extent = self.part.shares, reach * self._extent
        if extent == 0:
            return shares
        if self._by_factor:
            raised = np.minimum(1.0, shares * (1 + extent))
        else:
            raised = shares + (1 - shares) * extent
        return np.where(self._free, raised, shares)


def _factor(shares: Floats, work: Floats, left: float) -> float:
    """Find the greatest factor, less 1, that costs what is left.

    Cost is concave in the factor, so a tangent from below never leads too far and a chord never
    too short; shares that reach 1 below both or above both need no further look.
    """
    if not len(shares) or left <= 0:
        return 0.0
    cost, everything = dot(shares, work), float(work.sum())
    target, low, high = left + cost, 1.0, float(1 / shares.min())
    if everything <= target:
        return high - 1
    at_low, at_high = cost, everything
    full = slope = 0.0
    for _ in range(_MOST_STEPS):
        rising = slope + dot(work, np.where(shares * low < 1, shares, 0.0))
        chord = low + (target - at_low) * (high - low) / max(at_high - at_low, 1e-300)
        low = max(low, min(high, low + (target - at_low) / rising)) if rising > 0 else high
        high = max(low, min(high, chord))
        if high - low <= _CLOSE * 1e-3 * low:
            break
        done, linear = shares * low >= 1, shares * high <= 1
        full += float(work[done].sum())
        slope += dot(work[linear], shares[linear])
        shares, work = (part[~(done | linear)] for part in (shares, work))
        at_low, at_high = (
            full + slope * factor + dot(work, np.minimum(shares * factor, 1.0))
            for factor in (low, high)
        )
    return low - 1


def _extent(shares: Floats, work: Floats, left: float) -> float:
    """Find the share of what is shed that costs what is left."""
    shed = dot(work, (1 - shares))
    return float(np.clip(left / shed, 0.0, 1.0)) if shed > 0 else 1.0


def _stands_alone(scope: Scope, node: str) -> bool:
    """Whether work is in proportion to shares here and no other limit depends on the output."""
    fed_by_key = any(
        pattern.key and operator.feeds
        for operator in scope.model.operators_on(node)
        for pattern in operator.patterns
    )
    if scope.limits[node].transport or fed_by_key:
        return False
    reached = {p.stream for p in scope.patterns_on(node)}
    for operator in scope.model.operators.values():
        if not reached.isdisjoint(operator.feeds):
            if operator.node in scope.limits:
                return False
            reached.update(p.stream for p in operator.patterns)
    return True


def _reach(scope: Scope, step: _Step, keep: Keep) -> float:
    """Find how far into a step all limits are kept, by halving."""

    def fits(reach: float) -> bool:
        return scope.fits(dict(keep) | step.part.plan(step.at(reach)))

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low

"""Spend what is left of the budget: a bare optimum keeps only what the model can use.

Node by node, in three stages, each as far as every limit allows: more of the types that the
plan keeps, by one factor; then the types of patterns that have matches, up to all; then all the
rest. The model ignores chance and order, so what it cannot use still brings matches.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, dot, of_uses
from shedlight.model.model import Keep, PatternModel
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.shares import scalable

_MAX_STEPS = 60
_CLOSE = 1e-6  # how much of a stage may be left undone


class _Stage(Enum):
    """Which shares are raised."""

    KEPT_TYPES = 0
    PATTERNS_WITH_MATCHES = 1
    EVERYTHING = 2


_Costed = tuple[Floats, Floats]
"""Shares, and what keeping all of each costs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Raisable:
    """Those shares of one pattern that a stage may raise.

    All is done pattern by pattern: what is as long as all of a node does not fit any cache.
    """

    stream: Stream  # the pattern
    uses: Flags | slice  # which of its uses they are
    shares: Floats  # what is kept of them
    costs: Floats  # what keeping all of each costs


def spend_budget(
    problem: PlanningProblem, candidate: CandidatePlan, on: frozenset[Stream]
) -> CandidatePlan:
    """Raise shares of a plan within the limits; the patterns `on` have matches in it."""
    upstream_first = dict.fromkeys(each.node for each in problem.model.operators.values())
    for node in upstream_first:
        if node not in problem.nodes:
            continue
        alone = _stands_alone(problem, node)
        for stage in _Stage:
            load = candidate.loads[node]
            left = load.limit - load.cost
            if left <= _CLOSE * load.limit:
                break
            raisable = _raisable(problem, node, candidate, stage, on)
            step = _Step(raisable, left, by_factor=stage is _Stage.KEPT_TYPES)
            reach = 1.0 if alone else _reach(problem, node, step, candidate)
            raised = step.at(candidate.keep, reach)
            if raised is not candidate.keep:
                candidate = problem.evaluate_at(node, raised, candidate)
    return candidate


def _raisable(
    problem: PlanningProblem,
    node: str,
    candidate: CandidatePlan,
    stage: _Stage,
    on: frozenset[Stream],
) -> tuple[_Raisable, ...]:
    """Collect the shares at a node that a stage may raise."""
    raisable = []
    for pattern in problem.patterns_on(node):
        stream, shares = pattern.stream, candidate.keep[pattern.stream]
        flags = _may_rise(pattern, shares, stage, is_on=stream in on)
        if flags.any():
            uses = slice(None) if flags.all() else flags
            arrivals = candidate.rates.arrivals[str(stream.operator)]
            offered = of_uses(arrivals, pattern.demand.uses[uses])
            costs = offered * problem.limits[node].costs[stream][uses]
            raisable.append(_Raisable(stream, uses, shares[uses], costs))
    return tuple(raisable)


def _may_rise(pattern: PatternModel, shares: Floats, stage: _Stage, *, is_on: bool) -> Flags:
    """Say which shares a stage may raise."""
    free = scalable(pattern, shares)
    if stage is _Stage.KEPT_TYPES:
        return free & (shares > 0)
    if not is_on and (stage is _Stage.PATTERNS_WITH_MATCHES or pattern.is_switched):
        return np.zeros_like(free)
    return free


class _Step:
    """One stage at one node: how far it can go by the node's own limit, and what it makes.

    Shares are multiplied (by factor), or else raised towards all.
    """

    def __init__(
        self, raisable: tuple[_Raisable, ...], left: float, *, by_factor: bool
    ) -> None:
        self._raisable, self._by_factor = raisable, by_factor
        costed = [(each.shares, each.costs) for each in raisable]
        self._extent = _largest_factor(costed, left) if by_factor else _extent(costed, left)

    def at(self, keep: Keep, reach: float) -> Keep:
        """Give the plan after a part of the step; the same one if nothing changes."""
        extent = reach * self._extent
        if extent == 0 or not self._raisable:
            return keep
        result = dict(keep)
        for each in self._raisable:
            shares = result[each.stream] = result[each.stream].copy()
            if self._by_factor:
                shares[each.uses] = np.minimum(1.0, each.shares * (1 + extent))
            else:
                shares[each.uses] = each.shares + (1 - each.shares) * extent
        return result


def _largest_factor(rows: list[_Costed], left: float) -> float:
    """Find the greatest factor, less 1, that costs what is left.

    Cost is concave in the factor, so a tangent from below never leads too far and a chord never
    too short; shares that reach 1 below both or above both need no further look.
    """
    if not rows or left <= 0:
        return 0.0
    low, high = 1.0, 1 / min(float(shares.min()) for shares, _ in rows)
    full = slope = 0.0
    rising, everything = _sums(rows)
    target = left + rising
    if everything <= target:
        return high - 1
    for _ in range(_MAX_STEPS):
        at_low = full + (slope + rising) * low
        at_high = full + slope * high + everything
        chord = low + (target - at_low) * (high - low) / max(at_high - at_low, 1e-300)
        steep = slope + rising
        low = max(low, min(high, low + (target - at_low) / steep)) if steep > 0 else high
        high = max(low, min(high, chord))
        if high - low <= _CLOSE * 1e-3 * low:
            break
        rows, more, steeper = _between(rows, low, high)
        full, slope = full + more, slope + steeper
        rising, everything = _sums(rows)
    return low - 1


def _sums(rows: list[_Costed]) -> tuple[float, float]:
    """Add up what the shares cost, and what all would."""
    return (
        sum(dot(shares, costs) for shares, costs in rows),
        sum(float(costs.sum()) for _, costs in rows),
    )


def _between(
    rows: list[_Costed], low: float, high: float
) -> tuple[list[_Costed], float, float]:
    """Leave only shares that reach 1 between two factors.

    Besides, give what those that reach 1 before cost, and how the cost of the others grows.
    """
    left, full, slope = [], 0.0, 0.0
    for shares, costs in rows:
        done, linear = shares * low >= 1, shares * high <= 1
        full += float(costs[done].sum())
        slope += dot(costs[linear], shares[linear])
        undecided = ~(done | linear)
        if undecided.any():
            left.append((shares[undecided], costs[undecided]))
    return left, full, slope


def _extent(rows: list[_Costed], left: float) -> float:
    """Find the share of what is shed that costs what is left."""
    shed = sum(dot(costs, 1 - shares) for shares, costs in rows)
    return float(np.clip(left / shed, 0.0, 1.0)) if shed > 0 else 1.0


def _stands_alone(problem: PlanningProblem, node: str) -> bool:
    """Whether load is in proportion to shares here and no other limit depends on the output."""
    fed_by_key = any(
        pattern.key and operator.feeds
        for operator in problem.model.operators_on(node)
        for pattern in operator.patterns
    )
    if problem.limits[node].transport or fed_by_key or problem.model.links:
        return False
    return problem.limits.keys().isdisjoint(problem.nodes_behind(node))


def _reach(problem: PlanningProblem, node: str, step: _Step, candidate: CandidatePlan) -> float:
    """Find how far into a step of a node all limits are kept.

    Load grows nearly in proportion, so the next try is where a line through what is known of
    the fullest meets the limit (regula falsi, by the rule of Illinois).
    """

    def at(reach: float) -> CandidatePlan:
        raised = step.at(candidate.keep, reach)
        if raised is candidate.keep:
            return candidate
        return problem.evaluate_at(node, raised, candidate)

    full = at(1.0)
    if full.fits:
        return 1.0
    rising = [name for name in _names(full) if _filled(full, name) > _filled(candidate, name)]

    def excess(tried: CandidatePlan) -> float:
        """Say by which share of its limit the fullest is over it."""
        return max((_filled(tried, name) for name in rising), default=1.0) - 1

    low, high, room = 0.0, 1.0, -excess(candidate)
    under, over, was_low = room, excess(full), None
    while high - low > _CLOSE and room > _CLOSE:
        part = under / (under + over) if over > 0 else 0.5
        middle = low + (high - low) * min(max(part, _LEAST_PART), 1 - _LEAST_PART)
        tried = at(middle)
        if tried.fits:
            low, under = middle, -excess(tried)
            room, over = under, over / 2 if was_low is True else over
        else:
            high, over = middle, excess(tried)
            under = under / 2 if was_low is False else under
        was_low = tried.fits
    return low


_LEAST_PART = 0.01  # of what is between, that a try leaves out on either side


def _names(candidate: CandidatePlan) -> list[tuple[bool, str]]:
    """Name what has a limit: nodes, and then links."""
    nodes = [(False, name) for name in candidate.loads]
    return nodes + [(True, name) for name in candidate.links]


def _filled(candidate: CandidatePlan, name: tuple[bool, str]) -> float:
    """Say how full a node or a link is, as a share of its limit."""
    is_link, of = name
    if is_link:
        return candidate.links[of].rate / candidate.links[of].limit
    load = candidate.loads[of]
    return load.cost / load.limit if load.limit > 0 else float(load.cost > 0)

"""What is left of the budget is spent: a bare optimum keeps only what the model can use.

Node by node, in three steps, each as far as every limit allows: more of the types that the
plan keeps, by one factor; then the types of patterns that have matches, up to all; then all the
rest. The model ignores chance and order, so what it has no use for still brings matches.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, dot
from shedlight.model.model import Keep, PatternModel
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.shares import scalable

_MOST_STEPS = 60
_CLOSE = 1e-6
"""How much of a step may be left undone."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Those shares of one pattern that a step may raise.

    All is done pattern by pattern: what is as long as all of a node does not fit any cache.

    Attributes:
        stream: The pattern.
        free: Which of its uses they are.
        shares: What is kept of them.
        work: What keeping all of each costs.
    """

    stream: Stream
    free: Flags | slice
    shares: Floats
    work: Floats


def spend_budget(
    problem: PlanningProblem, candidate: CandidatePlan, on: frozenset[Stream]
) -> CandidatePlan:
    """Spend what is left.

    Args:
        problem: What the plan is for.
        candidate: The plan so far.
        on: The patterns that have matches in it.
    """
    for node in _in_order(problem):
        alone = _stands_alone(problem, node)
        for number in range(3):
            work = candidate.loads[node]
            left = work.limit - work.cost
            if left <= _CLOSE * work.limit:
                break
            step = _Step(_pieces(problem, node, candidate, number, on), left, number == 0)
            raised = step.at(
                candidate.keep, 1.0 if alone else _reach(problem, step, candidate.keep)
            )
            if raised is not candidate.keep:
                candidate = problem.evaluate(raised)
    return candidate


def _in_order(problem: PlanningProblem) -> list[str]:
    """List the planned nodes, upstream first as far as that can be said of nodes."""
    order = dict.fromkeys(one.node for one in problem.model.operators.values())
    return [node for node in order if node in problem.nodes]


def _pieces(
    problem: PlanningProblem,
    node: str,
    candidate: CandidatePlan,
    number: int,
    on: frozenset[Stream],
) -> tuple[_Piece, ...]:
    """Collect the shares at a node that a step may raise."""
    pieces = []
    for pattern in problem.patterns_on(node):
        stream, shares = pattern.stream, candidate.keep[pattern.stream]
        flags = _may_rise(pattern, shares, number, on)
        if flags.any():
            free = slice(None) if flags.all() else flags
            arrivals = candidate.rates.arrivals[str(stream.operator)]
            work = arrivals[pattern.demand.uses[free]]
            work *= problem.limits[node].costs[stream][free]
            pieces.append(_Piece(stream, free, shares[free], work))
    return tuple(pieces)


def _may_rise(
    pattern: PatternModel, shares: Floats, number: int, on: frozenset[Stream]
) -> Flags:
    """Say which shares a step may raise."""
    free = scalable(pattern)
    if number == 0:
        return free & (shares > 0)
    if number == 1 and pattern.stream not in on:
        return np.zeros_like(free)
    if pattern.demand.has_not and not pattern.key and pattern.stream not in on:
        return np.zeros_like(free)  # with a NOT it is on or off, nothing between
    return free


class _Step:
    """One step at one node: how far it can go by the node's own limit, and what it makes.

    Args:
        pieces: What may rise.
        left: What it may cost more.
        by_factor: Whether shares are multiplied, or else raised towards all.
    """

    def __init__(self, pieces: tuple[_Piece, ...], left: float, by_factor: bool) -> None:  # noqa: FBT001
        self._pieces, self._by_factor = pieces, by_factor
        rows = [(piece.shares, piece.work) for piece in pieces]
        self._extent = _factor(rows, left) if by_factor else _extent(rows, left)

    def at(self, keep: Keep, reach: float) -> Keep:
        """Give the plan after a part of the step; the same one if nothing changes."""
        extent = reach * self._extent
        if extent == 0 or not self._pieces:
            return keep
        result = dict(keep)
        for piece in self._pieces:
            raised = piece.shares
            if self._by_factor:
                raised = np.minimum(1.0, raised * (1 + extent))
            else:
                raised = raised + (1 - raised) * extent
            shares = result[piece.stream] = result[piece.stream].copy()
            shares[piece.free] = raised
        return result


_Row = tuple[Floats, Floats]
"""Shares, and what keeping all of each costs."""


def _factor(rows: list[_Row], left: float) -> float:
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
    for _ in range(_MOST_STEPS):
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


def _sums(rows: list[_Row]) -> tuple[float, float]:
    """Add up what the shares cost, and what all would."""
    return (
        sum(dot(shares, work) for shares, work in rows),
        sum(float(work.sum()) for _, work in rows),
    )


def _between(rows: list[_Row], low: float, high: float) -> tuple[list[_Row], float, float]:
    """Leave only shares that reach 1 between two factors.

    Returns:
        What is left, what those that reach 1 before cost, and how the cost of the others grows.
    """
    left, full, slope = [], 0.0, 0.0
    for shares, work in rows:
        done, linear = shares * low >= 1, shares * high <= 1
        full += float(work[done].sum())
        slope += dot(work[linear], shares[linear])
        open_ = ~(done | linear)
        if open_.any():
            left.append((shares[open_], work[open_]))
    return left, full, slope


def _extent(rows: list[_Row], left: float) -> float:
    """Find the share of what is shed that costs what is left."""
    shed = sum(dot(work, 1 - shares) for shares, work in rows)
    return float(np.clip(left / shed, 0.0, 1.0)) if shed > 0 else 1.0


def _stands_alone(problem: PlanningProblem, node: str) -> bool:
    """Whether work is in proportion to shares here and no other limit depends on the output."""
    fed_by_key = any(
        pattern.key and operator.feeds
        for operator in problem.model.operators_on(node)
        for pattern in operator.patterns
    )
    if problem.limits[node].transport or fed_by_key:
        return False
    reached = {p.stream for p in problem.patterns_on(node)}
    for operator in problem.model.operators.values():
        if not reached.isdisjoint(operator.feeds):
            if operator.node in problem.limits:
                return False
            reached.update(p.stream for p in operator.patterns)
    return True


def _reach(problem: PlanningProblem, step: _Step, keep: Keep) -> float:
    """Find how far into a step all limits are kept, by halving."""
    low, high = 0.0, 1.0
    if problem.fits(step.at(keep, high)):
        return high
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if problem.fits(step.at(keep, middle)) else (low, middle)
    return low

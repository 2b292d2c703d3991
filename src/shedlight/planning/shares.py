"""From the rates that a program says to shares that a shedder can keep, within every limit."""

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, dot, repeat_zero
from shedlight.model.model import Keep, PatternModel
from shedlight.planning.kept_terms import LpSolution
from shedlight.planning.problem import CandidatePlan, PlanningProblem

_MAX_ROUNDS = 200
_WHOLE = 1 - 1e-5  # a share from which on a closure is whole: a solver rounds
_NOTHING = 1e-9  # a share up to which nothing is kept: what it brings is a solver's rounding


def to_shares(problem: PlanningProblem, solution: LpSolution) -> CandidatePlan:
    """Turn rates to keep into shares of what arrives, and fit them into the limits.

    Shares are taken of arrivals as the model predicts them for the shares upstream: a program
    may understate the output of an operator that is not shed.
    """
    keep: dict[Stream, Floats] = {}

    def choose(pattern: PatternModel, arrivals: Floats) -> Floats | None:
        if pattern.stream in solution.terms:
            keep[pattern.stream] = _pattern_shares(pattern, solution, arrivals)
        return keep.get(pattern.stream)

    return scale_into_limits(problem, problem.evaluate(keep, choose))


def _pattern_shares(pattern: PatternModel, solution: LpSolution, arrivals: Floats) -> Floats:
    stream = pattern.stream
    if stream in solution.key_shares:
        return np.full(len(arrivals), min(1.0, max(0.0, solution.key_shares[stream])))
    if solution.is_off(stream):
        return repeat_zero(len(arrivals))
    shares = solution.kept(stream)
    if np.minimum.reduce(arrivals, initial=1.0) > 0:
        shares /= arrivals
    else:
        np.divide(shares, arrivals, out=shares, where=arrivals > 0)
        shares[arrivals <= 0] = 1.0 if stream in solution.on else 0.0
    np.minimum(shares, 1.0, out=shares)
    shares[shares <= _NOTHING] = 0.0
    if pattern.switches:
        shares[shares >= _WHOLE] = 1.0
    return shares


def scale_into_limits(problem: PlanningProblem, candidate: CandidatePlan) -> CandidatePlan:
    """Scale the shares of planned nodes down until none does or sends more than it may."""
    for _ in range(_MAX_ROUNDS):
        over = [name for name in problem.over(candidate) if name in problem.nodes]
        if not over:
            break
        keep = dict(candidate.keep)
        for name in over:
            keep |= _scaled(problem, name, candidate)
        candidate = problem.evaluate(keep)
    return candidate


def _scaled(problem: PlanningProblem, node: str, candidate: CandidatePlan) -> Keep:
    """Scale what may be scaled at a node so that it fits."""
    limit, load = problem.limits[node], candidate.loads[node]
    patterns = problem.patterns_on(node)
    fixed = 0.0
    for pattern in patterns:
        stream = pattern.stream
        held = ~scalable(pattern, candidate.keep[stream])
        fixed += dot(candidate.rates.kept[stream][held], limit.costs[stream][held])
    loose = load.cost - fixed
    factor = max(0.0, min(1.0, (load.limit - fixed) / loose)) if loose > 0 else 0.0
    full = [candidate.links[link.name] for link in problem.model.links if link.node == node]
    factor = min([factor, *(load.limit / load.rate for load in full if not load.fits)])
    scaled = {pattern.stream: candidate.keep[pattern.stream].copy() for pattern in patterns}
    for pattern in patterns:
        shares = scaled[pattern.stream]
        shares[scalable(pattern, shares)] *= factor * (1 - 1e-12)
    return scaled


def scalable(pattern: PatternModel, shares: Floats) -> Flags:
    """Say which uses of a pattern may be shed in part; shares are what it keeps.

    What is whole for a watcher without a key stays so.
    """
    free = np.ones(len(pattern.demand.uses), np.bool_)
    if pattern.switches and not pattern.is_switched and shares.min(initial=1.0) >= 1:
        return ~free
    if len(pattern.protected):
        free &= ~pattern.protected
    if pattern.key:
        return np.full(len(free), bool(free.all()))
    return free & ~pattern.demand.watched if pattern.is_switched else free

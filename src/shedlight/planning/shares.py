"""From the rates that a program says to shares that a shedder can keep, within every limit."""

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.model import Keep, PatternModel
from shedlight.model.selectivity.needs import Flags, Floats, dot, repeated
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.solution import LpSolution

_MOST_ROUNDS = 200


def to_shares(scope: PlanningProblem, optimum: LpSolution) -> CandidatePlan:
    """Turn rates to keep into shares of what arrives, and fit them into the limits.

    Shares are taken of arrivals as the model predicts them for the shares upstream: a program
    may understate the output of an operator that is not shed.
    """
    keep: dict[Stream, Floats] = {}

    def choose(pattern: PatternModel, arrivals: Floats) -> Floats | None:
        if pattern.stream in optimum.terms:
            keep[pattern.stream] = _shares(pattern, optimum, arrivals)
        return keep.get(pattern.stream)

    return scale_into_limits(scope, scope.draft(keep, choose))


def _shares(pattern: PatternModel, optimum: LpSolution, arrivals: Floats) -> Floats:
    stream = pattern.stream
    if stream in optimum.by_key:
        return np.full(len(arrivals), min(1.0, max(0.0, optimum.by_key[stream])))
    if optimum.is_off(stream):
        return repeated(np.float64(0.0), len(arrivals))
    unseen = 1.0 if optimum.on[stream] else 0.0
    shares = optimum.kept(stream)
    if arrivals.min(initial=1.0) > 0:
        shares /= arrivals
    else:
        np.divide(shares, arrivals, out=shares, where=arrivals > 0)
        shares[arrivals <= 0] = unseen
    np.minimum(shares, 1.0, out=shares)
    return shares


def scale_into_limits(scope: PlanningProblem, draft: CandidatePlan) -> CandidatePlan:
    """Scale the shares of every planned node that is over its limit down until none is."""
    for _ in range(_MOST_ROUNDS):
        over = [name for name in scope.nodes if not draft.works[name].fits]
        if not over:
            break
        keep = dict(draft.keep)
        for name in over:
            keep |= _scaled(scope, name, draft)
        draft = scope.draft(keep)
    return draft


def _scaled(scope: PlanningProblem, node: str, draft: CandidatePlan) -> Keep:
    """Scale what may be scaled at a node so that it fits."""
    limit, work = scope.limits[node], draft.works[node]
    patterns = scope.patterns_on(node)
    firm = 0.0
    for pattern in patterns:
        held = ~scalable(pattern)
        firm += dot(draft.rates.kept[pattern.stream][held], limit.costs[pattern.stream][held])
    loose = work.cost - firm
    factor = max(0.0, min(1.0, (work.limit - firm) / loose)) if loose > 0 else 0.0
    scaled = {pattern.stream: draft.keep[pattern.stream].copy() for pattern in patterns}
    for pattern in patterns:
        scaled[pattern.stream][scalable(pattern)] *= factor * (1 - 1e-12)
    return scaled


def scalable(pattern: PatternModel) -> Flags:
    """Say which uses of a pattern may be shed in part."""
    free = np.ones(len(pattern.needs.uses), np.bool_)
    if len(pattern.protected):
        free &= ~pattern.protected
    if pattern.key:
        return np.full(len(free), bool(free.all()))
    return free & ~pattern.needs.watched

"""From the rates that a program says to shares that a shedder can keep, within every limit."""

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.latency import Limit
from shedlight.model.load import Work, work_of
from shedlight.model.model import Keep, PatternModel
from shedlight.model.needs import Flags, Floats, dot
from shedlight.model.rates import Rates, follow
from shedlight.planning.reduced import Optimum
from shedlight.planning.scope import Scope

_MOST_ROUNDS = 200


def shares_of(scope: Scope, optimum: Optimum) -> Keep:
    """Turn rates to keep into shares of what arrives, and fit them into the limits.

    Shares are taken of arrivals as the model predicts them for the shares upstream: a program
    may understate the output of an operator that is not shed.
    """
    keep: dict[Stream, Floats] = {}

    def choose(pattern: PatternModel, arrivals: Floats) -> Floats | None:
        if pattern.stream in optimum.kept:
            keep[pattern.stream] = _shares(pattern, optimum, arrivals)
        return keep.get(pattern.stream)

    rates = follow(scope.model, choose, scope.nodes)
    return fitted(scope, keep, rates)


def _shares(pattern: PatternModel, optimum: Optimum, arrivals: Floats) -> Floats:
    stream = pattern.stream
    if stream in optimum.by_key:
        return np.full(len(arrivals), min(1.0, max(0.0, optimum.by_key[stream])))
    unseen = 1.0 if optimum.on[stream] else 0.0
    kept = optimum.kept[stream]
    shares = np.divide(kept, arrivals, out=np.full(len(kept), unseen), where=arrivals > 0)
    return np.asarray(np.minimum(shares, 1.0))


def fitted(scope: Scope, keep: Keep, rates: Rates | None = None) -> Keep:
    """Scale the shares of every planned node that is over its limit down until none is.

    Args:
        scope: What the plan is for.
        keep: The plan so far.
        rates: What it leads to, if that is known.
    """
    result = dict(keep)
    for _ in range(_MOST_ROUNDS):
        rates = rates or scope.rates(result)
        works = {name: work_of(scope.model, scope.limits[name], rates) for name in scope.nodes}
        over = [name for name, work in works.items() if not work.fits]
        if not over:
            break
        for name in over:
            _scale(scope, scope.limits[name], works[name], (result, rates))
        rates = None
    return result


def _scale(
    scope: Scope, limit: Limit, work: Work, now: tuple[dict[Stream, Floats], Rates]
) -> None:
    """Scale what may be scaled at a node so that it fits."""
    keep, rates = now
    patterns = scope.patterns_on(limit.node.name)
    firm = 0.0
    for pattern in patterns:
        held = ~scalable(pattern)
        firm += dot(rates.kept[pattern.stream][held], limit.costs[pattern.stream][held])
    loose = work.cost - firm
    factor = max(0.0, min(1.0, (work.limit - firm) / loose)) if loose > 0 else 0.0
    for pattern in patterns:
        shares = keep[pattern.stream].copy()
        shares[scalable(pattern)] *= factor * (1 - 1e-12)
        keep[pattern.stream] = shares


def scalable(pattern: PatternModel) -> Flags:
    """Say which uses of a pattern may be shed in part."""
    free = np.ones(len(pattern.needs.uses), np.bool_)
    if len(pattern.protected):
        free &= ~pattern.protected
    if pattern.key:
        return np.full(len(free), bool(free.all()))
    return free & ~pattern.needs.watched

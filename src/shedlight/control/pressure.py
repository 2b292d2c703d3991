"""Pressure: what a node does about its own queue between plans.

A plan is for a stationary load, and it is as old as the last decision. In between a node
multiplies all its shares by a factor that depends on nothing but its own backlog W (busy
seconds queued, which is what an event that arrives now waits) and its bound B:

    1                          while W <= start
    (B - W) / (B - start)      from there to B
    0                          from B on

- At B nothing more is taken in, so W passes B by no more than what arrives between two looks,
  however stale the plan is and however great the load.
- It is a ramp and not a step: at a load of k times the capacity it settles where the factor is
  1/k, instead of taking everything and nothing in turn.
- It must not undo the plan: a node that is as busy as planned has a queue too. A server that
  reaches B when it is busy `limit` of the time has, at `aim` of that, a queue of
  aim (1 - limit) / (1 - aim limit) of B (M/M/1). The ramp starts half-way from there to B: at
  half of B for a bound of many services, where the limit is almost 1, and later for a tight
  bound.
"""

from shedlight.model.latency import Target, batches_per_event

_AIM = Target().aim
_LATEST = 0.9  # no plan is taken to expect more of a queue than this share of the bound


def pressure(
    backlog: float, bound: float | None, limit: float = 1.0, aim: float = _AIM
) -> float:
    """Say by what factor a node lowers its shares; without a bound there is no pressure.

    The limit is what the bound allows, in busy seconds per second (`NodeLoad.busy_limit` at aim
    1), the aim the share of it that plans use.

    Example:
        >>> [round(pressure(backlog, bound=3.0), 2) for backlog in (0.0, 1.5, 2.0, 2.7, 3.0)]
        [1.0, 1.0, 0.67, 0.2, 0.0]
    """
    if bound is None:
        return 1.0
    limit = min(max(limit, 0.0), 1.0)
    idle = 1 - aim * limit
    usual_queue = min(_LATEST, aim * (1 - limit) / idle) if idle > 0 else 0.0
    start = bound * (1 + usual_queue) / 2
    return min(1.0, max(0.0, bound - backlog) / (bound - start))


def batch_pressure(
    unread: float,
    work: float,
    *,
    fixed: float,
    reading: float,
    bound: float | None,
    percentile: int | None = None,
) -> float:
    """Say by what factor a node of micro-batches lowers its shares for the next one.

    What has arrived is read as a whole, so there is no ramp: the factor is the greatest with
    which the next micro-batch takes no longer than the bound, of the mean or of a percentile,
    allows: events are admitted by the end of the micro-batch that would read them. Plans aim
    for less, and so noise does not undo them. A bound that even an empty micro-batch breaks
    cannot be kept, and nothing is shed for it. Of the unread events each brings so many seconds
    of work, at the shares of the plan, and of reading, kept or not; the fixed seconds are of a
    micro-batch.

    Example:
        >>> batch_pressure(60_000, 1e-4, fixed=0.5, reading=0.0, bound=6.0)
        0.5833333333333334
    """
    batches = batches_per_event(percentile)
    if bound is None or unread * work <= 0 or batches * fixed >= bound:
        return 1.0
    longest = bound / batches
    return min(1.0, max(0.0, longest - fixed - unread * reading) / (unread * work))

"""A server that takes events one by one, first come, first served: Lindley's recursion."""

import numpy as np

from shedlight.matching.jit import compiled
from shedlight.model.arrays import Floats


def served(arrivals: Floats, service: Floats, free: float) -> tuple[Floats, float]:
    """Say when each event leaves a server, and when the server is free again.

    Args:
        arrivals: When events arrive, in the order in which they are served, in seconds.
        service: How long each takes; nothing, if it is shed.
        free: When the server is free for the first of them.
    """
    departures = np.empty(len(arrivals))
    return departures, float(_serve(arrivals, service, float(free), departures))


@compiled
def _serve(arrivals: Floats, service: Floats, free: float, departures: Floats) -> float:
    for i in range(arrivals.shape[0]):
        free = max(free, arrivals[i]) + service[i]
        departures[i] = free
    return free

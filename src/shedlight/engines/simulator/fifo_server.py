"""A server that serves one after the other: first come, first served."""

import numpy as np

from shedlight.matching.jit import compiled
from shedlight.model.arrays import Floats


def serve_in_order(arrivals: Floats, service: Floats, free: float) -> tuple[Floats, float]:
    """Say when each event leaves a server, and when the server is free again, in seconds.

    Events are served one by one, first come, first served: Lindley's recursion.
    """
    departures = np.empty(len(arrivals))
    return departures, float(_serve(arrivals, service, float(free), departures))


@compiled
def _serve(arrivals: Floats, service: Floats, free: float, departures: Floats) -> float:
    for i in range(arrivals.shape[0]):
        free = max(free, arrivals[i]) + service[i]
        departures[i] = free
    return free

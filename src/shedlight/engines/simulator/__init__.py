"""The simulator: an application in virtual time, with a queue and a server at each node."""

from shedlight.engines.simulator.simulator import Simulation, simulate
from shedlight.engines.simulator.values import (
    Counts,
    Interval,
    Policy,
    Served,
    Service,
    ServiceKind,
)

__all__ = [
    "Counts",
    "Interval",
    "Policy",
    "Served",
    "Service",
    "ServiceKind",
    "Simulation",
    "simulate",
]

"""The simulator: an application in virtual time, with a queue and a server at each node."""

from shedlight.engines.simulator.simulator import Simulation, simulate
from shedlight.engines.simulator.values import Interval, Policy, Service, ServiceKind

__all__ = ["Interval", "Policy", "Service", "ServiceKind", "Simulation", "simulate"]

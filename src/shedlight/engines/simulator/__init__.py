"""The simulator: an application in virtual time, with a queue and a server at each node."""

from shedlight.engines.simulator.api import Counts, Interval, Policy, ServedEvents
from shedlight.engines.simulator.closure_state import AppliedThreshold
from shedlight.engines.simulator.service import Service, ServiceDistribution
from shedlight.engines.simulator.simulate import Simulation, simulate

__all__ = [
    "AppliedThreshold",
    "Counts",
    "Interval",
    "Policy",
    "ServedEvents",
    "Service",
    "ServiceDistribution",
    "Simulation",
    "simulate",
]

"""The control loop around a simple world: observe, decide, shed as decided, observe again."""

from shedlight.control.controller import Memory, decide
from tests.control.observations import APPLICATION, observed

FITS, TOO_MUCH = 0.6, 1.5
"""Loads, as factors of that of the paper's snapshot."""

START = Memory(application=APPLICATION)


def still() -> float:
    """Say that no time passes."""
    return 0.0


def run(memory, factors, **more):
    """Observe one load after the other, each shed as decided before."""
    decisions = []
    for number, factor in enumerate(factors):
        seen = observed(factor, memory.shares, time=5.0 * number, **more)
        memory, decision = decide(memory, seen, clock=still)
        decisions.append(decision)
    return memory, decisions

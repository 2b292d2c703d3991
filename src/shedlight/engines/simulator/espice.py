"""A baseline that sheds by utility, in the manner of eSPICE (Slo et al., Middleware 2019).

An event is as useful as events of its type at its position in the window have been: what they
brought in matches, per busy second that they took. The limit is filled with the most useful
first, and a share by hash of those that are just useful enough. Only the operators of the node
itself count, whatever becomes of their complex events downstream.

eSPICE learns from a stream that is not shed, once. Here utilities are learned while shedding,
and that changes them: of two types that a match needs both, the one that is kept more is worth
less. So shares move by steps: each observation takes back a part of all and gives it to what
was worth most, which leads to where the types of a pattern are in balance. A little is kept of
everything, for what is never kept is never known.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from shedlight.control.observation import Observation
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.espice_cells import BINS, UtilityCells
from shedlight.engines.simulator.policies import Factors, Limits, PressureLoop
from shedlight.graph import Application, Stream, operators_on
from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import Target
from shedlight.shedding.shares import Shares

_SHORTEST = 1e-9
"""No event takes less than this, in seconds."""
_STEP = 0.2
"""The part of what is kept that is given away anew after each observation."""
_LEAST = 0.02
"""The part of the limit that goes to what is not worth it, to know what it is worth."""
_LEVELS = 10
"""Utilities that differ by less than one such part of the greatest are the same."""


class UtilityPolicy:
    """Drops the events that are the least useful, as many as the limit asks for.

    Args:
        application: What is simulated.
        target: How bounds are kept.
        every: After how many intervals there is a decision.
        pressed: Whether there is pressure in between.

    Attributes:
        choosers: What chooses the events of each pattern on a node with a bound.
    """

    def __init__(
        self,
        application: Application,
        target: Target | None = None,
        every: int = 1,
        *,
        pressed: bool = True,
    ) -> None:
        self._application = application
        self._limits = Limits(application, target or Target())
        self._pressed = PressureLoop(application, every, pressed=pressed)
        self.choosers: Mapping[Stream, UtilityCells] = {
            stream: UtilityCells(spec.patterns[stream.name])
            for spec in application.operators.values()
            if application.nodes[spec.node].bound is not None
            for stream in spec.outputs
        }

    @property
    def factors(self) -> list[Factors]:
        """The pressure after each interval."""
        return self._pressed.factors

    def decide(self, interval: Interval) -> Shares:
        """Choose anew what is kept if it is time, and put pressure on it."""
        return self._pressed.decide(self, interval)

    def observe(self, observation: Observation) -> None:
        """Choose anew for every node that has a limit."""
        self._limits.observe(observation)
        for node, work in self._limits.works.items():
            self._refill(node, work.busy_limit * observation.interval)
        for one in self.choosers.values():
            one.forget()

    def _refill(self, node: str, limit: float) -> None:
        """Choose anew for the patterns of a node, given the busy seconds that it may have."""
        here = self._at(node)
        seconds = {stream: max(_SHORTEST, self._limits.seconds(stream)) for stream in here}
        work = _joined(one.arrived * seconds[stream] for stream, one in here.items())
        worth = _joined(one.worth() / seconds[stream] for stream, one in here.items())
        firm = _joined(np.repeat(one.firm, BINS) for one in here.values()).astype(np.bool_)
        shares = _joined(one.shares for one in here.values())
        left = max(0.0, limit - float(work[firm].sum()))
        shares[~firm] = refilled(shares[~firm], work[~firm], worth[~firm], left)
        for one in here.values():
            mine, shares = np.split(shares, [one.shares.size])
            one.shares = mine.reshape(one.shares.shape)

    def _at(self, node: str) -> dict[Stream, UtilityCells]:
        operators = operators_on(self._application, node)
        return {stream: self.choosers[stream] for one in operators for stream in one.outputs}

    def shares(self, factors: Factors) -> Shares:
        """Put pressure on what is chosen; it is not a matter of shares."""
        for node, factor in factors.items():
            for one in self._at(node).values() if self._application.nodes[node].bound else ():
                one.pressure = factor
        return {}

    def limit(self, node: str) -> float:
        """Give the limit of the last observation."""
        return self._limits.of(node)


def refilled(shares: Floats, work: Floats, worth: Floats, limit: float) -> Floats:
    """Take a part of all shares back, and fill the limit with what is worth most.

    Args:
        shares: What is kept of each cell.
        work: Busy seconds that all events of each cell would take.
        worth: What a busy second of each cell brings.
        limit: The busy seconds that there are.
    """
    asked, kept = float(work.sum()), dot(shares, work)
    if asked <= limit:
        return np.ones_like(shares)
    smaller = shares * min(1 - _STEP, limit / kept if kept else 0.0)
    found = np.maximum(smaller, _LEAST * limit / asked)
    found *= min(1.0, limit / max(dot(found, work), 1e-300))
    left = limit - dot(found, work)
    levels = np.round(_LEVELS * worth / max(float(worth.max()), 1e-300))
    for level in np.unique(levels)[::-1]:
        same = levels == level
        room = dot(1 - found[same], work[same])
        part = min(1.0, max(0.0, left) / room) if room > 0 else float(left > 0)
        found[same] += part * (1 - found[same])
        left -= part * room
    return found


def _joined(parts: Iterable[Floats]) -> Floats:
    return np.concatenate([part.ravel() for part in parts])

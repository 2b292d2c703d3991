"""What a pattern keeps of each type at each position in its window, and what that brings.

A *position* is the time since the latest event that can open a machine of the pattern (of the
same key, if it has one), in bins that get wider with it: from a small part of the window to all
of it. A *cell* is a type at a position. What an event of a cell brings is learned from the
matches that events of this cell were in; one of k events of a match brings one k-th of it.
"""

from collections.abc import Sequence

import numpy as np

from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import Pattern, WindowUnit, negated_elements
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.step import ReadyBatch
from shedlight.model.arrays import Floats

BINS = 24
"""How many positions there are; two of them make an octave."""

_NEVER = -(1 << 62)
_HASHES, _LOWEST = float(1 << 64), -float(1 << 63)
_REMEMBERED = 1 << 16
"""How many events are remembered where time does not say which."""
_FORGETTING = 0.7
"""What earlier counts are worth after each observation."""
_BORROWED = 20.0
"""By how many events of its type a cell is judged, besides its own."""


class UtilityCells:
    """Chooses the events that a pattern keeps, and counts what they bring.

    Args:
        pattern: The pattern.

    Attributes:
        shares: What is kept of each cell, before pressure; a row per type.
        pressure: The factor by which these are lowered.
        firm: The types that are always kept: without what a NOT watches, matches are invented.
        arrived: Events of each cell since the latest observation.
    """

    def __init__(self, pattern: Pattern) -> None:
        within = pattern.within
        self._window = within.length if within and within.span is WindowUnit.TIME else 0
        self._edges = self._window * 2.0 ** (np.arange(2 - BINS, 1) / 2)
        self.pressure = 1.0
        self.shares: Floats = np.ones((0, BINS))
        self.firm: Array = np.zeros(0, np.bool_)
        self._opens: Array = np.zeros(0, np.bool_)
        self.arrived, self._kept, self._brought = (np.zeros((0, BINS)) for _ in range(3))
        self._opened = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._recent = tuple(np.zeros(0, np.int64) for _ in range(3))

    def choose(
        self, matcher: Matcher, ready: ReadyBatch, offered: Array, hashes: Array
    ) -> Array:
        """Say which events are kept, of those that the pattern has a use for."""
        self._grow(matcher, ready.types.signatures[len(self.firm) :])
        gaps = self._gaps(ready, matcher.pattern.partition_by)
        cells = ready.numbers.astype(np.int64) * BINS + np.searchsorted(self._edges, gaps)
        keep = np.where(self.firm[:, None], 1.0, self.shares * self.pressure).ravel()[cells]
        mask: Array = offered & ((keep >= 1) | (hashes < _LOWEST + keep * _HASHES))
        self.arrived += self._counted(cells[offered])
        self._kept += self._counted(cells[mask])
        self._remember(ready, hashes[mask], cells[mask], ready.time[mask])
        return mask

    def learn(self, hashes: Array, brought: Floats) -> None:
        """Take in what events, by their hashes, brought in matches."""
        known, cells, _ = self._recent
        if len(hashes) and len(known):
            order = np.argsort(known)
            places = np.minimum(np.searchsorted(known, hashes, sorter=order), len(known) - 1)
            found = known[order[places]] == hashes
            self._brought += self._counted(cells[order[places]][found], brought[found])

    def worth(self) -> Floats:
        """Say what an event of each cell brings, in complex events."""
        kept, brought = self._kept, self._brought
        in_all = float(brought.sum() / max(kept.sum(), 1.0))
        by_type = _judged(brought.sum(1), kept.sum(1), in_all)
        return _judged(brought, kept, by_type[:, None])

    def forget(self) -> None:
        """Begin a new observation."""
        self.arrived = np.zeros_like(self.arrived)
        self._kept = self._kept * _FORGETTING
        self._brought = self._brought * _FORGETTING

    def _grow(self, matcher: Matcher, new: Sequence[Signature]) -> None:
        """Make room for new types; they are kept as the others are on average."""
        if not new:
            return
        symbols = [matcher.symbol(signature) for signature in new]
        automaton, nots = matcher.automaton, negated_elements(matcher.pattern.where)
        watches = {i for i, element in enumerate(automaton.elements) if element in nots}
        starts = {element for lane in automaton.lanes for element, _ in lane[0].edges}
        mean = float(self.shares.mean()) if len(self.firm) else 1.0
        self.firm = np.append(self.firm, [bool(symbol & watches) for symbol in symbols])
        self._opens = np.append(self._opens, [bool(symbol & starts) for symbol in symbols])
        self.shares = np.vstack([self.shares, np.full((len(new), BINS), mean)])
        self.arrived, self._kept, self._brought = (
            np.vstack([counts, np.zeros((len(new), BINS))])
            for counts in (self.arrived, self._kept, self._brought)
        )

    def _counted(self, cells: Array, weights: Floats | None = None) -> Floats:
        size = self.shares.size
        return np.bincount(cells, weights, size).reshape(self.shares.shape).astype(np.float64)

    def _gaps(self, ready: ReadyBatch, by: tuple[Attribute, ...]) -> Array:
        """Find the time since the latest event that can open a machine of the same key."""
        keys, _ = ready.keys.get(by, (np.zeros(len(ready.time), np.int64), None))
        known, latest = self._opened
        names, numbers = np.unique(np.concatenate([known, keys]), return_inverse=True)
        times = np.full(len(names), _NEVER, np.int64)
        times[numbers[: len(known)]] = latest
        gaps = np.empty(len(ready.time), np.int64)
        _measure(ready.time, self._opens[ready.numbers], numbers[len(known) :], times, gaps)
        recent = times >= ready.watermark - self._window
        self._opened = (names[recent], times[recent])
        return gaps

    def _remember(self, ready: ReadyBatch, hashes: Array, cells: Array, times: Array) -> None:
        """Remember the cells of events that can still be in a match."""
        known = self._recent
        recent = known[2] >= ready.watermark - 2 * self._window
        if not self._window:  # who knows how long ago some number of events is
            recent = np.arange(len(recent)) >= len(recent) - _REMEMBERED
        self._recent = tuple(
            np.concatenate([old[recent], new])
            for old, new in zip(known, (hashes, cells, times), strict=True)
        )


def _judged(brought: Floats, kept: Floats, usual: Floats | float) -> Floats:
    """Estimate what an event brings, the more by what is usual the fewer there were."""
    return np.asarray((brought + _BORROWED * usual) / (kept + _BORROWED))


@compiled
def _measure(time: Array, opens: Array, keys: Array, latest: Array, gaps: Array) -> None:
    for i in range(time.shape[0]):
        gaps[i] = time[i] - latest[keys[i]]
        if opens[i]:
            latest[keys[i]] = time[i]

"""A baseline that sheds by utility, in the manner of eSPICE (Slo et al., Middleware 2019).

An event is as useful as events of its type at its position in the window have been: what they
brought in matches, per busy second that they took. The limit is filled with the most useful
first, and a share by hash of those that are just useful enough. Only the operators of the node
itself count, whatever becomes of their complex events downstream.

A *position* is the time since the latest event that can open a partial match of the pattern (of
the same key, if it has one), in bins that get wider with it: from a small part of the window to
all of it. A *cell* is a type at a position. What an event of a cell brings is learned from the
matches that events of this cell were in; one of k events of a match brings one k-th of it.

eSPICE learns from a stream that is not shed, once. Here utilities are learned while shedding,
and that changes them: of two types that a match needs both, the one that is kept more is worth
less. So shares move by steps: each observation takes back a part of all and gives it to what
was worth most, which leads to where the types of a pattern are in balance. A little is kept of
everything, for what is never kept is never known.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from shedlight.control.observation import Observation
from shedlight.engines.simulator.policies import Factors, LimitPolicy
from shedlight.graph import Stream, operators_on
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import Pattern, WindowUnit, negated_elements
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.step import ReadyBatch
from shedlight.model.arrays import Floats, dot
from shedlight.shedding.shares import Shares, sheddable

_MIN_SECONDS = 1e-9  # no event takes less than this, in seconds
_STEP = 0.2  # the part of what is kept that is given away anew after each observation
_MIN_SHARE = 0.02
"""The part of the limit that goes to what is not worth it, to know what it is worth."""
_LEVELS = 10  # utilities that differ by less than one such part of the greatest are the same
BINS = 24  # how many positions there are; two of them make an octave

_NEVER = -(1 << 62)
_HASHES, _LOWEST = float(1 << 64), -float(1 << 63)
_MAX_REMEMBERED = 1 << 16  # how many events are remembered where time does not say which
_FORGETTING = 0.7  # what earlier counts are worth after each observation
_BORROWED = 20.0  # by how many events of its type a cell is judged, besides its own


class UtilityCells:
    """Chooses the events that a pattern keeps, and counts what they bring, by cell.

    There is a row per type. What is protected is always kept: without what a NOT watches,
    matches are invented.
    """

    def __init__(self, pattern: Pattern) -> None:
        within = pattern.within
        self._window = within.length if within and within.unit is WindowUnit.TIME else 0
        self._edges = self._window * 2.0 ** (np.arange(2 - BINS, 1) / 2)
        self.pressure = 1.0  # the factor by which shares are lowered
        self.shares: Floats = np.ones((0, BINS))
        self.protected: Array = np.zeros(0, np.bool_)
        self._opens: Array = np.zeros(0, np.bool_)
        self.arrived, self._kept, self._brought = (np.zeros((0, BINS)) for _ in range(3))
        self._opened = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._recent = tuple(np.zeros(0, np.int64) for _ in range(3))

    def choose(
        self, matcher: Matcher, ready: ReadyBatch, offered: Array, hashes: Array
    ) -> Array:
        """Say which events are kept, of those that the pattern can take."""
        self._grow(matcher, ready.types.signatures[len(self.protected) :])
        gaps = self._gaps(ready, matcher.pattern.partition_by)
        cells = ready.numbers.astype(np.int64) * BINS + np.searchsorted(self._edges, gaps)
        shares = np.where(self.protected[:, None], 1.0, self.shares * self.pressure)
        keep = shares.ravel()[cells]
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
            rows = np.minimum(np.searchsorted(known, hashes, sorter=order), len(known) - 1)
            is_known = known[order[rows]] == hashes
            self._brought += self._counted(cells[order[rows]][is_known], brought[is_known])

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
        starts = {element for lane in automaton.regions for element, _ in lane[0].edges}
        mean = float(self.shares.mean()) if len(self.protected) else 1.0
        self.protected = np.append(self.protected, [bool(s & watches) for s in symbols])
        self._opens = np.append(self._opens, [bool(s & starts) for s in symbols])
        self.shares = np.vstack([self.shares, np.full((len(new), BINS), mean)])
        self.arrived, self._kept, self._brought = (
            np.vstack([counts, np.zeros((len(new), BINS))])
            for counts in (self.arrived, self._kept, self._brought)
        )

    def _counted(self, cells: Array, weights: Floats | None = None) -> Floats:
        size = self.shares.size
        return np.bincount(cells, weights, size).reshape(self.shares.shape).astype(np.float64)

    def _gaps(self, ready: ReadyBatch, by: tuple[Attribute, ...]) -> Array:
        """Find the time since the latest event of the key that can open a partial match."""
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
            recent = np.arange(len(recent)) >= len(recent) - _MAX_REMEMBERED
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


class UtilityPolicy(LimitPolicy):
    """Drops the events that are the least useful, as many as the limit asks for."""

    @cached_property
    def choosers(self) -> Mapping[Stream, UtilityCells]:
        """What chooses the events of each pattern on a node with a bound."""
        operators = self._application.operators
        return {
            stream: UtilityCells(operators[str(stream.operator)].patterns[stream.name])
            for stream in sheddable(self._application)
        }

    def observe(self, observation: Observation) -> None:
        """Choose anew for every node that has a limit."""
        super().observe(observation)
        for node, load in self._loads.items():
            self._refill(node, load.busy_limit * observation.interval)
        for cells in self.choosers.values():
            cells.forget()

    def _refill(self, node: str, limit: float) -> None:
        """Choose anew for the patterns of a node, given the busy seconds that it may have."""
        here = self._cells_on(node)
        seconds = {stream: self._seconds(stream) for stream in here}
        work = _concat(cells.arrived * seconds[stream] for stream, cells in here.items())
        worth = _concat(cells.worth() / seconds[stream] for stream, cells in here.items())
        protected = _concat(np.repeat(cells.protected, BINS) for cells in here.values())
        sheddable = ~protected.astype(np.bool_)
        shares = _concat(cells.shares for cells in here.values())
        left = max(0.0, limit - float(work[~sheddable].sum()))
        shares[sheddable] = refill(shares[sheddable], work[sheddable], worth[sheddable], left)
        for cells in here.values():
            mine, shares = np.split(shares, [cells.shares.size])
            cells.shares = mine.reshape(cells.shares.shape)

    def _seconds(self, stream: Stream) -> float:
        """Give the mean processing time of a pattern."""
        seconds = self._model.patterns[stream].seconds
        return max(_MIN_SECONDS, float(seconds.mean())) if len(seconds) else _MIN_SECONDS

    def _cells_on(self, node: str) -> dict[Stream, UtilityCells]:
        operators = operators_on(self._application, node)
        return {stream: self.choosers[stream] for spec in operators for stream in spec.outputs}

    def shares(self, factors: Factors) -> Shares:
        """Put pressure on what is chosen; it is not a matter of shares."""
        for node, factor in factors.items():
            if self._application.nodes[node].bound:
                for stream, cells in self._cells_on(node).items():
                    cells.pressure = 1.0 if stream in self.admitted else factor
        return {}


def refill(shares: Floats, work: Floats, worth: Floats, limit: float) -> Floats:
    """Take a part of all shares back, and fill the limit with what is worth most.

    Work is the busy seconds that all events of a cell would take, worth what a second brings.
    """
    all_work, kept = float(work.sum()), dot(shares, work)
    if all_work <= limit:
        return np.ones_like(shares)
    smaller = shares * min(1 - _STEP, limit / kept if kept else 0.0)
    filled = np.maximum(smaller, _MIN_SHARE * limit / all_work)
    filled *= min(1.0, limit / max(dot(filled, work), 1e-300))
    left = limit - dot(filled, work)
    levels = np.round(_LEVELS * worth / max(float(worth.max()), 1e-300))
    for level in np.unique(levels)[::-1]:
        same = levels == level
        room = dot(1 - filled[same], work[same])
        part = min(1.0, max(0.0, left) / room) if room > 0 else float(left > 0)
        filled[same] += part * (1 - filled[same])
        left -= part * room
    return filled


def _concat(arrays: Iterable[Floats]) -> Floats:
    return np.concatenate([array.ravel() for array in arrays])

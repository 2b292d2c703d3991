"""From a batch to what each pattern gets to see of it, in one pass over its events.

A pattern sees the events that it can use, by their positions in the batch. What that costs
depends on the events and on how many patterns can use them, not on the patterns that cannot. A
pattern that can use most events is offered the batch as it is.
"""

import numpy as np

from shedlight.matching.compile.dispatch import Dispatch
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.classify import count_numbers
from shedlight.matching.operators.step import NO_KEYS, Offered, ReadyBatch

_MAX_POSITIONS = 1 << 23  # how many are written down at a time, for patterns one after another


class Offers:
    """What the patterns of an operator get to see of a batch; they are asked for in order."""

    def __init__(self, dispatch: Dispatch, patterns: int, ready: ReadyBatch) -> None:
        self._dispatch, self._ready = dispatch, ready
        signatures = ready.types.signatures
        counts = count_numbers(ready.numbers, len(signatures))
        occurring = np.flatnonzero(counts)
        uses = [dispatch.uses(signatures[number]) for number in occurring.tolist()]
        sizes = [len(each.patterns) for each in uses]
        nothing = np.zeros(0, np.int32)
        # what is so of pairs of a type and a pattern that can use it, by type and then pattern
        self._patterns = np.concatenate([nothing, *(each.patterns for each in uses)])
        self._symbols = np.concatenate([nothing, *(each.symbols for each in uses)])
        self._types = np.repeat(occurring, sizes)
        events = counts[self._types]
        self.totals = np.bincount(self._patterns, events, patterns).astype(np.int64)
        self._by_pattern = np.argsort(self._patterns, kind="stable")
        self._pair_ends = np.cumsum(np.bincount(self._patterns, minlength=patterns))
        self._all = 2 * self.totals > len(ready.time)  # these are offered all events
        self._sparse = np.where(self._all, 0, self.totals)
        self._low = self._high = 0  # the patterns whose positions are written down
        self._ends = self._positions = self._numbers = nothing

    def offer(self, pattern: int, matcher: Matcher, kept: Array | None) -> Offered:
        """Offer a pattern the events that it can use and that are kept (None: all)."""
        ready = self._ready
        keys = ready.keys.get(matcher.pattern.partition_by, NO_KEYS)
        start = int(self._pair_ends[pattern - 1]) if pattern else 0
        pairs = self._by_pattern[start : self._pair_ends[pattern]]
        symbols, names = self._symbols[pairs].tolist(), self._dispatch.symbols
        if self._all[pattern]:
            types = zip(self._types[pairs].tolist(), symbols, strict=True)
            numbers, size = ready.numbers, len(ready.types.signatures) + 1
            if kept is not None:
                numbers = np.where(kept, numbers, np.int32(size - 1))
            meanings = {number: names[symbol] for number, symbol in types}
            watermark = ready.watermark
            return Offered(ready.time, numbers, meanings, size, keys, ready.table, watermark)
        positions, numbers = self._written(pattern)
        if kept is not None:
            chosen = kept[positions]
            positions, numbers = positions[chosen], numbers[chosen]
        if len(keys[0]):
            keys = keys[0][positions], keys[1][positions]
        meanings = {symbol: names[symbol] for symbol in set(symbols)}
        table = ready.table.at(positions)
        time = ready.time[positions]
        return Offered(time, numbers, meanings, len(names), keys, table, ready.watermark)

    def _written(self, pattern: int) -> tuple[Array, Array]:
        """Give the positions of events that a pattern can use, and the numbers of symbols."""
        if not self._low <= pattern < self._high:
            self._write(pattern)
        end = self._ends[pattern - self._low]
        here = slice(end - self._sparse[pattern], end)
        return self._positions[here], self._numbers[here]

    def _write(self, low: int) -> None:
        """Write down the positions for a pattern and for as many after it as there is room."""
        ends = np.cumsum(self._sparse[low:])
        high = low + max(1, int(np.searchsorted(ends, _MAX_POSITIONS, side="right")))
        chosen = (self._patterns >= low) & (self._patterns < high) & ~self._all[self._patterns]
        size = len(self._ready.types.signatures)
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(self._types[chosen], minlength=size), out=starts[1:])
        self._low, self._high, self._ends = low, high, ends[: high - low]
        total = int(self._ends[-1])
        self._positions, self._numbers = np.empty(total, np.int32), np.empty(total, np.int32)
        next_ = self._ends - self._sparse[low:high]
        pairs = (starts, self._patterns[chosen] - np.int32(low), self._symbols[chosen])
        _write_positions(self._ready.numbers, *pairs, next_, self._positions, self._numbers)


@compiled
def _write_positions(  # noqa: PLR0913, PLR0917  # compiled: it gets arrays, no values
    types: Array,
    starts: Array,
    patterns: Array,
    symbols: Array,
    next_: Array,
    positions: Array,
    numbers: Array,
) -> None:
    """Write each event down for all patterns that can use its type."""
    for i in range(types.shape[0]):
        for pair in range(starts[types[i]], starts[types[i] + 1]):
            at = next_[patterns[pair]]
            positions[at] = i
            numbers[at] = symbols[pair]
            next_[patterns[pair]] = at + 1

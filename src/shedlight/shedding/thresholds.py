"""Which share of its keys a stream was whole for, over event time: a step function.

A micro-batch that keeps a share lowers the function from the watermark before it to its latest
timestamp. So until the watermark the function is known, whatever order events came in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from shedlight.matching.hashing import hash_onto
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats
from shedlight.shedding.shedder import threshold, thresholds

BEGINNING, END = -(1 << 62), 1 << 62  # of event time, in microseconds


class ShareStep(NamedTuple):
    """A stretch of event time with one share."""

    start: int  # the first microsecond
    end: int  # the first that is not in it any more
    share: float  # the share of keys that is whole


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdHistory:
    """A step function of event time; 1 wherever nothing was shed."""

    starts: Array = field(default_factory=lambda: np.array([BEGINNING], np.int64))
    shares: Floats = field(default_factory=lambda: np.ones(1))

    def lower(self, start: int, end: int, share: float) -> "ThresholdHistory":
        """Lower it to a share between two times, where it is not lower already."""
        if share >= 1 or start >= end:
            return self
        starts = np.union1d(self.starts, np.array([start, end], np.int64))
        shares = self._at(starts)
        inside = (starts >= start) & (starts < end)
        shares[inside] = np.minimum(shares[inside], share)
        return _merged(starts, shares)

    def forget_before(self, time: int) -> "ThresholdHistory":
        """Forget what was before a time."""
        first = int(np.searchsorted(self.starts, time, side="right")) - 1
        if first <= 0:
            return self
        starts = self.starts[first:].copy()
        starts[0] = BEGINNING
        return ThresholdHistory(starts, self.shares[first:])

    def shorten(self, steps: int) -> "ThresholdHistory":
        """Have at most so many steps: the first ones become one of their least share."""
        surplus = len(self.starts) - steps
        if surplus <= 0:
            return self
        least = self.shares[: surplus + 1].min(keepdims=True)
        starts = np.append(self.starts[:1], self.starts[surplus + 1 :])
        return ThresholdHistory(starts, np.append(least, self.shares[surplus + 1 :]))

    def between(self, start: int, end: int) -> Iterator[ShareStep]:
        """Give the steps between two times, in order."""
        first = max(int(np.searchsorted(self.starts, start, side="right")) - 1, 0)
        for i in range(first, len(self.starts)):
            here = max(start, int(self.starts[i]))
            if here >= end:
                return
            after = int(self.starts[i + 1]) if i + 1 < len(self.starts) else END
            yield ShareStep(here, min(end, after), float(self.shares[i]))

    def step_of(self, times: Array) -> Array:
        """Give the number of the step that each time is in."""
        return np.maximum(np.searchsorted(self.starts, times, side="right") - 1, 0)

    def _at(self, times: Array) -> Floats:
        return self.shares[self.step_of(times)].copy()


def least_of(histories: Iterable[ThresholdHistory]) -> ThresholdHistory:
    """Join histories to the least share of all."""
    joined = list(histories)
    if len(joined) == 1:
        return joined[0]
    starts = np.unique(np.concatenate([history.starts for history in joined]))
    shares = np.min([history._at(starts) for history in joined], axis=0)  # noqa: SLF001
    return _merged(starts, shares)


def _merged(starts: Array, shares: Floats) -> ThresholdHistory:
    """Join neighbours that are alike."""
    differs = np.append(True, shares[1:] != shares[:-1])
    return ThresholdHistory(starts[differs], shares[differs])


class Piece(NamedTuple):
    """Events of a batch, or none, during which the same keys are whole."""

    low: int  # the position of the first
    high: int  # and that after the last
    start: int  # when it begins
    end: int  # before which time it ends
    share: float  # the share of keys that is whole


@dataclass(frozen=True, slots=True, eq=False)
class WholeKeys:
    """Which keys are whole when; an epoch of 0 is that of a stream without a key.

    Where a share of keys is whole, other keys are so in each epoch.
    """

    history: ThresholdHistory
    epoch: int

    def is_whole(self, hashes: Array, time: int, share: float) -> Array:
        """Say which keys, by the first of their hashes, are whole at a time with a share."""
        if share >= 1:
            return np.ones(len(hashes), np.bool_)
        if not self.epoch or share <= 0:
            return np.zeros(len(hashes), np.bool_)
        salted = salted_hashes(hashes, np.full(len(hashes), time // self.epoch))
        return salted < threshold(share)

    def pieces(self, times: Array, start: int, end: int, window: int | None) -> list[Piece]:
        """Cut a batch of sorted times where other keys become whole.

        It is from a time, the last watermark, to another, the next. Where nothing happens for
        longer than a window, nothing is open any more, and there are no pieces.
        """
        pieces: list[Piece] = []
        clock, size = start, len(times)
        for low, high in pairwise([0, *self._changes(times), size]) if size else ():
            first = int(times[low])
            steps = self._steps(clock, first, window)
            pieces += [Piece(low, low, *step) for step in steps if step.end <= first]
            step = next(self._split(first, END))
            pieces.append(Piece(low, high, *step))
            clock = int(times[high - 1])
        reached = pieces[-1].end if pieces else start
        steps = self._steps(clock, end, window)
        return pieces + [Piece(size, size, *step) for step in steps if step.end > reached]

    def _changes(self, times: Array) -> list[int]:
        """Find the positions before which other keys become whole."""
        steps = self.history.step_of(times)
        is_partial = (self.history.shares[steps] > 0) & (self.history.shares[steps] < 1)
        epochs = np.where(is_partial, times // self.epoch, 0) if self.epoch else steps
        differs = (steps[1:] != steps[:-1]) | (epochs[1:] != epochs[:-1])
        return (np.flatnonzero(differs) + 1).tolist()

    def _steps(self, start: int, end: int, window: int | None) -> Iterator[ShareStep]:
        limit = end if window is None else min(end, start + window + 1)
        steps = self._split(start, limit)
        yield from islice(steps, MAX_EPOCHS)
        if (after := next(steps, None)) is not None:
            yield ShareStep(after.start, limit, 0.0)

    def _split(self, start: int, end: int) -> Iterator[ShareStep]:
        """Give the steps between two times, cut where an epoch changes which keys are whole."""
        for step in self.history.between(start, end):
            now = step.start
            while self.epoch and 0 < step.share < 1:
                after = (now // self.epoch + 1) * self.epoch
                if after >= step.end:
                    break
                yield ShareStep(now, after, step.share)
                now = after
            yield ShareStep(now, step.end, step.share)

    def between(self, since: Array, until: Array, hashes: Array) -> Array:
        """Say which keys were whole from one time of each until before another."""
        chosen = np.ones(len(since), np.bool_)
        shares = self.history.shares
        ends = np.append(self.history.starts[1:], END)
        ahead = np.flatnonzero(since < until)
        now = since[ahead]
        while len(ahead):
            steps = self.history.step_of(now)
            after, share = ends[steps], shares[steps]
            chosen[ahead[share <= 0]] = False
            is_partial = (share > 0) & (share < 1)
            if not self.epoch:
                chosen[ahead[is_partial]] = False
            elif is_partial.any():
                epochs = now[is_partial] // self.epoch
                after[is_partial] = np.minimum(after[is_partial], (epochs + 1) * self.epoch)
                salted = salted_hashes(hashes[ahead[is_partial]], epochs)
                chosen[ahead[is_partial]] &= salted < thresholds(share[is_partial])
            going = chosen[ahead] & (after < until[ahead])
            ahead, now = ahead[going], after[going]
        return chosen


MAX_EPOCHS = 10_000
"""How many epochs are looked at where nothing happens, in a window without a length; what is
still open after them is given up."""


def salted_hashes(hashes: Array, epochs: Array) -> Array:
    """Hash keys anew with the epoch of each."""
    salted = hashes.copy().view(np.uint64)
    hash_onto(epochs, salted)
    return salted.view(np.int64)

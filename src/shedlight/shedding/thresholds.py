"""Which share of its keys a stream was whole for, over event time: a step function.

A micro-batch that keeps a share lowers the function from the watermark before it to its latest
timestamp. So until the watermark the function is known, whatever order events came in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shedlight.matching.hashing import hash_onto
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats
from shedlight.shedding.shedder import threshold

BEGINNING, END = -(1 << 62), 1 << 62  # of event time, in microseconds


class Step(NamedTuple):
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

    def between(self, start: int, end: int) -> Iterator[Step]:
        """Give the steps between two times, in order."""
        first = max(int(np.searchsorted(self.starts, start, side="right")) - 1, 0)
        for i in range(first, len(self.starts)):
            here = max(start, int(self.starts[i]))
            if here >= end:
                return
            after = int(self.starts[i + 1]) if i + 1 < len(self.starts) else END
            yield Step(here, min(end, after), float(self.shares[i]))

    def _at(self, times: Array) -> Floats:
        rows = np.searchsorted(self.starts, times, side="right") - 1
        return self.shares[np.maximum(rows, 0)].copy()


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


def split_at_epochs(steps: Iterable[Step], epoch: int) -> Iterator[Step]:
    """Cut steps in which keys are shed where the salt of their hashes changes."""
    for step in steps:
        start = step.start
        while 0 < step.share < 1 and (after := (start // epoch + 1) * epoch) < step.end:
            yield Step(start, after, step.share)
            start = after
        yield Step(start, step.end, step.share)


def whole_keys(hashes: Array, step: Step, epoch: int) -> Array:
    """Say which keys, by the first of their hashes, are whole in a step of one epoch.

    An epoch of 0 is that of a stream without a key, which is whole or not.
    """
    if step.share >= 1:
        return np.ones(len(hashes), np.bool_)
    if not epoch or step.share <= 0:
        return np.zeros(len(hashes), np.bool_)
    salted = salted_hashes(hashes, np.full(len(hashes), step.start // epoch))
    return salted < threshold(step.share)


def salted_hashes(hashes: Array, epochs: Array) -> Array:
    """Hash keys anew with the epoch of each."""
    salted = hashes.copy().view(np.uint64)
    hash_onto(epochs, salted)
    return salted.view(np.int64)

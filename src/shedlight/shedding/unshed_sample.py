"""The unshed sample: a share of the keys, kept whatever the plan says.

What the sample's keys bring is known without shedding and, by matching them a second time with
the plan's mask, with it. They are chosen by a hash of the key with a salt of its own: it has
nothing to do with what a plan keeps, and a replay chooses the same. A heavy hitter, a key of
more than 0.1 % of the work, is no part of it: one of them more or less would decide what the
whole sample says, and to keep it would cost too much.
"""

from dataclasses import dataclass, field

import numpy as np

from shedlight.matching.jit import Array
from shedlight.shedding.shedder import threshold
from shedlight.shedding.thresholds import salted_hashes

SALT = 0x5AC9_1E0F_2B4D_7A31  # no epoch of event time is as large
HEAVY_SHARE = 0.001  # of the work; a key with more is a heavy hitter

_MAX_COUNTERS = 20_000  # so no work is wrong by more than 0.005 % of all
_BY_CHANCE = 3  # standard deviations that a count of events may be off


def choose_keys(hashes: Array, share: float) -> Array:
    """Say which keys, by the first of their hashes, are in a sample of a share of all.

    Example:
        >>> int(choose_keys(np.arange(10_000), 0.01).sum())
        86
    """
    return salted_hashes(hashes, np.full(len(hashes), SALT)) < threshold(share)


@dataclass(frozen=True, slots=True, eq=False)
class KeyWork:
    """The work of keys, in events that patterns can take: of those with most of it.

    It is a summary by Misra and Gries: where there are more keys than counters, the work of
    each is too low by the same little, and keys with nothing left are forgotten.

    Attributes:
        keys: Their hashes, in order.
        work: The events of each.
        total: The events of all keys, also of those that were forgotten.
        dropped: The hashes of keys that were heavy hitters by more than chance, in order; the
            sample keeps them no more.
    """

    keys: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    work: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    total: int = 0
    dropped: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, hashes: Array) -> "KeyWork":
        """Add events, by the hashes of their keys."""
        keys, places = np.unique(np.concatenate([self.keys, hashes]), return_inverse=True)
        work = np.bincount(places[len(self.keys) :], minlength=len(keys))
        work[places[: len(self.keys)]] += self.work
        total = self.total + len(hashes)
        is_heavy = work - _BY_CHANCE * np.sqrt(work) > HEAVY_SHARE * total
        dropped = np.union1d(self.dropped, keys[is_heavy])
        if len(keys) > _MAX_COUNTERS:
            work -= np.partition(work, -_MAX_COUNTERS - 1)[-_MAX_COUNTERS - 1]
            keys, work = keys[work > 0], work[work > 0]
        return KeyWork(keys, work, total, dropped)

    def choose(self, hashes: Array, share: float) -> Array:
        """Say which keys are in a sample of a share of all, and were not dropped."""
        chosen = choose_keys(hashes, share)
        if len(self.dropped):
            chosen[chosen] = ~np.isin(hashes[chosen], self.dropped)
        return chosen

    def heavy_hitters(self) -> Array:
        """Give the hashes of all heavy hitters, dropped ones among them, in order."""
        return np.union1d(self.dropped, self.keys[self.work > HEAVY_SHARE * self.total])

    def share_of(self, keys: Array) -> float:
        """Give the share of the work that some keys have."""
        theirs = self.work[np.isin(self.keys, keys)].sum()
        return float(theirs) / self.total if self.total else 0.0

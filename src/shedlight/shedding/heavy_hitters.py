"""Heavy hitters: the keys that have more than 1 % of the work of late, each a stratum."""

from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats

HEAVY_WORK = 0.01  # of all work; a key with more is a stratum by itself
MAX_HEAVY = 61  # how many of them there are at most

_MAX_COUNTERS = 20_000  # so no work is wrong by more than 0.005 % of all
_BY_CHANCE = 3.0  # standard deviations that a count of events may be off
_AGING = 0.98  # what an event counts in the next interval


@dataclass(frozen=True, slots=True, eq=False)
class RecentWork:
    """The work of keys, in events that patterns can take, of late: of those with most of it.

    It is a summary by Misra and Gries: where there are more keys than counters, the work of
    each is too low by the same little, and keys with nothing left are forgotten.
    """

    keys: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # hashes, in order
    work: Floats = field(default_factory=lambda: np.zeros(0))  # the events of each
    total: float = 0.0  # the events of all keys

    def add(self, hashes: Array) -> "RecentWork":
        """Add events, by the hashes of their keys."""
        keys, places = np.unique(np.concatenate([self.keys, hashes]), return_inverse=True)
        work = np.bincount(places[len(self.keys) :], minlength=len(keys)).astype(np.float64)
        work[places[: len(self.keys)]] += self.work
        if len(keys) > _MAX_COUNTERS:
            work -= np.partition(work, -_MAX_COUNTERS - 1)[-_MAX_COUNTERS - 1]
            keys, work = keys[work > 0], work[work > 0]
        return RecentWork(keys, work, self.total + len(hashes))

    def age(self) -> "RecentWork":
        """Let what was counted so far count less."""
        return replace(self, work=self.work * _AGING, total=self.total * _AGING)

    def heavy_hitters(self, before: Array) -> Array:
        """Find the hashes of heavy hitters, in order; one of before stays one by chance.

        Example:
            >>> keys = np.repeat([1, 2, 3], [900, 95, 5])
            >>> RecentWork().add(keys).heavy_hitters(np.array([3])).tolist()
            [1, 2, 3]
        """
        spread = _BY_CHANCE * np.sqrt(self.work)
        was_heavy = np.isin(self.keys, before)
        lowest = np.where(was_heavy, self.work + spread, self.work - spread)
        chosen = np.flatnonzero(lowest > HEAVY_WORK * self.total)
        most = chosen[np.argsort(-self.work[chosen], kind="stable")[:MAX_HEAVY]]
        return np.sort(self.keys[most])

"""What keys yield: results per event that was kept of them, learned and forgotten again.

Keys are classed by their yield over that of all keys. What few events say of a key is drawn to
the mean by one result: a key of which nothing is known is as any other, and so it is when it
was shed for long. The mean is over all that arrives, not over what was kept: else the best keys
would be average once only they are kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats

CLASSES = ("high-yield", "good-yield", "", "low-yield")
"""The classes of keys, best first; a key in the middle is in none."""
MAX_KEYS = 1 << 16  # how many keys are remembered

_BOUNDS = np.array([2.0, 1.4, 0.5])  # the least yield of each class but the last
_ENOUGH = 1.5  # with fewer results a key is not taken for better than others
_EVENTS = 20.0  # after how many kept events of a key what was before counts little
_PRIOR = 1.0  # by how many results the yield of a key is drawn to the mean


@dataclass(frozen=True, slots=True, eq=False)
class KeyYields:
    """Sums of late, by key, in which what was before counts less."""

    keys: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # hashes, in order
    seen: Floats = field(default_factory=lambda: np.zeros(0))  # events that arrived
    kept: Floats = field(default_factory=lambda: np.zeros(0))  # events that were kept
    found: Floats = field(default_factory=lambda: np.zeros(0))  # results
    mean: float = 0.0  # results per event of all keys, if all were kept

    def add(self, seen: Array, kept: Array, found: Array) -> "KeyYields":
        """Add events that arrived, those that were kept, and results, by their keys.

        Where many arrive they may be some of all, and keys that were kept not among them.
        """
        every = np.concatenate([self.keys, seen, kept, found])
        keys, places = np.unique(every, return_inverse=True)
        old, size = places[: len(self.keys)], len(keys)

        def count(more: Array) -> Floats:
            return np.bincount(np.searchsorted(keys, more), minlength=size).astype(np.float64)

        def total(before: Floats, more: Floats, part: Floats) -> Floats:
            more[old] += before * part[old]
            return more

        more = count(kept)
        part, whole = (1 - 1 / _EVENTS) ** more, np.ones(size)

        return _forget_least(
            _with_mean(
                KeyYields(
                    keys,
                    total(self.seen, count(seen), whole),
                    total(self.kept, more, part),
                    total(self.found, count(found), part),
                    self.mean,
                )
            )
        )

    def age(self, factor: float) -> "KeyYields":
        """Let what was counted so far count less."""
        return replace(
            self, seen=self.seen * factor, kept=self.kept * factor, found=self.found * factor
        )

    @property
    def ratios(self) -> Floats:
        """The yield of each key over the mean, as far as it is known."""
        return (self.found + _PRIOR) / (self.kept * self.mean + _PRIOR)

    def classes(self) -> Mapping[str, Array]:
        """Give the hashes of the keys of each class, in order; a class may have none."""
        if not self.mean:
            return {}
        ratios = np.where(self.found < _ENOUGH, np.minimum(self.ratios, 1.0), self.ratios)
        number = np.searchsorted(-_BOUNDS, -ratios, side="left")
        return {name: self.keys[number == i] for i, name in enumerate(CLASSES) if name}


def _with_mean(yields: KeyYields) -> KeyYields:
    """Find the mean over what arrived; at first over what was kept."""
    if not yields.mean:
        kept = float(yields.kept.sum())
        return replace(yields, mean=float(yields.found.sum()) / kept if kept else 0.0)
    weight = float(yields.seen.sum())
    factor = float((yields.seen * yields.ratios).sum()) / weight if weight else 1.0
    return replace(yields, mean=yields.mean * factor)


def _forget_least(yields: KeyYields) -> KeyYields:
    """Forget the keys that came least of late, if there are too many."""
    if len(yields.keys) <= MAX_KEYS:
        return yields
    most = np.sort(np.argpartition(-yields.seen, MAX_KEYS)[:MAX_KEYS])
    return KeyYields(
        yields.keys[most],
        yields.seen[most],
        yields.kept[most],
        yields.found[most],
        yields.mean,
    )

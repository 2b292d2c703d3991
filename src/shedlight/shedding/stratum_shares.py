"""What a pattern keeps of a stratum of keys, and the table that says of which stratum a key is.

A heavy hitter is a stratum by itself, found by a look-up of the hash of its key; other keys may
be of a class, by what they yield, and all that are left are the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.matching.jit import Array
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST, heavy_name


@dataclass(frozen=True, slots=True)
class StratumShares:
    """What a pattern keeps of one stratum."""

    way: SheddingWay  # how it is shed
    shares: Mapping[str, float]  # the share of each type, by label; a mean if by openers only
    # by openers only, the share of each type of keys that are open, and of others
    of_open: Mapping[str, float] = field(default_factory=dict)
    of_others: Mapping[str, float] = field(default_factory=dict)

    def scale_by(self, factor: float, held: frozenset[str] = frozenset()) -> "StratumShares":
        """Multiply all shares but those of some labels by a factor; none gets more than all."""

        def scale(shares: Mapping[str, float]) -> Mapping[str, float]:
            return {
                label: share if label in held else min(1.0, share * factor)
                for label, share in shares.items()
            }

        return StratumShares(
            self.way, scale(self.shares), scale(self.of_open), scale(self.of_others)
        )


@dataclass(frozen=True, slots=True, eq=False)
class StrataTable:
    """The strata of keys, as a table that events look their keys up in.

    Attributes:
        heavy: The hashes of heavy hitters, in order; each is a stratum by itself.
        classes: The hashes of other keys that are a stratum together, in order, by its name.
    """

    heavy: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    classes: Mapping[str, Array] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strata, by number."""
        return (*map(heavy_name, self.heavy.tolist()), *self.classes, REST)

    def find(self, keys: Array) -> Array:
        """Say of which stratum keys are, by their hashes.

        Example:
            >>> table = StrataTable(np.array([5, 9]), {"high-yield": np.array([1, 5])})
            >>> table.find(np.array([9, 1, 5, 10])).tolist()
            [1, 2, 0, 3]
        """
        found = np.full(len(keys), len(self.heavy) + len(self.classes), np.int64)
        for number, hashes in enumerate(self.classes.values()):
            found[find_places(hashes, keys) >= 0] = len(self.heavy) + number
        places = find_places(self.heavy, keys)
        return np.where(places >= 0, places, found)


def find_places(hashes: Array, keys: Array) -> Array:
    """Find keys among hashes in order: their places, or -1."""
    if not len(hashes):
        return np.full(len(keys), -1, np.int64)
    places = np.minimum(np.searchsorted(hashes, keys), len(hashes) - 1)
    return np.where(hashes[places] == keys, places, -1)

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
from shedlight.shedding.key_bitmap import KeyCodes


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

    A heavy hitter is found for certain; of other keys some are taken for those of a class whose
    hash ends as theirs does.

    Attributes:
        heavy: The hashes of heavy hitters, in order; each is a stratum by itself.
        classes: The names of strata of other keys.
        codes: Of which class other keys are; those of none have the number of classes.
    """

    heavy: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    classes: tuple[str, ...] = ()
    codes: KeyCodes = field(default_factory=KeyCodes)

    @classmethod
    def of(cls, heavy: Array, classes: Mapping[str, Array]) -> "StrataTable":
        """Make the table of heavy hitters and of classes, by the hashes of their keys.

        Example:
            >>> table = StrataTable.of(np.array([5, 9]), {"high-yield": np.array([1, 5])})
            >>> table.find(np.array([9, 1, 5, 10])).tolist()
            [1, 2, 0, 3]
        """
        return cls(heavy, tuple(classes), KeyCodes.of(tuple(classes.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strata, by number."""
        return (*map(heavy_name, self.heavy.tolist()), *self.classes, REST)

    def find(self, keys: Array) -> Array:
        """Say of which stratum keys are, by their hashes."""
        found = len(self.heavy) + self.codes.find(keys)
        if not len(self.heavy):
            return found
        places = np.minimum(np.searchsorted(self.heavy, keys), len(self.heavy) - 1)
        return np.where(self.heavy[places] == keys, places, found)

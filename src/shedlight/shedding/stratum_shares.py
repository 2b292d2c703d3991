"""What a pattern keeps of a stratum of keys, and the table that says of which stratum a key is.

A heavy hitter is a stratum by itself, found by a look-up of the hash of its key; all other keys
are the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.matching.jit import Array
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import HEAVY_PREFIX, REST, heavy_name

_HASHES = 1 << 64


@dataclass(frozen=True, slots=True)
class StratumShares:
    """What a pattern keeps of one stratum."""

    way: SheddingWay  # how it is shed
    shares: Mapping[str, float]  # the share of each type, by label

    def scale_by(self, factor: float, held: frozenset[str] = frozenset()) -> "StratumShares":
        """Multiply all shares but those of some labels by a factor; none gets more than all."""
        scaled = {
            label: share if label in held else min(1.0, share * factor)
            for label, share in self.shares.items()
        }
        return replace(self, shares=scaled)


@dataclass(frozen=True, slots=True, eq=False)
class StrataTable:
    """The strata of keys, as a table that events look their keys up in.

    Attributes:
        heavy: The hashes of heavy hitters, in order; each is a stratum by itself.
    """

    heavy: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strata, by number."""
        return (*map(heavy_name, self.heavy.tolist()), REST)

    def find(self, keys: Array) -> Array:
        """Say of which stratum keys are, by their hashes.

        Example:
            >>> StrataTable(np.array([5, 9])).find(np.array([9, 1, 5, 10])).tolist()
            [1, 2, 0, 2]
        """
        rest = len(self.heavy)
        if not rest:
            return np.zeros(len(keys), np.int64)
        places = np.searchsorted(self.heavy, keys)
        found = self.heavy[np.minimum(places, rest - 1)] == keys
        return np.where(found, places, rest)


def table_of(names: Iterable[str]) -> StrataTable:
    """Make the table of strata with these names.

    Example:
        >>> table_of(StrataTable(np.array([-7, 5])).names).heavy.tolist()
        [-7, 5]
    """
    given = (name.removeprefix(HEAVY_PREFIX) for name in names if name.startswith(HEAVY_PREFIX))
    hashes = (int(digits, 16) for digits in given)
    signed = sorted(each - _HASHES * (each >> 63) for each in hashes)
    return StrataTable(np.array(signed, np.int64))

"""What a pattern needs of each type for one match: its selectivity function as arrays.

A pattern is reduced to *legs* and *leaves*. A leg is a rate; leg 0 is that of the pattern's
matches, and each branch of an OR has one of its own. A leaf is an element: it takes `need`
events per event of its leg, each of a type that it accepts. Parts that may be absent need
nothing. So a pattern matches at the greatest rate y for which there are flows of types to
leaves with

    flows into a leaf  = need x its leg          legs of an OR's branches = parts of its leg
    flows out of a type <= what is kept of it    leg 0 = y

which is min(A / 2, B) for a SEQ(A, A, B).
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Split:
    """An OR: `times` x the rate of a leg is that of its branches, together or of one alone.

    Attributes:
        leg: The leg that the OR stands in.
        times: How often it occurs there, by repetitions around it.
        branches: The legs of its branches.
        exclusive: Whether one branch alone counts (the paper's max) and not their sum.
    """

    leg: int
    times: float
    branches: tuple[int, ...]
    exclusive: bool = False


@dataclass(frozen=True, eq=False)
class MatchDemand:
    """What one pattern needs of the types of its operator.

    Attributes:
        uses: The types that the pattern processes: numbers in the operator's list, ascending.
        watched: For each use, whether it stands under a NOT: it must be seen in full.
        leaf_leg: The leg of each leaf.
        leaf_need: How many events it takes per event of its leg.
        entry_leaf: With `entry_use`: which leaf accepts which use, as pairs of numbers.
        entry_use: See `entry_leaf`; a number is a place in `uses`.
        splits: The ORs; empty if there is one leg.
    """

    uses: Ints
    watched: Flags
    leaf_leg: Ints
    leaf_need: Floats
    entry_leaf: Ints
    entry_use: Ints
    splits: tuple[Split, ...] = ()

    @cached_property
    def legs(self) -> int:
        """How many legs there are."""
        return 1 + sum(len(split.branches) for split in self.splits)

    @cached_property
    def is_listed(self) -> bool:
        """Whether leaves are listed as uses are, one of one type for each."""
        sizes = {len(self.uses), len(self.leaf_leg), len(self.entry_leaf), len(self.entry_use)}
        same = self.entry_leaf is self.entry_use
        return (
            len(sizes) == 1 and _ascends(self.entry_use) and (same or _ascends(self.entry_leaf))
        )

    @cached_property
    def is_fixed(self) -> bool:
        """Whether every leaf accepts one type only, so that there is nothing to choose."""
        if self.is_listed:
            return True
        accepted = np.bincount(self.entry_leaf, minlength=len(self.leaf_leg))
        return bool((accepted == 1).all())

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is the least of its types over what it needs of them: min(A / 2, B)."""
        return self.is_fixed and not self.splits

    @cached_property
    def has_not(self) -> bool:
        """Whether it watches for something that must not happen."""
        return bool(self.watched.any())

    @cached_property
    def takes(self) -> tuple[Ints, Ints, Floats]:
        """If every leaf accepts one type: how much of which use a leg takes, each pair once."""
        if self.is_plain:
            uses = self.entry_use if self.is_listed else np.arange(len(self.uses))
            uses = uses[self.wanted]
            return uses, repeated(np.int64(0), len(uses)), self.per_use[self.wanted]
        legs = self.leaf_leg[self.entry_leaf]
        pairs, places = np.unique(self.entry_use * self.legs + legs, return_inverse=True)
        needs = np.bincount(places, self.leaf_need[self.entry_leaf], minlength=len(pairs))
        return pairs // self.legs, pairs % self.legs, np.asarray(needs, np.float64)

    @cached_property
    def per_use(self) -> Floats:
        """For a plain pattern: how many events of each use a match needs."""
        if self.is_listed:
            return self.leaf_need
        needs = self.leaf_need[self.entry_leaf]
        return np.asarray(
            np.bincount(self.entry_use, needs, minlength=len(self.uses)), np.float64
        )

    @cached_property
    def wanted(self) -> Ints | slice:
        """For a plain pattern: the uses that a match needs."""
        if self.per_use.min(initial=1.0) > 0:
            return slice(None)
        return np.flatnonzero(self.per_use > 0)

    @cached_property
    def size(self) -> float:
        """How many events a match has at least."""
        sizes = np.bincount(self.leaf_leg, self.leaf_need, minlength=self.legs)
        for split in reversed(self.splits):  # an OR stands before those inside it
            sizes[split.leg] += split.times * sizes[list(split.branches)].min()
        return float(sizes[0])


def plain_needs(uses: Ints, needs: Floats) -> MatchDemand:
    """Make the needs of a SEQ or AND of single types; a need of 0 is an optional type."""
    every = needs.min(initial=1.0) > 0
    wanted = counted(len(uses)) if every else np.flatnonzero(needs > 0)
    return MatchDemand(
        uses,
        np.zeros(len(uses), np.bool_),
        repeated(np.int64(0), len(wanted)),
        np.asarray(needs if every else needs[wanted], np.float64),
        wanted if every else counted(len(wanted)),
        wanted,
    )


def repeated(number: _Number, times: int) -> npt.NDArray[_Number]:
    """Give an array of one number over and over, in the memory of one; it cannot be changed."""
    return np.ndarray((times,), number.dtype, number, strides=(0,))


def counted(number: int) -> Ints:
    """Give 0, 1, 2 and so on, in memory that all such arrays share; it cannot be changed."""
    return _numbers(number.bit_length())[:number]


@cache
def _numbers(bits: int) -> Ints:
    numbers = np.arange(1 << bits)
    numbers.flags.writeable = False
    return numbers


def _ascends(numbers: Ints) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def dot(one: Floats, other: Floats) -> float:
    """Add up products, in this thread alone: arrays are long, but other work goes on."""
    return float(np.einsum("i,i->", one, other))

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from shedlight.language.ast.pattern import (
    And,
    Element,
    Not,
    Or,
    Part,
    Repeat,
    Seq,
    elements,
    negated_elements,
)
from shedlight.language.check.normal_form import shortest
from shedlight.model.arrays import Flags, Floats, Ints, index_range, repeat_value

OrAs = Literal["sum", "max"]
"""What an OR is: the sum of its branches, or the greatest of them as in the paper."""

Accepts = Callable[[Element], Sequence[int] | Ints]
"""Which types of the operator's list an element accepts, as places in it, ascending."""


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
            return uses, repeat_value(np.int64(0), len(uses)), self.per_use[self.wanted]
        legs = self.leaf_leg[self.entry_leaf]
        pairs, places = np.unique(self.entry_use * self.legs + legs, return_inverse=True)
        demand = np.bincount(places, self.leaf_need[self.entry_leaf], minlength=len(pairs))
        return pairs // self.legs, pairs % self.legs, np.asarray(demand, np.float64)

    @cached_property
    def per_use(self) -> Floats:
        """For a plain pattern: how many events of each use a match needs."""
        if self.is_listed:
            return self.leaf_need
        demand = self.leaf_need[self.entry_leaf]
        return np.asarray(
            np.bincount(self.entry_use, demand, minlength=len(self.uses)), np.float64
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


def plain_demand(uses: Ints, demand: Floats) -> MatchDemand:
    """Make the needs of a SEQ or AND of single types; a need of 0 is an optional type."""
    every = demand.min(initial=1.0) > 0
    wanted = index_range(len(uses)) if every else np.flatnonzero(demand > 0)
    return MatchDemand(
        uses,
        np.zeros(len(uses), np.bool_),
        repeat_value(np.int64(0), len(wanted)),
        np.asarray(demand if every else demand[wanted], np.float64),
        wanted if every else index_range(len(wanted)),
        wanted,
    )


def _ascends(numbers: Ints) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def build_demand(part: Part, accepts: Accepts, or_as: OrAs = "sum") -> MatchDemand:
    """Find what a pattern needs of the types of its operator.

    Args:
        part: The tree of the pattern.
        accepts: The types of each element.
        or_as: How branches of an OR count.

    Example:
        >>> from shedlight.language import parse_pattern
        >>> text = "SELECT A WHERE SEQ(A.type = 0, B.type = 0, C.type = 1) WITHIN 1 s"
        >>> where = parse_pattern(text).pattern.where
        >>> types = {"A": [0], "B": [0], "C": [1]}
        >>> demand = build_demand(where, lambda e: types[e.variable])
        >>> demand.per_use.tolist()
        [2.0, 1.0]
    """
    found = {each: np.asarray(accepts(each), np.int64) for each in elements(part)}
    uses = _united(found.values())
    growing = _Growing(found, exclusive=or_as == "max")
    growing.add(part, 0, 1.0)
    seen = _united(found[each] for each in negated_elements(part))
    counts = [len(types) for types in growing.types]
    return MatchDemand(
        uses,
        np.isin(uses, seen),
        np.array(growing.leaf_leg, np.int64),
        np.array(growing.leaf_need, np.float64),
        np.repeat(np.arange(len(counts)), counts),
        np.searchsorted(uses, _joined(growing.types)),
        tuple(growing.splits),
    )


def alternatives(part: Or) -> tuple[Part, ...]:
    """List the branches of an OR; an OR in it adds its own."""
    return tuple(
        inner
        for each in part.parts
        for inner in (alternatives(each) if isinstance(each, Or) else (each,))
    )


@dataclass(slots=True)
class _Growing:
    """Legs and leaves, as many as were met so far."""

    accepted: dict[Element, Ints]
    exclusive: bool
    leaf_leg: list[int] = field(default_factory=list)
    leaf_need: list[float] = field(default_factory=list)
    types: list[Ints] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    legs: int = 1
    places: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def add(self, part: Part, leg: int, times: float) -> None:
        """Add a part that occurs some times per event of a leg."""
        if isinstance(part, Not) or not shortest(part):
            return
        if isinstance(part, Element):
            self._add_leaf(self.accepted[part], leg, times)
        elif isinstance(part, Repeat):
            self.add(part.part, leg, times * part.least)
        elif isinstance(part, Or):
            self._add_split(alternatives(part), leg, times)
        elif isinstance(part, Seq | And):
            for inner in part.parts:
                self.add(inner, leg, times)

    def _add_leaf(self, types: Ints, leg: int, times: float) -> None:
        """Add a leaf, or what it needs to one of its leg that accepts the same."""
        place = self.places.setdefault((leg, types.tobytes()), len(self.types))
        if place < len(self.types):
            self.leaf_need[place] += times
            return
        self.leaf_leg.append(leg)
        self.leaf_need.append(times)
        self.types.append(types)

    def _add_split(self, parts: tuple[Part, ...], leg: int, times: float) -> None:
        if len(parts) == 1:
            self.add(parts[0], leg, times)
            return
        branches = tuple(range(self.legs, self.legs + len(parts)))
        self.legs += len(parts)
        self.splits.append(Split(leg, times, branches, self.exclusive))
        for part, branch in zip(parts, branches, strict=True):
            self.add(part, branch, 1.0)


def _joined(lists: Iterable[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *lists])


def _united(lists: Iterable[Ints]) -> Ints:
    return np.unique(_joined(lists))

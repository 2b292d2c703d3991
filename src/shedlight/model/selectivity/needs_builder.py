"""From the tree of a pattern to what it needs: legs, leaves and the types that leaves accept.

SEQ and AND hand their leg on to their parts, repetition multiplies what they need, each branch
of an OR gets a leg of its own. What may be absent needs nothing: an optional part, a NOT, and
an OR with a branch that may be absent. All elements are processed all the same, so the types
that they accept are among the uses.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
from shedlight.model.selectivity.needs import Ints, MatchDemand, Split

OrAs = Literal["sum", "max"]
"""What an OR is: the sum of its branches, or the greatest of them as in the paper."""

Accepts = Callable[[Element], Sequence[int] | Ints]
"""Which types of the operator's list an element accepts, as places in it, ascending."""


def build_needs(part: Part, accepts: Accepts, or_as: OrAs = "sum") -> MatchDemand:
    """Find what a pattern needs of the types of its operator.

    Args:
        part: The tree of the pattern.
        accepts: The types of each element.
        or_as: How branches of an OR count.

    Example:
        >>> from shedlight.language import parse_pattern
        >>> text = "SELECT A WHERE SEQ(A.type = 0, B.type = 0, C.type = 1) WITHIN 1 s"
        >>> types = {"A": [0], "B": [0], "C": [1]}
        >>> needs = build_needs(parse_pattern(text).pattern.where, lambda e: types[e.variable])
        >>> needs.per_use.tolist()
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

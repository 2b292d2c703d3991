"""What a pattern needs of each type for one match: its selectivity function as arrays.

A pattern is reduced to *branches* and *leaves*. A branch has a rate; that of branch 0 is the
rate of the pattern's matches, and each alternative of an OR is a branch of its own. A leaf is
an element: it takes `need` events per event of its branch, each of a type that it accepts. So a
pattern matches at the greatest rate y for which there are flows of types to leaves with

    flows into a leaf   =  need x rate of its branch    rates of an OR's alternatives = its rate
    flows out of a type <= what is kept of it           rate of branch 0 = y

which is min(A / 2, B) for a SEQ(A, A, B). SEQ and AND hand their branch on to their parts,
repetition multiplies what they need. What may be absent needs nothing: an optional part, a NOT,
and an OR with an alternative that may be absent. All elements are processed all the same, so
the types that they accept are among the uses.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from shedlight.language.ast import pattern as ast
from shedlight.language.check.normal_form import flatten_group, min_events
from shedlight.model.arrays import Flags, Floats, Ints, index_range, repeat_value

OrAs = Literal["sum", "max"]
"""What an OR is: the sum of its alternatives, or the greatest of them as in the paper."""

Accepts = Callable[[ast.Element], Sequence[int] | Ints]
"""Which types of the operator an element accepts, by number, ascending."""


@dataclass(frozen=True, slots=True)
class Split:
    """An OR: `times` x the rate of a branch is that of its alternatives, or of one alone."""

    branch: int  # the branch that the OR stands in
    times: float  # how often it occurs there, by repetitions around it
    alternatives: tuple[int, ...]  # the branches of its alternatives
    # whether one of them alone counts (the paper's max) and not their sum
    exclusive: bool = False


@dataclass(frozen=True, eq=False)
class MatchDemand:
    """What one pattern needs of the types of its operator."""

    # the types that the pattern processes: numbers in the operator's list, ascending
    uses: Ints
    watched: Flags  # for each use, whether it stands under a NOT: it must be seen in full
    leaf_branch: Ints  # the branch of each leaf
    leaf_need: Floats  # how many events it takes per event of its branch
    entry_leaf: Ints  # with `entry_use`: which leaf accepts which use, as pairs of numbers
    entry_use: Ints  # see `entry_leaf`; a number is an index into `uses`
    splits: tuple[Split, ...] = ()  # the ORs; empty if there is one branch

    @cached_property
    def branch_count(self) -> int:
        """How many branches there are."""
        return 1 + sum(len(split.alternatives) for split in self.splits)

    @cached_property
    def has_leaf_per_use(self) -> bool:
        """Whether there is one leaf of one type for each use, in the same order."""
        arrays = (self.uses, self.leaf_branch, self.entry_leaf, self.entry_use)
        same = self.entry_leaf is self.entry_use
        return (
            len(set(map(len, arrays))) == 1
            and _ascends(self.entry_use)
            and (same or _ascends(self.entry_leaf))
        )

    @cached_property
    def is_fixed(self) -> bool:
        """Whether every leaf accepts one type only, so that there is nothing to choose."""
        if self.has_leaf_per_use:
            return True
        accepted = np.bincount(self.entry_leaf, minlength=len(self.leaf_branch))
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
    def fixed_terms(self) -> tuple[Ints, Ints, Floats]:
        """If it is fixed: how much of which use a branch takes (use, branch, need)."""
        if self.is_plain:
            uses = self.entry_use if self.has_leaf_per_use else np.arange(len(self.uses))
            uses = uses[self.required]
            return uses, repeat_value(np.int64(0), len(uses)), self.per_use[self.required]
        branches = self.leaf_branch[self.entry_leaf]
        pairs = self.entry_use * self.branch_count + branches
        distinct, order = np.unique(pairs, return_inverse=True)
        needs = np.bincount(order, self.leaf_need[self.entry_leaf], minlength=len(distinct))
        uses, branches = np.divmod(distinct, self.branch_count)
        return uses, branches, np.asarray(needs, np.float64)

    @cached_property
    def per_use(self) -> Floats:
        """For a plain pattern: how many events of each use a match needs."""
        if self.has_leaf_per_use:
            return self.leaf_need
        needs = self.leaf_need[self.entry_leaf]
        return np.asarray(
            np.bincount(self.entry_use, needs, minlength=len(self.uses)), np.float64
        )

    @cached_property
    def required(self) -> Ints | slice:
        """For a plain pattern: the uses that a match needs."""
        if self.per_use.min(initial=1.0) > 0:
            return slice(None)
        return np.flatnonzero(self.per_use > 0)

    @cached_property
    def size(self) -> float:
        """How many events a match has at least."""
        sizes = np.bincount(self.leaf_branch, self.leaf_need, minlength=self.branch_count)
        for split in reversed(self.splits):  # an OR stands before those inside it
            sizes[split.branch] += split.times * sizes[list(split.alternatives)].min()
        return float(sizes[0])

    def shift(self, by: int) -> "MatchDemand":
        """Give the same demand of types whose numbers are greater by so much.

        What was found out of it holds for both: nothing of it is about the numbers of types.
        """
        shifted = object.__new__(MatchDemand)
        vars(shifted).update(vars(self), uses=self.uses + by)
        return shifted


def plain_demand(uses: Ints, needs: Floats) -> MatchDemand:
    """Make the demand of a SEQ or AND of single types; a need of 0 is an optional type."""
    every = np.minimum.reduce(needs, initial=1.0) > 0
    required = index_range(len(uses)) if every else np.flatnonzero(needs > 0)
    leaf_need = np.asarray(needs if every else needs[required], np.float64)
    demand = MatchDemand(
        uses,
        _unwatched(len(uses)),
        _only_branch(len(required)),
        leaf_need,
        required if every else index_range(len(required)),
        required,
    )
    if every:  # what is known need not be found out
        known = {"per_use": leaf_need, "required": slice(None), "branch_count": 1}
        vars(demand).update(known, has_leaf_per_use=True, is_fixed=True, is_plain=True)
    return demand


@lru_cache(maxsize=1 << 10)
def _unwatched(uses: int) -> Flags:
    return repeat_value(np.bool_(False), uses)  # noqa: FBT003


@lru_cache(maxsize=1 << 10)
def _only_branch(leaves: int) -> Ints:
    return repeat_value(np.int64(0), leaves)


def _ascends(numbers: Ints) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def build_demand(part: ast.Part, accepts: Accepts, or_as: OrAs = "sum") -> MatchDemand:
    """Find what a pattern needs of the types of its operator.

    Example:
        >>> from shedlight.language import parse_pattern
        >>> text = "SELECT A WHERE SEQ(A.type = 0, B.type = 0, C.type = 1) WITHIN 1 s"
        >>> types = {"A": [0], "B": [0], "C": [1]}
        >>> where = parse_pattern(text).pattern.where
        >>> build_demand(where, lambda element: types[element.variable]).per_use.tolist()
        [2.0, 1.0]
    """
    accepted = {each: np.asarray(accepts(each), np.int64) for each in ast.elements(part)}
    uses = np.unique(_joined(accepted.values()))
    builder = _Builder(accepted, exclusive=or_as == "max")
    builder.add(part, 0, 1.0)
    watched = _joined(accepted[each] for each in ast.negated_elements(part))
    counts = [len(types) for types in builder.types]
    return MatchDemand(
        uses,
        np.isin(uses, watched),
        np.array(builder.leaf_branch, np.int64),
        np.array(builder.leaf_need, np.float64),
        np.repeat(np.arange(len(counts)), counts),
        np.searchsorted(uses, _joined(builder.types)),
        tuple(builder.splits),
    )


@dataclass(slots=True)
class _Builder:
    """The branches and leaves of the parts that were added so far."""

    accepted: dict[ast.Element, Ints]
    exclusive: bool
    leaf_branch: list[int] = field(default_factory=list)
    leaf_need: list[float] = field(default_factory=list)
    types: list[Ints] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    branch_count: int = 1
    leaves: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def add(self, part: ast.Part, branch: int, times: float) -> None:
        """Add a part that occurs some times per event of a branch."""
        if isinstance(part, ast.Not) or not min_events(part):
            return
        if isinstance(part, ast.Element):
            self._add_leaf(self.accepted[part], branch, times)
        elif isinstance(part, ast.Repeat):
            self.add(part.part, branch, times * part.least)
        elif isinstance(part, ast.Or):
            self._add_split(flatten_group(part), branch, times)
        elif isinstance(part, ast.Seq | ast.And):
            for inner in part.parts:
                self.add(inner, branch, times)

    def _add_leaf(self, types: Ints, branch: int, times: float) -> None:
        """Add a leaf, or what it needs to one of its branch that accepts the same."""
        leaf = self.leaves.setdefault((branch, types.tobytes()), len(self.types))
        if leaf < len(self.types):
            self.leaf_need[leaf] += times
            return
        self.leaf_branch.append(branch)
        self.leaf_need.append(times)
        self.types.append(types)

    def _add_split(self, parts: tuple[ast.Part, ...], branch: int, times: float) -> None:
        if len(parts) == 1:
            self.add(parts[0], branch, times)
            return
        branches = tuple(range(self.branch_count, self.branch_count + len(parts)))
        self.branch_count += len(parts)
        self.splits.append(Split(branch, times, branches, self.exclusive))
        for part, inner in zip(parts, branches, strict=True):
            self.add(part, inner, 1.0)


def _joined(lists: Iterable[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *lists])

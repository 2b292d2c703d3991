"""Selectivity functions as mathematics: `min(type=0 / 2, type=1)` for a SEQ(0, 0, 1).

How many matches a pattern has per second, of how many events arrive of each type, if each
event serves one match (paper, section on selectivity functions):

    A; B; A      min(A / 2, B)
    A and B      min(A, B)
    A or B       A + B, and in the paper max(A, B)

Where elements of one SEQ or AND compete for types, the function is the least, over sets of
them, of what arrives for the set over what the set needs (Hall's theorem). Sets that a smaller
or a larger one makes superfluous are left out: what remains is connected by types that its
members share, and has all elements that take no other types.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.language.ast.pattern import And, Element, Not, Or, Part, Repeat, Seq
from shedlight.language.check.normal_form import min_events
from shedlight.model.selectivity.demand import OrAs, alternatives
from shedlight.model.type_index import accepted_types, element_tests, operator_vocabulary

MAX_COMPETING_ELEMENTS = 8
"""How many elements may compete for types if all sets of them are to be looked at."""

LabelsOf = Callable[[Element], Sequence[str]]
"""The labels of the types that an element accepts."""


class Selectivity(ABC):
    """Any selectivity function; `str()` writes it."""

    __slots__ = ()

    @abstractmethod
    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Compute the matches per second of the events per second of each type."""


@dataclass(frozen=True, slots=True)
class Rate(Selectivity):
    """The events per second of one type."""

    label: str

    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Look it up; a type that is not there does not arrive."""
        return rates.get(self.label, 0.0)

    def __str__(self) -> str:
        return self.label if " " not in self.label else f"[{self.label}]"


@dataclass(frozen=True, slots=True)
class Quotient(Selectivity):
    """A function over a number greater than 1: what is needed several times."""

    part: Selectivity
    times: float

    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Divide."""
        return self.part.evaluate(rates) / self.times

    def __str__(self) -> str:
        inner = f"({self.part})" if isinstance(self.part, Sum) else str(self.part)
        return f"{inner} / {self.times:g}"


@dataclass(frozen=True, slots=True)
class Sum(Selectivity):
    """Any of its parts will do, and each counts."""

    parts: tuple[Selectivity, ...]

    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Add."""
        return math.fsum(part.evaluate(rates) for part in self.parts)

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts)) or "0"


@dataclass(frozen=True, slots=True)
class Least(Selectivity):
    """All of its parts are needed; without any there is no limit."""

    parts: tuple[Selectivity, ...]

    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Take the minimum."""
        return min((part.evaluate(rates) for part in self.parts), default=math.inf)

    def __str__(self) -> str:
        return f"min({', '.join(map(str, self.parts))})" if self.parts else "unlimited"


@dataclass(frozen=True, slots=True)
class Greatest(Selectivity):
    """One of its parts alone counts: the paper's OR."""

    parts: tuple[Selectivity, ...]

    def evaluate(self, rates: Mapping[str, float]) -> float:
        """Take the maximum."""
        return max(part.evaluate(rates) for part in self.parts)

    def __str__(self) -> str:
        return f"max({', '.join(map(str, self.parts))})"


def selectivity(part: Part, labels_of: LabelsOf, or_as: OrAs = "sum") -> Selectivity:
    """Write the selectivity function of a pattern.

    It is exact unless branches of an OR share types with each other or with what is beside
    the OR, or more than `MAX_COMPETING_ELEMENTS`
    elements compete for types: then it is an upper bound.

    Args:
        part: The tree of the pattern.
        labels_of: The types of each element.
        or_as: What an OR is.

    Example:
        >>> from shedlight.language import parse_pattern
        >>> text = "SELECT X WHERE SEQ(X.t = 0, Y.t = 1, Z.t = 0) WITHIN 1 s"
        >>> types = {"X": ["A"], "Y": ["B"], "Z": ["A"]}
        >>> print(selectivity(parse_pattern(text).pattern.where, lambda e: types[e.variable]))
        min(A / 2, B)
    """
    leaves: dict[frozenset[str], _Leaf] = {}
    splits: list[Selectivity] = []
    for each, times in _required(part, 1.0):
        if isinstance(each, Or) and not (or_as == "sum" and _is_choice(each)):
            inner = tuple(selectivity(one, labels_of, or_as) for one in alternatives(each))
            joined = Greatest(inner) if or_as == "max" else Sum(inner)
            splits.append(_divided(joined, times))
            continue
        elements = alternatives(each) if isinstance(each, Or) else (each,)
        labels = tuple(
            dict.fromkeys(
                label
                for one in elements
                if isinstance(one, Element)
                for label in labels_of(one)
            )
        )
        before = leaves.get(frozenset(labels), _Leaf(labels, 0.0))
        leaves[frozenset(labels)] = replace(before, need=before.need + times)
    terms = (*_terms(tuple(leaves.values())), *splits)
    return terms[0] if len(terms) == 1 else Least(terms)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Elements that accept the same types, and how many events they need together."""

    labels: tuple[str, ...]
    need: float


def _required(part: Part, times: float) -> Iterator[tuple[Element | Or, float]]:
    """List the elements and ORs that a match needs, and how often."""
    if isinstance(part, Not) or not min_events(part):
        return
    if isinstance(part, Repeat):
        yield from _required(part.part, times * part.least)
    elif isinstance(part, Seq | And):
        for inner in part.parts:
            yield from _required(inner, times)
    elif isinstance(part, Or) and len(part.parts) == 1:
        yield from _required(part.parts[0], times)
    elif isinstance(part, Element | Or):
        yield part, times


def _is_choice(part: Or) -> bool:
    """Whether an OR is one of several events: as good as one element that accepts them all."""
    return all(isinstance(one, Element) for one in alternatives(part))


def _terms(leaves: tuple[_Leaf, ...]) -> Iterator[Selectivity]:
    """Write what elements need, in the order of the first of them."""
    groups = _groups(leaves)
    for group in groups:
        if len(group) > MAX_COMPETING_ELEMENTS:
            yield from (_term([leaves[place]]) for place in group)
        else:
            sets = _sets([leaves[place] for place in group])
            yield from (_term(each) for each in sets)


def _groups(leaves: Sequence[_Leaf]) -> list[list[int]]:
    """Put leaves together that share types, directly or through others."""
    root = list(range(len(leaves)))

    def root_of(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    owners: dict[str, int] = {}
    for place, leaf in enumerate(leaves):
        for label in leaf.labels:
            one, other = root_of(owners.setdefault(label, place)), root_of(place)
            root[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for place in range(len(leaves)):
        groups.setdefault(root_of(place), []).append(place)
    return list(groups.values())


def _sets(group: Sequence[_Leaf]) -> Iterator[list[_Leaf]]:
    """List the sets of leaves that limit a match, the smaller ones first."""
    for size in range(1, len(group) + 1):
        for chosen in map(list, combinations(group, size)):
            labels = {label for leaf in chosen for label in leaf.labels}
            is_full = all(
                leaf in chosen or not labels.issuperset(leaf.labels) for leaf in group
            )
            if is_full and len(_groups(chosen)) == 1:
                yield chosen


def _term(leaves: Iterable[_Leaf]) -> Selectivity:
    """Write what arrives for some leaves over what they need."""
    chosen = list(leaves)
    labels = dict.fromkeys(label for leaf in chosen for label in leaf.labels)
    rates: tuple[Selectivity, ...] = tuple(map(Rate, labels))
    total = rates[0] if len(rates) == 1 else Sum(rates)
    return _divided(total, math.fsum(leaf.need for leaf in chosen))


def _divided(part: Selectivity, times: float) -> Selectivity:
    return part if times == 1 else Quotient(part, times)


def selectivities(
    application: Application, or_as: OrAs = "sum"
) -> Mapping[Stream, Selectivity]:
    """Write the selectivity function of each pattern over the types that its text names."""
    return {
        stream: selectivity(spec.patterns[stream.name].where, labels.__getitem__, or_as)
        for spec in application.operators.values()
        for labels in [_accepted_labels(spec)]
        for stream in spec.outputs
    }


def _accepted_labels(spec: OperatorSpec) -> Mapping[Element, list[str]]:
    """Find the labels that each element of an operator accepts."""
    vocabulary = operator_vocabulary(spec)
    tests = element_tests(spec, vocabulary)
    signatures, accepted = accepted_types(vocabulary, set(), tests)
    labels = [vocabulary.label(signature) for signature in signatures]
    return {element: [labels[i] for i in types] for element, types in accepted.items()}

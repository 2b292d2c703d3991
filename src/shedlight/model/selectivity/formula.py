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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.language.ast.pattern import And, Element, Not, Or, Part, Repeat, Seq
from shedlight.language.check.normal_form import flatten_group, min_events
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.selectivity.demand import OrAs
from shedlight.model.type_index import accepted_types, element_tests, operator_vocabulary

MAX_COMPETING_ELEMENTS = 8
"""How many elements may compete for types if all sets of them are to be looked at."""

LabelsOf = Callable[[Element], Sequence[str]]  # the labels of the types that an element accepts


@dataclass(frozen=True, slots=True)
class TypeRate:
    """The events per second of one type."""

    label: str

    def __str__(self) -> str:
        return f"[{self.label}]" if " " in self.label else self.label or OTHER


@dataclass(frozen=True, slots=True)
class Quotient:
    """A function over a number greater than 1: what is needed several times."""

    part: "Selectivity"
    times: float

    def __str__(self) -> str:
        is_sum = isinstance(self.part, Combined) and self.part.function == "sum"
        return f"{f'({self.part})' if is_sum else self.part} / {self.times:g}"


@dataclass(frozen=True, slots=True)
class Combined:
    """Functions put together."""

    # the sum if any of the parts will do and each counts, the minimum if all are needed, the
    # maximum if one alone counts: the paper's OR
    function: Literal["sum", "min", "max"]
    parts: tuple["Selectivity", ...]  # the parts; the minimum of none is without limit

    def __str__(self) -> str:
        if self.function == "sum":
            return " + ".join(map(str, self.parts)) or "0"
        if not self.parts:
            return "unlimited"
        return f"{self.function}({', '.join(map(str, self.parts))})"


Selectivity = TypeRate | Quotient | Combined  # a selectivity function; `str()` writes it


def selectivity(part: Part, labels_of: LabelsOf, or_as: OrAs = "sum") -> Selectivity:
    """Write the selectivity function of a pattern.

    It is exact unless alternatives of an OR share types with each other or with what is around
    the OR, or more than `MAX_COMPETING_ELEMENTS` elements compete for types: then it is an
    upper bound.

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
        options = flatten_group(each) if isinstance(each, Or) else (each,)
        choices = [option for option in options if isinstance(option, Element)]
        # an OR of single events is as good as one element that accepts them all
        if isinstance(each, Or) and (or_as == "max" or len(choices) < len(options)):
            inner = tuple(selectivity(option, labels_of, or_as) for option in options)
            splits.append(_divided(Combined(or_as, inner), times))
            continue
        labels = tuple(
            dict.fromkeys(label for choice in choices for label in labels_of(choice))
        )
        before = leaves.get(frozenset(labels), _Leaf(labels, 0.0))
        leaves[frozenset(labels)] = replace(before, need=before.need + times)
    terms = (*_terms(tuple(leaves.values())), *splits)
    return terms[0] if len(terms) == 1 else Combined("min", terms)


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


def _terms(leaves: Sequence[_Leaf]) -> Iterator[Selectivity]:
    """Write what elements need, in the order of the first of them."""
    for group in _groups(leaves):
        competing = len(group) <= MAX_COMPETING_ELEMENTS
        sets = _limiting_sets(group) if competing else ([leaf] for leaf in group)
        yield from map(_term, sets)


def _groups(leaves: Sequence[_Leaf]) -> list[list[_Leaf]]:
    """Put leaves together that share types, directly or through others."""
    groups: list[tuple[set[str], list[int]]] = []
    for i, leaf in enumerate(leaves):
        sharing = [group for group in groups if not group[0].isdisjoint(leaf.labels)]
        groups = [group for group in groups if group not in sharing]
        labels = {*leaf.labels}.union(*(labels for labels, _ in sharing))
        groups.append((labels, sorted([i, *(j for _, members in sharing for j in members)])))
    return [[leaves[i] for i in members] for _, members in sorted(groups, key=lambda g: g[1])]


def _limiting_sets(group: Sequence[_Leaf]) -> Iterator[list[_Leaf]]:
    """List the sets of leaves that limit a match, the smaller ones first."""
    for size in range(1, len(group) + 1):
        for chosen in map(list, combinations(group, size)):
            labels = {label for leaf in chosen for label in leaf.labels}
            is_full = all(
                leaf in chosen or not labels.issuperset(leaf.labels) for leaf in group
            )
            if is_full and len(_groups(chosen)) == 1:
                yield chosen


def _term(leaves: Sequence[_Leaf]) -> Selectivity:
    """Write what arrives for some leaves over what they need."""
    labels = dict.fromkeys(label for leaf in leaves for label in leaf.labels)
    rates = tuple(map(TypeRate, labels))
    total = rates[0] if len(rates) == 1 else Combined("sum", rates)
    return _divided(total, math.fsum(leaf.need for leaf in leaves))


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

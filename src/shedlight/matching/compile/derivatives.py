"""What a partial match still waits for, as a term: partial derivatives of a pattern.

A term is what is left of a pattern. Three questions about it give the whole automaton:

- `steps(term)`: which elements can take the next event, and what is left after each;
- `after_not(term, x)`: what is left when an event arrives that the NOT number x forbids;
- `can_end(term)`: whether nothing more is needed.

These are the partial derivatives of a regular expression (Antimirov), with interleaving for
AND. A NOT between two parts of a SEQ is a `Gap` term that lies between them: a place that waits
beyond the gap is removed when the forbidden event arrives, a place before it is not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product


class Term:
    """What is left to be matched."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Term):
    """Nothing is left."""


@dataclass(frozen=True, slots=True)
class Leaf(Term):
    """One event for the element of this number."""

    element: int


@dataclass(frozen=True, slots=True)
class Gap(Term):
    """Nothing is needed, but the event of this NOT removes who waits beyond."""

    element: int


@dataclass(frozen=True, slots=True)
class Chain(Term):
    """One term after the other; made by `chain`, never nested, at least two long."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Choice(Term):
    """One of the terms."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Interleaving(Term):
    """All of the terms, interleaved; once begun, an event of `forbidden` ends it."""

    terms: tuple[Term, ...]
    forbidden: frozenset[int]
    begun: bool


@dataclass(frozen=True, slots=True)
class Loop(Term):
    """A term from `least` to `most` times (None: any number of times)."""

    term: Term
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class NotEmpty(Term):
    """The term, with at least one event."""

    term: Term


DONE = Done()


def chain(terms: Iterable[Term]) -> Term:
    """Put terms one after the other."""
    flat: list[Term] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Chain) else () if term == DONE else (term,))
    if len(flat) > 1:
        return Chain(tuple(flat))
    return flat[0] if flat else DONE


def interleaving(terms: tuple[Term, ...], forbidden: frozenset[int], *, begun: bool) -> Term:
    """Put terms side by side; those with nothing left fall away."""
    left = tuple(term for term in terms if term != DONE)
    if not left:
        return DONE
    if len(left) == 1 and not forbidden:
        return left[0]
    return Interleaving(left, forbidden, begun)


def loop(term: Term, least: int, most: int | None) -> Term:
    """Repeat a term."""
    if most == 0:
        return DONE
    return term if (least, most) == (1, 1) else Loop(term, least, most)


@lru_cache(maxsize=65536)
def can_end(term: Term) -> bool:
    """Whether nothing more is needed."""
    match term:
        case Done() | Gap():
            return True
        case Chain(terms) | Interleaving(terms, _, _):
            return all(map(can_end, terms))
        case Choice(terms):
            return any(map(can_end, terms))
        case Loop(inner, least, _):
            return least == 0 or can_end(inner)
        case _:
            return False


def steps(term: Term) -> tuple[tuple[int, Term], ...]:
    """List which element can take the next event and what is then left, as written."""
    return tuple(dict.fromkeys(_steps(term)))


def _steps(term: Term) -> Iterator[tuple[int, Term]]:
    match term:
        case Leaf(element):
            yield element, DONE
        case Chain(terms):
            for i, first in enumerate(terms):
                for element, left in _steps(first):
                    yield element, chain((left, *terms[i + 1 :]))
                if not can_end(first):
                    return
        case Choice(terms):
            for alternative in terms:
                yield from _steps(alternative)
        case Loop(inner, least, most):
            again = loop(inner, max(least - 1, 0), None if most is None else most - 1)
            for element, left in _steps(inner):
                yield element, chain((left, again))
        case NotEmpty(inner):
            yield from _steps(inner)
        case Interleaving(terms, forbidden, _):
            for i, part in enumerate(terms):
                for element, left in _steps(part):
                    lefts = (*terms[:i], left, *terms[i + 1 :])
                    yield element, interleaving(lefts, forbidden, begun=True)


def forbidden_now(term: Term) -> frozenset[int]:
    """Find the NOTs whose event would remove a place that waits now."""
    match term:
        case Gap(element):
            return frozenset({element})
        case Chain(terms):
            last = next((i for i, t in enumerate(terms) if not can_end(t)), len(terms))
            return _union(map(forbidden_now, terms[: last + 1]))
        case Choice(terms):
            return _union(map(forbidden_now, terms))
        case Interleaving(terms, forbidden, begun):
            inner = _union(map(forbidden_now, terms))
            return inner | forbidden if begun else inner
        case Loop(inner, _, _) | NotEmpty(inner):
            return forbidden_now(inner)
        case _:
            return frozenset()


def after_not(term: Term, element: int) -> tuple[Term, ...]:
    """List what is left when the event of a NOT arrives: none, or alternatives as written."""
    if element not in forbidden_now(term):
        return (term,)
    return tuple(dict.fromkeys(_after_not(term, element)))


def _after_not(term: Term, x: int) -> Iterator[Term]:
    match term:
        case Chain((first, *rest)):
            yield from _after_not_in_chain(first, chain(rest), x)
        case Choice(terms):
            for alternative in terms:
                yield from after_not(alternative, x)
        case Interleaving(terms, forbidden, begun):
            if begun and x in forbidden:
                yield from _ends(term)
            else:
                for lefts in product(*(after_not(part, x) for part in terms)):
                    yield interleaving(lefts, forbidden, begun=begun)
        case Loop(inner, least, most):
            if least == 0:
                yield DONE
            again = loop(inner, max(least - 1, 0), None if most is None else most - 1)
            for left in after_not(inner, x):
                yield from (chain((begun, again)) for begun in _non_empty(left))
                if least > 0:
                    yield from _ends(left)
        case NotEmpty(inner):
            for left in after_not(inner, x):
                yield from _non_empty(left)


def _after_not_in_chain(first: Term, later: Term, x: int) -> Iterator[Term]:
    guarded_beyond = can_end(first) and x in forbidden_now(later)
    for left in after_not(first, x):
        if not guarded_beyond:
            yield chain((left, later))
            continue
        yield from (chain((begun, later)) for begun in _non_empty(left))
        for gaps in _ends(left):
            yield from (chain((gaps, beyond)) for beyond in after_not(later, x))


def _non_empty(term: Term) -> Iterator[Term]:
    """Give the term with at least one event, if that can be."""
    if not can_end(term):
        yield term
    elif steps(term):
        yield NotEmpty(term)


def _ends(term: Term) -> Iterator[Term]:
    """Give the ways to end now: the gaps that are then still to be crossed."""
    yield from (chain(Gap(x) for x in sorted(gaps)) for gaps in dict.fromkeys(_gaps(term)))


def _gaps(term: Term) -> Iterator[frozenset[int]]:
    match term:
        case Done():
            yield frozenset()
        case Gap(element):
            yield frozenset({element})
        case Chain(terms) | Interleaving(terms, _, _):
            for sets in product(*map(_gaps, terms)):
                yield _union(sets)
        case Choice(terms):
            for alternative in terms:
                yield from _gaps(alternative)
        case Loop(inner, least, _):
            if least == 0:
                yield frozenset()
            else:
                yield from _gaps(inner)


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)

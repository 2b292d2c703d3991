"""Which types an element accepts: one condition looked up for all types at once."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import PredicateTest, Vocabulary
from shedlight.model.arrays import Ints

Asks = tuple[PredicateTest, ...]
"""All that an element asks of a type."""


def constants(words: Vocabulary) -> Iterator[Signature]:
    """List the types of which one constant holds and nothing else."""
    for place, codes in words.closed.values():
        for code in codes.values():
            yield words.signature({place: code})


def accepted_types(
    words: Vocabulary, known: set[Signature], asked: tuple[Asks, ...]
) -> tuple[tuple[Signature, ...], Mapping[Asks, Ints]]:
    """Find which types are of use to whom.

    Args:
        words: The words of an operator.
        known: The types that are known; who accepts none of them gets the least one it asks.
        asked: What the elements ask.

    Returns:
        The types that are of use to anybody, in order, and the places of those that pass.
    """
    table = _Table(words, known)
    missing = (_least(words, each) for each in asked if not len(table.passing(each)))
    table = _Table(words, known | set(filter(None, missing)))
    passing = {each: table.passing(each) for each in asked}
    used = np.zeros(len(table.signatures), np.bool_)
    for places in passing.values():
        used[places] = True
    renumbered = np.cumsum(used) - 1
    signatures = tuple(table.signatures[place] for place in np.flatnonzero(used))
    return signatures, {each: renumbered[places] for each, places in passing.items()}


def _least(words: Vocabulary, asks: Asks) -> Signature | None:
    """Find the first type that meets what is asked, and nothing more; None if none can."""
    said: dict[int, int] = {}
    nothing = words.null_signature
    closed = len(words.closed)
    for place in dict.fromkeys(ask.component for ask in asks):
        here = [ask for ask in asks if ask.component == place]
        codes = range(nothing[place]) if place < closed else (1,)
        null = nothing[place] if place < closed else -1
        passing = (code for code in codes if all(ask.allows(code, null) for ask in here))
        code = next(passing, None)
        if code is None:
            return None
        said[place] = code
    return words.signature(said)


class _Table:
    """Signatures as columns, so that one condition is looked up for all of them at once."""

    def __init__(self, words: Vocabulary, signatures: Iterable[Signature]) -> None:
        self.signatures = tuple(sorted(signatures))
        self.nulls = words.null_signature
        shape = (len(self.signatures), len(self.nulls))
        self._codes = np.array(self.signatures, np.int32).reshape(shape).T
        self._closed = len(words.closed)
        self._sorted: dict[int, tuple[Ints, Ints]] = {}

    def passing(self, asks: Asks) -> Ints:
        """Find the signatures that meet all that is asked, as places, ascending."""
        first = next((ask for ask in asks if self._is_narrow(ask)), None)
        found = np.arange(len(self.signatures)) if first is None else self._with(first)
        for ask in asks:
            if ask is not first:
                codes = self._codes[ask.component][found]
                among = np.isin(codes, list(ask.codes))
                null = self.nulls[ask.component]
                found = found[~among & (codes != null) if ask.negated else among]
        return found

    def _is_narrow(self, ask: PredicateTest) -> bool:
        return len(ask.codes) == 1 and not ask.negated and ask.component < self._closed

    def _with(self, ask: PredicateTest) -> Ints:
        """Find the signatures with one constant, by bisection."""
        if ask.component not in self._sorted:
            order = np.argsort(self._codes[ask.component], kind="stable")
            self._sorted[ask.component] = order, self._codes[ask.component][order]
        order, codes = self._sorted[ask.component]
        (code,) = ask.codes
        start, end = np.searchsorted(codes, [code, code + 1])
        return order[start:end]

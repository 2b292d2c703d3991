"""Which patterns can use an event type, found once per type.

Of the tests of an element one is its *anchor*: one that few signatures pass. For a new
signature only the elements are looked at whose anchor it passes, so that a thousand patterns
that have nothing to do with an event do not cost it anything.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shedlight.matching.compile.dfa import Symbol
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import PredicateTest
from shedlight.matching.jit import Array

_MAX_REMEMBERED = 1 << 16  # how many types


@dataclass(frozen=True, slots=True, eq=False)
class TypeUses:
    """The patterns that can use a type, and what it is to each of them."""

    patterns: Array  # their numbers, in order
    symbols: Array  # the numbers of symbols, as `Dispatch` counts them


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An element whose anchor passes; all of its tests must."""

    pattern: int
    element: int
    tests: tuple[PredicateTest, ...]


class Dispatch:
    """Finds the patterns that can use an event type, and remembers them."""

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self.symbols: list[Symbol] = []  # all that types are to patterns, by number
        self._numbers: dict[Symbol, int] = {}
        self._uses: dict[Signature, TypeUses] = {}
        self._null = matchers[0].null_signature if matchers else ()
        self._anchored: dict[tuple[int, int], list[_Candidate]] = defaultdict(list)
        self._everywhere: list[_Candidate] = []  # those that have no anchor
        for pattern, matcher in enumerate(matchers):
            for element, tests in enumerate(matcher.predicates):
                self._enter(_Candidate(pattern, element, tests))

    def _enter(self, candidate: _Candidate) -> None:
        positive = [test for test in candidate.tests if not test.negated]
        if not positive:
            self._everywhere.append(candidate)
            return
        anchor = min(positive, key=lambda test: (len(test.codes), test.component))
        for code in anchor.codes:
            self._anchored[anchor.component, code].append(candidate)

    def uses(self, signature: Signature) -> TypeUses:
        """Find the patterns that can use events of a signature."""
        found = self._uses.get(signature)
        if found is None:
            if len(self._uses) > _MAX_REMEMBERED:
                self._uses.clear()
            found = self._uses[signature] = self._find(signature)
        return found

    def _find(self, signature: Signature) -> TypeUses:
        candidates = list(self._everywhere)
        for anchor in enumerate(signature):
            candidates += self._anchored.get(anchor, ())
        elements: dict[int, list[int]] = defaultdict(list)
        for candidate in candidates:
            if all(
                t.allows(signature[t.component], self._null[t.component])
                for t in candidate.tests
            ):
                elements[candidate.pattern].append(candidate.element)
        patterns = sorted(elements)
        symbols = [self._number(Symbol(elements[pattern])) for pattern in patterns]
        return TypeUses(np.array(patterns, np.int32), np.array(symbols, np.int32))

    def _number(self, symbol: Symbol) -> int:
        number = self._numbers.setdefault(symbol, len(self.symbols))
        if number == len(self.symbols):
            self.symbols.append(symbol)
        return number

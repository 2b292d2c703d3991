"""Which event types an element accepts: one condition looked up for all types at once."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from shedlight.graph.application import Application, OperatorSpec
from shedlight.graph.topology import list_elements
from shedlight.language.ast.pattern import Element
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import PredicateTest, Vocabulary, build_vocabulary
from shedlight.model.arrays import Ints

ElementTests = tuple[PredicateTest, ...]
"""All conditions of an element on one event, as tests of a type's signature."""


def operator_vocabularies(application: Application) -> Mapping[str, Vocabulary]:
    """Collect the vocabulary of each operator."""
    return {name: operator_vocabulary(spec) for name, spec in application.operators.items()}


def operator_vocabulary(spec: OperatorSpec) -> Vocabulary:
    """Collect the words of which the labels of an operator's types are made."""
    return build_vocabulary(list_elements(spec))


def element_tests(spec: OperatorSpec, vocabulary: Vocabulary) -> Mapping[Element, ElementTests]:
    """Give the tests of each element of an operator's patterns."""
    return {element: vocabulary.tests_of(element) for element in list_elements(spec)}


def accepted_types(
    vocabulary: Vocabulary, known: set[Signature], tests: Mapping[Element, ElementTests]
) -> tuple[tuple[Signature, ...], Mapping[Element, Ints]]:
    """Find the types that any element of an operator accepts, in order, and which each does.

    An element that accepts none of the types that are known to occur, nor a type of one
    constant alone, gets the least type that passes its tests.
    """
    occurring = known | set(_constants(vocabulary))
    table = _SignatureTable(vocabulary, occurring)
    distinct = dict.fromkeys(tests.values())
    least = (_least(vocabulary, each) for each in distinct if not len(table.passing(each)))
    # the signature of a vocabulary without words is empty, and is one
    missing = {signature for signature in least if signature is not None}
    table = _SignatureTable(vocabulary, occurring | missing)
    passing = {each: table.passing(each) for each in distinct}
    used = np.zeros(len(table.signatures), np.bool_)
    for types in passing.values():
        used[types] = True
    renumbered = np.cumsum(used) - 1
    signatures = tuple(table.signatures[number] for number in np.flatnonzero(used))
    accepted = {each: renumbered[types] for each, types in passing.items()}
    return signatures, {element: accepted[each] for element, each in tests.items()}


def _constants(vocabulary: Vocabulary) -> Iterator[Signature]:
    """List the types of which one constant holds and nothing else."""
    for component, codes in vocabulary.closed.values():
        for code in codes.values():
            yield vocabulary.signature({component: code})


def _least(vocabulary: Vocabulary, tests: ElementTests) -> Signature | None:
    """Find the first type that passes tests, and has nothing more; None if none can."""
    codes_of: dict[int, int] = {}
    nothing = vocabulary.null_signature
    closed = len(vocabulary.closed)
    for component in dict.fromkeys(test.component for test in tests):
        here = [test for test in tests if test.component == component]
        codes = range(nothing[component]) if component < closed else (1,)
        null = nothing[component] if component < closed else -1
        passing = (code for code in codes if all(test.allows(code, null) for test in here))
        code = next(passing, None)
        if code is None:
            return None
        codes_of[component] = code
    return vocabulary.signature(codes_of)


class _SignatureTable:
    """Signatures as columns, so that one condition is looked up for all of them at once."""

    def __init__(self, vocabulary: Vocabulary, signatures: Iterable[Signature]) -> None:
        self.signatures = tuple(sorted(signatures))
        self._nulls = vocabulary.null_signature
        shape = (len(self.signatures), len(self._nulls))
        self._codes = np.array(self.signatures, np.int32).reshape(shape).T
        self._closed = len(vocabulary.closed)
        self._sorted: dict[int, tuple[Ints, Ints]] = {}

    def passing(self, tests: ElementTests) -> Ints:
        """Find the signatures that pass all tests, by number, ascending."""
        first = next((test for test in tests if self._is_narrow(test)), None)
        numbers = np.arange(len(self.signatures)) if first is None else self._with(first)
        for test in tests:
            if test is not first:
                codes = self._codes[test.component][numbers]
                among = np.isin(codes, list(test.codes))
                null = self._nulls[test.component]
                numbers = numbers[~among & (codes != null) if test.negated else among]
        return numbers

    def _is_narrow(self, test: PredicateTest) -> bool:
        return len(test.codes) == 1 and not test.negated and test.component < self._closed

    def _with(self, test: PredicateTest) -> Ints:
        """Find the signatures with one constant, by bisection."""
        if test.component not in self._sorted:
            order = np.argsort(self._codes[test.component], kind="stable")
            self._sorted[test.component] = order, self._codes[test.component][order]
        order, codes = self._sorted[test.component]
        (code,) = test.codes
        start, end = np.searchsorted(codes, [code, code + 1])
        return order[start:end]

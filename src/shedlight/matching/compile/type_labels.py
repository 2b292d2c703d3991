"""Labels of types, read back: from `type=0 & cpu > 0.5` to a signature.

A label is made of words, one for each thing that an alphabet says of an event. A constant may
be any text, with ` & ` or `=` in it, so a label is not taken apart but put together from the
words that there are, longest first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shedlight.language.ast.expression import Attribute, Expression
from shedlight.language.ast.pattern import Element
from shedlight.matching.compile.predicates import (
    Alphabet,
    Signature,
    Value,
    ValueTest,
    build_alphabet,
    conditions_of,
    value_test,
)

OTHER = "other"  # the label of events for which no condition holds

_JOINT = " & "
_HOLDS = frozenset({1})


@dataclass(frozen=True, slots=True)
class PredicateTest:
    """What one condition of an element asks of a signature."""

    component: int  # which one of a signature it looks at
    codes: frozenset[int]  # the codes that pass, or (negated) that do not, nor does null
    negated: bool = False

    def allows(self, code: int, null: int) -> bool:
        """Whether a code passes."""
        return code != null and code not in self.codes if self.negated else code in self.codes


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of an alphabet, and what they say."""

    alphabet: Alphabet  # the alphabet
    words: Mapping[str, tuple[int, int]]  # the component of a signature, and the code there
    # for each column of a closed set its number, and the codes of its constants
    closed: Mapping[Attribute, tuple[int, Mapping[Value, int]]]
    open: Mapping[Expression, int]  # the numbers of the other conditions

    @property
    def null_signature(self) -> Signature:
        """The signature of an event of which nothing holds: null in all columns."""
        alphabet = self.alphabet
        return (*(closed.codes - 1 for closed in alphabet.closed), *(0 for _ in alphabet.open))

    def tests_of(self, element: Element) -> tuple[PredicateTest, ...]:
        """Say what an element asks of a signature; all of it must hold."""
        return tuple(self._test(each, value_test(each)) for each in conditions_of(element))

    def _test(self, condition: Expression, test: ValueTest | None) -> PredicateTest:
        if test is None:
            return PredicateTest(len(self.closed) + self.open[condition], _HOLDS)
        component, codes = self.closed[test.column]
        return PredicateTest(
            component, frozenset(codes[value] for value in test.values), test.negated
        )

    def label(self, signature: Signature) -> str:
        """Name a type."""
        return self.alphabet.label(signature) or OTHER

    def parse(self, label: str) -> Mapping[int, int] | None:
        """Read what a label says: codes by component; None if it is no label of this alphabet.

        Example:
            >>> from shedlight.language import parse_pattern
            >>> from shedlight.language.ast.pattern import elements
            >>> pattern = parse_pattern("SELECT E WHERE E.type = 7 AND E.cpu > 0.5").pattern
            >>> words = build_vocabulary(elements(pattern.where))
            >>> words.parse("cpu > 0.5 & type=7"), words.parse("type=8")
            ({1: 1, 0: 0}, None)
        """
        if label in self.words:
            component, code = self.words[label]
            return {component: code}
        words = () if label in {OTHER, ""} else _split_label(label, self.words)
        if words is None:
            return None
        codes: dict[int, int] = {}
        for component, code in (self.words[word] for word in words):
            if codes.setdefault(component, code) != code:
                return None  # it says two things of one column
        return codes

    def signature(self, codes: Mapping[int, int]) -> Signature:
        """Give the signature of an event of which no more than this holds."""
        null = self.null_signature
        return tuple(codes.get(component, null[component]) for component in range(len(null)))


def build_vocabulary(elements: Iterable[Element]) -> Vocabulary:
    """Collect the words of the elements of all patterns of an operator."""
    alphabet = build_alphabet(elements)
    words: dict[str, tuple[int, int]] = {}
    columns: dict[Attribute, tuple[int, Mapping[Value, int]]] = {}
    for component, closed in enumerate(alphabet.closed):
        columns[closed.column] = component, {v: code for code, v in enumerate(closed.values)}
        for code, value in enumerate(closed.values):
            words.setdefault(f"{closed.column}={value}", (component, code))
    for test in alphabet.tests:
        if test.negated:
            component, codes = columns[test.column]
            words.setdefault(str(test.as_negation()), (component, len(codes)))
    for number, condition in enumerate(alphabet.open):
        words.setdefault(str(condition), (len(columns) + number, 1))
    numbers = {condition: number for number, condition in enumerate(alphabet.open)}
    return Vocabulary(alphabet, words, columns, numbers)


def _split_label(label: str, known: Mapping[str, object]) -> tuple[str, ...] | None:
    """Find known words that make up a label, the longest first; None if there are none."""
    parts = label.split(_JOINT)
    words_from: list[tuple[str, ...] | None] = [None] * len(parts) + [()]
    for start in range(len(parts) - 1, -1, -1):
        for end in range(len(parts), start, -1):
            word, after = _JOINT.join(parts[start:end]), words_from[end]
            if after is not None and word in known:
                words_from[start] = (word, *after)
                break
    return words_from[0]

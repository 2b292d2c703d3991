"""Labels of types, read back: from `type=0 & cpu > 0.5` to a signature.

A label is made of words, one for each thing that an alphabet says of an event. A constant may
be any text, with ` & ` or `=` in it, so a label is not taken apart but put together from the
words that there are, longest first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shedlight.language.ast.expression import Attribute, Expression, conjuncts, without_variable
from shedlight.language.ast.pattern import Element
from shedlight.matching.compile.predicates import (
    Alphabet,
    Signature,
    Value,
    ValueTest,
    build_alphabet,
    value_test,
)

OTHER = "other"  # the label of events for which no condition holds

_JOINT = " & "
_HOLDS = frozenset({1})


@dataclass(frozen=True, slots=True)
class PredicateTest:
    """What one condition of an element asks of a signature.

    Attributes:
        place: Which component of a signature it looks at.
        codes: The codes that pass, or (negated) that do not, nor does null.
        negated: See `codes`.
    """

    component: int
    codes: frozenset[int]
    negated: bool = False

    def allows(self, code: int, null: int) -> bool:
        """Whether a code passes."""
        return code != null and code not in self.codes if self.negated else code in self.codes


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of an alphabet, and what they say."""

    alphabet: Alphabet  # the alphabet
    # for each word the component of a signature that it is about, and its code there
    words: Mapping[str, tuple[int, int]]
    # for each column of a closed set its number, and the codes of its constants
    closed: Mapping[Attribute, tuple[int, Mapping[Value, int]]]
    open: Mapping[Expression, int]  # the numbers of the other conditions

    @property
    def null_signature(self) -> Signature:
        """The signature of an event of which nothing holds: null in all columns."""
        alphabet = self.alphabet
        return (*(one.codes - 1 for one in alphabet.closed), *(0 for _ in alphabet.open))

    def tests_of(self, element: Element) -> tuple[PredicateTest, ...]:
        """Say what an element asks of a signature; all of it must hold."""
        conditions = conjuncts(without_variable(element.condition))
        return tuple(self._test(each, value_test(each)) for each in conditions)

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
    columns = {one.column: component for component, one in enumerate(alphabet.closed)}
    words: dict[str, tuple[int, int]] = {}
    for component, one in enumerate(alphabet.closed):
        for code, value in enumerate(one.values):
            words.setdefault(f"{one.column}={value}", (component, code))
    for test in alphabet.tests:
        if test.negated:
            component = columns[test.column]
            one = alphabet.closed[component]
            word = Alphabet((one,), (), (test,)).label((len(one.values),))
            words.setdefault(word, (component, len(one.values)))
    for number, condition in enumerate(alphabet.open):
        words.setdefault(str(condition), (len(columns) + number, 1))
    return Vocabulary(
        alphabet,
        words,
        {
            column: (
                component,
                {v: code for code, v in enumerate(alphabet.closed[component].values)},
            )
            for column, component in columns.items()
        },
        {condition: number for number, condition in enumerate(alphabet.open)},
    )


def _split_label(label: str, known: Mapping[str, object]) -> tuple[str, ...] | None:
    """Find known words that make up a label, the longest first; None if there are none."""
    parts = label.split(_JOINT)
    rest: list[tuple[str, ...] | None] = [None] * len(parts) + [()]
    for start in range(len(parts) - 1, -1, -1):
        for end in range(len(parts), start, -1):
            word, after = _JOINT.join(parts[start:end]), rest[end]
            if after is not None and word in known:
                rest[start] = (word, *after)
                break
    return rest[0]

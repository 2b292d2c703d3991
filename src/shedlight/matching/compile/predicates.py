"""Types come from the queries: what the patterns of an operator can tell apart.

The conditions on one event of all patterns of an operator are collected once. What they say
of an event is its *signature*; two events with one signature are of one *type*, for no pattern
can tell them apart. Tests of one attribute against constants (`type = 0`, `type IN (1, 2)`,
`type <> 3`) form a *closed set*: they cost one look-up together, however many there are. So do
conditions that ask where an attribute lies among constants (`intervals.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from shedlight.language.ast.expression import (
    Attribute,
    Binary,
    Expression,
    In,
    Literal,
    Operator,
    conjuncts,
    without_variable,
)
from shedlight.language.ast.pattern import Element
from shedlight.matching.compile.intervals import IntervalSet, find_intervals

Value = int | str
Signature = tuple[int, ...]
"""What the conditions of an alphabet say of an event: a code for each; see `Alphabet`."""
MAX_SIGNATURES = 1 << 15  # how many signatures are listed at most
_MAX_EXACT_NUMBER = 1 << 53  # beyond it, two whole numbers may be one decimal number


@dataclass(frozen=True, slots=True)
class ValueTest:
    """One attribute against constants: one of them, or (negated) not null and none of them."""

    column: Attribute
    values: frozenset[Value]
    negated: bool = False

    def excludes(self, other: "ValueTest") -> bool:
        """Whether no value passes both tests."""
        if self.column != other.column or (self.negated and other.negated):
            return False
        if self.negated or other.negated:
            allowed, excluded = (other, self) if self.negated else (self, other)
            return allowed.values <= excluded.values
        return not self.values & other.values

    def as_negation(self) -> Expression:
        """Give the condition that says that it is none of the constants."""
        options = tuple(Literal(value) for value in sorted(self.values))
        if len(options) == 1:
            return Binary(Operator.NOT_EQUAL, self.column, options[0])
        return In(self.column, options, negated=True)


def value_test(condition: Expression) -> ValueTest | None:
    """Read a condition as a test of one attribute against constants, if it is one."""
    match condition:
        case Binary(
            Operator.EQUAL | Operator.NOT_EQUAL as operator, Attribute() as column, right
        ):
            constants = _constants((right,))
        case Binary(
            Operator.EQUAL | Operator.NOT_EQUAL as operator, left, Attribute() as column
        ):
            constants = _constants((left,))
        case In(Attribute() as column, options, is_negated):
            operator = Operator.NOT_EQUAL if is_negated else Operator.EQUAL
            constants = _constants(options)
        case _:
            return None
    if not constants:
        return None
    return ValueTest(column, constants, negated=operator is Operator.NOT_EQUAL)


def _constants(options: Iterable[Expression]) -> frozenset[Value]:
    """Give the constants, or nothing unless all are whole numbers or all are text."""
    values = [option.value if isinstance(option, Literal) else None for option in options]
    texts = frozenset(value for value in values if isinstance(value, str))
    numbers = frozenset(v for v in values if type(v) is int and abs(v) <= _MAX_EXACT_NUMBER)
    same = (alike for alike in (texts, numbers) if len(alike) == len(set(values)))
    return next(same, frozenset())


@dataclass(frozen=True, slots=True)
class ClosedSet:
    """An attribute and all the constants it is compared with, in order of appearance."""

    column: Attribute
    values: tuple[Value, ...]

    @property
    def codes(self) -> int:
        """How many classes there are: one per constant, any other value, null."""
        return len(self.values) + 2


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What an operator's patterns ask of single events.

    A signature is a tuple with a code per closed set (which constant, else `len(values)` for
    another value and one more for null) and then a 0 or 1 per other condition.
    """

    closed: tuple[ClosedSet, ...]  # the closed sets
    open: tuple[Expression, ...]  # the other conditions, on the row at hand
    tests: tuple[ValueTest, ...]  # the tests behind the closed sets, for the labels of types
    intervals: tuple[IntervalSet, ...]  # which of the other conditions one search answers

    @property
    def sizes(self) -> list[int]:
        """How many values each place of a signature may have."""
        return [closed.codes for closed in self.closed] + [2] * len(self.open)

    def label(self, signature: Sequence[int]) -> str:
        """Name a type: `type=0`, or the conditions that hold; empty if none does."""
        words = []
        for code, closed in zip(signature, self.closed, strict=False):
            if code < len(closed.values):
                words.append(f"{closed.column}={closed.values[code]}")
            elif code == len(closed.values):
                tests = (t for t in self.tests if t.negated and t.column == closed.column)
                words += (str(test.as_negation()) for test in tests)
        held = signature[len(self.closed) :]
        words += [str(test) for test, holds in zip(self.open, held, strict=True) if holds]
        return " & ".join(words)


def all_signatures(alphabet: Alphabet) -> Sequence[Signature] | None:
    """List all signatures, each at the index that is its number; None if there are too many."""
    sizes = alphabet.sizes
    return list(product(*map(range, sizes))) if prod(sizes) <= MAX_SIGNATURES else None


def build_alphabet(elements: Iterable[Element]) -> Alphabet:
    """Collect what the elements of all patterns of an operator ask of single events."""
    columns: dict[Attribute, dict[Value, None]] = {}
    tests: dict[ValueTest, None] = {}
    others: dict[Expression, None] = {}
    for element in elements:
        for condition in conditions_of(element):
            test = value_test(condition)
            if test is None:
                others[condition] = None
                continue
            tests[test] = None
            values = columns.setdefault(test.column, {})
            values.update(dict.fromkeys(sorted(test.values)))
    closed = tuple(ClosedSet(column, tuple(values)) for column, values in columns.items())
    return Alphabet(closed, tuple(others), tuple(tests), find_intervals(others))


def exclusive(first: Element, second: Element) -> bool:
    """Whether no event can be taken by both elements, as far as their text tells."""
    ours = [test for test in map(value_test, conditions_of(first)) if test]
    theirs = [test for test in map(value_test, conditions_of(second)) if test]
    return any(mine.excludes(other) for mine in ours for other in theirs)


def same_predicate(first: Element, second: Element) -> bool:
    """Whether two elements ask exactly the same of an event."""
    return set(conditions_of(first)) == set(conditions_of(second))


def conditions_of(element: Element) -> tuple[Expression, ...]:
    """List what an element asks of an event, on the row at hand."""
    return conjuncts(without_variable(element.condition))

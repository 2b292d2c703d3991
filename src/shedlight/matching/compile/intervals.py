"""Conditions that ask where one attribute lies among constants: `x > 3`, `x BETWEEN 3 AND 4`.

All values of an attribute between two neighbouring constants answer all such conditions alike.
So one search among the sorted constants tells as much as all the conditions evaluated, however
many patterns have a threshold of their own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from shedlight.language.ast.expression import (
    COMPARISONS,
    Attribute,
    Binary,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    Sign,
    Unary,
)

_MAX_EXACT_NUMBER = 1 << 53  # from it on, two whole numbers may be one decimal number
_MIN_CONDITIONS = 2  # below it, an evaluation costs less than a search

Points = frozenset[float]


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """An attribute, the constants that cut its values, and the conditions that they answer.

    The codes of values are, from the lowest on, that of values below the first constant, of
    the first constant, of values up to the second one, and so on; then that of NaN and of null.
    """

    column: Attribute
    points: tuple[float, ...]  # in order
    conditions: tuple[int, ...]  # the numbers of the conditions

    @property
    def codes(self) -> int:
        """How many classes there are."""
        return 2 * len(self.points) + 3


def find_intervals(conditions: Iterable[Expression]) -> tuple[IntervalSet, ...]:
    """Find the attributes that several conditions test against constants alone."""
    found: dict[Attribute, dict[int, Points]] = {}
    for number, condition in enumerate(conditions):
        test = _read(condition)
        if test is not None:
            column, points = test
            found.setdefault(column, {})[number] = points
    return tuple(
        IntervalSet(column, tuple(sorted(frozenset().union(*each.values()))), tuple(each))
        for column, each in found.items()
        if len(each) >= _MIN_CONDITIONS
    )


def _read(condition: Expression) -> tuple[Attribute, Points] | None:  # noqa: PLR0911  # a case each
    """Read a condition as one on a single attribute: which, and where its truth may change."""
    match condition:
        case Binary(Operator.AND | Operator.OR, left, right):
            ours, theirs = _read(left), _read(right)
            if ours is None or theirs is None or ours[0] != theirs[0]:
                return None
            return ours[0], ours[1] | theirs[1]
        case Unary(Sign.NOT, operand):
            return _read(operand)
        case Binary(operator, Attribute() as column, constant) | Binary(
            operator, constant, Attribute() as column
        ) if operator in COMPARISONS:
            return _cut(column, (constant,))
        case In(Attribute() as column, options):
            return _cut(column, options)
        case IsNull(Attribute() as column):
            return column, frozenset()
    return None


def _cut(column: Attribute, constants: Iterable[Expression]) -> tuple[Attribute, Points] | None:
    """Give the constants at which values are cut; None unless all are exact numbers."""
    points = []
    for constant in constants:
        value = constant.value if isinstance(constant, Literal) else None
        exact = type(value) is int and abs(value) < _MAX_EXACT_NUMBER
        if not exact and not (isinstance(value, float) and math.isfinite(value)):
            return None
        points.append(float(value))  # type: ignore[arg-type]  # it is a number
    return column, frozenset(points)

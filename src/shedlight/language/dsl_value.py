"""Values that write an expression down when Python's operators are used on them.

The classes of `expression.py` have no operators themselves: there `==` compares two trees.
"""

import math

from shedlight.errors import RuleError, known_names
from shedlight.language.ast.data_type import TYPE_NAMES
from shedlight.language.ast.expression import (
    Attribute,
    Binary,
    Cast,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
    negated,
)
from shedlight.language.ast.pattern import Item


class Value:
    """An expression that Python's operators can be used on; there is a method per operator."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # `==` writes an expression down

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"<{self.expression}>"

    def __bool__(self) -> bool:
        """Refuse `and`, `or`, `not` and chained comparisons, which need a truth at once."""
        raise TypeError(f"{self} is an expression; use &, | and ~ for AND, OR and NOT")

    def __eq__(self, other: object) -> "Value":  # type: ignore[override]  # as above
        return _binary(Operator.EQUAL, self, other)

    def __ne__(self, other: object) -> "Value":  # type: ignore[override]  # as above
        return _binary(Operator.NOT_EQUAL, self, other)

    def __lt__(self, other: object) -> "Value":
        return _binary(Operator.LESS, self, other)

    def __le__(self, other: object) -> "Value":
        return _binary(Operator.LESS_EQUAL, self, other)

    def __gt__(self, other: object) -> "Value":
        return _binary(Operator.GREATER, self, other)

    def __ge__(self, other: object) -> "Value":
        return _binary(Operator.GREATER_EQUAL, self, other)

    def __add__(self, other: object) -> "Value":
        return _binary(Operator.ADD, self, other)

    def __radd__(self, other: object) -> "Value":
        return _binary(Operator.ADD, other, self)

    def __sub__(self, other: object) -> "Value":
        return _binary(Operator.SUBTRACT, self, other)

    def __rsub__(self, other: object) -> "Value":
        return _binary(Operator.SUBTRACT, other, self)

    def __mul__(self, other: object) -> "Value":
        return _binary(Operator.MULTIPLY, self, other)

    def __rmul__(self, other: object) -> "Value":
        return _binary(Operator.MULTIPLY, other, self)

    def __truediv__(self, other: object) -> "Value":
        return _binary(Operator.DIVIDE, self, other)

    def __rtruediv__(self, other: object) -> "Value":
        return _binary(Operator.DIVIDE, other, self)

    def __floordiv__(self, other: object) -> "Value":
        return _binary(Operator.INT_DIVIDE, self, other)

    def __rfloordiv__(self, other: object) -> "Value":
        return _binary(Operator.INT_DIVIDE, other, self)

    def __mod__(self, other: object) -> "Value":
        return _binary(Operator.MODULO, self, other)

    def __rmod__(self, other: object) -> "Value":
        return _binary(Operator.MODULO, other, self)

    def __and__(self, other: object) -> "Value":
        return _binary(Operator.AND, self, other)

    def __or__(self, other: object) -> "Value":
        return _binary(Operator.OR, self, other)

    def __invert__(self) -> "Value":
        return Value(Unary(Sign.NOT, self.expression))

    def __neg__(self) -> "Value":
        return Value(negated(self.expression))

    def is_null(self) -> "Value":
        """Write IS NULL."""
        return Value(IsNull(self.expression))

    def is_not_null(self) -> "Value":
        """Write IS NOT NULL."""
        return Value(IsNull(self.expression, negated=True))

    def is_in(self, *options: object) -> "Value":
        """Write IN."""
        return Value(In(self.expression, tuple(map(to_expression, options))))

    def not_in(self, *options: object) -> "Value":
        """Write NOT IN."""
        return Value(In(self.expression, tuple(map(to_expression, options)), negated=True))

    def like(self, form: str) -> "Value":
        """Write LIKE."""
        return Value(Like(self.expression, form))

    def not_like(self, form: str) -> "Value":
        """Write NOT LIKE."""
        return Value(Like(self.expression, form, negated=True))

    def between(self, low: object, high: object) -> "Value":
        """Write BETWEEN, which is `>=` and `<=`."""
        return (self >= low) & (self <= high)

    def cast(self, data_type: str) -> "Value":
        """Write CAST."""
        if data_type.lower() not in TYPE_NAMES:
            raise RuleError(
                data_type, f"unknown type {data_type!r}", known_names(data_type, TYPE_NAMES)
            )
        return Value(Cast(self.expression, TYPE_NAMES[data_type.lower()]))

    def as_(self, name: str) -> Item:
        """Name a value that is selected."""
        return Item(self.expression, name)


class Event:
    """A variable; its attributes are those of the event, `e.cpu` or `e["location", "city"]`."""

    __slots__ = ("variable_",)

    def __init__(self, variable: str) -> None:
        if not isinstance(variable, str):
            raise TypeError(f"a variable is named by text, got {variable!r}")
        if not variable:
            raise ValueError("a variable needs a name")
        self.variable_ = variable

    def __repr__(self) -> str:
        return f"<{WholeEvent(self.variable_)}>"

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):  # what Python itself asks for, as in `copy`
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, path: str | tuple[str, ...]) -> Value:
        names = path if isinstance(path, tuple) else (path,)
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"an attribute is named by text, got {path!r}")
        return Value(Attribute(self.variable_, names))


def to_expression(operand: object) -> Expression:
    """Take a constant of Python as an expression."""
    if isinstance(operand, Value):
        return operand.expression
    if isinstance(operand, Event):
        return WholeEvent(operand.variable_)
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{operand} cannot be written down")
    if operand is None or isinstance(operand, bool | int | float | str):
        return Literal(operand)
    raise TypeError(f"neither an expression nor a constant: {operand!r}")


def _binary(operator: Operator, left: object, right: object) -> Value:
    return Value(Binary(operator, to_expression(left), to_expression(right)))

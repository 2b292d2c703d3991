"""Values that write an expression down when Python's operators are used on them.

The classes of `expression.py` have no operators themselves: there `==` compares two trees.
"""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime

from shedlight.errors import RuleError, known_names
from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import TYPE_NAMES
from shedlight.language.ast.expression import Expression, Operator
from shedlight.language.ast.pattern import Item

_Method = Callable[["Value", object], "Value"]


def _method(operator: Operator) -> _Method:
    """Make the method that writes an operator down."""
    return lambda left, right: Value(ex.Binary(operator, left.expression, to_expression(right)))


def _reflected(operator: Operator) -> _Method:
    """Make the method for a constant on the left, as in `2 * e.cpu`."""
    return lambda right, left: Value(ex.Binary(operator, to_expression(left), right.expression))


class Value:
    """An expression that Python's operators can be used on; there is a method per operator."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # `==` writes an expression down

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"<{self.expression}>"

    def __bool__(self) -> bool:
        """Forbid `and`, `or`, `not` and chained comparisons, which need a truth at once."""
        raise TypeError(f"{self} is an expression; use &, | and ~ for AND, OR and NOT")

    __eq__ = _method(Operator.EQUAL)  # type: ignore[assignment]  # of object, it gives bool
    __ne__ = _method(Operator.NOT_EQUAL)  # type: ignore[assignment]  # as above
    __lt__ = _method(Operator.LESS)
    __le__ = _method(Operator.LESS_EQUAL)
    __gt__ = _method(Operator.GREATER)
    __ge__ = _method(Operator.GREATER_EQUAL)
    __add__, __radd__ = _method(Operator.ADD), _reflected(Operator.ADD)
    __sub__, __rsub__ = _method(Operator.SUBTRACT), _reflected(Operator.SUBTRACT)
    __mul__, __rmul__ = _method(Operator.MULTIPLY), _reflected(Operator.MULTIPLY)
    __truediv__, __rtruediv__ = _method(Operator.DIVIDE), _reflected(Operator.DIVIDE)
    __floordiv__, __rfloordiv__ = _method(Operator.INT_DIVIDE), _reflected(Operator.INT_DIVIDE)
    __mod__, __rmod__ = _method(Operator.MODULO), _reflected(Operator.MODULO)
    __and__ = _method(Operator.AND)
    __or__ = _method(Operator.OR)

    def __invert__(self) -> "Value":
        return Value(ex.Unary(ex.Sign.NOT, self.expression))

    def __neg__(self) -> "Value":
        return Value(ex.negate(self.expression))

    def is_null(self) -> "Value":
        """Write IS NULL."""
        return Value(ex.IsNull(self.expression))

    def is_not_null(self) -> "Value":
        """Write IS NOT NULL."""
        return Value(ex.IsNull(self.expression, negated=True))

    def is_in(self, *options: object) -> "Value":
        """Write IN."""
        return Value(ex.In(self.expression, tuple(map(to_expression, options))))

    def not_in(self, *options: object) -> "Value":
        """Write NOT IN."""
        return Value(ex.In(self.expression, tuple(map(to_expression, options)), negated=True))

    def like(self, form: str) -> "Value":
        """Write LIKE."""
        return Value(ex.Like(self.expression, form))

    def not_like(self, form: str) -> "Value":
        """Write NOT LIKE."""
        return Value(ex.Like(self.expression, form, negated=True))

    def between(self, low: object, high: object) -> "Value":
        """Write BETWEEN, which is `>=` and `<=`."""
        return (self >= low) & (self <= high)

    def cast(self, data_type: str) -> "Value":
        """Write CAST."""
        if data_type.lower() not in TYPE_NAMES:
            hint = known_names(data_type, TYPE_NAMES)
            raise RuleError(data_type, f"unknown type {data_type!r}", hint)
        return Value(ex.Cast(self.expression, TYPE_NAMES[data_type.lower()]))

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
        return f"<{ex.WholeEvent(self.variable_)}>"

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):  # what Python itself asks for, as in `copy`
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, path: str | tuple[str, ...]) -> Value:
        names = path if isinstance(path, tuple) else (path,)
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"an attribute is named by text, got {path!r}")
        return Value(ex.Attribute(self.variable_, names))


def to_expression(operand: object) -> Expression:
    """Take a constant of Python as an expression."""
    if isinstance(operand, Value):
        return operand.expression
    if isinstance(operand, Event):
        return ex.WholeEvent(operand.variable_)
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{operand} cannot be written down")
    if isinstance(operand, datetime):
        zoned = operand if operand.tzinfo else operand.replace(tzinfo=UTC)
        return ex.Literal(zoned.astimezone(UTC))
    if operand is None or isinstance(operand, bool | int | float | str | date):
        return ex.Literal(operand)
    raise TypeError(f"neither an expression nor a constant: {operand!r}")

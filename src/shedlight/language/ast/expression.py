"""The closed expression language, as values.

Conditions, derived columns and what is selected are all written in it. An expression is a
tree of the classes below; `str()` gives text that parses to the same tree. What it means for
a row of values is said once, by Spark SQL with its `try_` forms: a null operand gives null,
an operation that fails (division by zero, overflow, a bad cast) gives null, NaN equals NaN and
is greater than any other number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from enum import Enum, IntEnum
from functools import partial, reduce
from itertools import chain

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.user_function import UserFunction

_BARE_NAME_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_BARE_NAME_REST = _BARE_NAME_FIRST | frozenset("0123456789")

_KEYWORDS = (
    "select each as where seq and or not within events partition by reuse null true false "
    "is in like between case when then else end cast div"
)
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words that are no names unless they stand after a dot or in backquotes."""


class Operator(Enum):
    """The operators between two operands."""

    OR = "OR"
    AND = "AND"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    INT_DIVIDE = "DIV"
    MODULO = "%"


class Sign(Enum):
    """The operators before one operand."""

    NOT = "NOT"
    MINUS = "-"


class AggregateFunction(Enum):
    """The aggregates over the events of one element."""

    FIRST = "FIRST"
    LAST = "LAST"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"
    SUM = "SUM"
    AVG = "AVG"


class Level(IntEnum):
    """How tightly an expression binds, loosest first: where parentheses are needed."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    ADD = 5
    MULTIPLY = 6
    SIGN = 7
    ATOM = 8


_LEVELS = {
    Operator.OR: Level.OR,
    Operator.AND: Level.AND,
    Operator.ADD: Level.ADD,
    Operator.SUBTRACT: Level.ADD,
    Operator.MULTIPLY: Level.MULTIPLY,
    Operator.DIVIDE: Level.MULTIPLY,
    Operator.INT_DIVIDE: Level.MULTIPLY,
    Operator.MODULO: Level.MULTIPLY,
}
COMPARISONS = frozenset(Operator) - frozenset(_LEVELS)  # the operators that compare


@dataclass(frozen=True, slots=True)
class Expression:
    """Any expression; `level_of` says how tightly it binds when it is written."""


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: a number, text, true, false, null, a date, or a time with its zone."""

    value: bool | int | float | str | date | datetime | None

    def __eq__(self, other: object) -> bool:
        """Tell 1 from 1.0 and from true, which Python does not."""
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, bool):
            return str(self.value).upper()
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        if isinstance(self.value, datetime):
            text = self.value.astimezone(UTC).isoformat().removesuffix("+00:00")
            return f"TIMESTAMP '{text}Z'"
        if isinstance(self.value, date):
            return f"DATE '{self.value.isoformat()}'"
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """An attribute of the event of a variable, or of the row at hand if there is none."""

    variable: str  # whose event; empty where an expression speaks of one row alone
    path: tuple[str, ...]  # the column, and the field within it where the column is a struct

    @property
    def column(self) -> str:
        """The name of the column, as a schema has it."""
        return ".".join(self.path)

    def __str__(self) -> str:
        head = [write_name(self.variable)] if self.variable else []
        names = [
            name if _is_bare(name) and (head or number) else write_name(name)
            for number, name in enumerate(self.path)
        ]
        return ".".join(head + names)


@dataclass(frozen=True, slots=True)
class WholeEvent(Expression):
    """The whole event of a variable, as a struct."""

    variable: str

    def __str__(self) -> str:
        return write_name(self.variable)


@dataclass(frozen=True, slots=True)
class Aggregate(Expression):
    """An aggregate over the events of one element; COUNT may have no attribute."""

    function: AggregateFunction
    variable: str
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path and self.function is not AggregateFunction.COUNT:
            raise ValueError(f"{self.function.value} needs an attribute")

    def __str__(self) -> str:
        inner = Attribute(self.variable, self.path) if self.path else WholeEvent(self.variable)
        return f"{self.function.value}({inner})"


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """NOT or a minus sign before an operand."""

    sign: Sign
    operand: Expression

    def __post_init__(self) -> None:
        if self.sign is Sign.MINUS and _is_number(self.operand):
            raise ValueError("a negative number is a Literal, not a Unary; use `negate`")

    def __str__(self) -> str:
        if self.sign is Sign.NOT:
            return f"NOT {write_operand(self.operand, Level.NOT)}"
        return f"-{write_operand(self.operand, Level.ATOM)}"


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """An operator between two operands."""

    operator: Operator
    left: Expression
    right: Expression

    def __str__(self) -> str:
        level = level_of(self)
        left = write_operand(self.left, Level(level + (level is Level.COMPARE)))
        return f"{left} {self.operator.value} {write_operand(self.right, Level(level + 1))}"


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """Whether the operand is null, or is not."""

    operand: Expression
    negated: bool = False

    def __str__(self) -> str:
        return f"{write_operand(self.operand, Level.ADD)} IS {'NOT ' * self.negated}NULL"


@dataclass(frozen=True, slots=True)
class In(Expression):
    """Whether the operand is one of the options, or is none of them."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False

    def __str__(self) -> str:
        options = ", ".join(map(str, self.options))
        return f"{write_operand(self.operand, Level.ADD)} {'NOT ' * self.negated}IN ({options})"


@dataclass(frozen=True, slots=True)
class Like(Expression):
    r"""Whether text has the form of a pattern: `_` any character, `%` any text, `\` escapes."""

    operand: Expression
    form: str
    negated: bool = False

    def __str__(self) -> str:
        form = Literal(self.form)
        return f"{write_operand(self.operand, Level.ADD)} {'NOT ' * self.negated}LIKE {form}"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """The result of the first branch whose condition holds, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression = Literal(None)

    def __str__(self) -> str:
        branches = " ".join(f"WHEN {test} THEN {result}" for test, result in self.branches)
        return f"CASE {branches} ELSE {self.otherwise} END"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """The operand as another data type, null where that cannot be."""

    operand: Expression
    data_type: DataType

    def __str__(self) -> str:
        return f"CAST({self.operand} AS {self.data_type})"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A named function of `functions.py`; the name is in lower case."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class UserCall(Expression):
    """A function of the user on columns of the row at hand; only a source computes it."""

    name: str  # what the function is called here
    function: UserFunction
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class FunctionValue(Attribute):
    """What a function of the user gives for the event of a variable.

    To patterns it is an attribute like any other: sources compute it, as a hidden column,
    before anything is matched.
    """

    call: UserCall

    def __str__(self) -> str:
        arguments = (put_variable(part, self.variable) for part in self.call.arguments)
        return f"{self.call.name}({', '.join(map(str, arguments))})"


TRUE = Literal(value=True)


def level_of(expression: Expression) -> Level:
    """Find how tightly an expression binds; a negative number does as a sign does."""
    match expression:
        case Unary(sign):
            return Level.NOT if sign is Sign.NOT else Level.SIGN
        case Binary(operator):
            return _LEVELS.get(operator, Level.COMPARE)
        case IsNull() | In() | Like():
            return Level.COMPARE
        case Literal(value) if _is_number(expression) and str(value).startswith("-"):
            return Level.SIGN
    return Level.ATOM


def write_name(name: str) -> str:
    """Write a name as the language reads it: in backquotes where it needs them."""
    bare = _is_bare(name) and name.lower() not in KEYWORDS
    return name if bare else "`" + name.replace("`", "``") + "`"


def negate(operand: Expression) -> Expression:
    """Put a minus sign before an expression; a number becomes a negative number."""
    if isinstance(operand, Literal) and _is_number(operand):
        return Literal(-operand.value)  # type: ignore[operator]  # _is_number made sure
    return Unary(Sign.MINUS, operand)


def children(expression: Expression) -> Iterator[Expression]:
    """Give the direct parts of an expression, as written; an attribute has none."""
    if isinstance(expression, FunctionValue):
        return
    for field in fields(expression):
        yield from _expressions_in(getattr(expression, field.name))


def _expressions_in(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        yield from chain.from_iterable(map(_expressions_in, value))


def walk(expression: Expression) -> Iterator[Expression]:
    """Give an expression and all that is in it, as written."""
    yield expression
    for part in children(expression):
        yield from walk(part)


def transform(
    expression: Expression, change: Callable[[Expression], Expression | None]
) -> Expression:
    """Copy an expression with parts replaced: `change` gives the new part, or None to go on."""
    new = change(expression)
    if new is not None or isinstance(expression, Literal):
        return expression if new is None else new
    before = {field.name: getattr(expression, field.name) for field in fields(expression)}
    values = {name: _transform_field(value, change) for name, value in before.items()}
    return replace(expression, **values) if values else expression


def _transform_field(
    value: object, change: Callable[[Expression], Expression | None]
) -> object:
    if isinstance(value, Expression):
        return transform(value, change)
    if isinstance(value, tuple):
        return tuple(_transform_field(item, change) for item in value)
    return value


def variables(expression: Expression) -> frozenset[str]:
    """Find the variables that an expression mentions."""
    names = (getattr(node, "variable", "") for node in walk(expression))
    return frozenset(filter(None, names))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Split a condition at its outermost ANDs; TRUE has none."""
    if isinstance(expression, Binary) and expression.operator is Operator.AND:
        return conjuncts(expression.left) + conjuncts(expression.right)
    return () if expression == TRUE else (expression,)


def conjunction(conditions: tuple[Expression, ...]) -> Expression:
    """Join conditions by AND; TRUE where there are none."""
    if not conditions:
        return TRUE
    return reduce(partial(Binary, Operator.AND), conditions)


def without_variable(expression: Expression) -> Expression:
    """Say the same of the row at hand: `E1.cpu > 2` becomes `cpu > 2`."""
    return put_variable(expression, "")


def put_variable(expression: Expression, variable: str) -> Expression:
    """Say of the event of a variable what is said of the row at hand, or of another event."""
    return transform(
        expression,
        lambda n: replace(n, variable=variable) if isinstance(n, Attribute) else None,
    )


def function_values(expression: Expression) -> Iterator[FunctionValue]:
    """Find the calls of users' functions, each after those in its arguments."""
    for node in walk(expression):
        if isinstance(node, FunctionValue):
            for argument in node.call.arguments:
                yield from function_values(argument)
            yield node


def _is_number(expression: Expression) -> bool:
    return (
        isinstance(expression, Literal)
        and isinstance(expression.value, int | float)
        and not isinstance(expression.value, bool)
    )


def _is_bare(name: str) -> bool:
    return bool(name) and name[0] in _BARE_NAME_FIRST and set(name) <= _BARE_NAME_REST


def write_operand(expression: Expression, least: Level) -> str:
    """Write an operand, in parentheses where it binds less tightly than its place asks."""
    return f"({expression})" if level_of(expression) < least else str(expression)

r"""Expressions as Spark SQL: the back end of the language for sources, in the JVM.

The text means the same with `spark.sql.ansi.enabled` on and off, and the same as `evaluate.py`.
It takes care where plain Spark SQL would fail, or mean something else:

- `try_add` and `try_multiply` get ` | 0L`. Without it the optimiser adds up the constants of
  `(a + 1) + -1` first, and the null of an overflow is lost.
- `lower` and `upper` are joined with ''. Without it the optimiser makes `lower(s)` of
  `lower(upper(s))`, which is wrong for ß.
- `DIV` has no `try_` form. Unless the divisor is a harmless constant, it is a division of
  decimals, exact to 19 places, which is enough not to round up to the next whole number.
- A double is brought into the range of a bigint before `floor`, `ceil` and `CAST`, which
  would saturate, or make 0 of NaN.
- Numbers in text are cut out by the forms of `texts.py`, as Spark reads more (`1d`).
- Times in text are those of the forms of `time_format.py`; what has no zone gets one, so that
  the session's does not matter.
- Decimals are compared as DECIMAL(38, 18), all of them, and computed with as doubles.
- Text with a quote, a backslash, a `$` or a control character is written in hexadecimal:
  no setting can change how it is read, and no `${...}` is substituted.

Columns that are dates or timestamps without a time zone need a session in UTC.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import singledispatch

from shedlight.language import functions as fn
from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import ARRAYS, DataType
from shedlight.language.ast.expression import Expression, Operator
from shedlight.language.check.expr_types import Scope, data_type_of
from shedlight.language.eval.column import DAY, to_micros
from shedlight.language.eval.spark_text import quote_name, quote_text
from shedlight.language.eval.spark_times import day_sql, formatted_sql, timestamp_sql
from shedlight.language.eval.texts import BIGINT_FORM, BLANKS, DOUBLE_FORM
from shedlight.language.regex import common_regex

__all__ = ["decimal_literal", "quote_name", "quote_text", "spark_sql"]

_DECIMAL = "DECIMAL(19, 0)"


@dataclass(frozen=True, slots=True)
class _Term:
    """The text of an expression, which has exactly the type of its data type in Spark."""

    text: str
    data_type: DataType


def spark_sql(expression: Expression, scope: Scope, data_type: DataType | None = None) -> str:
    """Write an expression without aggregates as Spark SQL.

    An attribute is a column of the name, or a field of the struct that its variable is. No data
    type may be unknown; columns of other types (int, float, decimal, date) are cast to theirs.
    With a `data_type` the text is cast to it: a NULL is else void, for Spark no condition.

    Example:
        >>> busy = ex.Binary(Operator.GREATER, ex.Attribute("", ("cpu",)), ex.Literal(0.2))
        >>> spark_sql(busy, lambda node: DataType.DOUBLE)
        '(CAST(`cpu` AS DOUBLE) > 0.2D)'
    """
    data_type_of(expression, scope)
    term = _term(expression, scope)
    return _as(term, data_type) if data_type else term.text


@singledispatch
def _term(node: Expression, _scope: Scope) -> _Term:
    raise TypeError(f"not an expression: {node!r}")


@_term.register
def _(node: ex.Attribute, scope: Scope) -> _Term:
    data_type = scope(node)
    names = (node.variable, *node.path) if node.variable else node.path
    text = ".".join(map(quote_name, names))
    if data_type is DataType.UNKNOWN:
        raise ValueError(f"the data type of {node} must be known to write it as Spark SQL")
    as_it_is = data_type in {DataType.STRUCT, DataType.OTHER, DataType.NULL}
    may_fail = data_type is DataType.DECIMAL or data_type.element is DataType.DECIMAL
    cast = f"try_{_cast(text, data_type)}" if may_fail else _cast(text, data_type)
    return _Term(text if as_it_is else cast, data_type)


@_term.register
def _(node: ex.WholeEvent, scope: Scope) -> _Term:
    return _Term(quote_name(node.variable), scope(node))


@_term.register
def _(node: ex.Aggregate, _scope: Scope) -> _Term:
    raise ValueError(f"{node} is of a match, not of a row; Spark SQL cannot compute it")


@_term.register
def _(node: ex.Literal, scope: Scope) -> _Term:
    data_type, value = data_type_of(node, scope), node.value
    if isinstance(value, str):
        return _Term(quote_text(value), data_type)
    if isinstance(value, float):
        return _Term(_double_literal(value), data_type)
    if isinstance(value, datetime):
        return _Term(f"timestamp_micros({to_micros(value)}L)", data_type)
    if isinstance(value, date):
        return _Term(f"date_from_unix_date({to_micros(value) // DAY})", data_type)
    if data_type is DataType.BIGINT:
        return _Term(f"({value}L)" if str(value).startswith("-") else f"{value}L", data_type)
    return _Term(str(node), data_type)


@_term.register
def _(node: ex.Unary, scope: Scope) -> _Term:
    operand = _term(node.operand, scope)
    if node.sign is ex.Sign.NOT:
        return _Term(f"(NOT {_as(operand, DataType.BOOLEAN)})", DataType.BOOLEAN)
    data_type = fn.numeric_data_type(operand.data_type)
    text = _as(operand, data_type)
    minus = f"(- {text})" if data_type is DataType.DOUBLE else f"try_subtract(0L, {text})"
    return _Term(minus, data_type)


@_term.register
def _(node: ex.Binary, scope: Scope) -> _Term:
    left, right = _term(node.left, scope), _term(node.right, scope)
    if node.operator in ex.COMPARISONS:
        left, right = _exact((node.left, node.right), (left, right))
        data_type = _common_type((left, right))
        text = f"({_as(left, data_type)} {node.operator.value} {_as(right, data_type)})"
        return _Term(text, DataType.BOOLEAN)
    if node.operator in {Operator.AND, Operator.OR}:
        operands = (_as(left, DataType.BOOLEAN), _as(right, DataType.BOOLEAN))
        return _Term(f"({operands[0]} {node.operator.value} {operands[1]})", DataType.BOOLEAN)
    data_type = fn.arithmetic_data_type(node.operator, (left.data_type, right.data_type))
    rule = (_DOUBLE_RULES if data_type is DataType.DOUBLE else _BIGINT_RULES)[node.operator]
    return _Term(rule(_as(left, data_type), _as(right, data_type)), data_type)


@_term.register
def _(node: ex.IsNull, scope: Scope) -> _Term:
    operand = _term(node.operand, scope)
    return _Term(f"({operand.text} IS {'NOT ' * node.negated}NULL)", DataType.BOOLEAN)


@_term.register
def _(node: ex.In, scope: Scope) -> _Term:
    parts = (node.operand, *node.options)
    terms = _exact(parts, [_term(part, scope) for part in parts])
    data_type = _common_type(terms)
    operand, *options = (_as(term, data_type) for term in terms)
    text = f"({operand} {'NOT ' * node.negated}IN ({', '.join(options)}))"
    return _Term(text, DataType.BOOLEAN)


@_term.register
def _(node: ex.Like, scope: Scope) -> _Term:
    operand = _as(_term(node.operand, scope), DataType.STRING)
    text = f"({operand} {'NOT ' * node.negated}LIKE {quote_text(node.form)})"
    return _Term(text, DataType.BOOLEAN)


@_term.register
def _(node: ex.Case, scope: Scope) -> _Term:
    tests = [_as(_term(test, scope), DataType.BOOLEAN) for test, _result in node.branches]
    terms = [_term(result, scope) for _test, result in node.branches]
    terms.append(_term(node.otherwise, scope))
    data_type = fn.common_data_type(term.data_type for term in terms) or DataType.NULL
    *results, otherwise = (_as(term, data_type) for term in terms)
    pairs = zip(tests, results, strict=True)
    branches = " ".join(f"WHEN {test} THEN {result}" for test, result in pairs)
    return _Term(f"CASE {branches} ELSE {otherwise} END", data_type)


@_term.register
def _(node: ex.Cast, scope: Scope) -> _Term:
    operand = _term(node.operand, scope)
    if operand.data_type is node.data_type:
        return operand
    special = _CASTS.get((operand.data_type, node.data_type))
    text = special(operand.text) if special else _as(operand, node.data_type)
    return _Term(text, node.data_type)


@_term.register
def _(node: ex.Call, scope: Scope) -> _Term:
    arguments = [_term(argument, scope) for argument in node.arguments]
    function = fn.FUNCTIONS[node.function]
    taken = fn.argument_data_types(function, [term.data_type for term in arguments])
    data_type = fn.result_data_type(function, taken)
    if data_type is DataType.NULL:
        return _Term("NULL", data_type)
    if taken[0] is DataType.NULL and function.parameters[0] == ARRAYS:
        return _Term(_cast("NULL", data_type), data_type)
    texts = [_as(term, wanted) for term, wanted in zip(arguments, taken, strict=True)]
    if node.function in _OF_CONSTANTS:
        constants = [part.value for part in node.arguments[1:] if isinstance(part, ex.Literal)]
        return _Term(_OF_CONSTANTS[node.function](texts[0], *constants), data_type)
    form = (function.bigint_sql if taken[0] is DataType.BIGINT else "") or function.sql
    text = form.format(*texts) if form else f"{node.function}({', '.join(texts)})"
    return _Term(text, data_type)


def _as(term: _Term, data_type: DataType) -> str:
    """Write a term as the data type that it agreed on with others."""
    if term.data_type is data_type:
        return term.text
    if term.data_type is DataType.DATE and data_type is DataType.TIMESTAMP:
        return f"timestamp_micros(unix_date({term.text}) * {DAY}L)"
    return _cast(term.text, data_type)


def _exact(nodes: Sequence[Expression], terms: Sequence[_Term]) -> list[_Term]:
    """Take numbers that are compared with decimals as decimals, if they are written down."""
    exact = fn.exact_decimals(nodes, [term.data_type for term in terms])
    return [
        _Term(decimal_literal(exact[place]), DataType.DECIMAL) if place in exact else term
        for place, term in enumerate(terms)
    ]


def decimal_literal(value: Decimal | int) -> str:
    """Write a decimal for Spark SQL, as those that all decimals are compared as."""
    return _cast(f"'{Decimal(value):f}'", DataType.DECIMAL)


def _common_type(terms: Sequence[_Term]) -> DataType:
    """Find the data type in which terms are compared; nulls alone are as good as booleans."""
    common = fn.common_data_type(term.data_type for term in terms)
    return DataType.BOOLEAN if common is None or common is DataType.NULL else common


def _cast(text: str, data_type: DataType) -> str:
    return f"CAST({text} AS {data_type.value.upper()})"


def _double_literal(value: float) -> str:
    if value - value != 0:  # NaN or infinite
        return f"CAST('{value}' AS DOUBLE)"
    return f"({value!r}D)" if str(value).startswith("-") else f"{value!r}D"


def _whole_quotient(left: str, right: str) -> str:
    if right[0].isdigit() and right != "0L":
        return f"({left} DIV {right})"
    divided = f"CAST({left} AS {_DECIMAL}), CAST({right} AS {_DECIMAL})"
    return f"try_cast(try_divide({divided}) AS BIGINT)"


def _read(text: str, form: str, data_type: DataType) -> str:
    """Read a number of a form; Spark makes '' of what has not the form, and null of that."""
    whole = quote_text(rf"\A[{BLANKS}]*({form})[{BLANKS}]*\z")
    return f"try_cast(regexp_extract({text}, {whole}, 1) AS {data_type.value.upper()})"


_BIGINT_RULES: Mapping[Operator, Callable[[str, str], str]] = {
    Operator.ADD: lambda a, b: f"(try_add({a}, {b}) | 0L)",
    Operator.SUBTRACT: lambda a, b: f"try_subtract({a}, {b})",
    Operator.MULTIPLY: lambda a, b: f"(try_multiply({a}, {b}) | 0L)",
    Operator.INT_DIVIDE: _whole_quotient,
    Operator.MODULO: lambda a, b: f"try_mod({a}, {b})",
}
_DOUBLE_RULES: Mapping[Operator, Callable[[str, str], str]] = {
    Operator.ADD: lambda a, b: f"({a} + {b})",
    Operator.SUBTRACT: lambda a, b: f"({a} - {b})",
    Operator.MULTIPLY: lambda a, b: f"({a} * {b})",
    Operator.DIVIDE: lambda a, b: f"try_divide({a}, {b})",
    Operator.MODULO: lambda a, b: f"try_mod({a}, {b})",
}
_OF_CONSTANTS: Mapping[str, Callable[..., str]] = {
    "get_json_object": lambda text, path: f"get_json_object({text}, {quote_text(path)})",
    "regexp_like": lambda text, regex: f"({text} RLIKE {quote_text(common_regex(regex))})",
    "to_timestamp": formatted_sql,
}
"""The functions whose arguments after the first are constants that are read here."""
_CASTS: Mapping[tuple[DataType, DataType], Callable[[str], str]] = {
    (DataType.DOUBLE, DataType.BIGINT): lambda text: _cast(
        fn.WITHIN_BIGINT.format(text), DataType.BIGINT
    ),
    (DataType.STRING, DataType.BIGINT): lambda text: _read(text, BIGINT_FORM, DataType.BIGINT),
    (DataType.STRING, DataType.DOUBLE): lambda text: _read(text, DOUBLE_FORM, DataType.DOUBLE),
    (DataType.STRING, DataType.TIMESTAMP): timestamp_sql,
    (DataType.STRING, DataType.DATE): lambda text: day_sql(timestamp_sql(text)),
    (DataType.TIMESTAMP, DataType.DATE): day_sql,
    (DataType.DECIMAL, DataType.BIGINT): lambda text: f"try_cast({text} AS BIGINT)",
}

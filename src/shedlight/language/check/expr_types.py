"""The data type of an expression's value, and what is wrong with an expression that has none.

Two more data types take part. `DataType.NULL`, of the literal NULL, agrees with any other.
`DataType.UNKNOWN`, of a column whose schema is not known, does so too; of an unknown and a
bigint it is only known that they are numbers, so that their sum is unknown again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

from shedlight.errors import RuleError, join_words, known_names
from shedlight.language import functions as fn
from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import ARRAYS, PYTHON_TYPES, TYPE_NAMES, DataType
from shedlight.language.ast.expression import Expression, Operator

Scope = Callable[[Expression], DataType]
"""Gives the data type of an attribute, a whole event or an aggregate, or raises."""

_CASTS = {  # what each data type can be cast to
    DataType.BIGINT: frozenset(
        {DataType.BOOLEAN, DataType.DOUBLE, DataType.STRING, DataType.DECIMAL}
    ),
    DataType.BOOLEAN: fn.BIGINTS,
    DataType.DATE: fn.TIMESTAMPS,
    DataType.DECIMAL: frozenset({DataType.BIGINT, DataType.DOUBLE}),
    DataType.DOUBLE: fn.BIGINTS,
    DataType.STRING: frozenset({DataType.BIGINT, DataType.DOUBLE}) | fn.TIMES,
    DataType.TIMESTAMP: frozenset({DataType.DATE}),
}
_OF_NUMBER = "use timestamp_seconds(...), timestamp_millis(...) or timestamp_micros(...) on it"
_SPECIAL_ADVICE = {
    (DataType.BIGINT, DataType.TIMESTAMP): _OF_NUMBER,
    (DataType.BIGINT, DataType.DATE): _OF_NUMBER,
    (DataType.TIMESTAMP, DataType.BIGINT): "use unix_micros(...) on the timestamp",
    (DataType.TIMESTAMP, DataType.DOUBLE): "use unix_micros(...) on the timestamp",
    (
        DataType.DOUBLE,
        DataType.STRING,
    ): "systems write a double differently; cast it to bigint first",
    (DataType.BOOLEAN, DataType.STRING): "use if(..., 'true', 'false')",
    (DataType.BOOLEAN, DataType.DOUBLE): "cast it to bigint first",
}
_FREE = frozenset({DataType.NULL, DataType.UNKNOWN})


class DataTypeError(RuleError):
    """An expression whose parts do not fit together."""


@singledispatch
def data_type_of(node: Expression, scope: Scope) -> DataType:  # noqa: ARG001 - for the cases
    """Find the data type of an expression's value.

    Raises:
        DataTypeError: Some part does not fit; also whatever `scope` raises.

    Example:
        >>> total = ex.Binary(Operator.ADD, ex.Attribute("", ("cpu",)), ex.Literal(0.5))
        >>> data_type_of(total, scope=lambda node: DataType.BIGINT)
        <DataType.DOUBLE: 'double'>
    """
    raise TypeError(f"not an expression: {node!r}")


@data_type_of.register(ex.Attribute | ex.WholeEvent | ex.Aggregate)
def _(node: ex.Attribute | ex.WholeEvent | ex.Aggregate, scope: Scope) -> DataType:
    return scope(node)


@data_type_of.register
def _(node: ex.FunctionValue, _scope: Scope) -> DataType:
    return node.call.function.returns


@data_type_of.register
def _(node: ex.UserCall, scope: Scope) -> DataType:
    for argument in node.arguments:
        data_type = data_type_of(argument, scope)
        if data_type in {DataType.STRUCT, DataType.OTHER}:
            problem = f"`{node.name}` takes values and arrays of them, got {data_type}"
            raise DataTypeError(argument, problem, _advice(data_type, fn.PLAIN))
    return node.function.returns


@data_type_of.register
def _(node: ex.Literal, _scope: Scope) -> DataType:
    least, most = fn.SMALLEST, fn.LARGEST
    if isinstance(node.value, int) and not least <= node.value <= most:
        hint = f"a bigint is from {least} to {most}; write {node.value}.0 for a double"
        raise DataTypeError(node, f"{node.value} does not fit the 64 bits of a bigint", hint)
    return PYTHON_TYPES[type(node.value)]


@data_type_of.register
def _(node: ex.Unary, scope: Scope) -> DataType:
    allowed = fn.BOOLEANS if node.sign is ex.Sign.NOT else fn.NUMBERS
    operand = _require_type(node.operand, scope, allowed, f"`{node.sign.value}`")
    return DataType.BOOLEAN if node.sign is ex.Sign.NOT else fn.numeric_data_type(operand)


@data_type_of.register
def _(node: ex.Binary, scope: Scope) -> DataType:
    if node.operator in {Operator.AND, Operator.OR}:
        for operand in (node.left, node.right):
            _require_type(operand, scope, fn.BOOLEANS, f"`{node.operator.value}`")
        return DataType.BOOLEAN
    data_types = (data_type_of(node.left, scope), data_type_of(node.right, scope))
    if node.operator in ex.COMPARISONS:
        return _comparison_type(node, data_types)
    return _arithmetic_type(node, data_types)


def _comparison_type(node: ex.Binary, data_types: tuple[DataType, DataType]) -> DataType:
    if _has_parts(data_types) or fn.common_data_type(data_types) is None:
        both, found = _shared_name(data_types), f"{data_types[0]} and {data_types[1]}"
        problem = f"`{node.operator.value}` compares {both} with {both}, got {found}"
        raise DataTypeError(node, problem, _advice_for_all(data_types))
    return DataType.BOOLEAN


def _arithmetic_type(node: ex.Binary, data_types: tuple[DataType, DataType]) -> DataType:
    name, found = f"`{node.operator.value}`", f"{data_types[0]} and {data_types[1]}"
    if any(data_type not in fn.NUMBERS | _FREE for data_type in data_types):
        problem = f"{name} needs a number on both sides, got {found}"
        joins = node.operator is Operator.ADD and DataType.STRING in data_types
        hint = "use concat(...) to join strings" if joins else _advice_for_all(data_types)
        raise DataTypeError(node, problem, hint)
    if node.operator is Operator.INT_DIVIDE and DataType.DOUBLE in data_types:
        hint = "use `/`, or CAST(... AS bigint) on the double"
        raise DataTypeError(node, f"{name} needs a bigint on both sides, got {found}", hint)
    return fn.arithmetic_data_type(node.operator, data_types)


@data_type_of.register
def _(node: ex.IsNull, scope: Scope) -> DataType:
    data_type_of(node.operand, scope)
    return DataType.BOOLEAN


@data_type_of.register
def _(node: ex.In, scope: Scope) -> DataType:
    if not node.options:
        raise DataTypeError(node, "`IN` has nothing to compare with", "name at least one value")
    operands = (node.operand, *node.options)
    _require_agreement(node, [data_type_of(operand, scope) for operand in operands], "`IN`")
    return DataType.BOOLEAN


@data_type_of.register
def _(node: ex.Like, scope: Scope) -> DataType:
    _require_type(node.operand, scope, fn.TEXTS, "`LIKE`")
    rest = node.form.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    if "\\" in rest:
        hint = r"write \\ for a backslash, \% for a percent sign, \_ for an underscore"
        raise DataTypeError(node, f"`LIKE` has a lone backslash in {node.form!r}", hint)
    return DataType.BOOLEAN


@data_type_of.register
def _(node: ex.Case, scope: Scope) -> DataType:
    if not node.branches:
        raise DataTypeError(node, "`CASE` has no branch", "write CASE WHEN ... THEN ... END")
    for test, _result in node.branches:
        _require_type(test, scope, fn.BOOLEANS, "`WHEN`")
    results = (*(result for _test, result in node.branches), node.otherwise)
    return _require_agreement(node, [data_type_of(r, scope) for r in results], "`CASE`")


@data_type_of.register
def _(node: ex.Cast, scope: Scope) -> DataType:
    source, target = data_type_of(node.operand, scope), node.data_type
    if target not in fn.PLAIN:
        hint = f"cast to {', '.join(TYPE_NAMES)}"
        raise DataTypeError(node, f"nothing can be cast to {target}", hint)
    castable = _CASTS.get(source, frozenset())
    if source in _FREE or source is target or target in castable:
        return target
    targets = ", ".join(sorted(map(str, castable)))
    hint = _advice(source, frozenset({target})) or f"{source} can be cast to {targets}"
    raise DataTypeError(node, f"cannot cast {source} to {target}", hint)


@data_type_of.register
def _(node: ex.Call, scope: Scope) -> DataType:
    function = fn.FUNCTIONS.get(node.function)
    if function is None:
        hint = known_names(node.function, fn.FUNCTIONS, most=len(fn.FUNCTIONS))
        raise DataTypeError(node, f"unknown function {node.function!r}", hint)
    name, count = f"`{node.function}`", len(node.arguments)
    if not function.takes(count):
        least = f"{'at least ' * function.repeats}{len(function.parameters)}"
        problem = f"{name} takes {least} argument{'s' * (least != '1')}, got {count}"
        raise DataTypeError(node, problem, f"write {node.function}({function})")
    data_types = [
        _require_type(argument, scope, function.parameter(position), name)
        for position, argument in enumerate(node.arguments)
    ]
    if function.constant and count == len(function.parameters):
        _require_constant(node, function.constant)
    if function.parameters[0] == ARRAYS:
        _require_element(node, data_types)
    else:
        free = [t for i, t in enumerate(data_types) if len(function.parameter(i)) > 1]
        _require_agreement(node, free, name)
    return fn.result_data_type(function, fn.argument_data_types(function, data_types))


def _require_constant(node: ex.Call, read: Callable[[str], object]) -> None:
    """Require that the last argument is a text as it stands, and one that can be read."""
    last, name = node.arguments[-1], f"`{node.function}`"
    if not isinstance(last, ex.Literal) or not isinstance(last.value, str):
        raise DataTypeError(last, f"{name} takes a text in quotes here, got {last}")
    try:
        read(last.value)
    except ValueError as error:
        raise DataTypeError(last, f"{name} cannot use {last}", str(error)) from error


def _require_element(node: ex.Call, data_types: Sequence[DataType]) -> None:
    """Require that a value can be an element of the array before it."""
    element, values = data_types[0].element, data_types[1:]
    if element is None or node.function == "get" or not values:
        return
    if fn.common_data_type([element, *values]) is not element:
        problem = f"`{node.function}` takes {element} with {data_types[0]}, got {values[0]}"
        raise DataTypeError(
            node.arguments[1], problem, _advice(values[0], frozenset({element}))
        )


def _require_type(
    operand: Expression, scope: Scope, allowed: frozenset[DataType], where: str
) -> DataType:
    """Find the data type of an operand, which must be one of those allowed."""
    data_type = data_type_of(operand, scope)
    is_date = data_type is DataType.DATE and DataType.TIMESTAMP in allowed
    if data_type not in allowed | _FREE and not is_date:
        problem = f"{where} takes {fn.data_types_name(allowed)}, got {data_type}"
        raise DataTypeError(operand, problem, _advice(data_type, allowed))
    return data_type


def _require_agreement(
    node: Expression, data_types: Sequence[DataType], where: str
) -> DataType:
    common = fn.common_data_type(data_types)
    if common is None or _has_parts(data_types):
        distinct = join_words(dict.fromkeys(map(str, data_types)), "and")
        problem = f"{where} needs values of one data type, got {distinct}"
        raise DataTypeError(node, problem, _advice_for_all(data_types))
    return common


def _has_parts(data_types: Iterable[DataType]) -> bool:
    """Whether there is an array or a struct among data types."""
    return any(data_type not in fn.PLAIN | _FREE for data_type in data_types)


def _shared_name(data_types: Iterable[DataType]) -> str:
    """Name what both sides of a comparison should be, of what one of them is."""
    known = [t for t in data_types if t in fn.PLAIN]
    if any(data_type in fn.NUMBERS for data_type in known):
        return "number"
    if not fn.TIMES.isdisjoint(known):
        return "timestamp"
    return str(min(known, key=str)) if known else "value"


def _advice(given: DataType, wanted: frozenset[DataType]) -> str:
    """Say how a value of a data type can be made one of the data types wanted."""
    if given is DataType.STRUCT:
        return "name a field of the struct, as in `event.field`"
    if given is DataType.OTHER:
        return "it can be selected, and tested by IS NULL; derive a column of another data type"
    if given in ARRAYS:
        return "name an element of the array, as in `tags[0]`, or use array_contains(...)"
    if wanted == fn.BOOLEANS:
        return "compare it with something, as in `x > 0`"
    castable = wanted & _CASTS.get(given, frozenset())
    casts = sorted(f"CAST(... AS {target})" for target in castable)
    if casts:
        return f"use {' or '.join(casts)} on the {given}"
    special = (_SPECIAL_ADVICE.get((given, target)) for target in wanted)
    return next(filter(None, special), "")


def _advice_for_all(data_types: Iterable[DataType]) -> str:
    """Say how values that should agree can be made to: as numbers, mostly."""
    data_types = list(data_types)
    if DataType.STRING in data_types and not fn.TIMES.isdisjoint(data_types):
        return "write TIMESTAMP '2026-01-31T23:59:59Z', or CAST(... AS timestamp) on the string"
    others = [data_type for data_type in data_types if data_type not in fn.NUMBERS | _FREE]
    return next(filter(None, (_advice(data_type, fn.NUMBERS) for data_type in others)), "")

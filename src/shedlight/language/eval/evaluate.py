"""Expressions over columns: the compiled back end of the language, on NumPy and Arrow.

It means what `spark_sql.py` means, row by row, and works on all rows at once. Literals stay
constants of one row until the end, so that `cpu > 0.2` costs one comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, singledispatch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import ARRAYS, DataType
from shedlight.language.ast.expression import Expression, Operator
from shedlight.language.eval import arrays, texts, times
from shedlight.language.eval import column as col
from shedlight.language.eval import numeric as numbers
from shedlight.language.eval.column import Column, Flags, and_flags
from shedlight.language.eval.json_text import find_in_json
from shedlight.language.functions import (
    FUNCTIONS,
    argument_data_types,
    common_data_type,
    exact_decimals,
)

Lookup = Callable[[Expression], Column]
"""Gives the column of an attribute, a whole event or an aggregate."""


def evaluate(expression: Expression, rows: int, lookup: Lookup) -> Column:
    """Compute an expression that `data_type_of` accepts, for all rows.

    The result may share its arrays with those of `lookup`, so do not write into it.

    Example:
        >>> from shedlight.language.eval.column import to_arrow, to_column
        >>> cpu = to_column(pa.array([0.1, 0.3, None]))
        >>> busy = ex.Binary(Operator.GREATER, ex.Attribute("", ("cpu",)), ex.Literal(0.2))
        >>> to_arrow(evaluate(busy, 3, lambda node: cpu)).to_pylist()
        [False, True, None]
    """
    with np.errstate(all="ignore"):
        return col.broadcast_to(_column(expression, lookup), rows)


def is_true(column: Column) -> Flags:
    """Tell where a condition is true: neither false nor null."""
    return and_flags(column.valid, np.asarray(column.values))


@singledispatch
def _column(node: Expression, _lookup: Lookup) -> Column:
    raise TypeError(f"not an expression: {node!r}")


@_column.register(ex.Attribute | ex.WholeEvent | ex.Aggregate)
def _(node: ex.Attribute | ex.WholeEvent | ex.Aggregate, lookup: Lookup) -> Column:
    column = lookup(node)
    valid = col.ALL_TRUE if column.valid.all() else column.valid
    return Column(column.data_type, column.values, valid)


@_column.register
def _(node: ex.Literal, _lookup: Lookup) -> Column:
    return col.constant_column(node.value)


@_column.register
def _(node: ex.Unary, lookup: Lookup) -> Column:
    operand = _column(node.operand, lookup)
    if node.sign is ex.Sign.MINUS:
        return numbers.negate(operand)
    flag = col.as_data_type(operand, DataType.BOOLEAN)
    return Column(DataType.BOOLEAN, ~flag.values, flag.valid)


@_column.register
def _(node: ex.Binary, lookup: Lookup) -> Column:
    left, right = _column(node.left, lookup), _column(node.right, lookup)
    if node.operator in ex.COMPARISONS:
        left, right = _alike(*_exact((node.left, node.right), (left, right)))
        holding = numbers.compare(node.operator, left, right)
        return Column(DataType.BOOLEAN, holding, and_flags(left.valid, right.valid))
    if node.operator in {Operator.AND, Operator.OR}:
        join = _all_of if node.operator is Operator.AND else _any_of
        return join(*(col.as_data_type(side, DataType.BOOLEAN) for side in (left, right)))
    return numbers.arithmetic(node.operator, left, right)


@_column.register
def _(node: ex.IsNull, lookup: Lookup) -> Column:
    valid = _column(node.operand, lookup).valid
    return Column(DataType.BOOLEAN, valid if node.negated else ~valid, col.ALL_TRUE)


@_column.register
def _(node: ex.In, lookup: Lookup) -> Column:
    nodes = (node.operand, *node.options)
    parts = [_column(part, lookup) for part in nodes]
    operand, *options = _alike(*_exact(nodes, parts))
    fixed = [option for option in options if col.is_constant(option)]
    among = _among(operand, fixed) if fixed else col.constant_column(value=False)
    for option in options:
        if not col.is_constant(option):
            valid = and_flags(operand.valid, option.valid)
            equal = Column(DataType.BOOLEAN, numbers.is_equal(operand, option), valid)
            among = _any_of(among, equal)
    return Column(DataType.BOOLEAN, among.values ^ node.negated, among.valid)


@_column.register
def _(node: ex.Like, lookup: Lookup) -> Column:
    text = col.as_data_type(_column(node.operand, lookup), DataType.STRING)
    return Column(DataType.BOOLEAN, texts.is_like(text, node.form) ^ node.negated, text.valid)


@_column.register
def _(node: ex.Case, lookup: Lookup) -> Column:
    tests = [_column(test, lookup) for test, _result in node.branches]
    results = (_column(result, lookup) for _test, result in node.branches)
    *branches, value = _alike(*results, _column(node.otherwise, lookup))
    for test, result in reversed(list(zip(tests, branches, strict=True))):
        value = col.where(is_true(col.as_data_type(test, DataType.BOOLEAN)), result, value)
    return value


@_column.register
def _(node: ex.Cast, lookup: Lookup) -> Column:
    operand = _column(node.operand, lookup)
    special = _CASTS.get((operand.data_type, node.data_type))
    return special(operand) if special else col.as_data_type(operand, node.data_type)


@_column.register
def _(node: ex.Call, lookup: Lookup) -> Column:
    arguments = [_column(argument, lookup) for argument in node.arguments]
    given = [column.data_type for column in arguments]
    data_types = argument_data_types(FUNCTIONS[node.function], given)
    if data_types[0] is DataType.NULL and FUNCTIONS[node.function].parameters[0] == ARRAYS:
        result = FUNCTIONS[node.function].result
        return col.as_data_type(arguments[0], result) if result else arguments[0]
    taken = [col.as_data_type(c, t) for c, t in zip(arguments, data_types, strict=True)]
    return CALLS[node.function](taken)


def _exact(nodes: Sequence[Expression], columns: Sequence[Column]) -> Sequence[Column]:
    """Take numbers that are compared with decimals as decimals, if they are written down."""
    exact = exact_decimals(nodes, [column.data_type for column in columns])
    return [
        col.decimal_column(exact[place]) if place in exact else column
        for place, column in enumerate(columns)
    ]


def _alike(*columns: Column) -> Sequence[Column]:
    """Take columns as the data type that they agree on."""
    data_type = common_data_type(column.data_type for column in columns)
    if data_type is None:
        names = ", ".join(str(column.data_type) for column in columns)
        raise ValueError(f"no common data type: {names}")
    return [col.as_data_type(column, data_type) for column in columns]


def _all_of(left: Column, right: Column) -> Column:
    """AND in three-valued logic: false if one is false, else null if one is null."""
    no = and_flags(left.valid, ~left.values) | and_flags(right.valid, ~right.values)
    return Column(DataType.BOOLEAN, ~no, no | and_flags(left.valid, right.valid))


def _any_of(left: Column, right: Column) -> Column:
    """OR in three-valued logic: true if one is true, else null if one is null."""
    yes = is_true(left) | is_true(right)
    return Column(DataType.BOOLEAN, yes, yes | and_flags(left.valid, right.valid))


def _among(operand: Column, options: Sequence[Column]) -> Column:
    """Tell where the operand is one of several constants of its data type."""
    known = [option.values for option in options if option.valid[0]]
    if not known:
        return Column(DataType.BOOLEAN, np.zeros(1, np.bool_), np.zeros(1, np.bool_))
    if operand.data_type in {DataType.STRING, DataType.DECIMAL}:
        among = np.asarray(pc.is_in(operand.values, pa.concat_arrays(known)))
    else:
        among = np.isin(operand.values, np.concatenate(known), kind=None)
    if operand.data_type is DataType.DOUBLE and np.isnan(np.concatenate(known)).any():
        among |= np.isnan(operand.values)
    no_null = len(known) == len(options)
    valid = operand.valid if no_null else and_flags(operand.valid, among)
    return Column(DataType.BOOLEAN, among, valid)


def _coalesced(columns: Sequence[Column]) -> Column:
    *firsts, value = columns
    for column in reversed(firsts):
        value = col.where(column.valid, column, value)
    return value


def _extreme(columns: Sequence[Column], is_before: Callable[[Column, Column], Flags]) -> Column:
    """Find the first in an order, leaving out nulls."""
    value, *others = columns
    for other in others:
        better = ~value.valid | and_flags(other.valid, is_before(other, value))
        value = col.where(better, other, value)
    return value


def _null_if(first: Column, second: Column) -> Column:
    same = and_flags(numbers.is_equal(first, second), and_flags(first.valid, second.valid))
    return Column(first.data_type, first.values, first.valid & ~same)


def _is_nan(number: Column) -> Column:
    """Tell where a number is NaN; as in Spark, a null is not."""
    if number.data_type is not DataType.DOUBLE:
        return col.constant_column(value=False)
    is_nan = and_flags(number.valid, np.isnan(number.values))
    return Column(DataType.BOOLEAN, is_nan, col.ALL_TRUE)


def _as_timestamps(micros: int, columns: Sequence[Column]) -> Column:
    return numbers.scale_to_timestamps(micros, *columns)


def _read_times(text: Column, form: Column | None = None) -> Column:
    if form is None:
        return times.read_timestamps(text)
    return times.read_formatted(text, form.values[0].as_py())


_CASTS: Mapping[tuple[DataType, DataType], Callable[[Column], Column]] = {
    (DataType.DOUBLE, DataType.BIGINT): numbers.truncate,
    (DataType.BIGINT, DataType.STRING): texts.to_text,
    (DataType.STRING, DataType.BIGINT): texts.to_bigint,
    (DataType.STRING, DataType.DOUBLE): texts.to_double,
    (DataType.STRING, DataType.TIMESTAMP): times.read_timestamps,
    (DataType.STRING, DataType.DATE): lambda of: times.midnights(times.read_timestamps(of)),
    (DataType.TIMESTAMP, DataType.DATE): times.midnights,
    (DataType.DECIMAL, DataType.BIGINT): numbers.truncate_decimals,
}

CALLS: Mapping[str, Callable[[Sequence[Column]], Column]] = {
    "abs": lambda of: numbers.take_absolute(*of),
    "array_contains": lambda of: arrays.contains_element(*of),
    "ceil": lambda of: numbers.truncate(of[0], np.ceil),
    "coalesce": _coalesced,
    "concat": texts.concat,
    "contains": lambda of: texts.contains_part(pc.match_substring, str.__contains__, *of),
    "endswith": lambda of: texts.contains_part(pc.ends_with, str.endswith, *of),
    "floor": lambda of: numbers.truncate(of[0], np.floor),
    "get": lambda of: arrays.element_at(*of),
    "get_json_object": lambda of: find_in_json(*of),
    "greatest": partial(_extreme, is_before=lambda a, b: numbers.is_less(b, a)),
    "if": lambda of: col.where(is_true(of[0]), of[1], of[2]),
    "isnan": lambda of: _is_nan(*of),
    "least": partial(_extreme, is_before=numbers.is_less),
    "length": lambda of: texts.count_characters(*of),
    "lower": lambda of: texts.map_distinct(str.lower, *of),
    "nullif": lambda of: _null_if(*of),
    "regexp_like": lambda of: texts.is_matched(*of),
    "sign": lambda of: numbers.apply_to_doubles(np.sign, *of),
    "size": lambda of: arrays.count_elements(*of),
    "sqrt": lambda of: numbers.apply_to_doubles(np.sqrt, *of),
    "startswith": lambda of: texts.contains_part(pc.starts_with, str.startswith, *of),
    "substring": lambda of: texts.substring(*of),
    "timestamp_micros": partial(_as_timestamps, 1),
    "timestamp_millis": partial(_as_timestamps, 1_000),
    "timestamp_seconds": partial(_as_timestamps, 1_000_000),
    "to_timestamp": lambda of: _read_times(*of),
    "trim": lambda of: texts.trim(*of),
    "unix_micros": lambda of: Column(DataType.BIGINT, of[0].values, of[0].valid),
    "upper": lambda of: texts.map_distinct(str.upper, *of),
}

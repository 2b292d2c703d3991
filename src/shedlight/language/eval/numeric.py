"""Arithmetic, order and casts on columns of numbers, as Spark SQL has them.

An operation that fails on a row (division by zero, overflow, a cast out of range) makes the
row null. Of doubles, NaN equals NaN and is greater than any other; -0.0 equals 0.0.
"""

from collections.abc import Callable, Mapping
from itertools import product
from operator import add, mul, sub
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Operator
from shedlight.language.eval import column as col
from shedlight.language.eval.column import Column, Flags, and_flags
from shedlight.language.functions import (
    LARGEST,
    SMALLEST,
    arithmetic_data_type,
    numeric_data_type,
)

Values = npt.NDArray[Any]

_IN_ARROW = {DataType.STRING, DataType.DECIMAL}

_SURELY_WITHIN = 2.0**62
"""Below this, the rounded product of two bigints shows that the exact one fits 64 bits."""


def arithmetic(operator: Operator, left: Column, right: Column) -> Column:
    """Apply an arithmetic operator to two columns of numbers."""
    data_type = arithmetic_data_type(operator, (left.data_type, right.data_type))
    a, b = col.as_data_type(left, data_type), col.as_data_type(right, data_type)
    rule = (_DOUBLE_RULES if data_type is DataType.DOUBLE else _BIGINT_RULES)[operator]
    values, fine = rule(a.values, b.values)
    return Column(data_type, values, and_flags(and_flags(a.valid, b.valid), fine))


def negate(column: Column) -> Column:
    """Change the sign; the smallest bigint has no positive."""
    number = col.as_data_type(column, numeric_data_type(column.data_type))
    if number.data_type is DataType.DOUBLE:
        return Column(DataType.DOUBLE, -number.values, number.valid)
    valid = and_flags(number.valid, number.values != SMALLEST)
    return Column(DataType.BIGINT, -number.values, valid)


def is_equal(left: Column, right: Column) -> Flags:
    """Tell where two columns of one data type are equal, whatever their validity."""
    a, b = left.values, right.values
    if left.data_type in _IN_ARROW:
        return col.to_flags(pc.equal(*col.to_scalars(a, b)))
    equal = np.asarray(a == b)
    if left.data_type is not DataType.DOUBLE or _is_one_number(a) or _is_one_number(b):
        return equal
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def is_less(left: Column, right: Column) -> Flags:
    """Tell where the first of two columns of one data type is less, whatever their validity."""
    a, b = left.values, right.values
    if left.data_type in _IN_ARROW:  # it compares the bytes of text, as Spark does
        return col.to_flags(pc.less(*col.to_scalars(a, b)))
    if left.data_type is not DataType.DOUBLE or _is_one_number(b):
        return np.asarray(a < b)
    if _is_one_number(a):
        return np.asarray(~(a >= b))
    return np.asarray((a < b) | (np.isnan(b) & ~np.isnan(a)))


def compare(operator: Operator, left: Column, right: Column) -> Flags:
    """Tell where a comparison of two columns of one data type is true, valid or not."""
    if operator is Operator.EQUAL:
        return is_equal(left, right)
    if operator is Operator.NOT_EQUAL:
        return ~is_equal(left, right)
    if operator in {Operator.GREATER, Operator.LESS_EQUAL}:
        left, right = right, left
    less = is_less(left, right)
    return less if operator in {Operator.LESS, Operator.GREATER} else ~less


def truncate(column: Column, rounded: Callable[[Values], Values] = np.trunc) -> Column:
    """Make bigints of doubles; NaN and what is out of range becomes null."""
    if column.data_type is DataType.BIGINT:
        return column
    whole = rounded(col.as_data_type(column, DataType.DOUBLE).values)
    within = (whole >= -(2.0**63)) & (whole < 2.0**63)
    values = np.where(within, whole, 0.0).astype(np.int64)
    return Column(DataType.BIGINT, values, and_flags(column.valid, within))


def truncate_decimals(column: Column) -> Column:
    """Make bigints of decimals, without their fraction; what is out of range becomes null."""
    whole = pc.trunc(column.values).cast(pa.decimal128(38, 0))
    limits = (pa.scalar(SMALLEST, whole.type), pa.scalar(LARGEST, whole.type))
    within = pc.and_(pc.greater_equal(whole, limits[0]), pc.less_equal(whole, limits[1]))
    values = pc.if_else(within, whole, pa.scalar(0, whole.type)).fill_null(0).cast(pa.int64())
    fits = and_flags(column.valid, col.to_flags(within))
    return Column(DataType.BIGINT, np.asarray(values), fits)


def scale_to_timestamps(micros: int, column: Column) -> Column:
    """Make timestamps of counts of so many microseconds."""
    number = arithmetic(Operator.MULTIPLY, column, col.constant_column(micros))
    return Column(DataType.TIMESTAMP, number.values, number.valid)


def take_absolute(column: Column) -> Column:
    """Drop the sign; the smallest bigint has no positive."""
    fine = col.ALL_TRUE if column.data_type is DataType.DOUBLE else column.values != SMALLEST
    return Column(column.data_type, np.abs(column.values), and_flags(column.valid, fine))


def apply_to_doubles(function: Callable[[Values], Values], column: Column) -> Column:
    """Apply a function of NumPy to numbers as doubles."""
    number = col.as_data_type(column, DataType.DOUBLE)
    return Column(DataType.DOUBLE, function(number.values), number.valid)


def _is_one_number(values: Values) -> bool:
    return len(values) == 1 and not np.isnan(values[0])


def _surely_fit(a: Values, b: Values, exact: Callable[[int, int], int]) -> bool:
    """See by the bounds of both operands that no sum, difference or product overflows."""
    if not (a.size and b.size):
        return True
    bounds = ((int(values.min()), int(values.max())) for values in (a, b))
    corners = [exact(*corner) for corner in product(*bounds)]
    return bool(min(corners) >= SMALLEST and max(corners) <= LARGEST)


def _sum(a: Values, b: Values) -> tuple[Values, Flags]:
    total = a + b
    if _surely_fit(a, b, add):
        return total, col.ALL_TRUE
    return total, ((a ^ total) & (b ^ total)) >= 0


def _difference(a: Values, b: Values) -> tuple[Values, Flags]:
    difference = a - b
    if _surely_fit(a, b, sub):
        return difference, col.ALL_TRUE
    return difference, ((a ^ b) & (a ^ difference)) >= 0


def _product(a: Values, b: Values) -> tuple[Values, Flags]:
    result = a * b
    if _surely_fit(a, b, mul):
        return result, col.ALL_TRUE
    rough = np.abs(a.astype(np.float64) * b.astype(np.float64))
    fine = np.asarray(rough < _SURELY_WITHIN)
    doubtful = np.flatnonzero(~fine)
    if doubtful.size:
        fine[doubtful] = _product_fits(*(x if len(x) == 1 else x[doubtful] for x in (a, b)))
    return result, fine


def _product_fits(a: Values, b: Values) -> Flags:
    """Check products of factors other than zero by dividing them again."""
    divisor = np.where(a == -1, 1, a)  # the only quotient that overflows is smallest / -1
    back = a * b
    exact = (back % divisor == 0) & (back // divisor == b)
    return np.asarray(np.where(a == -1, b != SMALLEST, exact))


def _whole_quotient(a: Values, b: Values) -> tuple[Values, Flags]:
    divisor = np.where((b == 0) | (b == -1), 1, b)
    floor = a // divisor
    rest = a - floor * divisor
    quotient = floor + ((rest != 0) & ((a ^ divisor) < 0))
    fine = (b != 0) & ((b != -1) | (a != SMALLEST))
    return np.where(b == -1, -quotient, quotient), fine


def _whole_remainder(a: Values, b: Values) -> tuple[Values, Flags]:
    divisor = np.where((b == 0) | (b == -1), 1, b)
    return np.fmod(a, divisor), b != 0


_Rule = Callable[[Values, Values], tuple[Values, Flags]]

_BIGINT_RULES: Mapping[Operator, _Rule] = {
    Operator.ADD: _sum,
    Operator.SUBTRACT: _difference,
    Operator.MULTIPLY: _product,
    Operator.INT_DIVIDE: _whole_quotient,
    Operator.MODULO: _whole_remainder,
}
_DOUBLE_RULES: Mapping[Operator, _Rule] = {
    Operator.ADD: lambda a, b: (a + b, col.ALL_TRUE),
    Operator.SUBTRACT: lambda a, b: (a - b, col.ALL_TRUE),
    Operator.MULTIPLY: lambda a, b: (a * b, col.ALL_TRUE),
    Operator.DIVIDE: lambda a, b: (a / b, b != 0),
    Operator.MODULO: lambda a, b: (np.fmod(a, b), b != 0),
}

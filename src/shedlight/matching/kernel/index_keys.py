"""Keys and bounds of the indexes of a pattern as whole numbers, for all events at hand.

Whole numbers sort as the values they stand for do: a double by its bits, NaN last; a text by
its first eight bytes, or, where only equality is asked for, as its hash.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression, Literal
from shedlight.language.eval.column import (
    Column,
    and_flags,
    constant_column,
    is_constant,
)
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.compile.indexes import ElementIndex, Selectivity
from shedlight.matching.compile.splitting import Bound, Undo
from shedlight.matching.hashing import hash_rows, text_buffers
from shedlight.matching.jit import Array, compiled, jit_inline
from shedlight.matching.permuted import row_column

LOWEST, HIGHEST = -(2**63), 2**63 - 1
ABSENT, WILD = LOWEST, LOWEST + 1
"""Keys that are no numbers: null, of which no condition holds; and any that it may hold of."""

KEY, LOW, HIGH = range(3)
_CHUNK = 1 << 15  # rows
_EXACT = 2.0**53  # beyond this a whole number may not be a double


def compute_keys(indexes: tuple[ElementIndex, ...], table: pa.Table, stored: int) -> Array:
    """Compute [index, KEY, LOW or HIGH, row]: keys of all events, bounds of those not stored.

    Where nothing fits, the high bound is below the low one.
    """
    new = table.slice(stored)
    numbers = np.empty((len(indexes), 3, len(table)), np.int64)
    with np.errstate(all="ignore"):
        for index, (keys, lows, highs) in zip(indexes, numbers, strict=True):
            column = _column(index.key, table)
            for here in _chunks(index, len(table)):
                _write_keys(index, _rows_of(column, here), keys[here])
            columns = cache(lambda node: _bound_column(node, new))
            for here in _chunks(index, len(new)):
                _write_bounds(index, columns, here, lows[stored:][here], highs[stored:][here])
    return numbers


def _chunks(index: ElementIndex, rows: int) -> Iterator[slice]:
    """Divide rows into so few that all that is computed of them stays in the cache."""
    size = rows if index.data_type is DataType.STRING else _CHUNK
    for first in range(0, rows, max(size, 1)):
        yield slice(first, min(first + size, rows))


def _rows_of(column: Column, here: slice) -> Column:
    """Give some rows of a column; a constant has one row."""
    if is_constant(column):
        return column
    return Column(column.data_type, column.values[here], column.valid[here])


def _write_keys(index: ElementIndex, column: Column, keys: Array) -> None:
    np.maximum(_as_numbers(index, column), WILD, out=keys)
    if index.data_type is DataType.DOUBLE and not index.is_exact:
        unknown = np.isnan(column.values)
        if unknown.any():
            keys[unknown] = WILD
    if not column.valid.all():
        keys[~column.valid] = ABSENT


def _write_bounds(
    index: ElementIndex,
    columns: Callable[[Expression], Column],
    here: slice,
    lows: Array,
    highs: Array,
) -> None:
    lows[:], highs[:] = LOWEST, HIGHEST
    bounds = _Bounds(index, lambda node: _rows_of(columns(node), here))
    for bound in index.lows:
        bounds.raise_low(bound, lows, highs)
    for bound in index.highs:
        bounds.lower_high(bound, lows, highs)


def _column(expression: Expression, table: pa.Table) -> Column:
    return evaluate(expression, len(table), lambda node: row_column(table, node))


def _bound_column(expression: Expression, table: pa.Table) -> Column:
    """Compute a column; a constant has one row."""
    if isinstance(expression, Literal):
        return constant_column(expression.value)
    return _column(expression, table)


def _as_numbers(index: ElementIndex, column: Column) -> Array:
    """Give values as numbers that sort as they do."""
    if index.data_type is DataType.DOUBLE:
        return order_doubles(column.values.astype(np.float64, copy=False))
    if index.data_type is not DataType.STRING or column.data_type is DataType.NULL:
        return np.asarray(column.values).astype(np.int64, copy=False)
    if index.selectivity is Selectivity.EQUALITY:
        return hash_rows([column], len(column))
    prefixes = np.empty(len(column), np.int64)
    _read_prefixes(*text_buffers(column.values), prefixes)
    return prefixes


def order_doubles(values: Array) -> Array:
    """Give whole numbers that sort as doubles do: the two zeros alike, NaN after all others."""
    numbers = np.empty(len(values), np.int64)
    _order_doubles(np.ascontiguousarray(values), numbers)
    return numbers


@jit_inline
def _order_double(value: float, bits: int) -> int:
    whole = bits if value == value else 0x7FF8000000000000  # noqa: PLR0124  # not NaN
    whole = whole if value != 0 else 0
    return whole ^ ((whole >> 63) & 0x7FFFFFFFFFFFFFFF)


@compiled
def _order_doubles(values: Array, numbers: Array) -> None:
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        numbers[i] = _order_double(values[i], bits[i])


@compiled
def _tighten(values: Array, outward: int, bounds: Array) -> None:
    """Move low or (outward) high bounds in to values; those that are infinite say nothing."""
    bits = values.view(np.int64)
    for i in range(bounds.shape[0]):
        number, is_finite = _order_double(values[i], bits[i]), abs(values[i]) < np.inf
        if outward > 0:
            bounds[i] = min(bounds[i], number if is_finite else HIGHEST)
        else:
            bounds[i] = max(bounds[i], number if is_finite else LOWEST)


@compiled
def _read_prefixes(offsets: Array, data: Array, prefixes: Array) -> None:
    """Read the first eight bytes of texts as numbers that sort as they do."""
    for i in range(prefixes.shape[0]):
        prefix = np.uint64(0)
        for place in range(8):
            at = offsets[i] + place
            byte = data[at] if at < offsets[i + 1] else np.uint8(0)
            prefix = (prefix << np.uint64(8)) | np.uint64(byte)
        prefixes[i] = np.int64(prefix ^ np.uint64(0x8000000000000000))


class _Bounds:
    """Computes the bounds of one index."""

    def __init__(self, index: ElementIndex, column_of: Callable[[Expression], Column]) -> None:
        self.index, self.column_of = index, column_of

    def raise_low(self, bound: Bound, lows: Array, highs: Array) -> None:
        """Raise the lower bounds to what one bound says."""
        values, known = self._values(bound, outward=-1)
        if values.dtype == np.float64:
            _tighten(_of_size(values, len(lows)), -1, lows)
        else:
            np.maximum(lows, values, out=lows)
        _leave_nothing(known, lows, highs)

    def lower_high(self, bound: Bound, lows: Array, highs: Array) -> None:
        """Lower the upper bounds to what one bound says."""
        values, known = self._values(bound, outward=1)
        if values.dtype == np.float64:
            _tighten(_of_size(values, len(highs)), 1, highs)
        else:
            np.minimum(highs, values, out=highs)
        _leave_nothing(known, lows, highs)

    def _values(self, bound: Bound, outward: int) -> tuple[Array, Array]:
        """Give the bounds, and where anything is within them.

        They are numbers that sort as values do; or, if something was undone, doubles.
        """
        start = self.column_of(bound.start)
        known = start.valid
        operands = [self.column_of(operand) for _, operand in bound.steps]
        for operand in operands:
            known = and_flags(known, operand.valid)
        undos = [undo for undo, _ in bound.steps]
        flips = [_flips(undo, operand) for undo, operand in zip(undos, operands, strict=True)]
        outward *= (-1) ** sum(flips)
        if undos and self.index.data_type is DataType.DOUBLE:
            return _undo_doubles(start, outward, undos, operands, flips), known
        values = _as_numbers(self.index, start)
        if bound.strict and self.index.data_type is not DataType.STRING:
            known = known & (values != (HIGHEST if outward < 0 else LOWEST))
            values = values - outward  # the next number stands for the next value
        for undo, operand in zip(undos, operands, strict=True):
            values = _undo_whole(undo, values, operand.values)
        return values, known


def _of_size(values: Array, size: int) -> Array:
    return values if len(values) == size else np.repeat(values, size)


def _leave_nothing(known: Array, lows: Array, highs: Array) -> None:
    if not known.all():
        where = np.broadcast_to(~known, lows.shape)
        lows[where], highs[where] = HIGHEST, LOWEST


def _flips(undo: Undo, operand: Column) -> bool:
    """Whether what was a lower bound is an upper one then."""
    if undo in {Undo.MULTIPLY, Undo.DIVIDE}:  # by a constant
        return len(operand) > 0 and bool(operand.values[0] < 0)
    return undo in {Undo.NEGATE, Undo.SUBTRACT_FROM}


def _undo_whole(undo: Undo, values: Array, operands: Array) -> Array:
    """Compute with whole numbers; what does not fit 64 bits is as far out as they go."""
    if undo is Undo.NEGATE:
        return -np.maximum(values, -HIGHEST)
    if undo is Undo.ADD:
        result = values + operands
        overflows = ((values ^ result) & (operands ^ result)) < 0
    else:
        left, right = (values, operands) if undo is Undo.SUBTRACT else (operands, values)
        result = left - right
        overflows = ((left ^ right) & (left ^ result)) < 0
    return np.where(overflows, np.where(result < 0, HIGHEST, LOWEST), result)


def _undo_doubles(
    start: Column, outward: int, undos: list[Undo], operands: list[Column], flips: list[bool]
) -> Array:
    """Compute with doubles, each time a little further out than rounding may have gone in.

    Where something is infinite or NaN, the result is: no step makes it finite again.
    """
    values = np.array(_as_doubles(start))
    _undo_double(_WIDEN, values, values, float(outward))
    for undo, operand, flip in zip(undos, operands, flips, strict=True):
        other = _as_doubles(operand)
        outward = -outward if flip else outward
        values = _of_size(values, max(len(values), len(other)))
        _undo_double(_NUMBERS[undo], values, np.ascontiguousarray(other), float(outward))
    return values


def _as_doubles(column: Column) -> Array:
    """Give values as doubles; a whole number that may not be one is NaN."""
    values = column.values.astype(np.float64, copy=False)
    if column.data_type is DataType.DOUBLE:
        return values
    return np.where(np.abs(values) <= _EXACT, values, np.nan)


_NUMBERS = {undo: number for number, undo in enumerate(Undo)}
_ADD, _SUBTRACT, _SUBTRACT_FROM, _NEGATE, _MULTIPLY, _DIVIDE = range(6)
_WIDEN = 6


@compiled
def _undo_double(undo: int, values: Array, operands: Array, outward: float) -> None:
    """Do one step in place, and move the results out by a few of the least steps there are."""
    for i in range(values.shape[0]):
        value, operand = values[i], operands[i if operands.shape[0] > 1 else 0]
        if undo == _ADD:
            value += operand
        elif undo == _SUBTRACT:
            value -= operand
        elif undo == _SUBTRACT_FROM:
            value = operand - value
        elif undo == _NEGATE:
            value = -value
        elif undo == _MULTIPLY:
            value *= operand
        elif undo == _DIVIDE:
            value /= operand
        values[i] = value + outward * (abs(value) * 2.0**-50 + 1e-321)

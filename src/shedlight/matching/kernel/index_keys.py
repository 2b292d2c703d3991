"""Keys and bounds of the indexes of a pattern as whole numbers, for all events at hand.

Whole numbers sort as the values they stand for do: a double by its bits, NaN last; a text by
its first eight bytes, or, where only equality is asked for, as its hash.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression, Literal
from shedlight.language.eval.column import ALL_TRUE, Column, constant_column
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.compile.indexes import ElementIndex, Selectivity
from shedlight.matching.compile.splitting import Bound, Undo
from shedlight.matching.hashing import hash_rows, text_buffers
from shedlight.matching.jit import Array, compiled
from shedlight.matching.permuted import row_column

LOWEST, HIGHEST = -(2**63), 2**63 - 1
ABSENT, WILD = LOWEST, LOWEST + 1
"""Keys that are no numbers: null, of which no condition holds; and any that it may hold of."""

KEY, LOW, HIGH = range(3)
_EXACT = 2.0**53  # beyond this a whole number may not be a double


def compute_keys(indexes: tuple[ElementIndex, ...], table: pa.Table, stored: int) -> Array:
    """Compute [index, KEY, LOW or HIGH, row]: keys of all events, bounds of those not stored.

    Where nothing fits, the high bound is below the low one.
    """
    new = table.slice(stored)
    numbers = np.empty((len(indexes), 3, len(table)), np.int64)
    for index, (keys, all_lows, all_highs) in zip(indexes, numbers, strict=True):
        column = _column(index.key, table)
        keys[:] = np.maximum(_as_numbers(index, column), WILD)
        if index.data_type is DataType.DOUBLE and not index.is_exact:
            keys[np.isnan(column.values)] = WILD
        keys[~column.valid] = ABSENT
        lows, highs = all_lows[stored:], all_highs[stored:]
        lows[:], highs[:] = LOWEST, HIGHEST
        if not len(new):
            continue
        bounds = _Bounds(index, lambda node: _bound_column(node, new))
        with np.errstate(all="ignore"):
            for bound in index.lows:
                bounds.raise_low(bound, lows, highs)
            for bound in index.highs:
                bounds.lower_high(bound, lows, highs)
    return numbers


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


@compiled
def _order_doubles(values: Array, numbers: Array) -> None:
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        whole = bits[i] if values[i] == values[i] else 0x7FF8000000000000
        whole = whole if values[i] != 0 else 0
        numbers[i] = whole ^ ((whole >> 63) & 0x7FFFFFFFFFFFFFFF)


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
        values, known, finite = self._values(bound, outward=-1)
        np.maximum(lows, _unless(finite, values, LOWEST), out=lows)
        _leave_nothing(~known, lows, highs)

    def lower_high(self, bound: Bound, lows: Array, highs: Array) -> None:
        """Lower the upper bounds to what one bound says."""
        values, known, finite = self._values(bound, outward=1)
        np.minimum(highs, _unless(finite, values, HIGHEST), out=highs)
        _leave_nothing(~known, lows, highs)

    def _values(self, bound: Bound, outward: int) -> tuple[Array, Array, Array]:
        """Give the bounds, where anything is within them, and where they are finite at all."""
        start = self.column_of(bound.start)
        known = start.valid
        operands = [self.column_of(operand) for _, operand in bound.steps]
        for operand in operands:
            known = known & operand.valid
        undos = [undo for undo, _ in bound.steps]
        flips = [_flips(undo, operand) for undo, operand in zip(undos, operands, strict=True)]
        outward *= (-1) ** sum(flips)
        if undos and self.index.data_type is DataType.DOUBLE:
            values, finite = _undo_doubles(start, outward, undos, operands, flips)
            return values, known, finite
        values = _as_numbers(self.index, start)
        if bound.strict and self.index.data_type is not DataType.STRING:
            known = known & (values != (HIGHEST if outward < 0 else LOWEST))
            values = values - outward  # the next number stands for the next value
        for undo, operand in zip(undos, operands, strict=True):
            values = _undo_whole(undo, values, operand.values)
        return values, known, ALL_TRUE


def _unless(finite: Array, values: Array, otherwise: int) -> Array:
    return values if finite.all() else np.where(finite, values, otherwise)


def _leave_nothing(where: Array, lows: Array, highs: Array) -> None:
    if where.any():
        where = np.broadcast_to(where, lows.shape)
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
) -> tuple[Array, Array]:
    """Compute with doubles, each time a little further out than rounding may have gone in."""
    values, finite = _as_doubles(start)
    size = max(len(values), *(len(operand.values) for operand in operands))
    values = np.array(np.broadcast_to(values, size))
    _undo_double(_WIDEN, values, values, float(outward))
    for undo, operand, flip in zip(undos, operands, flips, strict=True):
        other, sure = _as_doubles(operand)
        finite = finite & sure
        outward = -outward if flip else outward
        _undo_double(_NUMBERS[undo], values, np.ascontiguousarray(other), float(outward))
    return order_doubles(values), finite


def _as_doubles(column: Column) -> tuple[Array, Array]:
    """Give values as doubles, and where they are finite and as exact as they can be."""
    values = column.values.astype(np.float64, copy=False)
    if column.data_type is DataType.DOUBLE:
        return values, np.isfinite(values)
    return values, np.abs(values) <= _EXACT


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

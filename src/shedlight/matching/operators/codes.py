"""The codes of an attribute: which constant each value is, or where it lies among constants."""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import DECIMAL, TEXT, Column
from shedlight.matching.compile.intervals import IntervalSet
from shedlight.matching.compile.predicates import ClosedSet
from shedlight.matching.jit import Array, compiled

_MAX_TABLE_RANGE = 1 << 16


def interval_codes(intervals: IntervalSet, column: Column) -> Array:
    """Say where each value lies among the constants; see `IntervalSet`."""
    points, values = np.array(intervals.points), column.values.astype(np.float64)
    below = np.searchsorted(points, values)
    codes = 2 * below.astype(np.int32)
    if len(points):
        codes += points[np.minimum(below, len(points) - 1)] == values
    codes[np.isnan(values)] = intervals.codes - 2
    codes[~column.valid] = intervals.codes - 1
    return codes


@dataclass(frozen=True, slots=True, eq=False)
class CodeTable:
    """The codes of whole numbers from a lowest one on; the last is that of all others."""

    low: int
    codes: Array

    @property
    def other(self) -> int:
        """The code of values that are none of the constants."""
        return int(self.codes[-1])


def closed_codes(closed: ClosedSet, column: Column) -> Array:
    """Say which constant each value is: its number, one past them for others, two for null."""
    other = len(closed.values)
    if column.data_type is DataType.STRING:
        texts = pa.array([v if isinstance(v, str) else None for v in closed.values], TEXT)
        numbers = pc.index_in(column.values, value_set=texts).fill_null(other)
        codes = numbers.to_numpy(zero_copy_only=False)
    elif column.data_type is DataType.DECIMAL:
        known = [Decimal(v) if isinstance(v, int) else None for v in closed.values]
        numbers = pc.index_in(column.values, value_set=pa.array(known, DECIMAL))
        codes = numbers.fill_null(other).to_numpy(zero_copy_only=False)
    elif column.data_type in {DataType.BIGINT, DataType.TIMESTAMP, DataType.DOUBLE}:
        return _number_codes(closed, column)
    else:
        codes = np.full(len(column), other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


def _number_codes(closed: ClosedSet, column: Column) -> Array:
    table, values = find_table(closed, column.data_type), column.values
    if table is not None:
        codes = np.empty(len(values), np.int32)
        code_by_table(values, table.low, table.codes, codes)
        codes[~column.valid] = table.other + 1
        return codes
    numbers = sorted((v, i) for i, v in enumerate(closed.values) if isinstance(v, int))
    other = len(closed.values)
    if not numbers:
        return np.where(column.valid, other, other + 1).astype(np.int32)
    known = np.array([v for v, _ in numbers], values.dtype)
    nearest = np.minimum(np.searchsorted(known, values), len(numbers) - 1)
    code_of = np.array([i for _, i in numbers])
    codes = np.where(known[nearest] == values, code_of[nearest], other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


@lru_cache(maxsize=256)
def find_table(closed: ClosedSet, data_type: DataType) -> CodeTable | None:
    """Lay the constants out as a table, if they are whole numbers close together."""
    numbers = [(v, i) for i, v in enumerate(closed.values) if isinstance(v, int)]
    if not numbers or data_type not in {DataType.BIGINT, DataType.TIMESTAMP}:
        return None
    low, high = min(numbers)[0], max(numbers)[0]
    if high - low >= _MAX_TABLE_RANGE:
        return None
    codes = np.full(high - low + 2, len(closed.values), np.int32)
    codes[[v - low for v, _ in numbers]] = [i for _, i in numbers]
    return CodeTable(low, codes)


@compiled
def code_by_table(values: Array, low: int, table: Array, codes: Array) -> None:
    """Look values up in a table that begins at the lowest constant."""
    last = np.uint64(table.shape[0] - 1)
    for i in range(values.shape[0]):  # below the lowest, the difference is a very large number
        codes[i] = table[min(np.uint64(values[i] - low), last)]

"""Aggregates over the events of an element, match by match."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Column, to_column, to_one_chunk
from shedlight.matching.jit import Array


def take_values(values: pa.Array, positions: Array) -> pa.Array:
    """Take the values at some positions, null where a position is -1."""
    return values.take(pa.array(positions, mask=positions < 0))


def whole_numbers(values: Array) -> Column:
    """Give counts as a column."""
    return Column(DataType.BIGINT, values.astype(np.int64), np.ones(len(values), np.bool_))


def fold(
    table: pa.Table, function: ex.AggregateFunction, data_type: DataType, size: int
) -> Column:
    """Aggregate values by match; null where there is none."""
    present = table.filter(pc.is_valid(table["value"]))
    if function in {ex.AggregateFunction.MIN, ex.AggregateFunction.MAX}:
        direction = "ascending" if function is ex.AggregateFunction.MIN else "descending"
        order = _order(present, data_type, direction)
        match = present["match"].to_numpy()[order]
        positions = np.full(size, -1, np.int64)
        occurring, first = np.unique(match, return_index=True)
        positions[occurring] = first
        return to_column(
            take_values(to_one_chunk(present["value"].take(pa.array(order))), positions)
        )
    return _summed(present, function, data_type, size)


def _order(table: pa.Table, data_type: DataType, direction: str) -> Array:
    """Sort values, NaN as the greatest."""
    if data_type is DataType.DOUBLE:
        values = table["value"].to_numpy()
        order = np.argsort(values, kind="stable")
        return order if direction == "ascending" else order[::-1]
    return pc.sort_indices(table, [("value", direction)]).to_numpy()


def _summed(
    table: pa.Table, function: ex.AggregateFunction, data_type: DataType, size: int
) -> Column:
    match, values = table["match"].to_numpy(), table["value"].to_numpy()
    counts = np.bincount(match, minlength=size)
    total = np.bincount(match, weights=values, minlength=size)
    has_any = counts > 0
    if function is ex.AggregateFunction.AVG:
        return Column(DataType.DOUBLE, np.divide(total, np.maximum(counts, 1)), has_any)
    if data_type is DataType.DOUBLE:
        return Column(DataType.DOUBLE, total, has_any)
    return _exact_sum(match, values, size, has_any)


def _exact_sum(match: Array, values: Array, size: int, has_any: Array) -> Column:
    """Add whole numbers in two halves, to see what does not fit 64 bits: it is null."""
    high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(high, match, values >> 32)
    np.add.at(low, match, values & 0xFFFFFFFF)
    high += low >> 32
    fits = (high >= -(1 << 31)) & (high < 1 << 31)
    return Column(DataType.BIGINT, (high << 32) | (low & 0xFFFFFFFF), has_any & fits)

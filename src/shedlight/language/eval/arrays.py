"""Functions on columns of arrays."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval import column as col
from shedlight.language.eval.column import Column, and_flags
from shedlight.language.eval.numeric import is_equal


def count_elements(array: Column) -> Column:
    """Count the elements of each array."""
    counts = pc.list_value_length(array.values).cast(pa.int64()).fill_null(0)
    return Column(DataType.BIGINT, np.asarray(counts), array.valid)


def element_at(array: Column, position: Column) -> Column:
    """Find the element at a position, 0 being the first; null where there is none."""
    starts, counts, elements = _parts(array)
    rows = max(len(counts), len(position.values)) if len(counts) else 0
    within = (position.values >= 0) & (position.values < counts)
    at = np.broadcast_to(starts + np.where(within, position.values, 0), rows)
    fine = np.broadcast_to(and_flags(and_flags(array.valid, position.valid), within), rows)
    found = col.to_column(elements.take(pa.array(at, mask=~fine)))
    return Column(found.data_type, found.values, and_flags(found.valid, fine))


def contains_element(array: Column, value: Column) -> Column:
    """Tell where an array has an element; null if it has none such but has a null."""
    starts, counts, elements = _parts(array)
    rows = max(len(counts), len(value.values)) if len(counts) else 0
    owners = np.repeat(np.arange(rows), np.broadcast_to(counts, rows))
    firsts = np.cumsum(np.broadcast_to(counts, rows)) - counts
    at = np.arange(len(owners)) - firsts[owners] + np.broadcast_to(starts, rows)[owners]
    members = col.to_column(elements.take(pa.array(at)))
    wanted = value if col.is_constant(value) else _take(col.broadcast_to(value, rows), owners)
    same = and_flags(is_equal(members, wanted), members.valid)
    has = np.zeros(rows, np.bool_)
    has[owners[np.broadcast_to(same, len(owners))]] = True
    has_null = np.zeros(rows, np.bool_)
    has_null[owners[~np.broadcast_to(members.valid, len(owners))]] = True
    valid = and_flags(and_flags(array.valid, value.valid), has | ~has_null)
    return Column(DataType.BOOLEAN, has, valid)


def _parts(array: Column) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Give where each array starts, how many elements it has, and all elements."""
    lists: pa.ListArray = array.values
    offsets = np.asarray(lists.offsets, np.int64)
    counts = np.where(array.valid, np.diff(offsets), 0)
    return offsets[:-1], counts, lists.values


def _take(column: Column, rows: np.ndarray) -> Column:
    values = column.values
    taken = values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
    return Column(column.data_type, taken, column.valid[rows])

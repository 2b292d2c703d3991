"""A column of values, and its way from and to Arrow.

Columns of different lengths are never combined, but for one case: a column of one row is a
constant, which stands for as many rows as are needed. NumPy broadcasts it by itself, Arrow
once it is a scalar (`to_scalars`). Values and validity may be constant each on its own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import PYTHON_TYPES, DataType

Flags = npt.NDArray[np.bool_]
Constant = bool | int | float | str | None

TEXT = pa.large_string()
"""How text is kept: with 64-bit offsets, so that a column may exceed 2 GiB."""

ALL_TRUE: Flags = np.ones(1, np.bool_)  # what is so in all rows

_MICROSECONDS_PER_UNIT = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_UNITS_OF_DATES = {pa.date32(): "day", pa.date64(): "ms"}
_ARROW_TYPES = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.BIGINT: pa.int64(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    DataType.NULL: pa.null(),
}
_DTYPES = {
    DataType.BOOLEAN: np.bool_,
    DataType.BIGINT: np.int64,
    DataType.DOUBLE: np.float64,
    DataType.TIMESTAMP: np.int64,
    DataType.NULL: np.bool_,
}
_DATA_TYPE_TESTS = (
    (pa.types.is_null, DataType.NULL),
    (pa.types.is_boolean, DataType.BOOLEAN),
    (pa.types.is_integer, DataType.BIGINT),
    (pa.types.is_floating, DataType.DOUBLE),
    (pa.types.is_decimal, DataType.DOUBLE),
    (pa.types.is_string, DataType.STRING),
    (pa.types.is_large_string, DataType.STRING),
    (pa.types.is_string_view, DataType.STRING),
    (pa.types.is_timestamp, DataType.TIMESTAMP),
    (pa.types.is_date, DataType.TIMESTAMP),
    (pa.types.is_struct, DataType.STRUCT),
)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one data type, a row each."""

    data_type: DataType  # what the values are
    # int64 (bigint; timestamps in microseconds), float64 or bool in NumPy; text and structs in
    # Arrow. Where a row is not valid, its value is arbitrary.
    values: npt.NDArray[Any] | pa.Array
    valid: Flags  # which rows are not null

    def __len__(self) -> int:
        return len(self.values)


def data_type_of_arrow(arrow_type: pa.DataType) -> DataType:
    """Find the data type of values of an Arrow type; TypeError if the language has none."""
    if pa.types.is_dictionary(arrow_type):
        return data_type_of_arrow(arrow_type.value_type)
    for is_of, data_type in _DATA_TYPE_TESTS:
        if is_of(arrow_type):
            return data_type
    raise TypeError(f"values of the Arrow type {arrow_type} are not supported")


def to_column(array: pa.Array | pa.ChunkedArray) -> Column:
    """Take over an Arrow array.

    What does not fit becomes null: whole numbers from 2^63 on and timestamps that are too far
    away for 64 bits of microseconds. A decimal becomes the double nearest to it, a
    finer timestamp the microsecond that it is in, a date its midnight in UTC, and a timestamp
    without a time zone is one in UTC.
    """
    data_type = data_type_of_arrow(array.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if data_type is DataType.STRING:
        array = array.cast(TEXT)
    array = to_one_chunk(array)
    valid = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)
    if data_type in {DataType.STRING, DataType.STRUCT}:
        return Column(data_type, array, valid)
    if data_type is DataType.TIMESTAMP:
        return _timestamps(array, valid)
    return _plain(data_type, array, valid)


def to_one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Give an array of one chunk, without a copy if it is one already."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def to_arrow(column: Column) -> pa.Array:
    """Give a column as an Arrow array, with nulls where it is not valid."""
    if column.data_type is DataType.NULL:
        return pa.nulls(len(column))
    if isinstance(column.values, np.ndarray):
        return pa.array(column.values, mask=~column.valid, type=_ARROW_TYPES[column.data_type])
    shown = column.values
    if not np.array_equal(column.valid, np.asarray(shown.is_valid())):
        shown = pc.if_else(column.valid, shown, pa.scalar(None, shown.type))
    return shown.cast(pa.string()) if column.data_type is DataType.STRING else shown


def constant_column(value: Constant) -> Column:
    """Make a column of one value."""
    valid = np.array([value is not None])
    if isinstance(value, str):
        return Column(DataType.STRING, pa.array([value], TEXT), valid)
    data_type = PYTHON_TYPES[type(value)]
    return Column(data_type, np.array([value or 0], _DTYPES[data_type]), valid)


def is_constant(column: Column) -> bool:
    """Say whether a column has one value that may stand for many rows."""
    return len(column.values) == 1 and len(column.valid) == 1


def as_data_type(column: Column, data_type: DataType) -> Column:
    """Take a column as the data type that it was found to agree on with others."""
    if column.data_type is data_type:
        return column
    if column.data_type is DataType.NULL:
        is_text = data_type is DataType.STRING
        blank = pa.array([""], TEXT) if is_text else np.zeros(1, _DTYPES[data_type])
        return Column(data_type, blank, np.zeros(1, np.bool_))
    return Column(data_type, column.values.astype(_DTYPES[data_type]), column.valid)


def broadcast_to(column: Column, rows: int) -> Column:
    """Repeat what is constant, so that there is a value for each row."""
    values, valid = column.values, column.valid
    if len(values) != rows:
        is_numpy = isinstance(values, np.ndarray)
        values = np.repeat(values, rows) if is_numpy else pa.repeat(values[0], rows)
    if len(valid) != rows:
        valid = np.repeat(valid, rows)
    return Column(column.data_type, values, valid)


def where(which: Flags, first: Column, second: Column) -> Column:
    """Take values of the first column where `which` is true, else of the second."""
    valid = np.where(which, first.valid, second.valid)
    if isinstance(first.values, np.ndarray):
        return Column(first.data_type, np.where(which, first.values, second.values), valid)
    values = pc.if_else(*to_scalars(pa.array(which), first.values, second.values))
    return Column(first.data_type, values, valid)


def to_scalars(*arrays: pa.Array) -> list[pa.Array | pa.Scalar]:
    """Make scalars of constants among longer (or empty) arrays, as Arrow asks."""
    if len({len(array) for array in arrays}) == 1:
        return list(arrays)
    return [array[0] if len(array) == 1 else array for array in arrays]


def to_flags(array: pa.Array) -> Flags:
    """Tell where an Arrow array is true, neither false nor null."""
    return np.asarray(pc.fill_null(array, fill_value=False))


def and_flags(first: Flags, second: Flags) -> Flags:
    """Tell where two flags are up, without a pass over the rows where one is always up."""
    if len(first) == 1 and first[0]:
        return second
    return first if len(second) == 1 and second[0] else first & second


def _plain(data_type: DataType, array: pa.Array, valid: Flags) -> Column:
    if array.type == pa.uint64():
        within = pc.less_equal(array, pa.scalar(2**63 - 1, pa.uint64()))
        valid = valid & to_flags(within)
        array = array.cast(pa.int64(), safe=False)
    if pa.types.is_decimal(array.type):
        # by way of text it is rounded once; Arrow's own cast may be off by a bit
        array = array.cast(pa.string())
    if data_type is DataType.NULL:
        return Column(data_type, np.zeros(len(array), np.bool_), valid)
    array = array.cast(_ARROW_TYPES[data_type])
    if array.null_count:
        array = array.fill_null(_DTYPES[data_type]())
    return Column(data_type, array.to_numpy(zero_copy_only=False), valid)


def _timestamps(array: pa.Array, valid: Flags) -> Column:
    """Bring dates and timestamps of any unit to microseconds."""
    unit = _UNITS_OF_DATES.get(array.type) or array.type.unit
    if unit == "day":
        array = array.cast(pa.int32())
    counts = np.asarray(array.cast(pa.int64()).fill_null(0))
    if unit == "ns":
        return Column(DataType.TIMESTAMP, counts // 1_000, valid)
    factor = _MICROSECONDS_PER_UNIT[unit]
    within = (counts >= -(2**63 // factor)) & (counts <= (2**63 - 1) // factor)
    times = np.where(within, counts, 0) * factor
    return Column(DataType.TIMESTAMP, times, and_flags(valid, within))

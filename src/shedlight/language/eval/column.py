"""A column of values, and its way from and to Arrow.

Columns of different lengths are never combined, but for one case: a column of one row is a
constant, which stands for as many rows as are needed. NumPy broadcasts it by itself, Arrow
once it is a scalar (`to_scalars`). Values and validity may be constant each on its own.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import ARRAYS, NO_VALUES, PYTHON_TYPES, DataType

Flags = npt.NDArray[np.bool_]
Constant = bool | int | float | str | date | datetime | None

TEXT = pa.large_string()
"""How text is kept: with 64-bit offsets, so that a column may exceed 2 GiB."""

DECIMAL = pa.decimal128(38, 18)
"""How decimals are kept: 20 digits before the point and 18 behind it."""

ALL_TRUE: Flags = np.ones(1, np.bool_)  # what is so in all rows
DAY = 86_400_000_000  # microseconds

_MICROSECONDS_PER_UNIT = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_UNITS_OF_DATES = {pa.date32(): "day", pa.date64(): "ms"}
_ARROW_TYPES = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.BIGINT: pa.int64(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    DataType.DATE: pa.date32(),
    DataType.DECIMAL: DECIMAL,
    DataType.NULL: pa.null(),
}
_DTYPES = {
    DataType.BOOLEAN: np.bool_,
    DataType.BIGINT: np.int64,
    DataType.DOUBLE: np.float64,
    DataType.TIMESTAMP: np.int64,
    DataType.DATE: np.int64,
    DataType.NULL: np.bool_,
}
_DATA_TYPE_TESTS = (
    (pa.types.is_null, DataType.NULL),
    (pa.types.is_boolean, DataType.BOOLEAN),
    (pa.types.is_integer, DataType.BIGINT),
    (pa.types.is_floating, DataType.DOUBLE),
    (pa.types.is_string, DataType.STRING),
    (pa.types.is_large_string, DataType.STRING),
    (pa.types.is_string_view, DataType.STRING),
    (pa.types.is_timestamp, DataType.TIMESTAMP),
    (pa.types.is_date, DataType.DATE),
    (pa.types.is_struct, DataType.STRUCT),
)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one data type, a row each."""

    data_type: DataType  # what the values are
    # int64 (bigint; timestamps, and dates as their midnights in UTC, in microseconds), float64
    # or bool in NumPy; text, decimals, arrays and structs in Arrow. Where a row is not valid,
    # its value is arbitrary.
    values: npt.NDArray[Any] | pa.Array
    valid: Flags  # which rows are not null

    def __len__(self) -> int:
        return len(self.values)


def data_type_of_arrow(arrow_type: pa.DataType) -> DataType:
    """Find the data type of values of an Arrow type."""
    if pa.types.is_dictionary(arrow_type):
        return data_type_of_arrow(arrow_type.value_type)
    for is_of, data_type in _DATA_TYPE_TESTS:
        if is_of(arrow_type):
            return data_type
    if pa.types.is_decimal(arrow_type) and arrow_type.scale <= DECIMAL.scale:
        return DataType.DECIMAL
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        element = data_type_of_arrow(arrow_type.value_type)
        found = [data_type for data_type in ARRAYS if data_type.element is element]
        return found[0] if found else DataType.OTHER
    return DataType.OTHER


def to_column(array: pa.Array | pa.ChunkedArray) -> Column:
    """Take over an Arrow array.

    What does not fit becomes null: whole numbers from 2^63 on, decimals from 10^20 on, and
    timestamps that are too far away for 64 bits of microseconds. A finer timestamp becomes the
    microsecond that it is in, and one without a time zone is one in UTC.
    """
    data_type = data_type_of_arrow(array.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if data_type is DataType.STRING:
        array = array.cast(TEXT)
    array = to_one_chunk(array)
    valid = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)
    if data_type in NO_VALUES | {DataType.STRING}:
        return Column(data_type, array, valid)
    if data_type is DataType.DECIMAL:
        return _decimals(array, valid)
    if data_type in {DataType.TIMESTAMP, DataType.DATE}:
        return _timestamps(data_type, array, valid)
    return _plain(data_type, array, valid)


def as_arrow_type(data_type: DataType) -> pa.DataType:
    """Give the Arrow type of plain values of a data type."""
    return _ARROW_TYPES[data_type]


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
        is_date = column.data_type is DataType.DATE
        values = (column.values // DAY).astype(np.int32) if is_date else column.values
        return pa.array(values, mask=~column.valid, type=_ARROW_TYPES[column.data_type])
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
    number = to_micros(value) if isinstance(value, date) else value or 0
    return Column(data_type, np.array([number], _DTYPES[data_type]), valid)


def to_micros(value: datetime | date) -> int:
    """Give the microseconds from 1970 to a time, or to the midnight of a date in UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def decimal_column(value: Decimal) -> Column:
    """Make a column of one decimal, which must fit."""
    return Column(DataType.DECIMAL, pa.array([value], DECIMAL), ALL_TRUE)


def is_constant(column: Column) -> bool:
    """Say whether a column has one value that may stand for many rows."""
    return len(column.values) == 1 and len(column.valid) == 1


def as_data_type(column: Column, data_type: DataType) -> Column:
    """Take a column as the data type that it was found to agree on with others."""
    if column.data_type is data_type:
        return column
    if column.data_type is DataType.NULL:
        return Column(data_type, _blank(data_type), np.zeros(1, np.bool_))
    if data_type is DataType.DECIMAL:
        return Column(data_type, pa.array(column.values).cast(DECIMAL), column.valid)
    if column.data_type is DataType.DECIMAL:
        # by way of text it is rounded once; Arrow's own cast may be off by a bit
        texts: pa.Array = column.values
        doubles = texts.cast(pa.string()).cast(pa.float64()).fill_null(0.0)
        return Column(data_type, np.asarray(doubles), column.valid)
    return Column(data_type, column.values.astype(_DTYPES[data_type]), column.valid)


def _blank(data_type: DataType) -> npt.NDArray[Any] | pa.Array:
    """Make one value, to be null."""
    if data_type is DataType.STRING:
        return pa.array([""], TEXT)
    if data_type is DataType.DECIMAL:
        return pa.array([Decimal(0)], DECIMAL)
    if data_type.element is not None:
        return pa.nulls(1, pa.list_(_ARROW_TYPES[data_type.element]))
    return np.zeros(1, _DTYPES[data_type])


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
    if data_type is DataType.NULL:
        return Column(data_type, np.zeros(len(array), np.bool_), valid)
    array = array.cast(_ARROW_TYPES[data_type])
    if array.null_count:
        array = array.fill_null(_DTYPES[data_type]())
    return Column(data_type, array.to_numpy(zero_copy_only=False), valid)


def _decimals(array: pa.Array, valid: Flags) -> Column:
    """Bring decimals to those that are kept; what has more digits before the point is null."""
    whole = DECIMAL.precision - DECIMAL.scale
    if array.type.precision - array.type.scale > whole:
        wide = array.cast(pa.decimal256(76, array.type.scale))
        limit = pa.scalar(Decimal(10) ** whole, wide.type)
        within = to_flags(pc.less(pc.abs(wide), limit))
        valid = and_flags(valid, within)
        array = pc.if_else(pa.array(within), array, pa.scalar(None, array.type))
    return Column(DataType.DECIMAL, array.cast(DECIMAL), valid)


def _timestamps(data_type: DataType, array: pa.Array, valid: Flags) -> Column:
    """Bring dates and timestamps of any unit to microseconds."""
    unit = _UNITS_OF_DATES.get(array.type) or array.type.unit
    if unit == "day":
        array = array.cast(pa.int32())
    counts = np.asarray(array.cast(pa.int64()).fill_null(0))
    if unit == "ns":
        return Column(data_type, counts // 1_000, valid)
    factor = _MICROSECONDS_PER_UNIT[unit]
    within = (counts >= -(2**63 // factor)) & (counts <= (2**63 - 1) // factor)
    times = np.where(within, counts, 0) * factor
    return Column(data_type, times, and_flags(valid, within))

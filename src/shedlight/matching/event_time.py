"""When an event was: a column of times of any form, in microseconds since 1970.

One convention, here and in `engines/spark/source/event_time_sql.py`: a timestamp is itself, a
date its midnight, text is ISO-8601, and a number counts seconds, milliseconds, microseconds or
nanoseconds. What has no zone is in UTC, or in the time zone of the source. A time that is finer
than a microsecond is the microsecond that it is in; a number with a fraction is rounded.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shedlight.errors import InputError
from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import (
    ALL_TRUE,
    Column,
    Flags,
    and_flags,
    as_data_type,
    to_column,
)
from shedlight.language.eval.times import local_offsets, read_timestamps
from shedlight.language.functions import EVENT_TIMES, NUMBERS

TIME_UNITS: Mapping[str, int] = {"ns": 1_000, "us": 1, "ms": 1_000, "s": 1_000_000}
"""Microseconds in each unit that a number may count; of nanoseconds, how many are one."""
TIME_FORMS = (
    "a time is a timestamp, a date, text in ISO-8601 such as 2026-01-31T23:59:59.5+01:00, or a "
    "number in `time_unit`"
)
FARTHEST = 1 << 62  # a time is less far from 1970, in microseconds


def read_event_times(
    array: pa.Array | pa.ChunkedArray, unit: str = "us", zone: str | None = None
) -> Column:
    """Give the microseconds from 1970 to each time, as bigints; null where there is none.

    Args:
        array: The times.
        unit: What numbers count: s, ms, us or ns.
        zone: The time zone of what has none; None: UTC.

    Raises:
        InputError: They have a data type that is none of a time.
    """
    column = to_column(array)
    if column.data_type is DataType.NULL:
        return Column(DataType.BIGINT, np.zeros(len(column), np.int64), column.valid)
    if column.data_type not in EVENT_TIMES:
        raise InputError(f"it has {array.type}, which is no time; {TIME_FORMS}")
    if column.data_type in NUMBERS:
        times = _count(column, unit)
    elif column.data_type is DataType.STRING:
        times = read_timestamps(column, zone)
    else:
        times = _in_zone(column, None if getattr(array.type, "tz", None) else zone)
    return Column(
        DataType.BIGINT, times.values, and_flags(times.valid, _are_near(times.values))
    )


def _are_near(micros: npt.NDArray[np.int64]) -> Flags:
    """Tell which times are not too far away; almost always all, by the bounds alone."""
    if not len(micros) or (micros.min() > -FARTHEST and micros.max() < FARTHEST):
        return ALL_TRUE
    return np.asarray((micros > -FARTHEST) & (micros < FARTHEST))


def _in_zone(column: Column, zone: str | None) -> Column:
    if zone is None:
        return column
    local = np.where(column.valid, column.values, 0)
    return Column(column.data_type, local - local_offsets(local, zone), column.valid)


def _count(column: Column, unit: str) -> Column:
    """Take numbers as counts of a unit."""
    factor = TIME_UNITS[unit]
    if column.data_type is DataType.BIGINT:
        if unit == "ns":
            return Column(DataType.BIGINT, column.values // factor, column.valid)
        if unit == "us":
            return column
        limit = FARTHEST // factor
        fits = (column.values > -limit) & (column.values < limit)
        scaled = np.where(fits, column.values, 0) * factor
        return Column(DataType.BIGINT, scaled, and_flags(column.valid, fits))
    doubles = as_data_type(column, DataType.DOUBLE).values
    with np.errstate(all="ignore"):
        scaled = np.rint(doubles / factor if unit == "ns" else doubles * factor)
    fits = np.abs(scaled) < FARTHEST  # not so of NaN
    values = np.where(fits, scaled, 0.0).astype(np.int64)
    return Column(DataType.BIGINT, values, and_flags(column.valid, fits))

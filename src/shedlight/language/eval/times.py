r"""Times in text: ISO-8601, read and written, for columns; `spark_sql.py` has the same forms.

    date       YYYY-MM-DD                                   years 0001 to 9999
    timestamp  a date, then T or a blank, HH:MM[:SS[.f]]    f has one to nine digits
    zone       Z, +HH, +HHMM or +HH:MM, after a blank or not

A date alone is its midnight. Without a zone it is UTC, or the zone that is named. What is finer
than a microsecond is cut off. Blanks around it are fine; what has another form is no time.
"""

from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval import column as col
from shedlight.language.eval.column import DAY, Column, and_flags
from shedlight.language.eval.texts import BLANKS
from shedlight.language.time_format import CLOCK_FORM, DATE_FORM, ZONE_FORM, rewrite_format

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # local to wherever
_LAST_DAYS = (date.min.toordinal() - 719_163, date.max.toordinal() - 719_163)
_WHOLE_FORM = rf"\A{DATE_FORM}(?:[T ]{CLOCK_FORM}(?:{ZONE_FORM})?)?\z"
_FIRST_DOUBTFUL_DAY = "29"  # earlier ones are in every month

Micros = npt.NDArray[np.int64]


def read_timestamps(text: Column, zone: str | None = None) -> Column:
    """Read times; null where there is none. Those without a zone are of the zone named."""
    bare = pc.utf8_trim(text.values, BLANKS).fill_null("")
    fits = np.asarray(pc.match_substring_regex(bare, _WHOLE_FORM))
    fits = fits & _are_days(bare, fits)
    shown = pc.if_else(fits, bare, "1970-01-01")
    if pc.any(pc.match_substring_regex(shown, "[.][0-9]{7}")).as_py():
        shown = pc.replace_substring_regex(shown, "([.][0-9]{6})[0-9]+", r"\1")
    if pc.any(pc.match_substring_regex(shown, " [Z+-]")).as_py():
        shown = pc.replace_substring_regex(shown, " ([Z+-])", r"\1")
    is_zoned = pc.match_substring_regex(pc.utf8_slice_codeunits(shown, 11), "[Z+-]")
    is_date = pc.equal(pc.utf8_length(shown), len("1970-01-01"))
    ending = pc.if_else(is_zoned, "", pc.if_else(is_date, "T00:00Z", "Z"))
    whole = pc.binary_join_element_wise(
        shown, ending.cast(shown.type), pa.scalar("", shown.type)
    )
    micros = np.asarray(whole.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
    if zone is not None:
        naive = ~np.asarray(is_zoned)
        micros = np.where(
            naive, micros - local_offsets(np.where(naive, micros, 0), zone), micros
        )
    return Column(DataType.TIMESTAMP, micros, and_flags(text.valid, fits))


def read_formatted(text: Column, form: str) -> Column:
    """Read times that are written in a format; null where there is none."""
    pattern, parts = rewrite_format(form)
    fits = pc.match_substring_regex(text.values, pattern).fill_null(fill_value=False)
    iso = "".join(rf"\{part}" if isinstance(part, int) else part for part in parts)
    written = pc.replace_substring_regex(pc.if_else(fits, text.values, ""), pattern, iso)
    return read_timestamps(Column(DataType.STRING, written.cast(col.TEXT), text.valid))


def midnights(time: Column) -> Column:
    """Give the day in UTC that a time is in."""
    days = np.floor_divide(time.values, DAY)
    fits = days > np.iinfo(np.int64).min // DAY  # the first would begin before all that fits
    return Column(DataType.DATE, np.where(fits, days, 0) * DAY, and_flags(time.valid, fits))


def write_times(times: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Write timestamps, or microseconds, as ISO-8601 in UTC, with six digits of a second."""
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.int64()).cast(pa.timestamp("us"))
    plain = times.cast(pa.timestamp("us")) if times.type.tz is None else times
    micros = plain.cast(pa.timestamp("us", tz="UTC"))
    return pc.replace_substring(micros.cast(pa.string()), " ", "T")


def local_offsets(local: Micros, zone: str) -> Micros:
    """Find how far a zone is ahead of UTC at local times, in microseconds.

    As in Java, a time that is there twice is the first of the two, and one that is skipped is
    as much later as is skipped.
    """
    days = np.clip(local // DAY, *_LAST_DAYS)
    distinct, which = np.unique(days, return_inverse=True)
    bounds = [
        (_offset(day * DAY, zone), _offset(day * DAY + DAY - 1, zone)) for day in distinct
    ]
    firsts, lasts = np.array(bounds, np.int64).reshape(-1, 2).T
    offsets = firsts[which]
    changing = np.flatnonzero((firsts != lasts)[which])
    offsets[changing] = [_offset(int(time), zone) for time in local[changing]]
    return offsets


def _offset(local: int, zone: str) -> int:
    wall = _EPOCH + timedelta(microseconds=int(local))
    ahead = wall.replace(tzinfo=_zone(zone)).utcoffset() or timedelta()
    return ahead // timedelta(microseconds=1)


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _are_days(bare: pa.Array, fits: col.Flags) -> col.Flags:
    """Tell where a date is one of its month; there is no 30 February."""
    doubtful = pc.greater_equal(pc.utf8_slice_codeunits(bare, 8, 10), _FIRST_DOUBTFUL_DAY)
    if not (fits & np.asarray(doubtful)).any():
        return col.ALL_TRUE
    days = pc.utf8_slice_codeunits(bare, 0, 10)
    distinct = pc.unique(days.filter(pa.array(fits & np.asarray(doubtful))))
    wrong = [day for day in distinct.to_pylist() if not _is_day(day)]
    return ~np.asarray(pc.is_in(days, pa.array(wrong, days.type)))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True

"""Events from the future in files: by when the file was written, or the event arrived."""

import os
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from shedlight.engines.time_jumps import FutureEvents, leave_out_future
from shedlight.graph import Source, TimeUnit
from shedlight.language import parse_expression

WRITTEN = 1_700_000_000  # when the file was, in seconds
HOUR = 3600


@pytest.fixture
def file(tmp_path):
    """Make a file that was written at a known time."""
    path = tmp_path / "events.csv"
    path.touch()
    os.utime(path, (WRITTEN, WRITTEN))
    return path


def _left(file, times, **given):
    seen: list[FutureEvents] = []
    source = Source(name="s", time="at", time_unit=TimeUnit.SECONDS, id=("n",), **given)
    columns = times if isinstance(times, dict) else {"at": times}
    number = len(next(iter(columns.values())))
    table = pa.table({"n": list(range(number)), **columns})
    left = leave_out_future(source, file, table, seen.append)
    assert left.schema == table.schema
    assert sum(each.number for each in seen) == number - len(left)
    return left["n"].to_pylist()


def test_a_time_may_be_a_day_after_the_file_was_written(file):
    """Exactly a day is still in."""
    day = 24 * HOUR
    times = [WRITTEN + day, WRITTEN + day + 1, 0, 253_402_300_799, WRITTEN]
    assert _left(file, times) == [0, 2, 4]


def test_a_source_may_allow_for_more_or_less(file):
    """In microseconds, whatever the unit of its times is."""
    assert _left(file, [WRITTEN + 1, WRITTEN + 2], max_jump=1_000_000) == [0]
    far = 253_402_300_799
    assert _left(file, [far, far], max_jump=far * 1_000_000) == [0, 1]


def test_what_is_no_time_is_left_to_others(file):
    """It is malformed, which has a place of its own."""
    times = ["2023-11-14T00:00:00Z", None, "soon", "9999-12-31T00:00:00Z"]
    assert _left(file, times) == [0, 1, 2]


def test_an_arrival_counts_in_place_of_the_file(file):
    """Where it has one, and not if it is after the file was written."""
    old = WRITTEN - 100 * HOUR
    came = [datetime.fromtimestamp(at, UTC) for at in (old, old, WRITTEN + 9 * HOUR)]
    times = [old + HOUR, old + HOUR + 1, WRITTEN + HOUR + 1, WRITTEN + HOUR]
    columns = {"at": times, "came": [*came, None]}
    left = _left(file, columns, arrival="came", max_jump=HOUR * 1_000_000)
    assert left == [0, 3]


def test_the_time_may_be_a_derived_column(file):
    """As anywhere."""
    columns = {"at": parse_expression("minutes * 60")}
    minutes = WRITTEN // 60
    assert _left(file, {"minutes": [minutes, minutes * 2]}, columns=columns) == [0]

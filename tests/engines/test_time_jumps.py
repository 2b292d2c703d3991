"""Events from the future in files: those too far ahead of the clock are left out."""

import pyarrow as pa

from shedlight.engines.time_jumps import FutureEvents, leave_out_future
from shedlight.graph import Source, TimeUnit
from shedlight.language import parse_expression

NOW = 1_700_000_000  # in seconds
HOUR = 3600


def _left(times, **given):
    seen: list[FutureEvents] = []
    source = Source(name="s", time="at", time_unit=TimeUnit.SECONDS, id=("n",), **given)
    columns = times if isinstance(times, dict) else {"at": times}
    number = len(next(iter(columns.values())))
    table = pa.table({"n": list(range(number)), **columns})
    left = leave_out_future(source, table, NOW * 1_000_000, seen.append)
    assert left.schema == table.schema
    assert sum(each.number for each in seen) == number - len(left)
    return left["n"].to_pylist()


def test_a_time_may_be_a_day_ahead():
    """Exactly a day is still in."""
    day = 24 * HOUR
    assert _left([NOW + day, NOW + day + 1, 0, 253_402_300_799, NOW]) == [0, 2, 4]


def test_a_source_may_allow_for_more_or_less():
    """In microseconds, whatever the unit of its times is."""
    assert _left([NOW + 1, NOW + 2], max_jump=1_000_000) == [0]
    far = 253_402_300_799
    assert _left([far, far], max_jump=far * 1_000_000) == [0, 1]


def test_what_is_no_time_is_left_to_others():
    """It is malformed, which has a place of its own."""
    assert _left(["2023-11-14T00:00:00Z", None, "soon", "9999-12-31T00:00:00Z"]) == [0, 1, 2]


def test_the_time_may_be_a_derived_column():
    """As anywhere."""
    columns = {"at": parse_expression("minutes * 60")}
    minutes = NOW // 60
    assert _left({"minutes": [minutes, minutes * 2]}, columns=columns) == [0]

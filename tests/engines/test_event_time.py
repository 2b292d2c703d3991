"""Times of events, of any form and from any file, are the instants that the table says."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.cli.source_files import read_sources
from shedlight.engines.event_files import write_events
from shedlight.engines.first_events import first_times
from shedlight.engines.tables import (
    add_event_time,
    combine_results,
    match_tables,
    run_application,
)
from shedlight.errors import InputError
from shedlight.graph import SideOutput, Source
from shedlight.language import parse_pattern
from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.times import write_times
from shedlight.matching.event_time import read_event_times
from shedlight.matching.operators.reorder import StreamInput
from tests.time_cases import CASES, FILES, application_of, events_of, write_case


def _times_by_row(table):
    rows = sorted(zip(table["n"].to_pylist(), table["time"].to_pylist(), strict=True))
    return [time for _, time in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_column_of_times_is_read(case):
    """In Python: the column itself."""
    found = read_event_times(case.times, case.unit.value, case.zone)

    assert found.valid.all()
    assert found.values.tolist() == case.micros


@pytest.mark.parametrize(("case", "form"), FILES, ids=lambda x: getattr(x, "name", x))
def test_a_file_of_times_is_read(case, form, tmp_path):
    """As `match` does it: from JSON, CSV and Parquet."""
    source = write_case(case, form, tmp_path)
    application = application_of(source)

    tables = read_sources(application, tmp_path, [])
    result = run_application(application, tables)["o"]

    assert _times_by_row(result.complex_events["P"]) == case.micros
    assert [read for _, read in first_times(source, tmp_path)] == [
        write_times(pa.array([time])).to_pylist()[0] for time in case.micros[:3]
    ]


def test_an_event_may_have_its_time_in_text_in_python():
    """Also without an application."""
    case = CASES[0]
    pattern = parse_pattern("SELECT a.n WHERE a.n >= 0").pattern

    stream = StreamInput("s", ("n",), "ts", lateness=10**17)
    result = match_tables([(stream, events_of(case))], {"P": pattern})

    assert _times_by_row(result.complex_events["P"]) == case.micros


def test_a_declared_timestamp_may_be_text_in_the_file(tmp_path):
    """Then patterns see a timestamp, as on Spark."""
    source = write_case(CASES[0], "json", tmp_path)
    declared = {"n": DataType.BIGINT, "ts": DataType.TIMESTAMP}
    application = application_of(replace(source, schema=declared))

    found = run_application(application, read_sources(application, tmp_path, []))["o"]

    assert found.complex_events["P"]["ts"].type == pa.timestamp("us", tz="UTC")
    assert _times_by_row(found.complex_events["P"]) == CASES[0].micros


def test_times_that_come_out_are_timestamps(tmp_path):
    """In a table and in Parquet; in text they are ISO-8601 in UTC."""
    table = pa.table({"n": [1], "ts": ["2026-01-01T00:00:00.5+02:00"]})
    stream = StreamInput("s", ("n",), "ts")
    pattern = parse_pattern("SELECT a.n WHERE a.n >= 0").pattern

    found = combine_results(match_tables([(stream, table)], {"P": pattern}))

    assert found.schema.field("time").type == pa.timestamp("us", tz="UTC")
    write_events(found, tmp_path / "m.jsonl")
    write_events(found, tmp_path / "m.csv")
    written = "2025-12-31T22:00:00.500000Z"
    assert json.loads((tmp_path / "m.jsonl").read_text())["time"] == written
    assert written in (tmp_path / "m.csv").read_text()


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30", "2026-01-01T25:00", "1767225600"])
def test_a_time_that_cannot_be_read_is_told(text):
    """Where, what was found, and what a time is."""
    table = pa.table({"ts": ["2026-01-01", text]})

    with pytest.raises(InputError) as caught:
        add_event_time(table, "ts", "us", "source s")

    assert str(caught.value).startswith(
        f"source s: 'ts' is no time in 1 of 2 events, first in event 2: {text!r}; a time is "
    )


@pytest.mark.parametrize("times", [pa.array([True]), pa.array([{"x": 1}]), pa.array([b"x"])])
def test_a_column_that_can_be_no_time_is_told(times):
    """By its type."""
    with pytest.raises(
        InputError, match=r"^source s: 'ts': it has .*, which is no time; a time"
    ):
        add_event_time(pa.table({"ts": times}), "ts", "us", "source s")


def test_malformed_events_are_left_out_if_the_source_has_a_place_for_them():
    """As on Spark; without one they are an error."""
    table = pa.table({"n": [1, 2, 3, None], "ts": ["2026-01-01", "soon", None, "2026-01-01"]})
    source = Source(name="s", format="json", path="s", time="ts", id=("n",))
    side = SideOutput(format="json", path="bad")

    with pytest.raises(InputError):
        run_application(application_of(source), {"s": table})
    apart = application_of(replace(source, malformed=side))
    found = run_application(apart, {"s": table})["o"].complex_events["P"]

    assert found["n"].to_pylist() == [1]


OFFSETS = st.integers(-17 * 60 - 59, 17 * 60 + 59).map(lambda n: timezone(timedelta(minutes=n)))
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
FORMS = st.tuples(st.sampled_from("T "), st.sampled_from(["auto", "minutes", "milliseconds"]))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS), FORMS)  # noqa: DTZ001
def test_what_python_writes_is_read_as_the_same_instant(time, form):
    """As far as it was written."""
    text = time.isoformat(*form)

    found = read_event_times(pa.array([text]))

    apart = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert found.values.tolist() == [apart // timedelta(microseconds=1)]


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), st.sampled_from(ZONES))  # noqa: DTZ001
def test_a_time_without_a_zone_is_of_the_zone_that_is_named(time, zone):
    """As text and as a timestamp; what is skipped or there twice is as `fold` 0 says."""
    apart = time.replace(tzinfo=ZoneInfo(zone)) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = [apart // timedelta(microseconds=1)]

    for times in (pa.array([time.isoformat()]), pa.array([time], pa.timestamp("us"))):
        assert read_event_times(times, zone=zone).values.tolist() == expected

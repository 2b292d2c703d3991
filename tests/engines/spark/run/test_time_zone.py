"""A run in a session that is not in UTC finds what is found without Spark."""

import datetime as dt

import pyarrow as pa
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.errors import InputError
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_expression, parse_pattern
from shedlight.shedding.shares import PatternShares
from tests.engines.spark.runs import locally, on_spark, with_files

pytestmark = pytest.mark.spark

TEXT = (
    "SELECT unix_micros(b.local) AS local, b.day AS day, b.at AS at, b.derived AS derived "
    "WHERE SEQ(a.local < TIMESTAMP '2026-03-29T03:00Z', b.at >= TIMESTAMP '2026-03-28T22:30Z') "
    "AND b.local > a.at WITHIN 2 h PARTITION BY day"
)


@pytest.fixture
def berlin(spark):
    """Have another time zone for a while."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def _application():
    pattern = parse_pattern(TEXT).pattern
    source = Source(
        name="s",
        format="parquet",
        path="s",
        time="at",
        id=("local", "n"),
        columns={"derived": parse_expression("CAST(local AS date)")},
    )
    return build_application(
        "zoned",
        [source],
        [Node(name="n")],
        [OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns={"P": pattern})],
        [Sink(name="k", input=Stream("P", "w"), format="parquet", path="k")],
    )


def _events(number=120):
    """Cross midnight and the night in which clocks go forward."""
    first = dt.datetime(2026, 3, 28, 22, tzinfo=dt.UTC)
    times = [first + dt.timedelta(minutes=5 * i) for i in range(number)]
    return pa.table(
        {
            "n": list(range(number)),
            "at": pa.array(times, pa.timestamp("us", tz="UTC")),
            "local": pa.array(times, pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us")),
            "day": [time.date() for time in times],
        }
    )


def _rows(rows):
    return [{n: v for n, v in row.items() if n != "events"} for row in rows]


@pytest.mark.soak
def test_times_mean_the_same_in_any_session(berlin, tmp_path):
    """Those that have no zone too: in conditions, keys, ids and derived columns."""
    application, tables = _application(), {"s": _events()}
    files = with_files(application, tables, tmp_path, cuts=[50])
    expected = locally(application, tables)["k"]
    assert _rows(on_spark(berlin, files, tmp_path)["k"]) == _rows(expected)
    assert len({row["day"] for row in expected}) > 1
    shares = {Stream("P", "w"): PatternShares({}, default_share=0.6)}
    shed = simulate(
        application, tables, Service(seconds={}), shares=shares, interval=3600.0
    ).sinks["k"]
    found = on_spark(berlin, files, tmp_path / "shed", shares)["k"]
    assert sorted(str(row["id"]) for row in found) == sorted(shed["id"].to_pylist())
    assert 0 < len(found) < len(expected)


def test_local_times_within_structs_are_refused_there(berlin, tmp_path):
    """Spark would take them for times of the session."""
    events = _events()
    pairs = pa.StructArray.from_arrays([events["local"].combine_chunks()], ["from"])
    tables = {"s": events.append_column("pair", pairs)}
    files = with_files(_application(), tables, tmp_path)
    with pytest.raises(
        InputError, match="'pair' is struct<from:timestamp_ntz>, and the session"
    ):
        run_on_spark(files, berlin, checkpoint=str(tmp_path / "run"))

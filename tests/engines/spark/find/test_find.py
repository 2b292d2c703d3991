"""A DataFrame in, a DataFrame out: `shedlight.find` finds what `shedlight match` finds."""

import os
import re
import tempfile
import textwrap
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StringType, StructField, StructType

import shedlight as sl
from shedlight.engines.spark.support.spark_errors import to_user_error
from shedlight.engines.tables import EVENT_TIME
from shedlight.language import dsl as p
from tests import strategies
from tests.engines.spark.find.shards import as_rows, expected
from tests.engines.spark.find.test_events import Celsius
from tests.engines.spark.find.test_shard_step import END, KEYS, events_of, named, shuffled

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[4] / "docs" / "pyspark.md").read_text("utf-8")
FRAUD = """
    SELECT b.user, b.amount
    WHERE SEQ(a.kind = 'login failed' {2}, b.kind = 'transfer') WITHIN 10 min PARTITION BY user
"""


@pytest.fixture
def conf(spark):
    """Set settings of the session for a test."""
    before: dict[str, str] = {}

    def change(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


def frame_of(spark, events):
    """Make a DataFrame of events, with a timestamp for a time, in no order."""
    table = events.append_column("ts", events[EVENT_TIME].cast(pa.timestamp("us", tz="UTC")))
    return spark.createDataFrame(table.drop_columns([EVENT_TIME])).orderBy(F.rand(1))


def rows_of(frame):
    """Give what was found as text."""
    return as_rows(iter([_in_utc(frame.toArrow())]))


def _in_utc(table):
    """Spark gives timestamps in the session's time zone."""
    index = table.column_names.index("time")
    return table.set_column(index, "time", table["time"].cast(pa.timestamp("us", tz="UTC")))


silent = pytest.mark.filterwarnings("ignore::UserWarning")  # of patterns that mean little
many_patterns = st.lists(strategies.patterns(), min_size=25, max_size=25)
one_by_one = settings(
    max_examples=2,  # the first that Hypothesis draws is always the simplest
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def check_batch(spark, patterns, drawn):
    """Compare a batch query of many patterns with `match`."""
    patterns, events = named(patterns), events_of(drawn)
    found = frame_of(spark, events).transform(sl.find(patterns, time="ts", id="id"))
    assert rows_of(found) == expected(patterns, events)


@dataclass(frozen=True)
class Cut:
    """How events come in a stream."""

    cuts: list[int]  # where files end
    lateness: int  # in microseconds
    shards: int
    seed: int  # of the order in which they come


def cuts_of(cuts, shards):
    """Draw how events come."""
    seeds = st.integers(0, 1000)
    return st.builds(Cut, cuts, st.sampled_from([0, 1, 3, 10]), st.sampled_from(shards), seeds)


def check_stream(spark, folder, patterns, drawn, cut):
    """Compare a stream of files with `match`, on what the watermark has passed in the end."""
    patterns, events = named(patterns), events_of(drawn, KEYS)
    arriving = shuffled(events, cut.lateness, cut.seed)
    cuts = [end for end in cut.cuts if end < len(arriving)]
    for start, end in zip([0, *cuts], [*cuts, len(arriving)], strict=True):
        write(folder / "in", arriving.slice(start, end - start))
    late = f"{cut.lateness} us"
    finding = sl.find(
        patterns, time="at", time_unit="us", id="id", lateness=late, shards=cut.shards
    )
    run_stream(spark, folder, finding)
    found = spark.read.parquet(str(folder / "out"))
    assert rows_of(found) == expected(patterns, events, END - cut.lateness)


def write(folder, events):
    """Add a file to a folder that is read as a stream, with the time as a number."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [n.removeprefix("#") for n in events.column_names]
    number = len(list(folder.iterdir()))
    file = folder / f"{number:04}.parquet"
    pq.write_table(events.rename_columns(names), file)
    os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first


def run_stream(spark, folder, finding):
    """Read all files that are there, one in a micro-batch, and append what is found."""
    schema = spark.read.parquet(str(folder / "in")).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    found = files.parquet(str(folder / "in")).transform(finding)
    query = (
        found.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()


@silent
@settings(one_by_one, max_examples=3)
@given(many_patterns, strategies.ready_streams(20, 60))
def test_a_batch_of_random_rows_has_the_matches_of_random_patterns(spark, patterns, drawn):
    """The whole language, 25 patterns of several keys at once, from rows in no order."""
    check_batch(spark, patterns, drawn)


@silent
@one_by_one
@given(many_patterns, strategies.ready_streams(20, 60), st.sampled_from(["1", "7"]))
def test_the_partitions_of_a_batch_make_no_difference(conf, spark, patterns, drawn, number):
    """Each has whole keys; without a key there is one."""
    conf("spark.sql.shuffle.partitions", number)
    conf("spark.sql.adaptive.enabled", "false")
    check_batch(spark, patterns, drawn)


@silent
@one_by_one
@given(many_patterns, strategies.ready_streams(20, 40), cuts_of(st.just([7, 20]), [2, 7]))
def test_a_stream_of_random_files_has_the_matches_of_random_patterns(
    spark, patterns, drawn, cut
):
    """In any order that the lateness allows."""
    with tempfile.TemporaryDirectory() as folder:
        check_stream(spark, Path(folder), patterns, drawn, cut)


_many_cuts = st.lists(st.integers(1, 60), max_size=5, unique=True).map(sorted)


@silent
@pytest.mark.soak
@pytest.mark.parametrize("partitions", ["1", "2", "7"])
@settings(one_by_one, max_examples=14)
@given(many_patterns, strategies.ready_streams(20, 80), cuts_of(_many_cuts, [1, 2, 7]))
def test_random_patterns_have_the_matches_of_match(
    conf, spark, partitions, patterns, drawn, cut
):
    """A thousand patterns in all, batch and streaming."""
    conf("spark.sql.shuffle.partitions", partitions)
    check_batch(spark, patterns, drawn)
    with tempfile.TemporaryDirectory() as folder:
        check_stream(spark, Path(folder), patterns, drawn, cut)


# What is in a result


@pytest.mark.parametrize(
    "text",
    [
        textwrap.dedent(str(sl.find.__doc__).partition("Example:\n")[2]),
        PAGE.partition("```python\n")[2].partition("```")[0],
    ],
    ids=["docstring", "page"],
)
def test_the_example_runs_as_it_stands(spark, text):
    """Given a DataFrame of events."""
    names = {"events": logins(spark).withColumn("event_id", F.expr("concat(user, n)"))}

    exec(text.replace("{3}", "{2}"), names)  # noqa: S102  # an example of ours

    assert names["alerts"].columns == ["time", "id", "user", "amount"]
    assert names["alerts"].count() == 4


def logins(spark, zone=UTC):
    """Make a DataFrame of logins and transfers of two users."""
    start = datetime(2026, 3, 29, 0, 59, 50, tzinfo=zone)
    kinds = [
        "login failed",
        "login failed",
        "transfer",
        "login failed",
        "login failed",
        "transfer",
    ]
    rows = [
        (number, start + timedelta(seconds=number), kind, user, Decimal(number) / 100)
        for number, kind in enumerate(kinds)
        for user in ("ann", "bob")
    ]
    return spark.createDataFrame(
        rows, "n long, ts timestamp, kind string, user string, amount decimal(10, 2)"
    )


def test_the_result_has_typed_columns_in_any_time_zone(spark, conf):
    """The time is an instant; it is shown in the zone of the session. Summer begins at 1:00."""
    frame = logins(spark)
    conf("spark.sql.session.timeZone", "Europe/Berlin")

    found = frame.transform(sl.find(FRAUD, time="ts", id=["user", "n"]))

    assert found.dtypes == [
        ("time", "timestamp"),
        ("id", "string"),
        ("user", "string"),
        ("amount", "decimal(10,2)"),
    ]
    shown = found.orderBy("time", "user").selectExpr("cast(time as string)", "user", "amount")
    assert [tuple(row) for row in shown.collect()] == [
        ("2026-03-29 01:59:52", "ann", Decimal("0.02")),
        ("2026-03-29 01:59:52", "bob", Decimal("0.02")),
        ("2026-03-29 01:59:55", "ann", Decimal("0.05")),
        ("2026-03-29 01:59:55", "bob", Decimal("0.05")),
    ]


_LOCAL = "to_timestamp_ntz('2026-03-29 02:30:00') + make_dt_interval(0, 0, 0, n)"


@pytest.mark.parametrize(
    ("time_sql", "unit", "result_sql"),
    [
        ("ts", None, "t"),
        (_LOCAL, None, "t"),
        ("date_add(date'2026-03-28', int(n))", None, "cast(t AS timestamp_ntz)"),
        ("unix_micros(ts)", "us", "timestamp_micros(t)"),
        ("unix_millis(ts)", "ms", "timestamp_millis(t)"),
        ("cast(unix_micros(ts) / 1e6 AS decimal(20, 6))", "s", "timestamp_seconds(t)"),
        ("cast(unix_seconds(ts) AS int)", "s", "timestamp_seconds(t)"),
    ],
)
def test_a_time_is_a_timestamp_a_date_or_a_number(spark, conf, time_sql, unit, result_sql):
    """What has no zone keeps none: 2:30 is not skipped where summer begins at 2:00."""
    conf("spark.sql.session.timeZone", "Europe/Berlin")
    frame = logins(spark).withColumn("t", F.expr(time_sql))
    transfers = "SEQ(a.kind = 'transfer', b.kind = 'transfer')"
    pattern = f"SELECT b.t WHERE {transfers} WITHIN 9 days PARTITION BY user"

    found = frame.transform(sl.find(pattern, time="t", time_unit=unit, id=["user", "n"]))

    typed = found.select("time", F.expr(result_sql).alias("t"))
    assert dict(typed.dtypes)["time"] == dict(typed.dtypes)["t"]
    assert [row["time"] for row in typed.collect()] == [row["t"] for row in typed.collect()]
    assert typed.count() == 2


def test_patterns_by_name_have_a_column_for_it(spark):
    """And null where a pattern has no such column; text and builder alike."""
    a, b = p.event("a"), p.event("b")
    made = p.pattern(
        select=[b.user, p.count(a).as_("failed")],
        where=p.seq(p.repeat(a.kind == "login failed", 2, 2), b.kind == "transfer"),
        within="10 min",
        partition_by="user",
    )
    text = "SELECT a.amount WHERE a.kind = 'transfer'"

    found = logins(spark).transform(sl.find({"made": made, "text": text}, time="ts"))

    assert found.columns == ["pattern", "time", "id", "user", "failed", "amount"]
    counted = {
        row["pattern"]: row
        for row in found.groupBy("pattern")
        .agg(F.count("*"), F.count("user"), F.sum("failed"), F.count("amount"))
        .collect()
    }
    assert tuple(counted["made"])[1:] == (4, 4, 8, 0)
    assert tuple(counted["text"])[1:] == (4, 0, None, 4)


def test_rows_without_an_id_are_all_events(spark):
    """Even those that are equal in all columns."""
    frame = logins(spark).select("ts", "kind", "user")
    twice = frame.union(frame)
    pattern = FRAUD.replace("{2}", "{4}").replace("b.user, b.amount", "COUNT(a) AS failed")

    found = twice.transform(sl.find(pattern, time="ts"))

    assert [row["failed"] for row in found.collect()] == [4, 4, 4, 4]
    assert found.select("id").distinct().count() == 4


def test_rows_with_an_id_that_was_there_are_left_out(spark):
    """A source that delivers at least once does no harm."""
    frame = logins(spark)
    finding = sl.find(FRAUD, time="ts", id=["user", "n"])

    assert rows_of(frame.union(frame).transform(finding)) == rows_of(frame.transform(finding))


ANY_TYPE = """
    n long, byte_ byte, short_ short, int_ int, float_ float, double_ double, bool_ boolean,
    text string, bytes binary, day date, local timestamp_ntz, price decimal(38, 18),
    length interval day to second, nothing void, tags array<string>,
    counts map<string, array<int>>, deep struct<a: array<struct<b: map<int, date>>>>
"""


def any_types(spark):
    """Make events with columns of all types, one of them null in all of these."""
    value = (
        *(1, 1, 1, 1, 0.5, 0.25, True, "ä", bytearray(b"\0"), date(2026, 1, 1)),
        *(datetime(2026, 3, 29, 2, 30), Decimal("1.5"), timedelta(days=1), None),  # noqa: DTZ001
        *(["x", None], {"k": [1, None]}, {"a": [{"b": {1: date(2020, 2, 2)}}]}),
    )
    frame = spark.createDataFrame([value, (2, *[None] * 16)], ANY_TYPE)
    return frame.withColumn("ts", F.timestamp_seconds("n"))


@pytest.mark.parametrize("streaming", [False, True])
def test_columns_of_any_type_are_carried(spark, tmp_path, streaming):
    """In whole events, in each event, and by name; batch and streaming."""
    frame = any_types(spark)
    if streaming:
        storable = frame.drop("nothing")
        storable.coalesce(1).write.parquet(str(tmp_path / "in"))
        frame = spark.readStream.schema(storable.schema).parquet(str(tmp_path / "in"))
    patterns = {
        "whole": "SELECT a WHERE a.n = 1",
        "each": "SELECT EACH * WHERE a.n = 1",
    }

    found = frame.transform(sl.find(patterns, time="ts", id="n"))
    if streaming:
        query = (
            found.writeStream.format("memory").queryName("any_types").trigger(availableNow=True)
        )
        query.start().awaitTermination()
        found = spark.table("any_types")

    own = [field for field in frame.schema if field.name not in {"time", "id"}]
    each = {field.name: field.dataType for field in found.schema}
    assert {field.name: each[field.name] for field in own} == {f.name: f.dataType for f in own}
    assert found.schema["a"].dataType.fields == [*frame.schema.fields]
    row = any_types(spark).drop("nothing" if streaming else "").where("n = 1").head()
    results = {each["pattern"]: each for each in found.collect()}
    assert results["whole"]["a"] == row
    assert all(results["each"][name] == row[name] for name in row.asDict())


OPAQUE = {
    "interval 1 month": "interval month",
    "array(interval 1 month)": "array<interval month>",
    "make_interval(1, 2)": "interval",
    "parse_json('[1]')": "variant",
    "map(1, parse_json('1'))": "map<int,variant>",
}


@pytest.mark.parametrize("sql", OPAQUE)
def test_a_column_that_cannot_be_carried_is_named(spark, sql):
    """It does no harm where nobody asks for it."""
    frame = logins(spark).withColumn("since", F.expr(sql))
    finding = sl.find("SELECT * WHERE a.kind = 'transfer'", time="ts")

    with pytest.raises(
        sl.InputError, match=rf"column 'since' is {re.escape(OPAQUE[sql])}, which cannot be"
    ):
        frame.transform(finding)
    assert frame.transform(sl.find(FRAUD, time="ts")).columns == [
        "time",
        "id",
        "user",
        "amount",
    ]
    for pattern in ("SELECT a.n WHERE a.since = 3", "SELECT a.n WHERE a.deep.since = 3"):
        deep = frame.withColumn("deep", F.struct("since"))
        with pytest.raises(sl.LanguageError, match=r"an unsupported data type and bigint"):
            deep.transform(sl.find(pattern, time="ts"))


def test_a_column_of_a_type_of_the_user_is_named(spark):
    """And does no harm either."""
    frame = logins(spark)
    schema = StructType([*frame.schema, StructField("warm", Celsius())])
    frame = spark.createDataFrame([], schema)

    with pytest.raises(sl.InputError, match=r"column 'warm' is .*, which cannot be carried"):
        frame.transform(sl.find("SELECT * WHERE a.kind = 'transfer'", time="ts"))
    assert frame.transform(sl.find(FRAUD, time="ts")).collect() == []


LATER = {
    "time(6)": "TIME '12:30:00'",
    "geography(4326)": "ST_GeogFromWKB(X'0101000000000000000000F03F0000000000000040')",
}


@pytest.mark.parametrize("name", LATER)
def test_types_of_later_versions_are_carried(spark, name):
    """Where Spark has them; it has no hash of them, so that an id is needed."""
    try:
        frame = logins(spark).withColumn("own", F.expr(LATER[name]))
        expected = frame.schema["own"].dataType
    except PySparkException:
        pytest.skip(f"this Spark has no {name}")
    pattern = "SELECT a.own WHERE a.n = 1"

    found = frame.transform(sl.find(pattern, time="ts", id=["user", "n"]))

    assert found.schema["own"].dataType == expected
    assert found.select("own").collect() == frame.where("n = 1").select("own").collect()
    with pytest.raises(sl.InputError, match=rf"a hash .* 'own', a {re.escape(name)}: name an"):
        frame.transform(sl.find(pattern, time="ts"))
    with pytest.raises(sl.LanguageError, match="an unsupported data type"):
        frame.transform(sl.find("SELECT a.n WHERE a.own = 'x'", time="ts", id=["user", "n"]))


def test_text_is_compared_as_it_is_everywhere(spark):
    """A collation is Spark's alone: `match` knows none, so results have none either."""
    frame = logins(spark).withColumn("kind", F.expr("upper(kind) COLLATE UTF8_LCASE"))
    frame = frame.withColumn("deep", F.struct(F.array("kind").alias("all")))

    def count(condition):
        pattern = f"SELECT a.kind, a.deep WHERE {condition}"
        found = frame.transform(sl.find(pattern, time="ts", id=["user", "n"]))
        assert found.schema["kind"].dataType == StringType()
        assert found.schema["deep"].dataType.simpleString() == "struct<all:array<string>>"
        return found.count()

    number = frame.count()
    assert count("a.kind = 'transfer'") == count("a.deep.all[0] = 'transfer'") == 0
    assert count("a.kind <> 'transfer'") == count("a.kind = upper(a.kind)") == number


# Streams


def letters(*rows):
    """Make events of a letter at a second."""
    return pa.table(
        {
            "letter": [letter for _, letter in rows],
            "at": pa.array([second for second, _ in rows], pa.int64()),
        }
    )


PAIR = (
    "SELECT a.at AS first, b.at AS second WHERE SEQ(a.letter = 'a', b.letter = 'b') WITHIN 99 s"
)


def test_a_stream_goes_on_from_its_checkpoint(spark, tmp_path):
    """And a micro-batch that was not committed is repeated with the same ids."""
    finding = sl.find(PAIR, time="at", time_unit="s", id="at")
    write(tmp_path / "in", letters((1, "a"), (2, "a"), (3, "b")))
    write(tmp_path / "in", letters((4, "x"), (5, "b"), (6, "x")))
    run_stream(spark, tmp_path, finding)
    first = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert len(first) == 2

    commits = (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()  # as if the driver had been killed before it was written
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    written = tmp_path / "out" / "_spark_metadata"
    (written / last.name).unlink()  # and before what it wrote counted
    (written / f".{last.name}.crc").unlink(missing_ok=True)
    write(tmp_path / "in", letters((7, "a"), (8, "b"), (9, "x")))
    run_stream(spark, tmp_path, finding)

    again = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert set(first) < set(again)
    assert len(again) == 3


def test_a_checkpoint_of_another_pattern_is_refused(spark, tmp_path):
    """The state has the fingerprint of its pattern."""
    write(tmp_path / "in", letters((1, "a"), (2, "b"), (3, "x")))
    run_stream(spark, tmp_path, sl.find(PAIR, time="at", time_unit="s"))
    write(tmp_path / "in", letters((4, "b")))

    other = sl.find(PAIR.replace("99", "98"), time="at", time_unit="s")
    with pytest.raises(PySparkException) as caught:
        run_stream(spark, tmp_path, other)

    assert "the saved state is of other patterns" in str(to_user_error(caught.value))


def test_the_last_events_and_absences_come_when_a_shard_is_idle(spark, tmp_path):
    """Nothing comes after the last event, and yet it is matched, and that nothing came too."""
    write(tmp_path / "in", letters((1, "a"), (2, "b"), (3, "a")))
    missing = "SELECT a.at AS alone WHERE SEQ(a.letter = 'a', NOT(b.letter = 'b')) WITHIN 2 s"
    finding = sl.find(
        {"pair": PAIR, "missing": missing}, time="at", time_unit="s", lateness="5 s", idle="1 s"
    )
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in")).transform(finding)
    writer = frame.writeStream.format("memory").queryName("idle_shards")
    query = writer.trigger(processingTime="1 second").start()
    try:
        deadline = time.monotonic() + 200
        while spark.table("idle_shards").count() < 2 and time.monotonic() < deadline:
            assert query.exception() is None
            time.sleep(0.2)
        found = spark.table("idle_shards").select("pattern", "second", "alone").collect()
    finally:
        query.stop()

    assert sorted(map(tuple, found)) == [("missing", None, 3), ("pair", 2, None)]


def test_a_session_of_another_make_is_told_once(spark, conf, tmp_path):
    """200 partitions are 200 states to commit."""
    conf("spark.sql.shuffle.partitions", "203")
    write(tmp_path / "in", letters((1, "a")))
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    finding = sl.find(PAIR, time="at", time_unit="s")

    with pytest.warns(UserWarning, match=r"spark.sql.shuffle.partitions is 203") as told:
        frame.transform(finding)
    frame.transform(finding)  # a second warning would be an error here

    assert Path(told[0].filename).name == Path(__file__).name


# What cannot be


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        (
            FRAUD,
            {"time": "tss"},
            "the DataFrame has no column 'tss'; known: .* did you mean 'ts'?",
        ),
        (FRAUD, {"time": "ts", "id": "m"}, "the DataFrame has no column 'm'"),
        (FRAUD, {"time": "tags"}, "the time column 'tags' is array<string>; a timestamp, a"),
        (FRAUD, {"time": "n"}, "the time column 'n' is bigint; say what it counts"),
        (FRAUD, {"time": "ts", "id": "amount"}, r"the id column 'amount' is decimal\(10,2\)"),
        (FRAUD.replace("b.user", "b.usr"), {"time": "ts"}, "unknown attribute 'usr'"),
        ({"A": "SELECT a.z WHERE a.n = 1"}, {"time": "ts"}, "pattern A: unknown attribute 'z'"),
        (
            {"A": "SELECT a.user AS v WHERE a.n = 1", "B": "SELECT a.n AS v WHERE a.n = 1"},
            {"time": "ts"},
            "the patterns A and B both select 'v', one as string, the other as bigint",
        ),
    ],
)
def test_what_does_not_fit_is_said_at_once(spark, pattern, options, message):
    """Before any row is read."""
    with pytest.raises(sl.ShedlightError, match=message):
        logins(spark).withColumn("tags", F.array("kind")).transform(sl.find(pattern, **options))


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        ("SELECT WHERE", {}, "line 1"),
        ({}, {}, "there is no pattern to find"),
        (FRAUD, {"lateness": "5"}, "`lateness` is '5' without a unit"),
        (FRAUD, {"idle": "0 s"}, "`idle` is '0 s'; it must be at least a millisecond"),
        (FRAUD, {"time_unit": "h"}, "`time_unit` is 'h'; it must be one of ns, us, ms, s"),
        (FRAUD, {"shards": 0}, "`shards` is 0; it must be a whole number from 1 on"),
    ],
)
def test_what_makes_no_sense_is_said_before_there_is_a_dataframe(pattern, options, message):
    """Where it is written."""
    with pytest.raises(sl.ShedlightError, match=message):
        sl.find(pattern, time="ts", **options)


def test_an_event_without_a_time_is_an_error(spark):
    """Even if no pattern can take it."""
    frame = logins(spark).withColumn("ts", F.expr("if(kind = 'x' OR n = 0, null, ts)"))
    pattern = "SELECT a.n WHERE a.kind = 'transfer'"

    with pytest.raises(PySparkException) as caught:
        frame.transform(sl.find(pattern, time="ts")).collect()

    assert str(to_user_error(caught.value)).startswith("'ts' is null; every event needs a time")


def test_columns_that_cannot_be_told_apart_are_an_error(spark):
    """After a join, most of all."""
    frame = logins(spark).withColumn("other", F.lit(1)).withColumnsRenamed({"other": "KIND"})

    with pytest.raises(sl.InputError, match="the DataFrame has two columns named 'kind'"):
        frame.transform(sl.find(FRAUD, time="ts"))


def test_a_stream_can_only_be_appended(spark, tmp_path):
    """Spark says so when the query starts."""
    write(tmp_path / "in", letters((1, "a")))
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    found = frame.transform(sl.find(PAIR, time="at", time_unit="s"))

    with pytest.raises(AnalysisException, match=r"(?i)append.*update"):
        found.writeStream.format("memory").queryName("updated").outputMode("update").start()

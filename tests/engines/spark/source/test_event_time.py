"""Times of events on Spark are the instants that the table says, and come out as timestamps."""

import functools
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.find.events import micros_sql
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.shed.type_sql import key_hash_sql
from shedlight.engines.spark.source.reader import prepare_source, read_source, unfold_values
from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import ShedlightError
from shedlight.graph import SideOutput, Sink, Source, Stream
from shedlight.graph.kafka import RecordValue
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.column import to_column
from shedlight.matching.hashing import hash_keys
from shedlight.matching.operators.cep_operator import schema_of
from tests.time_cases import FILES, application_of, write_case

pytestmark = pytest.mark.spark

WIDE = pa.decimal128(38, 0)
KEYS = pa.table(
    {
        "m": pa.array(
            [
                None,
                *map(Decimal, ("0", "-0.01", "1.28", "-1.28", "92233720368547758.08", "-3")),
            ],
            pa.decimal128(19, 2),
        ),
        "day": pa.array([None, date(1970, 1, 1), *[date(2026, 1, n) for n in range(1, 6)]]),
        "wide": pa.array([None, *(Decimal(10) ** n for n in (0, 5, 19, 20, 30, 37))], WIDE),
    }
)

DECLARED = {"n": DataType.BIGINT, "ts": DataType.TIMESTAMP}
NO_RECORD = (
    "'k' AS key",
    "'t' AS topic",
    "0 AS partition",
    "0L AS offset",
    "timestamp'2026-01-01' AS timestamp",
    "CAST(array() AS array<struct<key: string, value: binary>>) AS headers",
)


@pytest.fixture(params=[pytest.param("UTC", marks=pytest.mark.soak), "America/New_York"])
def zone(request, spark):
    """Set the session to a time zone, which must not matter."""
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.usefixtures("zone")
def test_files_of_times_are_read(spark, tmp_path):
    """From JSON, CSV and Parquet, all in one job."""
    frames = []
    for number, (case, form) in enumerate(FILES):
        source = write_case(case, form, tmp_path / str(number))
        _, frame = prepare_source(source, read_source(spark, source, streaming=False))
        frames.append(frame.selectExpr(f"{number} AS number", "n", f"`{EVENT_TIME}` AS at"))

    rows = functools.reduce(type(frames[0]).union, frames).collect()

    for number, (case, form) in enumerate(FILES):
        found = sorted((row.n, row["at"]) for row in rows if row.number == number)
        assert [time for _, time in found] == case.micros, f"{case.name} from {form}"


@pytest.mark.usefixtures("zone")
def test_declared_timestamps_are_read_from_text(spark, tmp_path):
    """In files and in values of Kafka, as if they were not declared; all in one job."""
    texts = [each for each in FILES if each[1] != "parquet" and each[0].times.type == "string"]
    frames = []
    for number, (case, form) in enumerate(texts):
        source = write_case(case, form, tmp_path / str(number))
        source = replace(source, schema=DECLARED, options={"header": "true"})
        value = RecordValue(format=form, schema=DECLARED, options={})
        records = spark.read.text(source.path).where('value <> \'"n","ts"\'')
        kafka = replace(source, format="kafka", path=None, value=value)
        for each, frame in (
            (source, read_source(spark, source, streaming=False)),
            (kafka, unfold_values(kafka, records.selectExpr("*", *NO_RECORD))),
        ):
            _, events = prepare_source(each, frame)
            frames.append(
                events.selectExpr(f"{number} AS number", "n", f"`{EVENT_TIME}` AS at")
            )

    rows = functools.reduce(type(frames[0]).union, frames).collect()

    for number, (case, form) in enumerate(texts):
        found = sorted((row.n, row["at"]) for row in rows if row.number == number)
        expected = [time for time in case.micros for _ in ("file", "Kafka")]
        assert [time for _, time in found] == expected, f"{case.name} from {form}"


def test_a_declared_timestamp_that_is_none_makes_its_record_malformed(spark, tmp_path):
    """Also within a struct; a null one and a struct that is null are no mistake."""
    lines = (
        '{"n": 1, "ts": "2026-01-01T10:00Z", "of": {"ts": "soon"}}',
        '{"n": 2, "ts": "2026-01-01T10:00Z", "of": null}',
        '{"n": 3, "ts": "2026-01-01T10:00Z", "of": {"ts": "2026-01-01"}}',
        '{"n": 4, "ts": "later"}',
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "s.json").write_text("\n".join(lines))
    nested = {"of": DataType.STRUCT, "of.ts": DataType.TIMESTAMP}
    source = Source(
        name="s",
        format="json",
        path=str(tmp_path / "in"),
        time="ts",
        id=("n",),
        schema=DECLARED | nested,
        malformed=SideOutput(format="json", path=str(tmp_path / "malformed")),
    )

    sink = Sink(name="k", input=Stream("P", "o"), format="json", path=str(tmp_path / "k"))
    application = application_of(source, sink)
    run_on_spark(application, spark, checkpoint=str(tmp_path / "run"), deliver=True)

    rows = spark.read.json(str(tmp_path / "malformed")).collect()
    assert sorted(json.loads(row.record)["n"] for row in rows) == [1, 4]
    assert {row.problem for row in rows} == {"a record cannot be parsed as json"}


@pytest.mark.usefixtures("zone")
def test_the_columns_of_a_dataframe_are_read(spark, tmp_path):
    """As `find` does it, all in one job; it has no setting for a zone."""
    cases = [case for case, form in FILES if form == "parquet" and case.zone is None]
    frames = []
    for number, case in enumerate(cases):
        path = write_case(case, "parquet", tmp_path / str(number)).path
        frame = spark.read.parquet(path)
        sql = micros_sql(frame, "ts", case.unit)
        frames.append(frame.selectExpr(f"{number} AS number", "n", f"{sql} AS at"))

    rows = functools.reduce(type(frames[0]).union, frames).collect()

    for number, case in enumerate(cases):
        found = sorted((row.n, row["at"]) for row in rows if row.number == number)
        assert [time for _, time in found] == case.micros, case.name


def test_sinks_have_timestamps(spark, tmp_path):
    """In Parquet as such, in JSON and CSV as ISO-8601 in UTC, to the microsecond."""
    (tmp_path / "s.json").write_text('{"n": 1, "ts": "2026-01-01T00:00:00.123456+02:00"}\n')
    source = Source(
        name="s", format="json", path=str(tmp_path / "s.json"), time="ts", id=("n",)
    )
    formats = ("parquet", "json", "csv")
    sinks = [
        Sink(name=form, input=Stream("P", "o"), format=form, path=str(tmp_path / form))
        for form in formats
    ]
    application = application_of(source, *sinks)

    run_on_spark(application, spark, checkpoint=str(tmp_path / "run"), deliver=True)

    (row,) = spark.read.parquet(str(tmp_path / "parquet")).toArrow().to_pylist()
    assert row["time"] == datetime(2025, 12, 31, 22, 0, 0, 123456, tzinfo=UTC)
    for form in ("json", "csv"):
        text = "".join(file.read_text() for file in (tmp_path / form).glob("part-*"))
        assert "2025-12-31T22:00:00.123456Z" in text


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"soon"', "'ts' is no time in ISO-8601"),
        ("null", "'ts' is null"),
        ("true", "it must be"),
    ],
)
def test_a_time_that_cannot_be_read_is_told(spark, tmp_path, value, problem):
    """With the source and the column."""
    (tmp_path / "s.json").write_text(f'{{"n": 1, "ts": {value}}}\n{{"n": 2, "ts": {value}}}\n')
    source = Source(
        name="s", format="json", path=str(tmp_path / "s.json"), time="ts", id=("n",)
    )

    with pytest.raises(ShedlightError, match=problem):
        run_on_spark(application_of(source), spark, checkpoint=str(tmp_path / "run"))


@pytest.mark.usefixtures("zone")
def test_decimals_and_dates_are_the_keys_that_they_are_without_spark(spark, tmp_path):
    """Alone and together; the same hash means the same shard, and the same key is shed."""
    pq.write_table(KEYS, tmp_path / "keys.parquet")
    frame = spark.read.parquet(str(tmp_path / "keys.parquet"))
    schema = schema_of(KEYS.schema)
    named = {name: Attribute("", (name,)) for name in KEYS.column_names}
    keys = [[column] for column in named.values()] + [list(named.values())]

    rows = frame.selectExpr(*(key_hash_sql(key, schema) for key in keys)).collect()

    for place, key in enumerate(keys):
        columns = [to_column(KEYS[column.column]) for column in key]
        expected = hash_keys(columns, len(KEYS))[0].tolist()
        assert [row[place] for row in rows] == expected, key

"""Functions of the user on Spark: what `match` finds with them, `find` and a run find too."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F  # noqa: N812

from shedlight.engines.spark.find.find_patterns import find
from shedlight.engines.spark.source.function_columns import with_function_column
from shedlight.engines.tables import match_tables
from shedlight.errors import InputError, LanguageError
from shedlight.graph import Stream, load_application
from shedlight.language import DataType, UserFunction, parse_expression, parse_pattern
from shedlight.language.ast.expression import FunctionValue
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shares import PatternShares
from tests.engines.spark.runs import locally, on_spark, with_files
from tests.graph.test_function_columns import TEXT, drawn_cards

pytestmark = pytest.mark.spark

PATTERN = (
    "SELECT parts(b.text) AS parts, b "
    "WHERE SEQ(parts(a.text) > 1, parts(b.text) = 1) AND far(b.x) > far(a.x) + 1 WITHIN 9 s"
)


def _parts(texts):
    return pc.list_value_length(pc.split_pattern(texts, "-"))


FUNCTIONS = {
    "parts": UserFunction(_parts, returns="bigint"),
    "far": UserFunction(lambda x: pc.multiply(x, 3), returns="bigint"),
}


def _events(number=40):
    return pa.table(
        {
            "time": [1_000_000 * i for i in range(number)],
            "n": list(range(number)),
            "text": ["-".join("x" * (1 + i * 3 % 4)) if i % 5 else None for i in range(number)],
            "x": [i * 11 % 17 for i in range(number)],
        }
    )


def _matched(table):
    pattern = parse_pattern(PATTERN, None, FUNCTIONS).pattern
    found = match_tables([(StreamInput("t", ("n",), "time"), table)], {"P1": pattern})
    return found.complex_events["P1"]


def test_find_calls_functions(spark, tmp_path):
    """Batch and streaming; one of Spark where it is one of Python in `match`."""
    table = _events()
    expected = {(row["id"], row["parts"]) for row in _matched(table).to_pylist()}
    assert expected
    spark.createDataFrame(table.to_pandas()).write.parquet(str(tmp_path / "in"))
    spark.udf.register("parts_of", lambda text: text and text.count("-") + 1, "int")
    registered = FUNCTIONS | {"parts": UserFunction("parts_of", returns="bigint")}
    batch = spark.read.parquet(str(tmp_path / "in"))
    for functions in (FUNCTIONS, registered):
        look = find(PATTERN, time="time", time_unit="us", id="n", functions=functions)
        found = batch.transform(look)
        assert {(row["id"], row["parts"]) for row in found.collect()} == expected
        assert found.schema["b"].dataType.names == table.column_names
    stream = spark.readStream.schema(batch.schema).parquet(str(tmp_path / "in"))
    options: dict[str, Any] = {
        "time": "time",
        "time_unit": "us",
        "id": "n",
        "shards": 2,
        "lateness": "9 h",
    }
    query = (
        stream.union(_last(spark, tmp_path, stream.schema))
        .transform(find(PATTERN, **options, functions=FUNCTIONS))
        .writeStream.format("memory")
        .queryName("found")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert {(row["id"], row["parts"]) for row in spark.table("found").collect()} == expected


def _last(spark, folder, schema):
    """Have an event a day later, so that all others are ready."""
    row = [(86_400_000_000, 99, None, 0)]
    spark.createDataFrame(row, schema).write.parquet(str(folder / "last"))
    return spark.readStream.schema(schema).parquet(str(folder / "last"))


@pytest.mark.soak
def test_a_run_calls_functions(spark, tmp_path):
    """What `match` finds, and a plan for types that they tell apart sheds some of it."""
    table = drawn_cards(200)
    application = load_application(TEXT).application
    expected = locally(application, {"cards": table})
    files = with_files(application, {"cards": table}, tmp_path, cuts=[70])
    found = on_spark(spark, files, tmp_path)
    assert found == expected
    assert expected["large"]
    shares = {Stream("Rise", "w"): PatternShares({}, default_share=0.5)}
    found = on_spark(spark, files, tmp_path / "shed", shares)
    assert 0 < len(found["all"]) < len(expected["all"])


_HAS_ARROW_UDF = pytest.mark.skipif(
    not hasattr(F, "arrow_udf"), reason="PySpark has no functions of Arrow before 4.1"
)


@pytest.mark.parametrize("as_udf", [pytest.param(True, marks=_HAS_ARROW_UDF), False])
def test_a_function_gets_the_same_columns_from_spark(spark, as_udf):
    """Whatever the session's time zone is, and with or without functions of Arrow."""
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
    rows = [(1, 1.5, "a", moment, True), (None, None, None, None, None)]
    frame = spark.createDataFrame(rows, "i INT, d DOUBLE, s STRING, t TIMESTAMP, b BOOLEAN")

    def describe(*columns):
        shown = [f"{column.type}" for column in columns]
        return [f"{shown} {[str(c[i]) for c in columns]}" for i in range(len(columns[0]))]

    functions = {"f": UserFunction(describe, returns="string")}
    types = {"i": "bigint", "d": "double", "s": "string", "t": "timestamp", "b": "boolean"}
    schema = {name: DataType(of) for name, of in types.items()}
    value = parse_expression("f(i + 1, d, s, t, b)", schema, functions)
    assert isinstance(value, FunctionValue)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        found = with_function_column(frame, schema, "f", value.call, as_udf=as_udf)
        texts = [row.f for row in found.orderBy(F.col("i").isNull()).collect()]
        local = frame.withColumn("t", F.col("t").cast("timestamp_ntz"))
        with pytest.raises(InputError, match="takes 't', a timestamp without a time zone"):
            with_function_column(local, schema, "f", value.call, as_udf=as_udf)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    shown = ["int64", "double", "string", "timestamp[us, tz=UTC]", "bool"]
    values = ["2", "1.5", "a", "2026-03-29 01:30:00+00:00", "True"]
    assert texts == [f"{shown} {values}", f"{shown} {['None'] * 5}"]


def test_columns_that_cannot_be_carried_do_no_harm_to_functions(spark):
    """Also where whole rows go to Python; whole events have them, and are refused."""
    frame = spark.sql("SELECT 1 AS n, 'a-b' AS text, INTERVAL 1 MONTH AS long, 5 AS time")
    asked: dict[str, Any] = {"time": "time", "time_unit": "s", "id": "n"}
    pattern = "SELECT parts(a.text) AS parts WHERE parts(a.text) > 1"

    found = frame.transform(find(pattern, **asked, functions=FUNCTIONS))

    assert [row.parts for row in found.collect()] == [2]
    with pytest.raises(InputError, match="column 'long' is interval month, which cannot be"):
        frame.transform(find("SELECT * WHERE parts(a.text) > 1", **asked, functions=FUNCTIONS))


def test_what_spark_does_not_know_is_said(spark):
    """A function that is not registered; and what fails in a worker, in a sentence."""
    frame = spark.createDataFrame([(1, 1, "a")], "time LONG, n LONG, text STRING")
    asked: dict[str, Any] = {"time": "time", "time_unit": "us", "id": "n"}
    unknown = {"nowhere": UserFunction("nowhere_at_all", returns="string")}
    with pytest.raises(InputError, match=r"Spark cannot compute nowhere\(text\).*register"):
        frame.transform(
            find("SELECT a WHERE nowhere(a.text) = 'x'", **asked, functions=unknown)
        )
    with pytest.raises(InputError, match="`functions`: the language has a function 'abs'"):
        find("SELECT a WHERE a.n = 1", **asked, functions={"abs": FUNCTIONS["far"]})
    with pytest.raises(LanguageError, match="computed for one event by itself"):
        find(
            "SELECT a WHERE SEQ(a.n = 1, b.n = 2) AND far(a.n - b.n) > 1 WITHIN 1 s",
            **asked,
            functions=FUNCTIONS,
        )
    short = {"far": UserFunction(lambda x: x[:0], returns="bigint")}
    found = frame.transform(find("SELECT a WHERE far(a.n) = 1", **asked, functions=short))
    with pytest.raises(Exception, match="the function far gave 0 values for 1 events"):
        found.collect()

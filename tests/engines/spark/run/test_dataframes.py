"""`Live` with DataFrames in and writers out."""

import re
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.outbox_readers import query_logs
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.source.given_frames import number_streams
from shedlight.engines.spark.support.placement import operator_chains
from shedlight.engines.spark.support.spark_errors import root_cause
from shedlight.errors import ApplicationError, InputError, ShedlightError, StateError
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import DataType, parse_pattern
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, edge_application, paper_application
from tests.engines.spark.runs import in_order, locally, with_files

pytestmark = pytest.mark.spark

PAIR = "SELECT b.user AS user, a.n AS first WHERE SEQ(a.kind = 0, b.kind = 1) WITHIN 9 s "
QUIET = "SELECT a.n AS n WHERE SEQ(a.kind = 0, NOT(b.kind = 1)) WITHIN 2 s "
DDL = "time BIGINT, n BIGINT, user STRING, kind BIGINT"


def _application():
    """Pairs of two sources, and what none follows."""
    texts = {"Pair": PAIR, "Quiet": QUIET}
    patterns = {
        n: parse_pattern(f"{text} PARTITION BY user").pattern for n, text in texts.items()
    }
    return build_application(
        "given",
        [Source(name=name, time="time", id=("n",), lateness=3_000_000) for name in "st"],
        [Node(name="edge")],
        [
            OperatorSpec(
                name="w", node="edge", inputs=(Stream("s"), Stream("t")), patterns=patterns
            )
        ],
        [
            Sink(name="pairs", input=Stream("Pair", "w")),
            Sink(name="quiet", input=Stream("Quiet", "w")),
        ],
    )


def _events(start, number, first):
    """Draw events, the times of neighbours swapped."""
    drawn = drawn_events(5, number / 5, first)
    times = drawn["time"].to_pylist()[:number]
    times[::2], times[1::2] = times[1::2], times[::2]
    numbers = range(first, first + number)
    return pa.table(
        {
            "time": [start + time for time in times],
            "n": list(numbers),
            "user": [f"u{n * 7 % 5}" for n in numbers],
            "kind": [n * 3 % 2 for n in numbers],
        }
    )


def _stream(spark, folder):
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(DDL).parquet(str(folder))


def _frames(spark, folder):
    """One is put together of two streams, of text that is cast; both have more than is read."""
    both = [_stream(spark, folder / name).where("kind < 2") for name in ("s1", "s2")]
    union = both[0].union(both[1]).withColumn("more", F.array(F.col("n")))
    return {"s": union, "t": _stream(spark, folder / "t").withColumn("more", F.array("n"))}


def _put(folder, round_, tables):
    for name, table in tables.items():
        pq.write_table(table, folder / "new.parquet")
        (folder / "new.parquet").rename(folder / name / f"{round_}.parquet")


class _Collector:
    """Collects what sinks get, and fails once after it was given pairs."""

    def __init__(self):
        self.rows: dict[str, list[dict[str, Any]]] = {"pairs": [], "quiet": []}
        self._failed = False

    def writers(self):
        return {name: partial(self._write, name) for name in self.rows}

    def _write(self, name, events):
        return events.writeStream.foreachBatch(partial(self._save, name))

    def _save(self, name, batch, _):
        rows = [row.asDict() for row in batch.collect()]
        self.rows[name] += rows
        if rows and name == "pairs" and not self._failed:
            self._failed = True
            raise RuntimeError("the table is locked")


def test_dataframes_in_and_writers_out(spark, tmp_path):
    """What files would give, over a restart; what is delivered again has the same ids."""
    names, state = ("s1", "s2", "t"), str(tmp_path / "state")
    rounds = [
        {name: _events(begin, 40, begin // 1000 + 100 * i) for i, name in enumerate(names)}
        for begin in (0, 20_000_000)
    ]
    sources = {
        "s": pa.concat_tables([one[name] for one in rounds for name in ("s1", "s2")]),
        "t": pa.concat_tables([one["t"] for one in rounds]),
    }
    in_time = {name: table.sort_by("time") for name, table in sources.items()}
    collector = _Collector()
    options = Options(shares={}, delivery_interval=0.5, idle_timeout=3600.0, restart_delay=0.1)
    for round_, tables in enumerate(rounds):
        given = {"sources": _frames(spark, tmp_path), "sinks": collector.writers()}
        _put(tmp_path, round_, tables)
        with Live(_application(), spark, checkpoint=state, **given, options=options) as live:
            live.process_all()
            if round_ == 1:
                live.end("s")
                live.end("t")
                live.process_all()

    expected = locally(_application(), in_time)
    for name, rows in collector.rows.items():
        found = {row["id"]: row for row in rows}
        assert sorted(found) == sorted(str(row["id"]) for row in expected[name])
        assert all(isinstance(row["time"], datetime) for row in rows)
    assert len(collector.rows["pairs"]) > len(expected["pairs"]), "one delivery was repeated"
    files = with_files(_application(), sources, tmp_path / "files")
    changed = {name: replace(one, format="parquet") for name, one in files.sources.items()}
    given = {"sinks": collector.writers(), "options": options}
    with pytest.raises(StateError, match=r"sources\.s: a DataFrame"):
        Live(replace(files, sources=changed), spark, checkpoint=state, **given)


def test_what_is_shed_of_a_dataframe_is_what_is_shed_of_files(spark, tmp_path):
    """By the ids of events; and the columns that a source derives are there."""
    shares = {Stream("Q21", "w2"): PatternShares({"type=0": 0.5, "type=1": 0.8})}
    files = with_files(edge_application(), {"s2": drawn_events(20, 20, 2)}, tmp_path)
    frame = spark.readStream.schema("time BIGINT, id BIGINT, type BIGINT").parquet(
        files.sources["s2"].path
    )
    found = [
        run_on_spark(
            files, spark, checkpoint=str(tmp_path / name), shares=shares, sources=given
        )
        for name, given in (("files", {}), ("frame", {"s2": frame}))
    ]
    by_files, by_frame = (in_order(one["k1"].toArrow().to_pylist()) for one in found)
    assert by_files == by_frame
    assert by_files


def test_every_stream_of_a_dataframe_has_its_log(spark, tmp_path):
    """One that two DataFrames share has one; the watermarks of sources come after them."""
    frames = _frames(spark, tmp_path)
    numbers = number_streams({**frames, "t": frames["s"].where("kind = 1")})
    assert numbers == {"s": (0, 1), "t": (0, 1)}
    numbers = number_streams(frames)
    assert numbers == {"s": (0, 1), "t": (2,)}
    application = paper_application()
    edge = operator_chains(application, "edge-1", 2)
    assert [log for _, log in query_logs(edge, {"s1": (0, 1, 0)})] == [0, 1, 0, 2]


def _given(spark, tmp_path, **changes):
    frames = _frames(spark, tmp_path)
    sinks = {
        name: lambda events: events.writeStream.format("noop") for name in ("pairs", "quiet")
    }
    return {
        "sources": frames | changes.get("sources", {}),
        "sinks": sinks | changes.get("sinks", {}),
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda one: {"sources": {"S": one["s"]}},
            "which the application does not have; known: s, t; did you mean 's'?",
        ),
        (
            lambda _: {"sinks": {"pair": print}},
            "application does not have; known: pairs, quiet; did you mean 'pairs'?",
        ),
        (lambda _: {"sources": {"s": "path"}}, "was given 'path'; give a streaming DataFrame"),
        (lambda _: {"sinks": {"pairs": 3}}, "sink pairs was given 3; give a function from a"),
        (
            lambda one: {"sources": {"s": one["s"].drop("n")}},
            "sources.s.id names the unknown column 'n'",
        ),
        (
            lambda one: {"sources": {"s": one["s"].withColumn("time", F.col("n") > 1)}},
            "sources.s.time is 'time', which is boolean; it must be",
        ),
        (
            lambda one: {"sources": {"s": one["s"].withColumn("N2", F.lit(1)).alias("x")}},
            "",
        ),
        (
            lambda one: {"sources": {"s": one["s"].select("*", F.lit(1).alias("N"))}},
            "has two columns named 'n', and case makes no difference",
        ),
        (
            lambda one: {"sources": {"s": one["s"].withColumn("#at", F.lit(1))}},
            "names with a # are for columns of shedlight",
        ),
        (
            lambda one: {"sources": {"s": one["s"].withColumn("v", F.parse_json(F.lit("1")))}},
            "the column 'v' is variant, which cannot be carried to Python and back",
        ),
    ],
)
def test_what_was_given_is_checked(spark, tmp_path, change, says):
    """In a sentence each, before anything runs."""
    given = _given(spark, tmp_path, **change(_frames(spark, tmp_path)))
    if not says:
        Live(_application(), spark, checkpoint=str(tmp_path / "state"), **given).stop()
        return
    with pytest.raises((InputError, ApplicationError), match=re.escape(says)):
        Live(_application(), spark, checkpoint=str(tmp_path / "state"), **given)


def test_what_is_missing_is_said(spark, tmp_path):
    """A source or sink without a format, a batch, columns that are declared otherwise."""
    state = str(tmp_path / "state")
    given = _given(spark, tmp_path)
    with pytest.raises(InputError, match="source s is a DataFrame, which only Python can give"):
        Live(_application(), spark, checkpoint=state, sinks=given["sinks"])
    with pytest.raises(InputError, match="sink pairs has no format, so that Python has to say"):
        Live(_application(), spark, checkpoint=state, sources=given["sources"])
    sources = given["sources"] | {"t": spark.createDataFrame([], DDL)}
    with pytest.raises(InputError, match=r"source t was given a batch DataFrame.*readStream"):
        Live(_application(), spark, checkpoint=state, sources=sources, sinks=given["sinks"])
    application = _application()
    for schema, says in (
        ({"kind": DataType.STRING}, "'kind' of the DataFrame is bigint.*declares string"),
        ({"kid": DataType.STRING}, "has no column 'kid', which the application declares"),
    ):
        declared = application.sources | {"s": replace(application.sources["s"], schema=schema)}
        with pytest.raises(InputError, match=says):
            Live(replace(application, sources=declared), spark, checkpoint=state, **given)


def test_a_writer_is_not_started_by_its_function(spark, tmp_path):
    """Checkpoint, trigger and start are ours."""
    given = _given(spark, tmp_path, sinks={"quiet": lambda events: events})
    with (
        pytest.raises(InputError, match=r"the writer of sink quiet gave DataFrame; give a"),
        Live(_application(), spark, checkpoint=str(tmp_path / "state"), **given),
    ):
        pass


def _complete(events):
    return events.writeStream.format("memory").outputMode("complete")


def test_an_output_mode_that_cannot_be_is_said(spark, tmp_path):
    """Before anything is delivered."""
    given = _given(spark, tmp_path, sinks={"quiet": _complete})
    complete = "sink quiet cannot be written: the output mode is complete, and complex events"
    with (
        pytest.raises(InputError, match=complete),
        Live(_application(), spark, checkpoint=str(tmp_path / "sink"), **given),
    ):
        pass


def test_an_aggregation_without_a_watermark_is_said(spark, tmp_path):
    """With what it lacks."""
    sources = _frames(spark, tmp_path)
    columns = sources["s"].columns
    sources["s"] = sources["s"].groupBy(*columns).count().select(*columns)
    given = _given(spark, tmp_path, sources=sources)
    with (
        pytest.raises(ShedlightError, match=r"without a watermark.* call withWatermark"),
        Live(_application(), spark, checkpoint=str(tmp_path / "aggregated"), **given),
    ):
        pass


def test_what_a_writer_raised_is_said():
    """Not that something was raised."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: "
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: An exception was raised "
        "by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in save\n    raise RuntimeError("locked")\n'
        "RuntimeError: the table is locked\n SQLSTATE: 39000"
    )
    assert root_cause(text) == "RuntimeError: the table is locked"

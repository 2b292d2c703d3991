"""What is neither matched nor lost: late events, and records that are no events."""

import json
import os
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.errors import InputError
from shedlight.graph import (
    Node,
    OperatorSpec,
    SideOutput,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_expression, parse_pattern
from shedlight.language.ast.data_type import DataType

pytestmark = pytest.mark.spark

SCHEMA = {"n": DataType.BIGINT, "time": DataType.BIGINT, "type": DataType.STRING}


def _application(folder, *sources, patterns="SELECT a.n AS n WHERE a.type = 'x'"):
    names = tuple(Stream(one.name) for one in sources)
    parsed = {"P": parse_pattern(patterns).pattern}
    return build_application(
        "sides",
        sources,
        [Node(name="n")],
        [OperatorSpec(name="w", node="n", inputs=names, patterns=parsed)],
        [Sink(name="k", input=Stream("P", "w"), format="parquet", path=str(folder / "k"))],
    )


def _source(folder, name="s", source_format="json", **changes):
    fields = {"time": "time", "id": ("n",), "schema": SCHEMA}
    (folder / name).mkdir(exist_ok=True)
    return Source(
        name=name, format=source_format, path=str(folder / name), **{**fields, **changes}
    )


def _write(folder, number, lines):
    file = folder / f"{number:03}.json"
    hidden = file.with_name(f".{file.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines))
    os.utime(hidden, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    hidden.rename(file)


def _event(n, at, event_type="x"):
    return json.dumps({"n": n, "time": at, "type": event_type})


def _parquet(folder, name, columns):
    table = pq.read_table(folder / name).to_pylist()
    return [tuple(row[one] for one in columns) for row in table]


LINES = [
    _event(1, 10),
    '{"n": 2, "time": ',
    '{"n": null, "time": 20, "type": "x"}',
    _event(3, 30),
]


def test_records_that_are_no_events_go_to_a_place_of_their_own(spark, tmp_path):
    """Those that cannot be parsed as they are, the others as JSON; the rest is matched."""
    side = SideOutput(format="json", path=str(tmp_path / "bad"))
    source = _source(tmp_path, malformed=side, columns={"twice": parse_expression("n * 2")})
    _write(tmp_path / "s", 1, [*LINES, '{"n": 4, "time": "soon", "type": "x"}'])
    batches: list[MicroBatchReport] = []

    found = run_on_spark(
        _application(tmp_path, source),
        spark,
        checkpoint=str(tmp_path / "state"),
        deliver=True,
        on_micro_batch=batches.append,
    )

    assert [row.n for row in found["k"].orderBy("time").collect()] == [1, 3]
    bad = spark.read.json(str(tmp_path / "bad")).collect()
    broken = "a record cannot be parsed as json"
    assert sorted((row.problem, row.record) for row in bad) == [
        ("'n' is null", '{"n":null,"time":20,"type":"x","twice":null}'),
        (broken, '{"n": 2, "time": '),
        (broken, '{"n": 4, "time": "soon", "type": "x"}'),
    ]
    assert sum(one.malformed["s"] for one in batches) == len(bad)
    assert all(row.arrived.startswith("2023-11-14") for row in bad)


def test_without_such_a_place_they_are_an_error(spark, tmp_path):
    """It shows the record, and says what to do; whoever does so goes on from there."""
    application = _application(tmp_path, _source(tmp_path))
    _write(tmp_path / "s", 1, LINES)

    with pytest.raises(InputError) as error:
        run_on_spark(application, spark, checkpoint=str(tmp_path / "state"))

    assert str(error.value) == (
        'source s: a record cannot be parsed as json: {"n": 2, "time": ; put it right, or have '
        "them written elsewhere with `malformed` of source s"
    )

    side = SideOutput(format="json", path=str(tmp_path / "bad"))
    application = _application(tmp_path, _source(tmp_path, malformed=side))
    found = run_on_spark(application, spark, checkpoint=str(tmp_path / "state"))
    assert sorted(row.n for row in found["k"].collect()) == [1, 3]


def test_late_events_go_to_the_place_of_their_source(spark, tmp_path):
    """As they came, and with the operator; those of the other source are counted alone."""
    side = SideOutput(format="parquet", path=str(tmp_path / "late"))
    t = _source(tmp_path, "t", options={"maxFilesPerTrigger": "1"})
    s = _source(tmp_path, late=side, lateness=5, options={"maxFilesPerTrigger": "1"})
    for name, first in (("s", 100), ("t", 200)):
        _write(tmp_path / name, 1, [_event(first, 1_000)])
        _write(tmp_path / name, 2, [_event(first + 1, 10), _event(first + 2, 997)])
        _write(tmp_path / name, 3, [_event(first + 3, 2_000)])
    batches: list[MicroBatchReport] = []

    run_on_spark(
        _application(tmp_path, s, t),
        spark,
        checkpoint=str(tmp_path / "state"),
        deliver=True,
        on_micro_batch=batches.append,
    )

    late = _parquet(tmp_path, "late", ["n", "time", "type", "late_at"])
    assert late == [(101, 10, "x", "w")]
    assert batches[-1].shards[0].operators["w"].late == 3
    assert sorted(n for (n,) in _parquet(tmp_path, "k", ["n"])) == [100, 102, 103, 200, 203]


def test_an_event_from_the_future_is_late_and_no_other_is(spark, tmp_path):
    """A time may be a day ahead of the clock, or what its source says; files may be old."""
    far = 253_402_300_799_000_000  # the last second of the year 9999
    hour, now = 3_600_000_000, time.time_ns() // 1000
    soon, too_soon = now + 23 * hour, now + 25 * hour
    side = SideOutput(format="parquet", path=str(tmp_path / "late"))
    s = _source(tmp_path, late=side, options={"maxFilesPerTrigger": "1"})
    t = _source(
        tmp_path,
        "t",
        max_jump=hour,
        options={"maxFilesPerTrigger": "1"},
    )
    _write(tmp_path / "s", 1, [_event(1, 7), _event(2, far), _event(3, 9, "y"), _event(4, 9)])
    _write(tmp_path / "s", 2, [_event(5, far), _event(6, 10), _event(7, far, "y")])
    _write(tmp_path / "s", 3, [_event(8, soon), _event(9, too_soon)])
    _write(tmp_path / "t", 1, [_event(200, now), _event(201, far)])
    _write(tmp_path / "t", 2, [_event(202, now + 2 * hour), _event(203, now + 1)])
    batches: list[MicroBatchReport] = []

    run_on_spark(
        _application(tmp_path, s, t),
        spark,
        checkpoint=str(tmp_path / "state"),
        deliver=True,
        on_micro_batch=batches.append,
    )

    late = _parquet(tmp_path, "late", ["n", "time", "late_at"])
    assert sorted(late) == [(2, far, "w"), (5, far, "w"), (9, too_soon, "w")]
    assert batches[-1].shards[0].operators["w"].late == len(late) + 2
    found = sorted(n for (n,) in _parquet(tmp_path, "k", ["n"]))
    assert found == [1, 4, 6, 8, 200, 203]


def test_an_event_may_say_when_it_arrived(spark, tmp_path):
    """In a timestamp or in microseconds, from a column or derived; not after now."""
    now = time.time()
    table = pa.table(
        {
            "n": [1, 2, 3],
            "time": [10, 20, 30],
            "type": ["x"] * 3,
            "came": pa.array(
                [int((now - 6000) * 1e3), None, int((now + 9e6) * 1e3)], pa.int64()
            ),
        }
    )
    schema = {**SCHEMA, "came": DataType.BIGINT}
    columns = {"arrived": parse_expression("came * 1000")}
    source = _source(
        tmp_path, source_format="parquet", schema=schema, columns=columns, arrival="arrived"
    )
    pq.write_table(table, tmp_path / "s" / "1.parquet")
    batches: list[MicroBatchReport] = []

    run_on_spark(
        _application(tmp_path, source),
        spark,
        checkpoint=str(tmp_path / "state"),
        on_micro_batch=batches.append,
    )

    mean = next(one for one in batches if one.events).kept_arrivals["s"].mean / 1e6
    assert mean == pytest.approx(now - 2000, abs=500), "however slow Spark is"


def test_side_outputs_are_filled_while_it_runs(spark, tmp_path):
    """By queries of their own."""
    source = _source(
        tmp_path,
        late=SideOutput(format="parquet", path=str(tmp_path / "late")),
        malformed=SideOutput(format="parquet", path=str(tmp_path / "bad")),
        options={"maxFilesPerTrigger": "1"},
    )
    _write(tmp_path / "s", 1, [_event(1, 1_000), "nonsense"])
    application = _application(tmp_path, source)
    options = Options(shares={}, delivery_interval=0.5)
    with Live(application, spark, checkpoint=str(tmp_path / "state"), options=options) as live:
        live.process_all()
        _write(tmp_path / "s", 2, [_event(2, 10), _event(3, 2_000)])
        live.process_all()

    assert _parquet(tmp_path, "late", ["n", "late_at"]) == [(2, "w")]
    assert _parquet(tmp_path, "bad", ["record"]) == [("nonsense",)]


def test_a_source_may_be_one_file_and_a_sink_plain_text(spark, tmp_path):
    """As a stream Spark reads folders only; CSV has plain values only: lists are JSON in it."""
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "s.csv"
    file.write_text("n,time,type\n1,10,x\n2,20,y\n3,30,x\n")
    file.with_name("other.csv").write_text("n,time,type\n9,90,x\n")
    source = Source(
        name="s",
        format="csv",
        path=str(file),
        options={"header": "true"},
        time="time",
        id=("n",),
        schema=SCHEMA,
    )
    application = _application(
        tmp_path, source, patterns="SELECT a, a.n AS n WHERE a.type = 'x'"
    )
    sink = replace(application.sinks["k"], format="csv", options={"header": "true"})
    application = replace(application, sinks={"k": sink})
    run_on_spark(application, spark, checkpoint=str(tmp_path / "state"), deliver=True)
    rows = spark.read.option("header", "true").option("escape", '"').csv(str(tmp_path / "k"))
    found = sorted((row.n, row.events, json.loads(row.a)["type"]) for row in rows.collect())
    assert found == [("1", "[1]", "x"), ("3", "[3]", "x")]

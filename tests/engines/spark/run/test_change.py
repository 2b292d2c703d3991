"""A run whose application has changed goes on with what is as it was."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.tables import run_application
from shedlight.errors import StateError
from shedlight.graph import load_application
from tests.engines.applications import drawn_events
from tests.engines.spark.runs import locally, sink_rows

pytestmark = pytest.mark.spark

SEQ = "SELECT a.id AS one, b.id AS two WHERE SEQ(a.type = 0, b.type = 1)"
BY = "PARTITION BY key"
PATTERNS = {
    "A": f"{SEQ} WITHIN 2 s {BY}",
    "B": f"{SEQ} WITHIN 3 s {BY}",
    "C": f"SELECT a.id AS one WHERE AND(a.type = 1, b.type = 2) WITHIN 2 s {BY}",
    "D": f"SELECT a.id AS one WHERE SEQ(a.type = 2, NOT(n.type = 0)) WITHIN 1 s {BY}",
    "E": f"SELECT a.id AS one WHERE SEQ(a.type = 0 {{2}}, b.type = 2) WITHIN 4 s {BY}",
}
CHANGED = {
    "F": f"SELECT b.id AS two WHERE SEQ(a.type = 1, b.type = 0) WITHIN 3 s {BY}",
    **{name: PATTERNS[name] for name in "ADE"},
    "B": f"{SEQ} WITHIN 1 s {BY}",
}
UPPER = "SELECT a.one AS one WHERE SEQ(a.source = 'A', b.source = 'E') WITHIN 5 s"


def written(folder, patterns, sinks):
    """Write an application with some patterns of the first operator, and sinks of them."""
    source = {"format": "parquet", "path": f"{folder}/in", "time": "time", "id": ["id"]}
    schema = dict.fromkeys(["time", "id", "type", "key"], "bigint")
    inputs = {name: f"w.{pattern}" for name, pattern in sinks.items()} | {"z": "v.Z"}
    row = {
        "name": "change",
        "sources": {"s": {**source, "lateness": "1 s", "schema": schema}},
        "nodes": {"n": {}, "m": {}},
        "operators": {
            "w": {"node": "n", "input": ["s"], "patterns": patterns},
            "v": {"node": "m", "input": ["w.A", "w.E"], "patterns": {"Z": UPPER}},
        },
        "sinks": {
            name: {"input": stream, "format": "parquet", "path": f"{folder}/out/{name}"}
            for name, stream in inputs.items()
        },
    }
    return json.dumps(row)


def application(folder, patterns, sinks):
    """Give such an application."""
    return load_application(written(folder, patterns, sinks)).application


def pieces_of(events, number):
    """Cut events into files, a little out of order."""
    rows = len(events) // number
    return [events.slice(i * rows, rows).take(list(range(rows))[::-1]) for i in range(number)]


def go_on(spark, application, folder, pieces, start):
    """Run what is there and what comes, file by file."""
    checkpoint = str(folder / "checkpoint")
    options = Options(shares={}, shards=2, trigger=0.1)
    with Live(application, spark, checkpoint=checkpoint, options=options) as running:
        for number, piece in enumerate(pieces, start):
            hidden = folder / "new.parquet"
            pq.write_table(piece, hidden)
            hidden.rename(folder / "in" / f"{number:03}.parquet")
            running.process_all()
    return running


def ids(folder, sink):
    """Read the ids that a sink has got."""
    path = folder / "out" / sink
    return sorted(row["id"] for row in sink_rows(pq.read_table(path)))


def test_what_is_unchanged_goes_on(spark, tmp_path):
    """One pattern is changed, one removed, one added, and two sinks, between two files."""
    events = drawn_events(30, 40, 3, types=3)
    keys = pa.array([number % 7 for number in events["id"].to_pylist()])
    events = events.append_column("key", keys).sort_by("time")
    pieces = pieces_of(events, 3)
    (tmp_path / "in").mkdir()
    before = application(tmp_path, PATTERNS, {"a": "A", "b": "B", "c": "C", "d": "D"})
    now = application(tmp_path, CHANGED, {"a": "A", "b": "B", "d": "D", "f": "F", "again": "A"})
    go_on(spark, before, tmp_path, pieces[:2], 0)
    found = ids(tmp_path, "b")
    refused = replace(now.sources["s"], lateness=0)
    with pytest.raises(StateError, match="a source is another one than the run has begun"):
        go_on(spark, replace(now, sources={"s": refused}), tmp_path, [], 2)

    running = go_on(spark, now, tmp_path, pieces[2:], 2)
    end = max(events["time"].to_pylist()) - 1_000_000
    whole = locally(before, {"s": events})
    for sink in "ad":
        assert ids(tmp_path, sink) == [r["id"] for r in sorted_ids(whole[sink], end)], sink
    assert ids(tmp_path, "z")
    record = running.deployment.record
    began = record.versions.patterns[now.operators["w"].outputs[0]].time
    assert began == 1 + max(time for piece in pieces[:2] for time in piece["time"].to_pylist())
    later = events.filter(pa.array(events["time"].to_numpy() >= began))
    alone = run_application(now, {"s": later})["w"].complex_events
    assert ids(tmp_path, "f") == sorted(before_end(alone["F"], end))
    assert ids(tmp_path, "b") == sorted([*found, *before_end(alone["B"], end)])
    assert set(ids(tmp_path, "again")) < set(ids(tmp_path, "a"))
    assert [each["version"] for each in record.changes] == [1]
    assert min(record.changes[0]["batches"].values()) > 0


def sorted_ids(rows, end):
    """Give complex events that the watermark has passed at the end, by id."""
    return sorted((row for row in rows if row["time"] < end), key=lambda row: row["id"])


def before_end(table, end):
    """Give the ids of those that the watermark has passed."""
    return [row["id"] for row in table.to_pylist() if row["time"] < end]

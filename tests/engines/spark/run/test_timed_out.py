"""What timed out, on Spark: asked for by a sink, it is what is found without Spark."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run.fingerprint import fingerprint_lines
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.tables import run_application
from shedlight.graph import Sink, Stream, load_application
from tests.engines.applications import drawn_events
from tests.engines.spark.runs import in_order, sink_rows, with_files

pytestmark = pytest.mark.spark

APPLICATION = """
name: slow
sources: {s: {format: parquet, path: in, time: time, id: id}}
nodes: {edge: {}, core: {}}
operators:
  w1:
    node: edge
    input: s
    patterns:
      P: SELECT a.id AS first, COUNT(b) AS n WHERE SEQ(a.type = 0, b.type = 1 {2}) WITHIN 200 ms
      Q: SELECT a WHERE AND(a.type = 2, b.type = 3) WITHIN 5 EVENTS
  w2:
    node: core
    input: [w1.P]
    patterns:
      R: SELECT a.first WHERE SEQ(a.n = 2, b.n = 2) AND b.first > a.first WITHIN 300 ms
sinks:
  found: {input: w1.P, format: parquet, path: out/found}
  slow-p: {input: w1.P, timed_out: true, format: parquet, path: out/slow-p}
  slow-q: {input: w1.Q, timed_out: true, format: parquet, path: out/slow-q}
  slow-r: {input: w2.R, timed_out: true, format: parquet, path: out/slow-r}
"""


@pytest.mark.soak  # the contract of engines has such sinks too
def test_sinks_get_what_timed_out(spark, tmp_path):
    """Of windows of time and of events, upstream and downstream; the matches stay the same."""
    application = load_application(APPLICATION).application
    tables = {"s": drawn_events(40, 20, 1)}
    results = run_application(application, tables)
    kinds = {
        name: results[str(sink.input.operator)].timed_out
        if sink.timed_out
        else results[str(sink.input.operator)].complex_events
        for name, sink in application.sinks.items()
    }
    expected = {
        name: in_order(kinds[name][sink.input.name].to_pylist())
        for name, sink in application.sinks.items()
    }
    assert all(len(rows) > 5 for rows in expected.values())
    sinks = {
        name: replace(sink, path=str(tmp_path / name))
        for name, sink in application.sinks.items()
    }
    there = with_files(replace(application, sinks=sinks), tables, tmp_path, [150, 300])

    found = run_on_spark(there, spark, checkpoint=str(tmp_path / "run"), deliver=True)

    for name, rows in expected.items():
        assert in_order(found[name].toArrow().to_pylist()) == rows
        assert sink_rows(pq.read_table(tmp_path / name)) == rows


def test_a_checkpoint_knows_what_its_sinks_take():
    """A sink of matches cannot go on as one of what timed out."""
    application = load_application(APPLICATION).application
    slow = application.sinks["slow-p"]
    matches = Sink(name="slow-p", input=Stream("P", "w1"), format="parquet", path="out/slow-p")
    other = replace(application, sinks={**application.sinks, "slow-p": matches})

    assert slow.stream != matches.stream
    assert set(fingerprint_lines(application)) - set(fingerprint_lines(other)) == {
        "sinks.slow-p: timed-out partial matches of w1.P"
    }

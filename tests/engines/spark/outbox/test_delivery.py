"""Deliveries to what is neither files nor Kafka: tables of a database, and the console."""

import json
from dataclasses import replace

import pytest

from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.errors import ShedlightError
from shedlight.graph import load_application

pytestmark = pytest.mark.spark

APPLICATION = """
name: deliveries
sources:
  s:
    format: json
    path: {folder}/in
    time: time
    id: [n]
    schema: {{n: bigint, time: bigint, type: string}}
nodes: {{n: {{}}}}
operators:
  w:
    node: n
    input: [s]
    patterns:
      P: SELECT a.n AS one WHERE SEQ(a.type = 'x', b.type = 'y') WITHIN 10 s
sinks:
  table:
    input: w.P
    format: jdbc
    options: {{url: "jdbc:derby:{folder}/database;create=true", dbtable: alerts}}
  shown: {{input: w.P, format: console}}
"""


@pytest.fixture
def application(tmp_path):
    """Have events that make two matches."""
    (tmp_path / "in").mkdir()
    types = ["x", "y", "z", "x", "y"]
    rows = [{"n": n, "time": n * 10**6, "type": one} for n, one in enumerate(types)]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, rows)))
    return load_application(APPLICATION.format(folder=tmp_path)).application


def test_complex_events_are_appended_to_a_table(application, spark, tmp_path):
    """Lists are text there; the console gets what it can show."""
    checkpoint = str(tmp_path / "state")
    found = run_on_spark(application, spark, checkpoint=checkpoint, deliver=True)
    rows = {row.id: row.one for row in found["table"].collect()}
    assert sorted(rows.values()) == [0, 3]
    options = application.sinks["table"].options
    written = spark.read.format("jdbc").options(**options).load().toPandas()
    assert dict(zip(written["id"], written["one"], strict=True)) == rows
    assert [json.loads(text) for text in written["events"].sort_values()] == [[0, 1], [3, 4]]


def test_a_database_without_a_driver_is_named(application, spark, tmp_path):
    """And which sink cannot be written."""
    table = application.sinks["table"]
    other = replace(table, options={"url": "jdbc:none:x", "dbtable": "alerts"})
    sinks = {"table": other}
    with pytest.raises(ShedlightError) as error:
        run_on_spark(
            replace(application, sinks=sinks),
            spark,
            checkpoint=str(tmp_path / "state"),
            deliver=True,
        )
    assert str(error.value) == (
        "sink table cannot be written: Spark has no driver for this database; add it with "
        "--conf spark.jars=..., and name its class with the option driver"
    )

"""How many shards a checkpoint has: as many as asked for, or as it began with."""

from dataclasses import replace

import pytest

from shedlight.engines.spark.run import deployment
from shedlight.engines.spark.run.fingerprint import check_fingerprint, choose_shards
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.errors import StateError
from shedlight.graph import load_application
from shedlight.graph.run_settings import RunSettings
from tests.engines.applications import drawn_events
from tests.engines.spark.runs import in_order, locally, with_files

APPLICATION = """
name: shards
sources:
  s: {format: parquet, path: s, time: time, id: [id]}
nodes: {n: {}}
operators:
  w:
    node: n
    input: [s]
    patterns:
      P: >
        SELECT a.id AS one, b.id AS two
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY key
sinks:
  out: {input: w.P, format: parquet, path: out}
"""


def test_a_new_checkpoint_has_as_many_shards_as_cores(tmp_path):
    """Unless somebody asks for another number."""
    assert choose_shards(tmp_path / "application", None, 4) == 4
    assert choose_shards(tmp_path / "application", 7, 4) == 7


def test_a_checkpoint_keeps_its_number_of_shards(tmp_path, caplog):
    """It says so if there are other cores now; another number that is asked for is taken up."""
    file = tmp_path / "application"
    check_fingerprint(file, ("shards: 3", "sources.s: parquet s"))

    assert choose_shards(file, None, 3) == 3
    assert caplog.text == ""
    assert choose_shards(file, None, 8) == 3
    assert (
        f"the checkpoint {tmp_path} goes on with 3 shards, as it began; there are 8 cores, for "
        "which it takes a new checkpoint"
    ) in caplog.text
    assert choose_shards(file, 8, 8) == 8


@pytest.mark.spark
def test_a_run_goes_on_with_the_shards_that_it_began_with(spark, tmp_path, monkeypatch):
    """With other cores it finds the same; with another number by name it is refused."""
    events = drawn_events(20, 20, 1)
    keys = [number % 5 for number in range(len(events))]
    tables = {"s": events.append_column("key", [keys])}
    application = with_files(load_application(APPLICATION).application, tables, tmp_path, [200])
    expected = locally(application, tables)
    checkpoint = str(tmp_path / "run")
    for cores in (3, 2):
        monkeypatch.setattr(deployment, "count_cores", lambda _, cores=cores: cores)
        found = run_on_spark(application, spark, checkpoint=checkpoint)
        assert in_order(found["out"].toArrow().to_pylist()) == expected["out"]

    asked = replace(application, run=RunSettings(shards=2))
    with pytest.raises(StateError, match=r"before: shards: 3\n  now:    shards: 2"):
        run_on_spark(asked, spark, checkpoint=checkpoint)

"""How many shards a checkpoint has: as many as asked for, or as it began with."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from shedlight.engines.spark.run import deployment
from shedlight.engines.spark.run.divide import deploy
from shedlight.engines.spark.run.fingerprint import (
    check_fingerprint,
    read_record,
    record_sharding,
    recorded_sharding,
)
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.sharding import Sharding, choose_sharding
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.errors import StateError
from shedlight.graph import Stream, load_application
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
APPLIED = load_application(APPLICATION).application


def test_a_new_checkpoint_has_as_many_shards_as_cores():
    """Unless somebody asks for another number."""
    assert choose_sharding(None, None, 4) == Sharding(4)
    assert choose_sharding(None, 7, 4) == Sharding(7)


def test_a_checkpoint_keeps_its_number_of_shards(tmp_path, caplog):
    """It says so if there are other cores now, and how to have as many shards."""
    file = tmp_path / "application"
    check_fingerprint(file, ("sources.s: parquet s",), Sharding(3), APPLIED)
    recorded = recorded_sharding(file)

    assert choose_sharding(recorded, None, 3) == Sharding(3)
    assert caplog.text == ""
    assert choose_sharding(recorded, None, 8) == Sharding(3)
    assert (
        "the checkpoint goes on with 3 shards, as it was; there are 8 cores: for as many "
        "shards start it with --shards 8"
    ) in caplog.text


def test_a_division_is_recorded(tmp_path):
    """With how it was before, and where each node was; the rest stays as it is."""
    file, lines = tmp_path / "application", ("sources.s: parquet s",)
    check_fingerprint(file, lines, Sharding(3), APPLIED)
    divided = Sharding(2, 4, Sharding(3), {"n": 17})
    record_sharding(file, divided)

    assert recorded_sharding(file) == divided
    check_fingerprint(file, lines, divided, APPLIED)
    with pytest.raises(StateError, match="another application"):
        check_fingerprint(file, ("sources.s: parquet t",), divided, APPLIED)


def test_where_sinks_are_now_is_on_record(tmp_path):
    """What is left for one that ends goes where it went last, and with the options of then."""
    file, lines = tmp_path / "application", ("sources.s: parquet s",)
    check_fingerprint(file, lines, Sharding(3), APPLIED)
    before = file.stat()
    check_fingerprint(file, lines, Sharding(3), APPLIED)
    assert file.stat().st_ino == before.st_ino  # it is not written again
    options = {"kafka.bootstrap.servers": "new:9092"}
    sinks = {"out": replace(APPLIED.sinks["out"], options=options)}
    check_fingerprint(file, lines, Sharding(3), replace(APPLIED, sinks=sinks))

    record = read_record(file)
    assert record is not None
    assert record.application["sinks"]["out"]["options"] == options
    assert (record.versions.number, record.changes) == (1, ())


def test_another_number_of_shards_is_refused_where_topics_have_a_partition_for_each(tmp_path):
    """Before anything is divided: what is in the topic was sent by these shards."""
    check_fingerprint(tmp_path / "application", ("sources.s: parquet s",), Sharding(3), APPLIED)
    deployment = SimpleNamespace(channels={"edge": None})
    found = "has 3 shards, and 2 are asked for; with `channels` there can be no others"
    with pytest.raises(StateError, match=found):
        deploy(None, CheckpointPaths(tmp_path), 2, lambda: deployment)  # type: ignore[arg-type,return-value]


def test_shards_that_are_divided_anew_have_new_numbers():
    """Of all nodes, from the first that none has had."""
    application = load_application(APPLICATION).application
    second = Sharding(7).divided(application, 3)
    assert (second.first, second.before) == (7, Sharding(7))
    (chain,) = second.chains(application)["n"]
    assert chain.shards == range(7, 10)
    (earlier,) = second.earlier(application)["n"]
    assert earlier is not None
    assert (earlier.shards, earlier.origins) == (range(7), {Stream("s"): (0,)})
    assert second.divided(application, 7).first == 10
    with pytest.raises(StateError, match="has had 7 in all, and 840 are possible; go on with"):
        Sharding(7).divided(application, 834)


@pytest.mark.spark
def test_a_run_goes_on_with_the_shards_that_it_began_with(spark, tmp_path, monkeypatch):
    """With other cores it finds the same."""
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

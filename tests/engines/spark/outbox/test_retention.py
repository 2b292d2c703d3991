"""Outboxes: what is old and not in Spark's log is removed, and nothing else."""

import json
import os
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.outbox.retention import Retention, oldest_unread_age, remove_old
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.outbox_readers import find_unread
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.support.checkpoint import LogReader, committed_files
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from tests.engines.applications import drawn_events, edge_application, paper_application
from tests.engines.spark.runs import in_order, locally, on_spark, with_files

NOW, DAY = 1_700_000_000.0, 86_400.0


def _file(folder, name, age):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"x")
    os.utime(folder / name, (NOW - age,) * 2)


def _log(outbox, name, *files):
    folder = outbox / "_spark_metadata"
    folder.mkdir(parents=True, exist_ok=True)
    entries = [
        json.dumps({"path": f"file://{outbox}/{one}", "modificationTime": (NOW - age) * 1e3})
        for one, age in files
    ]
    (folder / name).write_text("\n".join(["v1", *entries]))


def _names(*folders):
    return {one.name for folder in folders for one in folder.iterdir() if one.is_file()}


def test_what_the_log_has_stays_however_old(tmp_path):
    """So do the blobs that such a file may speak of; the others go."""
    outbox, blobs = tmp_path / "outbox", tmp_path / "blobs"
    _file(outbox, "gone.parquet", 3 * DAY)
    _file(outbox, ".gone.parquet.crc", 3 * DAY)
    _file(outbox, "logged.parquet", 2 * DAY)
    _file(outbox, ".logged.parquet.crc", 2 * DAY)
    _file(outbox, "young.parquet", DAY / 2)
    _log(outbox, "8", ("gone.parquet", 3 * DAY))
    _log(outbox, "9.compact", ("logged.parquet", 2 * DAY))
    _log(outbox, "10", ("young.parquet", DAY / 2))
    _file(blobs, "old", 2 * DAY + 7200)
    _file(blobs, "of logged", 2 * DAY + 60)
    _file(blobs, "of young", DAY / 2)
    assert remove_old(outbox, blobs, NOW - DAY) == 3
    assert _names(outbox) == {"logged.parquet", ".logged.parquet.crc", "young.parquet"}
    assert _names(blobs) == {"of logged", "of young"}
    _log(outbox, "19.compact", ("young.parquet", DAY / 2))
    assert remove_old(outbox, blobs, NOW - DAY) == 3
    assert _names(outbox, blobs) == {"young.parquet", "of young"}


@pytest.mark.parametrize("log", [None, "nonsense", '["v1"]', "v1\n{"])
def test_nothing_is_removed_while_the_log_cannot_be_read(tmp_path, log):
    """Spark is writing it, or nothing was ever written."""
    outbox, blobs = tmp_path / "outbox", tmp_path / "blobs"
    _file(outbox, "a", 3 * DAY)
    _file(blobs, "b", 3 * DAY)
    if log is not None:
        (outbox / "_spark_metadata").mkdir()
        (outbox / "_spark_metadata" / "0").write_text(log)
    assert remove_old(outbox, blobs, NOW - DAY) == 0
    assert _names(outbox, blobs) == {"a", "b"}


def test_a_log_without_its_beginning_is_none(tmp_path):
    """The summary that stands for it was taken away between two looks."""
    _log(tmp_path, "7", ("a", 0.0))
    assert committed_files(tmp_path) is None


def _read(query, number, *ages, name=None, is_done=True):
    """Have a reader take files in its second source."""
    for folder in ("offsets", "commits", "sources/7"):
        (query / folder).mkdir(parents=True, exist_ok=True)
    entries = [json.dumps({"path": "p", "timestamp": (NOW - age) * 1e3}) for age in ages]
    (query / "sources/7" / (name or str(number))).write_text("\n".join(["v1", *entries]))
    (query / "offsets" / str(number)).write_text(f'v1\n{{}}\n-\n{{"logOffset":{number}}}')
    if is_done:
        (query / "commits" / str(number)).write_text("v1\n{}")


def test_the_oldest_file_that_somebody_has_not_read_counts(tmp_path):
    """Whoever has read nothing yet is furthest behind; nobody waits where all is read."""
    outbox = tmp_path / "outbox"
    quick, slow = (LogReader(tmp_path / name, 1, 7) for name in ("quick", "slow"))
    assert oldest_unread_age(outbox, [quick, slow], NOW) == 0, "nothing was written"
    _log(outbox, "0", ("a", 500), ("b", 300))
    _log(outbox, "1", ("c", 100))
    assert oldest_unread_age(outbox, [], NOW) == 0, "nobody reads it"
    _read(quick.query, 0, 500, 300)
    _read(quick.query, 1, 100)
    assert oldest_unread_age(outbox, [quick], NOW) == 0
    assert oldest_unread_age(outbox, [quick, slow], NOW) == 500
    _read(slow.query, 0, 500, name="0.compact")
    assert oldest_unread_age(outbox, [quick, slow], NOW) == 300
    _read(slow.query, 1, 300, 100, is_done=False)
    assert oldest_unread_age(outbox, [quick, slow], NOW) == 300, "it is not through with them"
    _read(slow.query, 1, 300, 100)
    assert oldest_unread_age(outbox, [quick, slow], NOW) == 0


def test_a_query_keeps_twice_what_a_reader_is_behind(tmp_path):
    """So it is started again when the distance has doubled, and not for every minute of it."""
    paths = CheckpointPaths(tmp_path)
    _log(paths.outbox("n"), "0", ("a", 100))
    retention = Retention(paths, {"n": [LogReader(tmp_path / "slow", 1, 7)]}, 60.0)

    assert retention.begin("n", NOW, 0.0) == "260s"
    assert not retention.is_short("n", NOW + 129, 129.0)
    assert retention.is_short("n", NOW + 150, 150.0)
    assert retention.begin("n", NOW + 150, 150.0) == "560s"


def test_a_clock_that_is_set_back_does_not_stop_the_looking(tmp_path):
    """How often it is looked goes by a clock that is never set."""
    paths = CheckpointPaths(tmp_path)
    retention = Retention(paths, {"n": [LogReader(tmp_path / "slow", 1, 7)]}, 60.0)
    retention.begin("n", NOW + 3600, 0.0)
    _log(paths.outbox("n"), "0", ("a", 100))
    assert not retention.is_short("n", NOW, 5.0), "it was looked five seconds ago"
    assert retention.is_short("n", NOW, 6.0)


def test_what_was_not_read_is_waited_for(tmp_path):
    """By all readers; where nothing was written nobody is behind."""
    paths = CheckpointPaths(tmp_path)
    quick, slow = (LogReader(tmp_path / name, 1, 7) for name in ("quick", "slow"))
    readers = {"a": [quick], "b": [quick, slow], "c": [slow]}
    _log(paths.outbox("a"), "0", ("a", 100))
    _log(paths.outbox("b"), "0", ("b", 100))
    _read(quick.query, 0, 100)
    assert find_unread(paths, readers, 0.0) == ["b"]
    _read(slow.query, 0, 100)
    assert find_unread(paths, readers, 0.0) == []


@pytest.mark.spark
def test_an_outbox_of_spark_keeps_what_is_in_it(spark, tmp_path, monkeypatch):
    """Its own log is read as it is."""
    monkeypatch.setattr(node_query, "MIN_BLOB_BYTES", 1)
    tables = {"s2": drawn_events(20, 20, 2)}
    application = with_files(edge_application(), tables, tmp_path, [150, 250])
    found = on_spark(spark, application, tmp_path)
    (place,) = (tmp_path / "run").glob("*/outbox")
    blobs = place.with_name("blobs")
    before = _names(place, blobs)
    stray = time.time() - DAY
    for folder in (place, blobs):
        (folder / "stray").touch()
        os.utime(folder / "stray", (stray, stray))
    assert remove_old(place, blobs, time.time() + 10) == 2
    assert _names(place, blobs) == before
    again = on_spark(spark, application, tmp_path)
    assert {name: in_order(rows) for name, rows in again.items()} == found


@pytest.mark.soak
@pytest.mark.spark
def test_what_is_not_delivered_is_kept_for_longer(spark, tmp_path):
    """Nodes have read each other; the sinks have read nothing until it is delivered."""
    tables = {f"s{i}": drawn_events(20, 20, i) for i in (1, 2)}
    application = with_files(paper_application(), tables, tmp_path)
    sinks = {n: replace(one, path=f"{tmp_path}/{n}") for n, one in application.sinks.items()}
    application = replace(application, sinks=sinks)
    checkpoint = tmp_path / "run"
    run_on_spark(application, spark, checkpoint=str(checkpoint))
    deployment = Deployment(application, spark, checkpoint, {}, 2)
    waiting = time.time() - max(
        (committed_files(deployment.paths.outbox("core")) or {}).values()
    )
    retention = Retention(deployment.paths, deployment.readers, 60.0)
    kept = {name: retention.begin(name, time.time(), 0.0) for name in application.nodes}
    assert kept["edge-1"] == kept["edge-2"] == "60s"
    assert int(kept["core"][:-1]) >= 60 + waiting
    run_on_spark(application, spark, checkpoint=str(checkpoint), deliver=True)
    assert retention.begin("core", time.time(), 0.0) == "60s"


def _live(spark, folder, options, files):
    """Run over files while others leave the outbox; all has to be in the sinks."""
    tables = {"s2": drawn_events(20, 20, 2)}
    cuts = np.linspace(0, len(tables["s2"]), files, endpoint=False).astype(int).tolist()
    application = with_files(edge_application(), tables, folder, cuts)
    expected = locally(application, tables)
    sinks = {n: replace(one, path=f"{folder}/{n}") for n, one in application.sinks.items()}
    application = replace(application, sinks=sinks)
    with Live(application, spark, checkpoint=str(folder / "run"), options=options) as running:
        running.process_all()
        running.end("s2")
        running.process_all()
    for name, rows in expected.items():
        found = pq.read_table(folder / name)["id"].to_pylist()
        assert sorted(found) == sorted(str(row["id"]) for row in rows)
    (outbox,) = (folder / "run").glob("*/outbox")
    return outbox, len(cuts)


@pytest.fixture
def hasty(spark):
    """Have Spark sum its logs up often."""
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    yield spark
    spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")


@pytest.mark.spark
@pytest.mark.soak
def test_what_everybody_has_read_leaves_the_log_and_the_disk(hasty, tmp_path):
    """While it runs; the sinks have all of it."""
    options = Options(shares={}, delivery_interval=0.3, retention=2.0)
    outbox, batches = _live(hasty, tmp_path, options, 14)
    logged = committed_files(outbox)
    assert logged is not None
    assert len(logged) < batches
    assert len(list(outbox.glob("*.parquet"))) < batches


@pytest.mark.soak
@pytest.mark.spark
def test_a_query_is_started_again_for_a_slow_reader(hasty, tmp_path, caplog):
    """Its sinks are written after so long that what waits for them would have left the log."""
    options = Options(shares={}, trigger=1.0, delivery_interval=6.0, retention=8.0)
    _live(hasty, tmp_path, options, 14)
    assert "started again: its outbox must wait for who reads it" in caplog.text

"""Outboxes: what is old and not in Spark's log is removed, and nothing else."""

import json
import os
import time

import pytest

from shedlight.engines.spark import node
from shedlight.engines.spark.checkpoint import logged_files
from shedlight.engines.spark.retention import clean
from tests.engines.applications import drawn_events, edge_application
from tests.spark.runs import in_order, on_spark, with_files

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
    """So do the pieces that such a file may speak of; the others go."""
    outbox, pieces = tmp_path / "outbox", tmp_path / "pieces"
    _file(outbox, "gone.parquet", 3 * DAY)
    _file(outbox, ".gone.parquet.crc", 3 * DAY)
    _file(outbox, "logged.parquet", 2 * DAY)
    _file(outbox, ".logged.parquet.crc", 2 * DAY)
    _file(outbox, "young.parquet", DAY / 2)
    _log(outbox, "8", ("gone.parquet", 3 * DAY))
    _log(outbox, "9.compact", ("logged.parquet", 2 * DAY))
    _log(outbox, "10", ("young.parquet", DAY / 2))
    _file(pieces, "old", 2 * DAY + 7200)
    _file(pieces, "of logged", 2 * DAY + 60)
    _file(pieces, "of young", DAY / 2)
    assert clean(outbox, pieces, NOW - DAY) == 3
    assert _names(outbox) == {"logged.parquet", ".logged.parquet.crc", "young.parquet"}
    assert _names(pieces) == {"of logged", "of young"}
    _log(outbox, "19.compact", ("young.parquet", DAY / 2))
    assert clean(outbox, pieces, NOW - DAY) == 3
    assert _names(outbox, pieces) == {"young.parquet", "of young"}


@pytest.mark.parametrize("log", [None, "nonsense", '["v1"]', "v1\n{"])
def test_nothing_is_removed_while_the_log_cannot_be_read(tmp_path, log):
    """Spark is writing it, or nothing was ever written."""
    outbox, pieces = tmp_path / "outbox", tmp_path / "pieces"
    _file(outbox, "a", 3 * DAY)
    _file(pieces, "b", 3 * DAY)
    if log is not None:
        (outbox / "_spark_metadata").mkdir()
        (outbox / "_spark_metadata" / "0").write_text(log)
    assert clean(outbox, pieces, NOW - DAY) == 0
    assert _names(outbox, pieces) == {"a", "b"}


def test_a_log_without_its_beginning_is_none(tmp_path):
    """The summary that stands for it was taken away between two looks."""
    _log(tmp_path, "7", ("a", 0.0))
    assert logged_files(tmp_path) is None


@pytest.mark.spark
def test_an_outbox_of_spark_keeps_what_is_in_it(spark, tmp_path, monkeypatch):
    """Its own log is read as it is."""
    monkeypatch.setattr(node, "LARGE", 1)
    tables = {"s2": drawn_events(20, 20, 2)}
    application = with_files(edge_application(), tables, tmp_path, [150, 250])
    found = on_spark(spark, application, tmp_path)
    (place,) = (tmp_path / "run").glob("*/outbox")
    pieces = place.with_name("pieces")
    before = _names(place, pieces)
    stray = time.time() - DAY
    for folder in (place, pieces):
        (folder / "stray").touch()
        os.utime(folder / "stray", (stray, stray))
    assert clean(place, pieces, time.time() + 10) == 2
    assert _names(place, pieces) == before
    again = on_spark(spark, application, tmp_path)
    assert {name: in_order(rows) for name, rows in again.items()} == found

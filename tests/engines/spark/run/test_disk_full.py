"""A disk that is full: a sentence, no damage, and the run goes on when there is room."""

import json
import resource
import time
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.source.watermark_files import (
    SourceWatermark,
    WatermarkFiles,
    WatermarkSender,
    end_of,
)
from shedlight.engines.spark.support.batch_record import BatchRecord
from shedlight.engines.spark.support.checkpoint import committed_files
from shedlight.engines.spark.support.disk_full import is_disk_full
from shedlight.graph import load_application
from shedlight.matching.operators.reorder import FOREVER
from tests.engines.spark.run.small_disk import filled, small_disk

APP = """
name: full
sources:
  s: {{format: json, path: {0}/in, time: time, id: n, schema: {{n: bigint, time: bigint}}}}
nodes: {{n: {{bound: 60 s}}}}
operators:
  w: {{node: n, input: [s], patterns: {{P: "SELECT a.n AS n WHERE a.n > 0"}}}}
sinks: {{k: {{input: w.P, format: parquet, path: {0}/out}}}}
"""
_LONGEST_S = 200.0


@contextmanager
def room_for(size):
    """Let no file grow beyond a size, in bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_record_without_room_is_as_it_was(tmp_path):
    """However much of the line could be written; with room it goes on."""
    record = BatchRecord(tmp_path)
    record.append(0, {"plan": 1})
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()
    for more in range(len(before)):
        with room_for(len(before) + more), pytest.raises(OSError) as error:  # noqa: PT011
            record.append(1, {"plan": 2})
        assert is_disk_full(error.value)
        assert file.read_bytes() == before
    assert record.append(1, {"plan": 2})["plan"] == 2
    assert record.find(0) == {"batch": 0, "plan": 1}


def test_watermarks_that_could_not_be_written_are_sent_later(tmp_path):
    """The last of each source, and once."""
    for name in "ab":
        (tmp_path / name).mkdir()
    sender = WatermarkSender(WatermarkFiles(tmp_path))
    with room_for(0):
        for watermark in (1, 2):
            with pytest.raises(OSError):  # noqa: PT011  # by its number, as the system says it
                sender.send([SourceWatermark("a", watermark), SourceWatermark("b", watermark)])
    sender.send([SourceWatermark("b", 3)])
    sender.send([])
    sent = {
        name: [json.loads(path.read_text())["watermark"] for path in folder.glob("[0-9]*")]
        for name, folder in (("a", tmp_path / "a"), ("b", tmp_path / "b"))
    }
    assert sent == {"a": [2], "b": [3]}


def test_the_end_of_a_source_stays_its_end(tmp_path):
    """Also if its watermark is sent before the end could be written."""
    (tmp_path / "s").mkdir()
    sender = WatermarkSender(WatermarkFiles(tmp_path))
    with room_for(0), pytest.raises(OSError):  # noqa: PT011  # by its number
        sender.send([end_of("s")])
    sender.send([SourceWatermark("s", 7, idle=True)])
    (sent,) = (tmp_path / "s").glob("[0-9]*")
    assert json.loads(sent.read_text()) == {"watermark": FOREVER, "idle": False}


@pytest.mark.spark
def test_a_run_goes_on_when_there_is_room(spark, tmp_path, caplog):
    """First in the checkpoint, then in the sink; no restart is counted, nothing is lost."""
    (tmp_path / "in").mkdir()
    application = load_application(APP.format(tmp_path)).application
    options = Options(restarts=0, restart_delay=0.05)
    with small_disk(tmp_path / "disk") as disk, small_disk(tmp_path / "out") as sink:
        live = Live(application, spark, checkpoint=str(disk / "state"), options=options)
        with live:
            _write(tmp_path, 1)
            _write(tmp_path, 2)
            _await(live, lambda: _delivered(sink) == [1])
            with filled(disk):
                _write(tmp_path, 3)
                _await(live, lambda: "node n stopped, for a disk is full" in caplog.text)
            _await(live, lambda: _delivered(sink) == [1, 2])
            with filled(sink):
                _write(tmp_path, 4)
                _await(live, lambda: "sink k stopped, for a disk is full" in caplog.text)
            _await(live, lambda: _delivered(sink) == [1, 2, 3])
            live.end("s")
            live.process_all()
        assert _delivered(sink) == [1, 2, 3, 4]


def _delivered(sink):
    """List what the sink has, by its own log."""
    files = [sink / name for name in committed_files(sink) or ()]
    return sorted(n for file in files for n in pq.read_table(file)["n"].to_pylist())


def _write(folder, number):
    hidden = folder / "in" / f".{number}"
    hidden.write_text(json.dumps({"n": number, "time": number * 1_000_000}))
    hidden.rename(folder / "in" / f"{number}.json")


def _await(live, is_so):
    """Wait until something is so, while it runs."""
    over = time.monotonic() + _LONGEST_S
    while not is_so():
        assert time.monotonic() < over
        assert live.wait(0.05)

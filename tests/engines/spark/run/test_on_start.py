"""What becomes of events that were stored before a run began."""

import json
import os
import time

import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.graph import OnStart, load_application

pytestmark = pytest.mark.spark

APP = """
name: start
sources:
  s: {{format: json, path: {0}/in, time: time, id: n, schema: {{n: bigint, time: bigint}}}}
nodes: {{n: {{bound: 5 s}}}}
operators:
  w: {{node: n, input: [s], patterns: {{P: "SELECT a.n AS n WHERE a.n > 0"}}}}
sinks: {{k: {{input: w.P, format: parquet, path: {0}/out}}}}
"""


@pytest.fixture
def application(tmp_path):
    """Make an application with two files that were stored before."""
    (tmp_path / "in").mkdir()
    _write(tmp_path, 1, ago=600)
    _write(tmp_path, 2, ago=300)
    return load_application(APP.format(tmp_path)).application


def _write(folder, number, ago=0):
    hidden = folder / "in" / f".{number}"
    hidden.write_text(json.dumps({"n": number, "time": number * 1_000_000}))
    os.utime(hidden, (time.time() - ago,) * 2)
    hidden.rename(folder / "in" / f"{number}.json")


def _run(spark, application, folder, on_start, *new):
    """Run, and write new events while it runs."""
    checkpoint, options = str(folder / "state"), Options(on_start=on_start)
    with Live(application, spark, checkpoint=checkpoint, options=options) as live:
        live.process_all()
        for number in new:
            _write(folder, number)
        live.end("s")
        live.process_all()


def _found(folder):
    return sorted(pq.read_table(folder / "out")["n"].to_pylist())


def test_what_was_stored_is_skipped_for_good(spark, tmp_path, application, caplog):
    """It is said; a run that goes on from there, however it starts, skips the same."""
    _run(spark, application, tmp_path, OnStart.SKIP, 3, 4)
    assert _found(tmp_path) == [3, 4]
    assert "is skipped" in caplog.text

    before = (tmp_path / "state" / "skipped.before").read_text()
    _write(tmp_path, 5, ago=300)
    _run(spark, application, tmp_path, OnStart.SHED)
    assert _found(tmp_path) == [3, 4]
    assert (tmp_path / "state" / "skipped.before").read_text() == before


@pytest.mark.soak
def test_a_checkpoint_that_has_begun_skips_nothing(spark, tmp_path, application, caplog):
    """It has caught up before, with all that was stored; to skip is too late then."""
    _run(spark, application, tmp_path, OnStart.CATCH_UP)
    assert _found(tmp_path) == [1, 2]

    _run(spark, application, tmp_path, OnStart.SKIP)
    assert "the checkpoint has begun: nothing is skipped" in caplog.text

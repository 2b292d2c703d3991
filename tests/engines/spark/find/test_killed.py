"""A streaming query of `find` that is killed goes on from its checkpoint, and loses nothing."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.tables import match_tables
from shedlight.language import parse_pattern
from shedlight.matching.operators.reorder import StreamInput
from tests.engines.spark.processes import family

pytestmark = [pytest.mark.spark, pytest.mark.soak]

PATTERN = "SELECT a.n, b.n AS m WHERE SEQ(a.kind = 0, b.kind = 1) WITHIN 1 min PARTITION BY key"
FILES, ROWS = 40, 50

PROGRAM = """
    import sys
    from pathlib import Path
    import shedlight as sl

    folder, pattern = sys.argv[1:]
    spark = sl.open_session("killed", master="local[2]")
    files = spark.readStream.schema("n long, at long, kind long, key long")
    events = files.option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    found = events.transform(sl.find(pattern, time="at", time_unit="s", id="n"))
    writer = found.writeStream.format("parquet").option("path", f"{folder}/out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    Path(folder, "done").touch()
"""


def _events():
    rows = range(FILES * ROWS)
    return pa.table(
        {
            "n": list(rows),
            "at": list(rows),
            "kind": [(n * 7919 % 13) % 2 for n in rows],
            "key": [n % 5 for n in rows],
        }
    )


def _commits(folder):
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.usefixtures("java")
def test_a_killed_query_finds_everything_once(tmp_path):
    """Driver and workers are killed three times, each after a few more micro-batches."""
    events = _events()
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        file = tmp_path / "in" / f"{number:04}.parquet"
        pq.write_table(events.slice(number * ROWS, ROWS), file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), PATTERN]
    for more in (3, 5, 7, None):
        before = _commits(tmp_path)
        with subprocess.Popen(program) as process:
            while process.poll() is None and (
                more is None or _commits(tmp_path) < before + more
            ):
                time.sleep(0.05)
            if process.returncode is None:
                for pid in family(process.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    assert Path(tmp_path, "done").exists()

    stream = StreamInput("events", ("n",), "at")
    timed = events.set_column(1, "at", pa.array([n * 1_000_000 for n in range(len(events))]))
    expected = match_tables([(stream, timed)], {"P1": parse_pattern(PATTERN).pattern})
    matches = expected.complex_events["P1"]
    files = sorted(set(_written(tmp_path / "out")))
    found = pa.concat_tables(
        [pq.read_table(file) for file in files if pq.read_table(file).num_rows]
    )
    ids = found["id"].to_pylist()
    assert len(ids) == len(set(ids))
    # of each shard the last event waits for the next one
    waiting = {row["id"] for row in matches.to_pylist() if row["m"] >= len(events) - 5}
    assert (
        set(matches["id"].to_pylist()) - waiting <= set(ids) <= set(matches["id"].to_pylist())
    )


def _written(folder):
    """Read from Spark's log which files of a folder count."""
    for log in sorted((folder / "_spark_metadata").glob("[0-9]*")):
        for line in log.read_text().splitlines()[1:]:
            yield json.loads(line)["path"].removeprefix("file://")

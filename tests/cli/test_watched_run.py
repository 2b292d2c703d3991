"""`shedlight run --watch` under load: changes to the application file lose nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.support.delivered import delivered_ids
from shedlight.engines.tables import run_application
from shedlight.graph import Application, load_application
from tests.engines.spark.processes import family
from tests.engines.spark.run.test_change import BY, PATTERNS, SEQ

pytestmark = [pytest.mark.spark, pytest.mark.soak]

RATE, FILES = 1_000, 2  # events and files per second
ACTIVE_S = 15.0
CHANGES = (
    {"B": f"{SEQ} WITHIN 1 s {BY}", "F": f"{SEQ.replace('0', '2')} WITHIN 2 s {BY}"},
    {"B": f"{SEQ} WITHIN 4 s {BY}", "G": f"{SEQ.replace('1', '2')} WITHIN 2 s {BY}"},
    {"B": f"{SEQ} WITHIN 2 s {BY}", "H": f"{SEQ.replace('0', '3')} WITHIN 2 s {BY}"},
)
"""What each change has beside the patterns that stay: one is other than before, one is new."""
STAY = ("A", "D", "E")
KILLED = 1  # the change in whose middle all is killed


def written(folder: Path, change: int | None) -> None:
    """Write the application as it is after a change; None: before them."""
    patterns = PATTERNS
    if change is not None:
        patterns = {name: PATTERNS[name] for name in STAY} | CHANGES[change]
    schema = dict.fromkeys(["time", "id", "type", "key"], "bigint")
    source = {"format": "parquet", "path": "in", "time": "time", "id": ["id"]}
    row = {
        "name": "watched",
        "sources": {"s": {**source, "lateness": "1 s", "schema": schema}},
        "nodes": {"n": {}},
        "operators": {"w": {"node": "n", "input": ["s"], "patterns": patterns}},
        "sinks": {
            name.lower(): {"input": f"w.{name}", "format": "parquet", "path": f"out/{name}"}
            for name in patterns
        },
    }
    hidden = folder / "app.yaml.new"
    hidden.write_text(json.dumps(row))
    hidden.rename(folder / "app.yaml")


class Feed(threading.Thread):
    """Writes files of events at a steady rate until it is ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._folder, self._random = folder, np.random.default_rng(seed)
        self._over = threading.Event()
        self.tables: list[pa.Table] = []

    def run(self) -> None:
        """Write a file now and then; times are those of the clock, a little out of order."""
        began, rows = time.time(), RATE // FILES
        while not self._over.wait(max(0.0, began + len(self.tables) / FILES - time.time())):
            number = len(self.tables)
            times = int((began + number / FILES) * 1e6) + self._random.integers(
                -500_000, 500_000, rows
            )
            self._write(times, 4)

    def _write(self, times: np.ndarray, types: int) -> None:
        number, rows = len(self.tables), len(times)
        table = pa.table(
            {
                "time": times,
                "id": np.arange(rows) + number * RATE,
                "type": self._random.integers(0, types, rows),
                "key": self._random.integers(0, 200, rows),
            }
        )
        self.tables.append(table)
        hidden = self._folder / "hidden.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self._folder / "in" / f"{number:05}.parquet")

    def end(self) -> int:
        """Stop, with events of no pattern that end all windows; give the last time before."""
        self._over.set()
        self.join()
        last: int = max(max(table["time"].to_pylist()) for table in self.tables)
        self._write(np.full(200, last + 20_000_000) + np.arange(200), 1)
        return last


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Start the command."""
    options = ("--watch", "--shedder", "none", "--shards", "2")
    command = [sys.executable, "-m", "shedlight.cli", "run", "app.yaml", *options]
    with (folder / "stderr").open("ab") as stderr:
        return subprocess.Popen(command, cwd=folder, stdout=stderr, stderr=stderr)


def records(folder: Path) -> list[dict[str, object]]:
    """Read the log of the run."""
    log = folder / "state" / "watched" / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def wait_for(folder: Path, name: str, seconds: float = 120) -> float:
    """Wait until a pattern is on record as run by a micro-batch; say how long it took."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        if any(name in json.dumps(each) for each in batches(folder)[-2:]):
            return time.monotonic() - began
        time.sleep(0.1)
    raise AssertionError(f"{name} was not active:\n{(folder / 'stderr').read_text()}")


def batches(folder: Path) -> list[dict[str, object]]:
    """Read the micro-batches of the log."""
    return [each for each in records(folder) if each.get("record") == "micro_batch"]


def ids_of(application: Application, tables: list[pa.Table], end: int) -> dict[str, list[str]]:
    """Match all events without Spark; give the ids of what stays, up to a time."""
    found = run_application(application, {"s": pa.concat_tables(tables)})["w"].complex_events
    rows = {name: found[name].to_pylist() for name in STAY}
    return {name: sorted(r["id"] for r in rows[name] if r["time"] < end) for name in STAY}


def delivered(folder: Path, name: str) -> list[str]:
    """Read the ids that the sink of a pattern has got."""
    application = load_application((folder / "app.yaml").read_text()).application
    return sorted(
        delivered_ids(application.sinks[name.lower()], folder / "out" / name).to_pylist()
    )


def wait_for_ids(folder: Path, expected: dict[str, list[str]], seconds: float = 60) -> None:
    """Wait until sinks have as much as they should, or for some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if all(len(delivered(folder, n)) >= len(ids) for n, ids in expected.items()):
            return
        time.sleep(1)


class WatchedRun:
    """A run that is watched, and killed at will."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = started(folder)

    def change(self, number: int, dies_after: float | None) -> float:
        """Change the application; give the seconds until its new pattern is run."""
        written(self._folder, number)
        if dies_after is not None:
            time.sleep(dies_after)
            self.kill()
            self._process = started(self._folder)
        return wait_for(self._folder, f"w.{[*CHANGES[number]][1]}")

    def stop(self) -> None:
        """Stop as by Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(60) == 0

    def kill(self) -> None:
        """Kill the command with all that it has started."""
        for pid in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


@pytest.mark.parametrize("seed", range(1, 4))
def test_three_changes_and_a_kill_lose_nothing(tmp_path, seed):
    """What is unchanged gives the complex events of an undisturbed run, id by id."""
    (tmp_path / "in").mkdir()
    written(tmp_path, None)
    whole = load_application((tmp_path / "app.yaml").read_text()).application
    feed, dies_after = Feed(tmp_path, seed), random.Random(seed).uniform(1, 8)
    feed.start()
    running, took = WatchedRun(tmp_path), []
    try:
        wait_for(tmp_path, "w.E")
        for number in range(len(CHANGES)):
            time.sleep(8)
            seconds = running.change(number, dies_after if number == KILLED else None)
            took += [seconds] if number != KILLED else []
        expected = ids_of(whole, feed.tables, feed.end() + 10_000_000)
        wait_for_ids(tmp_path, expected)
        running.stop()
    finally:
        running.kill()
    for name, wanted in expected.items():
        assert len(wanted) > 100, name
        assert delivered(tmp_path, name) == wanted, name
    assert max(took) <= ACTIVE_S, took

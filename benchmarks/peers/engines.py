"""Runs a workload with a peer from Maven's jars, or with Shedlight, and says what it cost."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.many_patterns import whole_operator
from benchmarks.peers.workloads import Workload, events_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LEAST_SECONDS = 1.0  # of processor time that ours is measured for
JAVA = (
    "java",
    "-Xmx2g",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # for Flink's serializers
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


class Cost(NamedTuple):
    """What a run took."""

    events: int
    seconds: float  # of processor time
    matches: int

    @property
    def speed(self) -> float:
        """Events per second of processor time."""
        return self.events / self.seconds


@cache
def classes(peer: str) -> str | None:
    """Fetch and compile a peer, and give its class path; None if it cannot be had."""
    if not (shutil.which("mvn") and shutil.which("javac")):
        return None
    jars = ROOT / ".venv" / "jars" / peer
    fetch = [str(ROOT / "scripts" / "jars"), ".venv", str(HERE / "poms")]
    if subprocess.run(fetch, check=False).returncode or not jars.exists():  # noqa: S603  # our own
        return None
    built = jars / "classes"
    files = [str(HERE / "Events.java"), str(HERE / f"{peer.capitalize()}Peer.java")]
    compiling = ["javac", "-proc:none", "-d", str(built), "-cp", f"{jars}/*", *files]
    subprocess.run(compiling, check=True)  # noqa: S603  # our own
    return f"{built}:{jars}/*"


def run_siddhi(workload: Workload) -> Cost | None:
    """Run Siddhi: events are sent in arrays of a thousand, time is that of the events."""
    path = classes("siddhi")
    with tempfile.TemporaryDirectory() as name:
        application = Path(name, "application.siddhi")
        application.write_text(workload.siddhi)
        arguments = [_written(workload, Path(name)), str(application)]
        return None if path is None else _measured(path, "SiddhiPeer", arguments)


def run_flink(workload: Workload) -> Cost | None:
    """Run Flink CEP: object reuse, state on the heap, one task slot."""
    path = classes("flink")
    if path is None or not workload.flink:
        return None
    with tempfile.TemporaryDirectory() as name:
        file = _written(workload, Path(name))
        more = [workload.name, str(workload.window), str(len(workload.texts))]
        return _measured(path, "FlinkPeer", [file, *more])


def run_ours(workload: Workload) -> Cost:
    """Match from a table to complex events, again and again for a second."""
    work = whole_operator(workload.texts, events_of(workload))
    _, result = work()  # also compiles
    matches = sum(map(len, result.complex_events.values()))
    runs, began = 0, time.process_time()
    while (taken := time.process_time() - began) < LEAST_SECONDS:
        work()
        runs += 1
    return Cost(workload.events * runs, taken, matches)


def _written(workload: Workload, folder: Path) -> str:
    """Write the events, one column after the other."""
    path = folder / "events"
    table: pa.Table = events_of(workload)
    path.write_bytes(b"".join(table[name].to_numpy().tobytes() for name in table.column_names))
    return str(path)


def _measured(path: str, program: str, arguments: Sequence[str]) -> Cost:
    command = [*JAVA, "-cp", path, program, *arguments]
    done = subprocess.run(  # noqa: S603  # our own
        command, check=True, capture_output=True, text=True
    )
    return Cost(**json.loads(done.stdout.strip().splitlines()[-1]))

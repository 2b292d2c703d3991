"""`shedlight run`: what it prints for whom, its status, and what it says of bad input.

Tests that need Spark start it, as a user does, some ten seconds each; what it says of bad input
is the same in a session that is there.
"""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shedlight.cli.source_files import with_absolute_paths
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.support.checkpoint import committed_files
from shedlight.engines.spark.support.spark_errors import translating_spark_errors
from shedlight.errors import ShedlightError
from shedlight.graph import load_application
from tests.engines.spark.processes import jvms

HAS_SPARK = pytest.mark.spark

APPLICATION = """\
name: small
sources:
  s:
    format: json
    path: data
    time: time
    id: [n]
    schema: {n: bigint, time: bigint, type: string}
nodes:
  edge: {bound: 60 s}
operators:
  w:
    node: edge
    input: s
    patterns:
      P: SELECT a.n AS one, b.n AS two WHERE SEQ(a.type = 'x', b.type = 'y') WITHIN 10 s
sinks:
  out: {input: w.P, format: parquet, path: out}
"""
PARQUET = (
    ("format: json", "format: parquet"),
    ("    schema: {n: bigint, time: bigint, type: string}\n", ""),
)


@pytest.fixture
def folder(tmp_path):
    """Have an application, and two events that make a match."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.json").write_text(_event(1, 1, "x") + _event(2, 2, "y"))
    written(tmp_path)
    return tmp_path


def written(folder: Path, *edits: tuple[str, str]) -> None:
    """Write the application with changes."""
    text = APPLICATION
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "app.yaml").write_text(text)


def _event(n: int, seconds: float, event_type: str) -> str:
    return json.dumps({"n": n, "time": round(seconds * 1e6), "type": event_type}) + "\n"


def _command(*options: str) -> list[str]:
    return [sys.executable, "-m", "shedlight.cli", "run", "app.yaml", *options]


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it in a pipe, to its end."""
    return subprocess.run(
        _command("--master", "local[1,2]", *options),
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
        text=True,
        timeout=240,
    )


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    """See that there is one sentence, and nothing else."""
    assert done.stderr == f"shedlight: {message}\n"
    assert done.stdout == ""
    assert done.returncode == 1


# What is found before Spark starts.


def test_a_source_that_is_not_there(folder):
    """Nothing is begun."""
    written(folder, ("path: data", "path: dta"))

    assert_refused(
        run(folder),
        f"source s: there is nothing at {folder}/dta; put `path` right, or make the folder if "
        "its files are still to come",
    )
    assert not (folder / "state").exists()


def test_a_sample_of_everything(folder):
    """Then nothing could be shed, and no bound kept."""
    written(folder, ("name: small\n", "name: small\nunshed_sample: 100%\n"))

    assert_refused(
        run(folder),
        "app.yaml, line 2: unshed_sample must be from 0 to below 1 or from 0% to below 100%, "
        "got '100%'; write 0 for no sample, or a few per cent such as 1%",
    )
    assert not (folder / "state").exists()


def test_a_broker_of_kafka_that_is_not_there(folder):
    """It is called once, before Spark is started."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = f"127.0.0.1:{server.getsockname()[1]}"
    options = f'options: {{kafka.bootstrap.servers: "{at}", topic: out}}'
    written(folder, ("format: parquet, path: out", f"format: kafka, {options}"))

    assert_refused(
        run(folder),
        f"sink out: no broker of Kafka can be called ({at}: Connection refused); start it, or "
        "put the option kafka.bootstrap.servers right",
    )


@pytest.mark.parametrize(
    ("edit", "options", "what"),
    [
        (("path: out", "path: app.yaml"), (), "sink out cannot be written to {0}/app.yaml"),
        (
            ("    id: [n]\n", "    id: [n]\n    late: {format: json, path: app.yaml/late}\n"),
            (),
            "late of source s cannot be written to {0}/app.yaml/late",
        ),
        (
            ("path: out", "path: out"),
            ("--checkpoint", "app.yaml"),
            "the checkpoint cannot be written to {0}/app.yaml",
        ),
    ],
)
def test_a_place_that_is_a_file(folder, edit, options, what):
    """A sink, a side output, a checkpoint."""
    written(folder, edit)

    assert_refused(
        run(folder, *options),
        f"{what.format(folder)}: {folder}/app.yaml is a file; name a folder, or one that is "
        "not there yet",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_is_not_ours(folder):
    """By its permissions."""
    (folder / "mine").mkdir(mode=0o500)
    written(folder, ("path: out", "path: mine/out"))

    assert "mine is not ours to read and write; ask for" in run(folder).stderr


def test_without_java(folder):
    """Neither on the PATH nor in JAVA_HOME."""
    done = run(folder, PATH="/no/where", JAVA_HOME="")

    assert re.fullmatch(r"shedlight: .*Java.*; .*\n", done.stderr)
    assert done.returncode == 1
    assert not (folder / "state").exists()


def test_with_a_java_that_is_too_old(folder):
    """It says which there is and which is needed."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)

    done = run(folder, JAVA_HOME=str(folder / "java"))

    assert re.fullmatch(r"shedlight: .*11.*17.*; .*\n", done.stderr)
    assert done.returncode == 1


def test_a_port_that_is_in_use(folder):
    """Of Spark's own page, which one has to ask for."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(folder, "--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}")

    assert_refused(
        done,
        f"spark.ui.port is {port}, which another program uses; ask for another port, or leave "
        "it out: Spark then finds a free one",
    )


def test_once_ends_by_itself(folder):
    """Which is a call that is not understood."""
    done = run(folder, "--once", "--duration", "5 s")

    assert "--once ends by itself; leave out --duration" in done.stderr
    assert done.returncode == 2


# What Spark finds.


@HAS_SPARK
def test_a_run_over_all_that_is_there(folder):
    """A summary as JSON, a malformed record and the log; the README has the summary as text."""
    written(
        folder, ("    id: [n]\n", "    id: [n]\n    malformed: {format: json, path: bad}\n")
    )
    (folder / "data" / "2.json").write_text("nonsense\n")
    done = run(folder, "--once", "--json")

    assert done.stderr == ""
    assert done.returncode == 0
    summary = json.loads(done.stdout)
    assert summary["nodes"]["edge"]["events"] == 2
    assert summary["malformed"] == {"s": 1}
    assert pq.read_table(folder / "out")["two"].to_pylist() == [2]
    lines = (folder / "state" / "small-once" / "log.jsonl").read_text().splitlines()
    first, *batches = map(json.loads, lines)
    assert (first["record"], first["application"], first["timed"]) == ("run", "small", False)
    assert sum(row["events"] for row in batches) == 2


@HAS_SPARK
@pytest.mark.soak
def test_what_comes_after_all_that_was_there_is_late(folder):
    """The first run was told that nothing more comes."""
    assert "found 1 of w.P\n" in run(folder, "--once").stdout
    (folder / "data" / "2.json").write_text(_event(3, 0.5, "x") + _event(4, 9, "x"))
    again = run(folder, "--once", "--json")

    summary = json.loads(again.stdout)
    assert again.stderr == ""
    assert summary["nodes"]["edge"]["events"] == 2
    assert summary["late"] == {"w": 2}
    assert len(pq.read_table(folder / "out")) == 1


@HAS_SPARK
def test_a_format_that_spark_has_not(folder):
    """One sentence, and nothing that the JVM says."""
    written(folder, ("format: json", "format: jsn"))

    assert_refused(
        run(folder, "--duration", "1 s"),
        f"source s cannot be read as jsn: {_NO_FORMAT.format('jsn')}",
    )


_NO_FORMAT = (
    "Spark has no format '{}'; write one that it has, such as parquet, json, csv or kafka, or "
    "add its package with --conf spark.jars.packages=..."
)


def refused_by(spark: SparkSession, folder: Path) -> str:
    """Run it in a session that is there, and give the sentence that the command says."""
    file = folder / "app.yaml"
    with pytest.raises(ShedlightError) as error, translating_spark_errors():
        run_on_spark(
            with_absolute_paths(load_application(file).application, file),
            spark,
            checkpoint=str(folder / "state"),
            deliver=True,
        )
    assert not (folder / "out").exists()  # nothing was delivered
    return str(error.value)


@HAS_SPARK
def test_a_sink_of_a_format_that_spark_has_not(folder, spark):
    """As of a source."""
    written(folder, ("format: parquet", "format: parqet"))

    said = refused_by(spark, folder)
    assert said == f"sink out cannot be written: {_NO_FORMAT.format('parqet')}"


@HAS_SPARK
def test_a_column_that_is_missing(folder, spark):
    """Here its data type is read from the data."""
    written(
        folder,
        ("    schema: {n: bigint, time: bigint, type: string}\n", ""),
        ("a.type", "a.tpe"),
    )

    said = refused_by(spark, folder)

    assert "operators.w.patterns.P" in said
    assert "unknown attribute 'tpe'; known: n, time, type" in said
    assert "did you mean 'type'?" in said


@HAS_SPARK
def test_a_record_that_cannot_be_parsed(folder, spark):
    """It is shown."""
    (folder / "data" / "2.json").write_text('{"n": 3, "ti\n')

    assert refused_by(spark, folder) == (
        'source s: a record cannot be parsed as json: {"n": 3, "ti; put it right, or have them '
        "written elsewhere with `malformed` of source s"
    )


def _parquet(folder: Path, name: str, **columns: object) -> None:
    hidden = folder / "data" / f".{name}"
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(folder / "data" / name)


@HAS_SPARK
@pytest.mark.soak
@pytest.mark.parametrize(
    ("has_column", "message"), [(["x"], "column 'n'"), (None, "lacks the column 'type'")]
)
def test_columns_that_change_under_way(folder, has_column, message):
    """A file with a column of another data type, or without one."""
    (folder / "data" / "1.json").unlink()
    written(folder, *PARQUET)
    _parquet(folder, "1.parquet", n=[1], time=[1_000_000], type=["x"])
    running = _started(folder)
    _until(lambda: _has_read(folder, 1))
    if has_column:
        _parquet(folder, "2.parquet", n=["two"], time=[2_000_000], type=["y"])
    else:
        _parquet(folder, "2.parquet", n=[2], time=[2_000_000])

    _, said = running.communicate(timeout=120)

    assert re.fullmatch(r"shedlight: .*2\.parquet.*; .*\n", said), said
    assert message in said
    assert running.returncode == 1


def _started(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        _command("--master", "local[1,2]", *options),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    over = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < over
        time.sleep(0.2)


def _has_read(folder: Path, events: int) -> bool:
    log = folder / "state" / "small" / "log.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    rows = [json.loads(line) for line in lines]
    return sum(int(row.get("events", 0)) for row in rows) >= events


@HAS_SPARK
@pytest.mark.soak
def test_a_bound_that_cannot_be_kept(folder):
    """It says which could be, and sheds nothing; an interrupt ends it in order."""
    written(folder, ("bound: 60 s", "bound: 10 ms"))
    running = _started(folder, "--json")
    for number in range(3, 9):
        _until(partial(_has_read, folder, number - 1))
        (folder / "data" / f"{number}.json").write_text(_event(number, number, "x"))
    _until(lambda: _has_read(folder, 8))
    time.sleep(1)
    running.send_signal(signal.SIGINT)

    out, said = running.communicate(timeout=60)

    assert re.search(r"^node edge: INFEASIBLE: .*[\d.]+ s", said, re.MULTILINE), said
    assert said.endswith("\nstopping after this micro-batch ...\n")
    assert running.returncode == 0
    edge = json.loads(out)["nodes"]["edge"]
    assert edge["status"] == "INFEASIBLE"
    assert edge["kept"] == edge["events"] == 8


@HAS_SPARK
def test_an_interrupt_before_it_runs_says_nothing_more(folder):
    """It ends at once, with the status of a program that was interrupted."""
    running = _started(folder, "--once")
    _until((folder / "state" / "small-once" / "application").exists)  # Spark is up
    running.send_signal(signal.SIGINT)

    out, said = running.communicate(timeout=60)

    assert "Traceback" not in said
    assert (out, running.returncode) == ("", 130), said


def _delivered(folder: Path) -> list[int]:
    files = [folder / "out" / name for name in committed_files(folder / "out") or ()]
    return sorted(two for file in files for two in pq.read_table(file)["two"].to_pylist())


@HAS_SPARK
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc for processes")
def test_a_terminal_shows_a_run_whose_jvm_is_killed(folder):
    """A table that is drawn anew; it goes on from the checkpoint, with every result once."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        _command("--master", "local[1,2]"),
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said: list[bytes] = []
    reader = threading.Thread(target=_read_to_the_end, args=(ours, said))
    reader.start()
    _until(lambda: _has_read(folder, 2), 240)
    (jvm,) = jvms(running.pid)
    os.kill(jvm, signal.SIGKILL)
    events = _event(3, 3, "x") + _event(4, 4, "y") + _event(5, 9, "z")
    (folder / "data" / "2.json").write_text(events)
    try:
        _until(lambda: _delivered(folder) == [2, 4], 300)
    finally:
        running.send_signal(signal.SIGINT)
        status = running.wait(120)
    reader.join(10)
    os.close(ours)

    assert status == 0
    assert _delivered(folder) == [2, 4]
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(said).decode())  # without colours
    assert re.search(r"node +events/s +kept +batch +latency +bound +status", text)
    assert re.search(r"edge +[\d,]+ +100% +[\d.]+ s", text)
    assert "was killed by SIGKILL; starting again from the checkpoint, 1 of 5" in text
    assert "node edge: 5 events" in text
    assert "Traceback" not in text


def _read_to_the_end(terminal: int, said: list[bytes]) -> None:
    with suppress(OSError):  # it is closed at the other end
        while data := os.read(terminal, 4096):
            said.append(data)

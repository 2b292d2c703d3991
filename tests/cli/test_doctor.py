"""`shedlight doctor`: what it prints for whom, and its status."""

import json
import os
import pty
import subprocess
import sys

import pytest

NAMES = ["python", "pyspark", "pandas", "pyarrow", "spark home", "java", "master"]
NAMES += ["loopback", "kernels", "memory", "folder", "temporary"]


@pytest.fixture
def java(tmp_path):
    """Have a Java 21 that says its version and can do nothing else."""
    path = tmp_path / "bin" / "java"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def doctor(tmp_path):
    """Run `shedlight doctor` in a folder of its own."""

    def run(*options, **environment):
        return subprocess.run(
            [sys.executable, "-m", "shedlight.cli", "doctor", *options],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={"HOME": os.environ["HOME"]} | environment,
            text=True,
        )

    return run


def test_a_line_for_each_check(doctor, java):
    """In a pipe, and with a Java of our own."""
    done = doctor("--master", "local[2]", PATH=str(java.parent))

    lines = done.stdout.splitlines()
    assert [line[:10].rstrip() for line in lines] == NAMES
    assert all(line[11:17] == "ok    " for line in lines)
    assert f"java       ok     21 ({java})" in lines
    assert "master     ok     local[2]: 2 cores of this machine" in lines
    assert done.stderr == "all is fine; --spark starts Spark too\n"
    assert done.returncode == 0


def test_what_failed_says_what_to_do(doctor):
    """Spark is not started in vain."""
    done = doctor("--master", "lokal", "--spark", JAVA_HOME="/no/where")

    failed = [line for line in done.stdout.splitlines() if line[11:17] == "failed"]
    assert failed == [
        (
            "java       failed JAVA_HOME is '/no/where', where there is no bin/java; point it "
            "at a Java runtime, 17 or newer, or unset it to use the java on the PATH"
        ),
        (
            "master     failed 'lokal' is no master; write local[CORES,ATTEMPTS] (local[*,4]: "
            "all cores), spark://HOST:PORT, yarn or k8s://HOST:PORT"
        ),
        "query      failed not started; put right what failed above, and try again",
    ]
    assert done.stderr == ""
    assert done.returncode == 1


def test_machines_read_json(doctor):
    """The same checks, with the same status."""
    done = doctor("--json", PATH="/no/where")

    printed = json.loads(done.stdout)
    assert printed["ok"] is False
    assert [one["name"] for one in printed["checks"]] == NAMES
    assert [one["name"] for one in printed["checks"] if not one["ok"]] == ["java"]
    assert printed["checks"][5]["says"].startswith("no Java: JAVA_HOME is not set")
    assert done.returncode == 1


def test_a_terminal_has_a_table(java, tmp_path):
    """What is in brackets is no markup."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-m", "shedlight.cli", "doctor", "--master", "local[2]"],
            cwd=tmp_path,
            env={"HOME": os.environ["HOME"], "PATH": str(java.parent), "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        )
        shown = b""
        while b"temporary" not in shown.partition(b"folder")[2]:
            shown += screen.read(4096)
        os.close(theirs)
        assert process.wait() == 0

    row = next(line for line in shown.decode().splitlines() if "master" in line)
    assert [cell.strip() for cell in row.split("│")[1:4]] == [
        "master",
        "ok",
        "local[2]: 2 cores of this machine",
    ]


@pytest.mark.soak  # as the test of a session does, but for what is printed
@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_a_row_goes_through_spark(doctor):
    """Nothing else is on the terminal."""
    done = doctor("--master", "local[1]", "--spark", **os.environ)

    assert done.stdout.splitlines()[-1].startswith("query      ok     started in ")
    assert done.stderr == "starting Spark ...\n"
    assert done.returncode == 0

"""The JVM's standard error: whole records are forwarded, and nothing else ever is."""

import os
import subprocess
import sys

import pytest

from shedlight.engines.spark.session.jvm_stderr import (
    JvmStderrFilter,
    is_record,
    suppress_jvm_stderr,
)

LOST = b"spark: 12:53:23 Lost executor 0 on host: it did not answer for 120 s\n"
SPACE = b"spark: 12:53:24 Exception in task java.io.IOException: No space left on device\n"
TRACEBACK = (
    b"Traceback (most recent call last):\n"
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
    b"    worker(sock)\n"
    b"BrokenPipeError: [Errno 32] Broken pipe\n"
)
STREAM = LOST + TRACEBACK + b"OpenJDK 64-Bit Server VM warning: this and that\n" + SPACE


def _forwarded(capfd, stream, *, before=b"", prefix=b"spark: "):
    """Have a JVM say something before it is up and something after, and end."""
    stderr = JvmStderrFilter(prefix)
    with stderr.pipe() as writing:
        os.write(writing, before)
        while before and not stderr._startup_lines:  # noqa: SLF001  # wait until it is read
            pass
        stderr.start_forwarding()
        os.write(writing, stream)
    kept = stderr.end(10.0)
    return capfd.readouterr().err.encode(), kept


def test_a_stream_cut_anywhere_forwards_whole_records_alone(capfd):
    """However the JVM ends: no half of a record, and never a line of a worker's stack."""
    for length in range(len(STREAM) + 1):
        said, _ = _forwarded(capfd, STREAM[:length])

        whole = [record for record in (LOST, SPACE) if record in STREAM[:length]]
        assert said == b"".join(whole), STREAM[:length]


def test_what_is_said_before_the_session_is_up_is_for_its_error_message(capfd):
    """It is not forwarded later; what Java always says when it starts is left out."""
    noise = b"Picked up JAVA_TOOL_OPTIONS: -Xss2m\n"

    said, kept = _forwarded(capfd, LOST, before=noise + b"Invalid maximum heap size\n")

    assert said == LOST
    assert kept == ["Invalid maximum heap size"]


def test_nothing_is_forwarded_while_queries_are_stopped(capfd):
    """Tasks that are interrupted complain of it."""
    with suppress_jvm_stderr():
        assert _forwarded(capfd, STREAM)[0] == b""
    assert _forwarded(capfd, LOST)[0] == LOST


def test_with_another_logging_configuration_every_whole_line_is_forwarded(capfd):
    """Whoever names one wants to see what it says."""
    assert _forwarded(capfd, STREAM + b"half", prefix=b"")[0] == STREAM


LOGGING = """
import sys, time
from pathlib import Path
from pyspark import SparkContext
from shedlight.engines.spark.session.session import close_session, open_session

options = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
session = open_session("test", master="local[1]", settings=options)
java = SparkContext._gateway.jvm
logger = java.org.apache.logging.log4j.LogManager.getLogger
error = java.java.io.IOException("no room\\n  at all")
logger("org.apache.spark.storage.Disk").error("cannot\\nwrite", error)
logger("org.apache.spark.storage.Disk").warn("no error")
logger("org.apache.spark.util.Utils").error("Aborting task.", error)
logger("org.apache.spark.util.Utils").error("Uncaught exception")
logger("org.apache.spark.TaskContextImpl").error("Error in TaskCompletionListener", error)
java.System.err.println("Traceback (most recent call last):")
over = time.monotonic() + 60
while "Uncaught" not in Path(sys.argv[1]).read_text() and time.monotonic() < over:
    time.sleep(0.05)  # what is logged while it ends would be dropped
close_session(session)
"""


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_an_error_that_spark_logs_is_one_record(tmp_path):
    """Its exception is named on the same line; tasks that end with their query say nothing."""
    said = tmp_path / "said"
    with said.open("wb") as file:
        subprocess.run([sys.executable, "-c", LOGGING, str(said)], stderr=file, check=True)

    lines = said.read_text().splitlines(keepends=True)
    assert all(is_record(line.encode()) for line in lines), lines
    first, second = (line[16:].strip() for line in lines)
    # before Spark 4.2 the logger takes the first line of an exception's message alone
    assert first.removesuffix(" at all") == "cannot write java.io.IOException: no room"
    assert second == "Uncaught exception"

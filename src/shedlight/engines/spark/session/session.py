"""The Spark session of `shedlight run`: its settings, start and end.

What cannot work is said before Spark starts, for Spark says it late and at length. PySpark is
imported when a session is opened: the rest of this module serves `shedlight doctor` without it.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shedlight.engines.spark.session import jvm_stderr, preflight
from shedlight.engines.spark.session.master import (
    Master,
    check_master,
    check_ports,
    read_master,
)
from shedlight.engines.spark.session.pyspark_version import (
    check_pyspark,
    checkpoint_file_manager,
)
from shedlight.errors import ShedlightError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LOCAL = "local[*,4]"
"""All cores; four attempts, for with one a Python worker that is killed ends the query."""

CLUSTER_PARTITIONS = 16
"""Of a shuffle on a cluster whose size we do not know; Spark's 200 are 200 states to commit."""

SHUTDOWN_GRACE_S = 15.0  # how long the JVM has to end by itself


def open_session(
    name: str,
    *,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> "SparkSession":
    """Start Spark with the settings that suit us.

    Sets PYSPARK_PYTHON and, if Spark runs here, SPARK_LOCAL_IP in this process's environment:
    Spark takes neither of them from its settings.

    Args:
        name: What the session is called in Spark's own pages.
        master: Where Spark runs.
        settings: Spark's own, by name; they override ours. Options of Java are added to ours.
        inherited: Open files that the JVM keeps open until it ends, by descriptor: locks.

    Raises:
        SessionError: No Java that fits, a master that is none or does not listen, a port in
            use, a session that is active already, or Spark does not start.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # see above

    check_pyspark()
    given = dict(settings or {})
    where = read_master(given.pop("spark.master", master))
    java = preflight.check_java(os.environ)
    preflight.check_spark_home(os.environ)
    check_master(where)
    chosen = session_settings(where, given)
    preflight.check_jars(chosen)
    check_ports(chosen, os.environ)
    if SparkContext._active_spark_context is not None:  # noqa: SLF001  # no other way to ask
        raise preflight.SessionError(
            "a Spark session is active in this process already; work in that one, or stop it"
        )
    _set_environment(where, chosen)
    _end_gateway()  # of a session that was stopped: it would keep its own Java options
    conf = SparkConf().setMaster(where.url).setAppName(name).setAll(list(chosen.items()))
    stderr = jvm_stderr.JvmStderrFilter(
        b"" if _LOG_FILE in given.get(_JAVA_OPTIONS, "") else jvm_stderr.LOG_PREFIX
    )
    failed = f"Spark did not start on {where.url} with Java {java}"
    return _start(conf, stderr, failed, inherited)


def close_session(session: "SparkSession") -> None:
    """Stop the queries and the session, and see to it that its JVM ends.

    It ends even if it no longer answers; then another session may be opened.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    with jvm_stderr.suppress_jvm_stderr():
        try:
            if _is_alive():
                with contextlib.suppress(Py4JError, PySparkException, OSError):  # just died
                    for query in session.streams.active:
                        query.stop()
                    session.stop()
        finally:
            _end_gateway()


# Settings


def session_settings(master: Master, given: Mapping[str, str]) -> dict[str, str]:
    """Choose the settings of a session; those that are given win.

    Memory: a JVM of about 1.1 GiB, two Python workers of 0.2 GiB per core, this process; on two
    cores 2.3 GiB at most were measured.
    """
    here = {
        # nobody else's business, and a host name that does not resolve does no harm
        "spark.driver.bindAddress": preflight.LOOPBACK,
        "spark.driver.host": preflight.LOOPBACK,
        # else Hadoop runs a program of the system, `readlink` or `chmod`, several times for
        # each file that it writes: measured 170 a second, a second of each micro-batch
        "spark.sql.streaming.checkpointFileManagerClass": checkpoint_file_manager(),
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # with more files in a micro-batch they would be listed by a job, with a task for each
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        # our own state has a checksum of its own
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }
    ours = {
        # times are read, compared and printed the same everywhere
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # a method with more bytes is one that the JVM never compiles: ten times as slow as if
        # Spark splits it up
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # each partition has a state to commit in each micro-batch: no more than can work
        "spark.sql.shuffle.partitions": str(master.cores or CLUSTER_PARTITIONS),
        # over TCP a small batch waits 40 ms for the answer to the one before it
        "spark.python.unix.domain.socket.enabled": "true",
        # workers are forked from one that has imported what they need
        "spark.python.daemon.module": "shedlight.engines.spark.step.worker_daemon",
        # tables travel between Spark and Python as columns
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # events live in the Python workers, so that the JVM needs little
        "spark.driver.memory": "1g",
        # files of a micro-batch are small: one task for all up to this size
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.maxPartitionBytes": "16m",
        # what it counts to open one: with Spark's 4m there is a task for every four files
        "spark.sql.files.openCostInBytes": "1m",
        # to go back to: one batch is enough for us, the rest is for an unlucky file system
        "spark.sql.streaming.minBatchesToRetain": "10",
        # listeners get every one; these are only for people who ask
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        # a query without a place of its own leaves nothing behind, even if it fails
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        # a port and threads less; ask for it with spark.ui.enabled=true
        "spark.ui.enabled": "false",
        # even without the page Spark remembers 1000 plans for it: a stream goes on for weeks
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        # the terminal is ours
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    quiet = f"{_LOG_FILE}{Path(__file__).with_name('log4j2.properties').as_uri()}"
    java = f"{quiet} {given.get(_JAVA_OPTIONS, '')}".rstrip()
    return ours | (here if master.cores else {}) | dict(given) | {_JAVA_OPTIONS: java}


_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_FILE = "-Dlog4j2.configurationFile="


def _set_environment(master: Master, settings: Mapping[str, str]) -> None:
    """Have workers run this Python: another one need not have shedlight.

    On a cluster it may be in another place: there, what the environment says holds.
    """
    python = settings.get("spark.pyspark.python", sys.executable)
    if master.cores is not None:
        os.environ["PYSPARK_PYTHON"] = python
        os.environ.setdefault(
            "SPARK_LOCAL_IP", preflight.LOOPBACK
        )  # where its pages are, if asked for
    elif "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = python
    else:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ["PYSPARK_DRIVER_PYTHON"] = settings.get(
        "spark.pyspark.driver.python", sys.executable
    )


# The JVM


def _start(
    conf: "SparkConf",
    stderr: jvm_stderr.JvmStderrFilter,
    failed: str,
    inherited: Sequence[int],
) -> "SparkSession":
    """Start a JVM whose standard error goes through us, and a session in it."""
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        with stderr.pipe() as writing:
            streams = {"stderr": writing, "pass_fds": tuple(inherited)}
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
        _silence_lost_connection(SparkContext(conf=conf, gateway=gateway))
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        _end_gateway()
        reason = _reason(str(error), stderr.end(SHUTDOWN_GRACE_S))
        raise preflight.SessionError(f"{failed}: {reason}; check the settings") from error
    except BaseException:  # an interrupt, most of all
        _end_gateway()
        raise
    stderr.start_forwarding()
    return session


def _silence_lost_connection(context: "SparkContext") -> None:
    """Have PySpark print no stack of calls when the JVM dies: we say so in a sentence."""
    server: Any = context._accumulatorServer  # noqa: SLF001  # no other way to reach it
    server.handle_error = lambda *_: None


def _reason(error: str, said: Iterable[str]) -> str:
    """Find the line that says why Spark did not start: what was thrown, or what came first.

    Of packages that cannot be fetched it is added which host could not be reached.
    """
    lines = [line for line in said if line.strip()]
    causes = [line.removeprefix(": ") for line in error.split("\n") if line.startswith(": ")]
    thrown = [match[1] for match in map(_THROWN.match, lines) if match]
    unreached = [match[1] for match in map(_UNREACHED.match, lines) if match]
    plain = [line for line in lines if not line.startswith(("\t", " "))]
    reason = next(iter((*causes, *thrown, *plain)), error.partition("\n")[0])
    return f"{reason} ({unreached[0]})" if unreached else reason


_THROWN = re.compile(r'Exception in thread "[^"]*" (?:[\w.$]+(?:Exception|Error): )?(.+)')
_UNREACHED = re.compile(r"\s*(Host \S+ not found|Server access error.*?)\.? url=")


def _is_alive() -> bool:
    """Say whether the JVM answers, as far as we can tell; asking a dead one fills the log."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    return gateway is not None and (gateway.proc is None or gateway.proc.poll() is None)


@contextlib.contextmanager
def detecting_lost_session() -> Iterator[None]:
    """Raise what fails because the JVM is gone as an error that says so."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    try:
        yield
    except (ShedlightError, Py4JError, OSError) as error:
        ended = _jvm_end()
        if ended is None:
            raise
        raise preflight.SessionLostError(f"Spark's JVM {ended}") from error


def _jvm_end() -> str | None:
    """Say how the JVM ended, which may be known a moment too late; None: it did not."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if gateway is None or gateway.proc is None:
        return None
    try:
        status = gateway.proc.wait(_JVM_END_S)
    except subprocess.TimeoutExpired:
        return None
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


_JVM_END_S = 0.5


def _end_gateway() -> None:
    """End the JVM of this process, if there is one, by request or else by force."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    gateway: Any = SparkContext._gateway  # noqa: SLF001  # Spark keeps it for ever
    if gateway is None:
        return
    # what a stop() that failed has left would be taken for a session
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    with contextlib.suppress(OSError):  # it may have ended by itself
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is None:  # spark-submit started it, and will end it
        return
    if process.stdin is not None:
        process.stdin.close()  # which tells it to end
    try:
        process.wait(SHUTDOWN_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# A query, to see that all of it works


def try_query(session: "SparkSession", timeout_s: int = 120) -> None:
    """Send a row through Python in a streaming query, and wait for it."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    name = "shedlight_doctor"
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    sent = rows.select("value").mapInArrow(_unchanged, "value long")
    writer = sent.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    try:
        query = writer.start()
        ended = query.awaitTermination(timeout_s)
        query.stop()
    except PySparkException as error:
        raise preflight.SessionError(
            f"a row sent through Python does not come back: {_cause(str(error))}; "
            "have the workers run a Python that has shedlight (PYSPARK_PYTHON)"
        ) from error
    if not ended or session.table(name).count() != 1:
        raise preflight.SessionError(
            f"a row sent through Python is not back after {timeout_s} s; "
            "see whether the workers are there and have a core to spare"
        )


def _cause(text: str) -> str:
    """Find the last error that a query's failure names, but for the stacks of calls."""
    lines = [line for line in text.split("\n") if not re.match(r"\s|at |Caused by", line)]
    errors = [re.match(r".*\b(\w+(?:Error|Exception): .*)", line) for line in lines]
    return next((error[1] for error in reversed(errors) if error), lines[0])


def _unchanged(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    yield from batches

"""On a cluster of two executors the paper's application finds what it finds without Spark."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pyspark
import pytest

from tests.engines.applications import drawn_events, paper_application
from tests.engines.spark.runs import locally

pytestmark = pytest.mark.spark

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[4]
PATIENCE = 60.0
QUICK = os.environ["SPARK_SUBMIT_OPTS"]  # as the other tests


def _free_port():
    with closing(socket.socket()) as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]


class _Daemon:
    """A master or a worker, from its start to its end; what it says is in a file."""

    def __init__(self, folder, name, *arguments):
        self._said = folder / f"{name}.txt"
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_LOCAL_IP": HOST,
        }
        with self._said.open("wb") as file:
            self._process = subprocess.Popen(
                [home / "bin" / "spark-class", *arguments],
                stdout=file,
                stderr=file,
                env=environment,
                cwd=folder,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_for(self, words):
        """Wait until it has said something."""
        over = time.monotonic() + PATIENCE
        while words not in self._said.read_text():
            assert self._process.poll() is None, self._said.read_text()
            assert time.monotonic() < over, self._said.read_text()
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path, java):  # noqa: ARG001
    """Start a master and a worker of two cores, and stop them."""
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    deploy = "org.apache.spark.deploy"
    common = ("--host", HOST, "--webui-port", "0")
    with ExitStack() as stack:
        master = _Daemon(
            tmp_path, "master", f"{deploy}.master.Master", "--port", str(port), *common
        )
        stack.enter_context(master)
        master.wait_for("I have been elected leader")
        work = ("--cores", "2", "--memory", "1600m", "--work-dir", str(tmp_path / "work"))
        worker = _Daemon(tmp_path, "worker", f"{deploy}.worker.Worker", *common, *work, url)
        stack.enter_context(worker)
        worker.wait_for("Successfully registered with master")
        yield url


DRIVER = """
import json, sys
from dataclasses import replace
from pathlib import Path
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.session.session import close_session, open_session
from tests.engines.applications import drawn_events, paper_application
from tests.engines.spark.runs import sink_rows, with_files

url, folder, host, quick = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
tables = {f"s{i}": drawn_events(20, 20, i) for i in (1, 2)}
settings = {
    "spark.driver.host": host,
    "spark.driver.bindAddress": host,
    "spark.driver.memory": "600m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": quick,
    "spark.sql.shuffle.partitions": "2",
}

def placed():
    application = with_files(paper_application(), tables, folder / "live", [150])
    sinks = {n: replace(s, path=f"{folder}/live/{n}") for n, s in application.sinks.items()}
    return replace(application, sinks=sinks)

def print_delivered(application):
    sinks = application.sinks.items()
    found = {n: sink_rows(session.read.parquet(s.path).toArrow()) for n, s in sinks}
    print(json.dumps(found), flush=True)

session = open_session("test", master=url, settings=settings)
try:
    live = placed()
    options = Options(shares={}, delivery_interval=1.0)
    with Live(live, session, checkpoint=f"{folder}/live/run", options=options) as running:
        running.process_all()
        for name in live.sources:
            running.end(name)
        running.process_all()
    print_delivered(live)
    print(session._jsc.sc().getExecutorMemoryStatus().size() - 1, flush=True)
finally:
    close_session(session)
"""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_on_a_cluster_the_papers_application_finds_what_it_finds_without_spark(
    cluster, tmp_path
):
    """With tasks in other processes than the driver."""
    tables = {f"s{i}": drawn_events(20, 20, i) for i in (1, 2)}
    expected = locally(paper_application(), tables)

    done = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster, str(tmp_path), HOST, QUICK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    live, executors = done.stdout.splitlines()
    assert json.loads(live) == expected
    assert int(executors) == 2

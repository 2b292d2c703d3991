"""A cluster whose processes share no folder: all is on HDFS, and workers are killed."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shedlight.language import DataType
from tests.engines.applications import drawn_events, paper_application
from tests.engines.spark.cluster import HOST, Cluster, has_mount_namespaces, hiding
from tests.engines.spark.hdfs import Hdfs, has_hdfs
from tests.engines.spark.runs import locally

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[4]
QUICK = os.environ["SPARK_SUBMIT_OPTS"]  # as the other tests
SCHEMA = dict.fromkeys(("time", "id", "type"), DataType.BIGINT)
FEED_S = 4.0  # between two of them, where there are no pauses
PARTS = 20  # in so many files comes what a source has

DRIVER = """
import io, json, sys
from dataclasses import replace
import pyarrow.parquet as pq
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.engines.spark.support.storage import create_file, stored_path
from tests.engines.applications import paper_application
from tests.engines.spark.runs import sink_rows
from tests.engines.spark.run.test_namespaces import PARTS, SCHEMA, events

url, address, host, quick = sys.argv[1:5]
idle = float(sys.argv[5])
settings = {
    "spark.driver.host": host,
    "spark.driver.bindAddress": host,
    "spark.driver.memory": "600m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": quick,
    "spark.sql.shuffle.partitions": "2",
}
session = open_session("test", master=url, settings=settings)
tables = events()

def feed(number):
    for name, table in tables.items():
        size = -(-len(table) // PARTS)
        written = io.BytesIO()
        pq.write_table(table.slice(number * size, size), written)
        folder = stored_path(f"{address}/in/{name}")
        create_file(folder / f"{number:04}.parquet", written.getvalue())

application = paper_application()
sources, sinks = application.sources.items(), application.sinks.items()
application = replace(
    application,
    sources={n: replace(s, path=f"{address}/in/{n}", schema=SCHEMA) for n, s in sources},
    sinks={n: replace(s, path=f"{address}/out/{n}") for n, s in sinks},
)
for name in application.sources:
    stored_path(f"{address}/in/{name}").mkdir(parents=True)
options = Options(shares={}, shards=2, idle_timeout=idle, delivery_interval=0.5)
try:
    with Live(application, session, checkpoint=f"{address}/run", options=options) as running:
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "feed":
                feed(int(rest[0]))
            elif word == "through":
                running.process_all()
            else:
                for name in application.sources:
                    running.end(name)
                running.process_all()
                break
            print(line.strip(), flush=True)
    read = session.read.parquet
    found = {n: sink_rows(read(s.path).toArrow()) for n, s in application.sinks.items()}
    print(json.dumps(found), flush=True)
finally:
    close_session(session)
"""


def events():
    """Draw the events of both sources."""
    return {f"s{i}": drawn_events(20, 60, i) for i in (1, 2)}


@pytest.fixture
def hdfs(tmp_path, java):  # noqa: ARG001
    """Run an HDFS; it is killed in the end, for its files are worth nothing."""
    if not has_hdfs():
        pytest.skip("the jars of HDFS are not in .venv/jars; scripts/jars fetches them")
    (tmp_path / "hdfs").mkdir()
    running = Hdfs(tmp_path / "hdfs")
    running.start()
    yield running
    running.kill()


@pytest.fixture
def cluster(tmp_path, java):  # noqa: ARG001
    """Run two workers."""
    if not has_mount_namespaces():
        pytest.skip("this needs `unshare -m`, which is for root alone")
    running = Cluster(tmp_path, ["one", "two"])
    try:
        running.start()
        yield running
    finally:
        running.end()


class Driver:
    """A run that is told what to do, line by line; it says each line when that is done."""

    def __init__(self, cluster, hdfs, idle):
        asked = cluster.url, f"{hdfs.address}/t", HOST, QUICK, idle
        words = [sys.executable, "-c", DRIVER, *asked]
        with (cluster.driver / "said").open("wb") as said:
            self._process = subprocess.Popen(
                hiding(cluster.hidden_from("driver"), words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=ROOT,
                text=True,
            )
        self._said = cluster.driver / "said"

    def tell(self, *words):
        """Tell it what to do; give what it says."""
        assert self._process.stdin
        assert self._process.stdout
        line = " ".join(map(str, words))
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._said.read_text()
        return answer

    def end(self):
        """End it, however far it is."""
        self._process.kill()
        self._process.communicate()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pauses", [True, False])
def test_workers_that_share_nothing_are_killed(cluster, hdfs, pauses):
    """The run goes on with the other, and nothing is lost, doubled or invented.

    While events come, the time that a run needs to recover makes no source idle. Where all have
    a pause that is longer than the timeout, they are: the first that goes on leads, and what
    others have is late. So where there are pauses here, no source is ever idle.
    """
    expected = locally(paper_application(), events())
    driver, killed = Driver(cluster, hdfs, idle="1e6" if pauses else "10"), ""
    try:
        for number in range(PARTS):
            driver.tell("feed", number)
            time.sleep(0 if pauses else FEED_S)
            if killed:
                cluster.start_worker(killed)
                killed = ""
            elif number % 4 == 2:
                killed = random.Random(number).choice(["one", "two"])
                cluster.kill(killed)
            if pauses:
                driver.tell("through")
        found = json.loads(driver.tell("end"))
    finally:
        driver.end()

    assert found == expected

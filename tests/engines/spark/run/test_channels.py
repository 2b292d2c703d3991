"""Nodes that read each other by channels, on a real broker."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run.streaming import Live, Options, RunListener
from shedlight.engines.spark.support.checkpoint import committed_files
from shedlight.errors import InputError, StateError
from shedlight.graph import load_application
from tests.engines.spark.broker import connector
from tests.engines.spark.processes import family
from tests.engines.spark.runs import locally, with_files

pytestmark = pytest.mark.spark

APPLICATION = """
name: apart
sources:
  s1: &source
    format: parquet
    path: in/s1
    schema: {{n: bigint, time: bigint, type: bigint, key: bigint}}
    time: time
    id: [n]
    lateness: 1 s
  s2: {{<<: *source, path: in/s2}}
channels:
  format: kafka
  prefix: {prefix}
  options: {{kafka.bootstrap.servers: "{servers}"}}
nodes: {{edge-1: {{}}, edge-2: {{bound: 3 s}}, core: {{}}}}
operators:
  w1:
    node: edge-1
    input: [s1]
    patterns:
      P: >
        SELECT a.key AS key, b
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY key
  w2:
    node: edge-2
    input: [s2]
    patterns:
      Q: "SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY key"
      R: "SELECT a.key AS key WHERE AND(a.type = 2, b.type = 3) WITHIN 1 s PARTITION BY key"
  w3:
    node: core
    input: [w1.P, w2.Q, w2.R]
    patterns:
      X: >
        SELECT p.key AS key, p.b AS b
        WHERE SEQ(p.source = 'P', q.source = 'Q') WITHIN 5 s PARTITION BY key
      Y: >
        SELECT p.key AS key
        WHERE SEQ(p.source = 'P', NOT(r.source = 'R')) WITHIN 1 s PARTITION BY key
sinks:
  x: {{input: w3.X, format: parquet, path: out/x}}
  y: {{input: w3.Y, format: parquet, path: out/y}}
  p: {{input: w1.P, format: parquet, path: out/p}}
"""

OPTIONS = Options(shares={}, shards=2, watermark_interval=0.2, delivery_interval=0.2)


def text_for(broker, prefix):
    """Write the application for topics that begin so."""
    return APPLICATION.format(servers=broker.servers, prefix=prefix)


def make_events(seed, number=600):
    """Draw the events of both sources, in order but for a second."""
    rng = random.Random(seed)
    tables = {}
    for name in ("s1", "s2"):
        rows = [
            {
                "n": n,
                "time": n * 50_000 + rng.randrange(500_000),
                "type": rng.randrange(4),
                "key": rng.randrange(6),
            }
            for n in range(number)
        ]
        end = {"n": number, "time": number * 50_000 + 3600 * 10**6, "type": 9, "key": 0}
        tables[name] = pa.Table.from_pylist([*rows, end])
    return tables


def found_in(folder, name):
    """Read the ids that a sink has, in order; some may be there twice."""
    out = folder / "out" / name
    tables = [pq.read_table(out / file) for file in committed_files(out) or ()]
    return sorted(pa.concat_tables(tables)["id"].to_pylist()) if tables else []


def _in_folder(broker, prefix, tables, folder, cuts=()):
    """Load the application, with sources and sinks in a folder."""
    application = load_application(text_for(broker, prefix)).application
    application = with_files(application, tables, folder, cuts=cuts)
    sinks = {
        name: replace(sink, path=str(folder / "out" / name))
        for name, sink in application.sinks.items()
    }
    return replace(application, sinks=sinks)


def test_nodes_find_by_channels_what_match_finds(broker, spark, tmp_path):
    """Complex events are there once, whole."""
    tables, reports = make_events(1), list[MicroBatchReport]()
    application = _in_folder(broker, "plain", tables, tmp_path, cuts=[300])
    with Live(
        application,
        spark,
        checkpoint=str(tmp_path / "state"),
        options=OPTIONS,
        listener=RunListener(on_micro_batch=reports.append),
    ) as running:
        for source in tables:
            running.end(source)
        running.process_all()

    rows = locally(application, tables)
    for name in application.sinks:
        assert found_in(tmp_path, name) == sorted(str(row["id"]) for row in rows[name])
        assert len(rows[name]) > 10
    sent = Counter[str]()
    for report in reports:
        for shard in report.shards:
            sent.update(shard.sent)
    assert sent.keys() == {"w1.P", "w2.Q", "w2.R"}, "what other nodes read, and no more"
    assert min(sent.values()) > 1_000


@pytest.mark.soak
def test_a_topic_of_somebody_else_is_refused(broker, topics, spark, tmp_path):
    """A checkpoint that begins finds a topic empty; what others write there ends a run."""
    application = _in_folder(broker, "taken", make_events(2, 20), tmp_path)
    running = Live(application, spark, checkpoint=str(tmp_path / "a"), options=OPTIONS)
    topic = running.deployment.channels["edge-1"].topic
    running.stop()
    topics.send(topic, ["of somebody else"], partition=0)

    with pytest.raises(StateError, match="has records that are of another application"):
        Live(application, spark, checkpoint=str(tmp_path / "b"), options=OPTIONS)
    assert not (tmp_path / "b" / "application").exists()
    running = Live(application, spark, checkpoint=str(tmp_path / "a"), options=OPTIONS)
    with pytest.raises(StateError) as error, running:
        running.wait(120)
    assert str(error.value).startswith(f"the topic {topic} has records that are of another")
    assert str(error.value).endswith("and start all nodes with new checkpoints")


def test_a_topic_with_too_few_partitions_is_refused(broker, spark, tmp_path):
    """Each shard has one of its own."""
    application = _in_folder(broker, "few", make_events(2, 20), tmp_path)
    running = Live(application, spark, checkpoint=str(tmp_path / "a"), options=OPTIONS)
    running.stop()
    topic = running.deployment.channels["edge-1"].topic

    more = replace(OPTIONS, shards=3)
    with pytest.raises(InputError) as error:
        Live(application, spark, checkpoint=str(tmp_path / "b"), options=more)

    assert str(error.value) == (
        f"channels: the topic {topic} has 2 partitions, and the checkpoint has 3 shards, each "
        "of which needs one of its own; delete the topic, or make it with 3"
    )


class _KilledRun:
    """A run of the command line that is given files all the time, and killed."""

    def __init__(self, broker, folder, seed):
        self._folder, self._rng = folder, random.Random(seed)
        (folder / "app.yaml").write_text(text_for(broker, f"killed-{seed}"))
        self._tables = make_events(seed, 1200)
        for name in self._tables:
            (folder / "in" / name).mkdir(parents=True)
        self._process = self._start()

    def _start(self):
        command = [sys.executable, "-m", "shedlight.cli", "run", "app.yaml", "--shards", "2"]
        command += ["--shedder", "none", "--checkpoint", "state"]
        command += ["--conf", f"spark.jars={connector()}"]
        with (self._folder / "said").open("ab") as said:
            return subprocess.Popen(
                command, stdout=said, stderr=said, cwd=self._folder, start_new_session=True
            )

    def disturb(self, kills):
        """Write a file to each source and kill all processes, again and again."""
        size = -(-len(self._tables["s1"]) // (kills + 1))
        for number in range(kills + 1):
            for name, table in self._tables.items():
                file = self._folder / "in" / name / f"{number:04}.parquet"
                pq.write_table(table.slice(number * size, size), file.with_suffix(".tmp"))
                file.with_suffix(".tmp").rename(file)
            if number < kills:
                before = self._written()
                self._wait(lambda before=before: self._written() > before)
                time.sleep(self._rng.uniform(0, 2))
                self.kill()
                self._process = self._start()

    def _written(self):
        """Count the micro-batches in which something was written to a channel."""
        commits = (self._folder / "state" / "edge-1" / "channel" / "commits").glob("[0-9]*")
        return max((int(path.name) for path in commits), default=-1)

    def _wait(self, is_so, patience=300):
        over = time.monotonic() + patience
        while not is_so():
            assert self._process.poll() is None, (self._folder / "said").read_text()
            assert time.monotonic() < over, (self._folder / "said").read_text()
            time.sleep(0.5)

    def kill(self):
        """Kill all of its processes."""
        for one in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()

    def check(self):
        """Wait until all is in the sinks; stop it in order; there is nothing else."""
        application = load_application(self._folder / "app.yaml").application
        expected = {
            name: {str(row["id"]) for row in rows}
            for name, rows in locally(application, self._tables).items()
        }
        self._wait(
            lambda: all(set(found_in(self._folder, n)) >= i for n, i in expected.items())
        )
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=60) == 0, (self._folder / "said").read_text()
        for name, ids in expected.items():
            assert found_in(self._folder, name) == sorted(ids)
            assert len(ids) > 20


@pytest.mark.soak
@pytest.mark.parametrize("kills", [1, 6])
def test_nothing_is_lost_or_doubled_though_all_is_killed(broker, tmp_path, kills):
    """What a channel delivers twice is found once."""
    run = _KilledRun(broker, tmp_path, kills)
    try:
        run.disturb(kills)
        run.check()
    finally:
        run.kill()

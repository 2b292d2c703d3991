"""A checkpoint whose keys are divided anew goes on, and finds what it would have found."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run import divide as divide_module
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.divide import divide
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.errors import StateError
from shedlight.graph import load_application
from tests.engines.applications import drawn_events
from tests.engines.spark.runs import in_order, locally, sink_rows

pytestmark = pytest.mark.spark

SCHEMA = "{time: bigint, id: bigint, type: bigint, key: string}"
APPLICATION = f"""
name: divided
sources:
  s: {{path: in, format: parquet, time: time, id: [id], lateness: 1 s, schema: {SCHEMA}}}
nodes: {{edge: {{}}, core: {{}}}}
operators:
  keyed:
    node: edge
    input: [s]
    patterns:
      K: >
        SELECT a.key AS key, b.id AS last
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 6 s PARTITION BY key
      N: >
        SELECT a.key AS key, a.id AS last
        WHERE SEQ(a.type = 0, NOT(b.type = 2)) WITHIN 3 s PARTITION BY key
  plain:
    node: edge
    input: [s]
    patterns:
      P: SELECT a.id AS one WHERE SEQ(a.type = 0, b.type = 1, c.type = 2) WITHIN 4 s
  joined:
    node: core
    input: [keyed.K, keyed.N]
    patterns:
      J: >
        SELECT a.key AS key
        WHERE AND(a.source = 'K', b.source = 'N') WITHIN 5 s PARTITION BY key
sinks:
  k: {{input: keyed.K, format: parquet, path: out/k}}
  n: {{input: keyed.N, format: parquet, path: out/n}}
  p: {{input: plain.P, format: parquet, path: out/p}}
  j: {{input: joined.J, format: parquet, path: out/j}}
"""

SMALL = f"""
name: small
sources:
  s: {{path: in, format: parquet, time: time, id: [id], lateness: 1 s, schema: {SCHEMA}}}
nodes: {{edge: {{}}}}
operators:
  keyed:
    node: edge
    input: [s]
    patterns:
      K: >
        SELECT a.key AS key, b.id AS last
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 6 s PARTITION BY key
sinks:
  k: {{input: keyed.K, format: parquet, path: out/k}}
"""


def _events(seconds):
    """Draw events of some keys, one of them null, out of order by less than they may be."""
    table = drawn_events(20, seconds, 3, types=3)
    keys = [None if n % 11 == 10 else f"key {n % 11}" for n in range(len(table))]
    order = sorted(range(len(table)), key=lambda n: (n // 7, -n))
    return table.append_column("key", pa.array(keys)).take(pa.array(order))


class _Run:
    """Runs an application in stretches, each with shards of its own."""

    def __init__(self, spark, folder, table, text=APPLICATION):
        (folder / "in").mkdir()
        for name in ("in", *(f"out/{sink}" for sink in "knpj")):
            text = text.replace(f"path: {name},", f"path: {folder / name},")
            text = text.replace(f"path: {name}}}", f"path: {folder / name}}}")
        self.application = load_application(text).application
        self.spark, self.folder, self.table = spark, folder, table
        self.checkpoint = folder / "checkpoint"
        self.written = self.files = 0

    def live(self, shards):
        """Make the run."""
        options = Options(shares={}, shards=shards)
        return Live(
            self.application, self.spark, checkpoint=str(self.checkpoint), options=options
        )

    def stretch(self, shards, events, *, files=3, ends=False):
        """Run it over some more events."""
        with self.live(shards) as live:
            for _ in range(files):
                self._write(events // files)
                live.process_all()
            if ends:
                self._write(len(self.table))
                live.process_all()
                live.end("s")
                for _ in range(3):  # from node to node, and to the sinks
                    live.process_all()

    def _write(self, events):
        part = self.table.slice(self.written, events)
        self.written, self.files = self.written + len(part), self.files + 1
        if len(part):
            hidden = self.folder / f"in/.{self.files}"
            pq.write_table(part, hidden)
            hidden.rename(self.folder / f"in/{self.files:03}.parquet")

    def found(self):
        """Read all sinks."""
        return {
            name: sink_rows(self.spark.read.parquet(str(sink.path)).toArrow())
            for name, sink in self.application.sinks.items()
        }

    def expected(self):
        """Match all events without Spark."""
        return {
            name: in_order(rows)
            for name, rows in locally(self.application, {"s": self.table}).items()
        }

    def partitions(self, node):
        """Say how many stores the state of a node has."""
        folder = self.checkpoint / node / "query"
        last = max((folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        conf = json.loads(last.read_text().split("\n")[1])["conf"]
        return int(conf["spark.sql.shuffle.partitions"])


def _check(run):
    expected, found = run.expected(), run.found()
    assert all(len(rows) > 10 for rows in expected.values())
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_three_shards_become_two(spark, tmp_path):
    """While partial matches are open and events wait, in keys of text; one of them is null."""
    run = _Run(spark, tmp_path, _events(20), SMALL)
    run.stretch(3, 200, files=1)
    before = run.partitions("edge")
    run.stretch(2, 60, files=1, ends=True)
    _check(run)
    assert (before, run.partitions("edge")) == (2, 2)  # of two cores


@pytest.mark.soak
@pytest.mark.parametrize("min_bytes", [1, 1 << 20], ids=["in files", "in rows"])
def test_seven_shards_become_three_and_seven_again(spark, tmp_path, monkeypatch, min_bytes):
    """With one shard at first, so that there is one store, and states in files or not."""
    monkeypatch.setattr(node_query, "MIN_FILE_BYTES", min_bytes)
    run = _Run(spark, tmp_path, _events(60))
    for shards in (1, 7, 3, 7):
        run.stretch(shards, 240)
    run.stretch(None, 240, ends=True)
    _check(run)
    assert run.partitions("edge") == 2  # of two cores


@pytest.mark.soak
def test_a_micro_batch_that_was_begun_is_ended_with_the_old_shards(spark, tmp_path):
    """Its output is there already: it would not be written again."""
    run = _Run(spark, tmp_path, _events(40))
    run.stretch(3, 240)
    for node in ("edge", "core"):
        commits = run.checkpoint / node / "query" / "commits"
        max(commits.glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
    run.stretch(2, 240, ends=True)
    _check(run)


@pytest.mark.soak
def test_a_division_that_is_repeated_is_the_same(spark, tmp_path, monkeypatch):
    """A run was killed before it was recorded, and then before a micro-batch had begun."""
    run = _Run(spark, tmp_path, _events(40))
    run.stretch(3, 240)
    with run.live(None):
        pass

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(divide_module, "record_sharding", killed)
        with pytest.raises(KeyboardInterrupt):
            run.live(2)
    live = run.live(2)
    live.stop()
    with pytest.raises(StateError, match="is still being divided into 2 shards; go on with as"):
        divide(spark, live.deployment, 4)
    shutil.rmtree(run.checkpoint / "edge/query/state/0/1", ignore_errors=True)
    run.stretch(2, 240, ends=True)
    _check(run)

"""Runs that are killed at any moment go on, and the sinks have every match once.

A run of the command line is killed with all its processes, again and again, while files appear
and plans change. What has to be in the sinks is worked out without Spark: from the record of
what each micro-batch used, and from Spark's own log of which files it read.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.codec.blobs import read_blob
from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.outbox.outbox import packed_of, read_outbox
from shedlight.engines.spark.shed.keep_sql import tabulate_plan
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.step.advance import advance
from shedlight.engines.spark.step.chain import define_chain, new_chain_state, outside_input
from shedlight.engines.spark.step.keep_flags import flag_names
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Stream, load_application
from shedlight.graph.topology import key_name, longest_windows
from shedlight.matching.operators.reorder import FOREVER, StreamInput
from shedlight.shedding.shares import PatternShares, sheddable
from shedlight.shedding.shedder import event_hashes, key_hashes, threshold
from tests.engines.applications import drawn_events
from tests.engines.spark.processes import family, jvms, python_workers
from tests.engines.spark.runs import in_order, locally, sink_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc for processes"),
]

SCHEMA = "{time: bigint, id: bigint, type: bigint, key: bigint}"
OPTIONS = '{maxFilesPerTrigger: "1"}'
SOURCE = f"format: parquet, time: time, id: [id], options: {OPTIONS}, schema: {SCHEMA}"
APPLICATION = f"""
name: recovery
sources:
  s1: {{path: in/s1, {SOURCE}}}
  s2: {{path: in/s2, {SOURCE}}}
nodes:
  edge: {{bound: 1000 s}}
  core: {{}}
operators:
  keyed:
    node: edge
    input: [s1]
    patterns:
      K: >
        SELECT a.key AS key, b.id AS last
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY key
  plain:
    node: edge
    input: [s2]
    shed_by: event
    patterns:
      P: >
        SELECT a.id AS one
        WHERE SEQ(a.type = 0, b.type = 1, c.type = 2) WITHIN 4 s PARTITION BY key
      Q: SELECT a.id AS one WHERE AND(a.type = 1, b.type = 2) WITHIN 2 s PARTITION BY key
  joined:
    node: core
    input: [keyed.K, plain.P, plain.Q]
    patterns:
      J: SELECT a.key AS key, b.one AS one WHERE AND(a.source = 'K', b.source = 'P') WITHIN 2 s
      M: SELECT a.one AS one WHERE SEQ(a.source = 'Q', b.source = 'Q') WITHIN 1 s
sinks:
  k: {{input: keyed.K, weight: 1, format: parquet, path: out/k}}
  j: {{input: joined.J, weight: 1, format: parquet, path: out/j}}
  m: {{input: joined.M, weight: 1, format: parquet, path: out/m}}
"""
K, P, Q = Stream("K", "keyed"), Stream("P", "plain"), Stream("Q", "plain")
COMMAND = """
from shedlight.cli.main import main
from shedlight.engines.spark.run import node_query as node
node.MIN_BLOB_BYTES = 1  # all that is found is in files beside the outbox
node.MIN_FILE_BYTES = 1  # and all states are in files, with what changed since
main()
"""
EVENTS = 90
LATER = 3600 * 10**6
ALL_LOGS = "spark.sql.streaming.minBatchesToRetain=10000"


# Events


def _events(number, files):
    """Draw the events of a source, and one long after them that nobody has a use for."""
    table = drawn_events(60, files * EVENTS / 60 + 5, number, types=3).slice(0, files * EVENTS)
    keys = np.random.default_rng(number).integers(0, 9, len(table))
    table = table.append_column("key", pa.array(keys))
    end = table["time"][-1].as_py() + LATER
    last = {"time": [end], "id": [number * 10**9 - 1], "type": [7], "key": [0]}
    return pa.concat_tables([table, pa.table(last, schema=table.schema)])


def _write(folder, name, table, number):
    """Write a file that is complete when it appears."""
    path = folder / "in" / name / f"{number:04}.parquet"
    pq.write_table(table, path.with_name(f".{path.name}"))
    path.with_name(f".{path.name}").replace(path)


def _feed(run, tables):
    """Write the files of both sources one after the other, but for the last event of all."""
    for number in range(run.files):
        for name, table in tables.items():
            _write(run.folder, name, table.slice(number * EVENTS, EVENTS), number)
        time.sleep(0.5)


# Processes


def _kill(*processes):
    for one in processes:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


@dataclass
class Run:
    """An application that is run by the command line, and killed.

    Attributes:
        folder: Where all of it is.
        files: How many files each source has, before the one that ends it.
        options: Of the command line.
        records: What micro-batches were found to have used, by node and number.
        repeated: Those that were begun when it was killed, and had a record.
    """

    folder: Path
    files: int
    options: tuple[str, ...] = ()
    records: dict[tuple[str, int], str] = field(default_factory=dict)
    repeated: set[tuple[str, int]] = field(default_factory=set)
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def checkpoint(self) -> Path:
        """Where its state is."""
        return self.folder / "checkpoint"

    def start(self, said: str = "said") -> subprocess.Popen[bytes]:
        """Start it, in a process group of its own."""
        command = [sys.executable, "-c", COMMAND]
        command += ["run", str(self.folder / "app.yaml"), "--checkpoint", str(self.checkpoint)]
        command += ["--conf", ALL_LOGS, *self.options]
        with (self.folder / said).open("ab") as file:
            return subprocess.Popen(
                command, stdout=file, stderr=file, start_new_session=True, cwd=self.folder
            )

    def done(self, node: str = "edge") -> int:
        """Say which micro-batch was the last that is done."""
        return _last(self.checkpoint / node / "query" / "commits")

    def is_beyond(self, batch: int) -> bool:
        """Say whether a later micro-batch is done."""
        return self.done() > batch

    def wait_for(self, is_so: Callable[[], bool], patience: float = 400) -> None:
        """Wait until something is so, while it runs."""
        over = time.monotonic() + patience
        while not is_so():
            assert self.process.poll() is None, (self.folder / "said").read_text()
            assert time.monotonic() < over, (self.folder / "said").read_text()
            time.sleep(0.02)

    def is_within_one(self) -> bool:
        """Say whether a micro-batch has begun to work, and is not done."""
        begun = _last(self.checkpoint / "edge" / "query/offsets")
        return begun > self.done() and (
            "none" in self.options or begun in self.on_record("edge")
        )

    def is_delivering(self) -> bool:
        """Say whether a delivery has begun, and is not done."""
        folders = (self.checkpoint / "deliveries").glob("*")
        return any(_last(f / "offsets") > _last(f / "commits") for f in folders)

    def on_record(self, node: str) -> dict[int, str]:
        """Give what is on record of the micro-batches of a node."""
        files = sorted((self.checkpoint / node / "plan" / "record").glob("*.jsonl"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        return {json.loads(line)["batch"]: line for line in reversed(lines)}

    def kill(self) -> None:
        """Kill all of its processes, and look at what they left."""
        _kill(*family(self.process.pid))
        self.process.wait()
        for node in ("edge", "core"):
            begun = _last(self.checkpoint / node / "query" / "offsets")
            if begun > self.done(node) and begun in self.on_record(node):
                self.repeated.add((node, begun))
        self.look()

    def look(self) -> None:
        """Read the records; none that was seen before is different now."""
        for node in ("edge", "core"):
            for batch, found in self.on_record(node).items():
                assert self.records.setdefault((node, batch), found) == found


def _last(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)


# What has to be found


def _edge(application):
    """Build the operators of the edge as its query does."""
    schema = pa.schema(dict.fromkeys(("time", "id", "type", "key", EVENT_TIME), pa.int64()))
    shares = sheddable(application)
    built = []
    for placement in operator_chains(application, "edge", 2):
        inputs = {
            s: (StreamInput(s.name, ("id",), EVENT_TIME, 0), schema) for s in placement.external
        }
        spec = ChainSpec(
            placement=placement,
            inputs=inputs,
            origins=dict.fromkeys(inputs, (0,)),
            context=NodeContext(
                shares={stream: shares[stream] for stream in placement.outputs},
                windows=longest_windows(application),
                with_event_ids=frozenset(sink.input for sink in application.sinks.values()),
            ),
        )
        built.append(define_chain(spec))
    return built


def _publish(run, chains, rng):
    """Put a plan in force that nobody expects."""
    labels = [f"type={number}" for number in range(3)]
    shares = {
        stream: PatternShares(
            {label: rng.choice([0.4, 0.7, 1.0]) for label in labels}, stream == K
        )
        for stream in (K, P, Q)
    }
    plans = PlanStore(run.checkpoint / "edge" / "plan")
    catalogs, tables = type_catalogs(chains), {}
    for chain in chains:
        tables.update(tabulate_plan(chain, catalogs, shares))
    plans.activate(ActivePlan(plans.publish(shares, tables), rng.choice([1.0, 0.8])))


def _batches(query, source):
    """Find which micro-batch read each file of a source, in Spark's logs."""
    offsets = {}
    for path in (query / "offsets").glob("[0-9]*"):
        lines = path.read_text().split("\n")[2:]
        offsets[int(path.name)] = [
            -1 if x == "-" else json.loads(x)["logOffset"] for x in lines
        ]
    found = {}
    for place in range(len(offsets[0])):
        for log in (query / "sources" / str(place)).glob("[0-9]*"):
            for line in log.read_text().split("\n")[1:]:
                entry = json.loads(line)
                path = Path(entry["path"].removeprefix("file://"))
                if path.parent.name == source and path.suffix == ".parquet":
                    read = [n for n, of in offsets.items() if of[place] >= entry["batchId"]]
                    found[path.name] = min(read, default=None)
    return found


def _flagged(run, chain, stream):
    """Give the events of a source, with the flags that their micro-batches gave them."""
    placement = chain.spec.placement
    (spec,) = placement.operators
    plans = PlanStore(run.checkpoint / "edge" / "plan")
    tables = []
    for name, batch in _batches(run.checkpoint / "edge" / "query", stream.name).items():
        table = pq.read_table(run.folder / "in" / stream.name / name)
        used = json.loads(run.records["edge", batch])
        shares = plans.shares(ActivePlan(used["plan"], used["pressure"]))
        flags = np.zeros(len(table), np.int64)
        for number, output in enumerate(spec.outputs):
            kept = _kept(shares.get(output), spec.patterns[output.name], chain, table)
            flags |= kept.astype(np.int64) << number
        table = table.append_column(EVENT_TIME, table["time"])
        (column,) = flag_names(spec.name, len(spec.outputs))
        tables.append(table.append_column(column, pa.array(flags)))
    return pa.concat_tables(tables).sort_by("time")


def _kept(shares, pattern, chain, table):
    if shares is None:
        return np.ones(len(table), np.bool_)
    if shares.by_key:
        window = chain.spec.context.windows[key_name(pattern.partition_by)]
        hashes = key_hashes(table, pattern.partition_by, table["time"].to_numpy(), window)
    else:
        hashes = event_hashes(table, ["id"])
    each = [shares.shares.get(f"type={number}", shares.mean) for number in range(8)]
    types = table["type"].to_numpy()
    limits = np.array([threshold(share) for share in each], np.int64)[types]
    return (np.array(each)[types] >= 1) | (hashes < limits)


def _expected(run, application, edge):
    """Work out what is in each sink, and what the edge has found."""
    found: dict[Stream, pa.Table] = {}
    for chain in edge:
        (stream,) = chain.spec.inputs
        arrivals = {stream: _flagged(run, chain, stream)}
        state = new_chain_state(chain)
        _, done = advance(chain, state, arrivals, [WatermarkUpdate(stream, 0, FOREVER)])
        found.update(done.outputs)
    (placement,) = operator_chains(application, "core", 2)
    inputs = {s: outside_input(s, found[s].schema) for s in placement.external}
    core = define_chain(
        ChainSpec(
            placement=placement,
            inputs=inputs,
            origins=dict.fromkeys(inputs, (0,)),
            context=NodeContext(
                with_event_ids=frozenset(sink.input for sink in application.sinks.values())
            ),
        )
    )
    marks = [WatermarkUpdate(stream, 0, FOREVER) for stream in inputs]
    _, done = advance(core, new_chain_state(core), {s: found[s] for s in inputs}, marks)
    found.update(done.outputs)
    sinks = application.sinks.items()
    return {name: in_order(found[sink.input].to_pylist()) for name, sink in sinks}, found


def _delivered(root):
    """List the ids in a sink by the log of what was committed, as Spark reads it."""
    logs = {}
    for path in (root / "_spark_metadata").glob("[0-9]*"):
        number = int(path.name.partition(".")[0])
        if path.suffix or number not in logs:
            logs[number] = path
    summed = max((n for n, path in logs.items() if path.suffix), default=0)
    entries = [
        json.loads(line)
        for number, path in logs.items()
        if number >= summed
        for line in path.read_text().split("\n")[1:]
    ]
    files = [entry["path"].removeprefix("file://") for entry in entries]
    return sorted(one for file in files for one in pq.read_table(file)["id"].to_pylist())


# Tests


@pytest.fixture
def place(tmp_path):
    """Make an application with folders for its files."""
    for name in ("s1", "s2"):
        (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "app.yaml").write_text(APPLICATION)
    return tmp_path


def _tables(run):
    return {name: _events(number, run.files) for number, name in enumerate(("s1", "s2"), 1)}


def _disturbed(run, tables, rng, kills, between=lambda: None):
    """Run it while files appear, kill it again and again, a worker first, and let it go on.

    Args:
        run: What to run.
        tables: The events of its sources.
        rng: When to kill.
        kills: How often.
        between: Is called before each kill, and after it.
    """
    feeding = threading.Thread(target=_feed, args=(run, tables), daemon=True)
    feeding.start()
    for number in range(kills):
        run.process, before = run.start(), run.done()
        run.wait_for(lambda before=before: run.done() > before)
        between()
        _kill(*python_workers(run.process.pid)[-rng.randint(1, 2) :])
        over = time.monotonic() + rng.uniform(0, 3)
        if number % 2:
            time.sleep(over - time.monotonic())
        else:
            run.wait_for(lambda over=over: run.is_within_one() or time.monotonic() > over + 5)
        run.kill()
        between()
    feeding.join()
    for name, table in tables.items():
        _write(run.folder, name, table.slice(run.files * EVENTS), run.files)
    run.process = run.start()


WAYS = "start-up", "all", "worker", "jvm", "delivery", "daemon", "driver"
"""What is killed: all while it starts, within a micro-batch or a delivery; or a part."""


def _disturbed_in_all_ways(run, tables, rng, kills, between):
    """Run it while files appear, and kill this and that of it; a part is left to go on."""
    feeding = threading.Thread(target=_feed, args=(run, tables), daemon=True)
    feeding.start()
    run.process = run.start()
    run.wait_for(partial(run.is_beyond, -1))
    for number in range(kills):
        way = WAYS[(number + rng.randrange(2)) % len(WAYS)]
        if way == "start-up":
            run.kill()
            run.process = run.start()
            time.sleep(rng.uniform(0.5, 15))
            assert run.process.poll() is None, (run.folder / "said").read_text()
        else:
            run.wait_for(partial(run.is_beyond, run.done()))
            between()
            time.sleep(rng.uniform(0, 0.5))
        _kill_part(run, way, between)
        run.look()
    feeding.join()
    for name, table in tables.items():
        _write(run.folder, name, table.slice(run.files * EVENTS), run.files)


def _kill_part(run, way, between):
    """Kill a part of a run, or all of it; who does not go on by itself is started again."""
    pid = run.process.pid
    if way == "worker":
        _kill(*python_workers(pid)[-1:])
    elif way == "daemon":
        _kill(*python_workers(pid)[:1])
    elif way == "jvm":
        _kill(*jvms(pid))
    else:
        if way == "delivery":
            over = time.monotonic() + 5
            run.wait_for(lambda: run.is_delivering() or time.monotonic() > over)
        elif way == "all":
            over = time.monotonic() + 5
            run.wait_for(lambda: run.is_within_one() or time.monotonic() > over)
        if way == "driver":  # its JVM goes on for a moment, and keeps the lock
            _kill(pid)
            run.process.wait()
        else:
            run.kill()
        between()
        run.process = run.start()


def _ended(run):
    """Stop it in order."""
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(timeout=60) == 0, (run.folder / "said").read_text()


def _all_read(run):
    """Say whether all files are in micro-batches that are done."""
    query = run.checkpoint / "edge" / "query"
    read = [_batches(query, name) for name in ("s1", "s2")]
    numbers = [n for one in read for n in one.values()]
    complete = all(len(one) == run.files + 1 for one in read) and None not in numbers
    return complete and max(numbers) <= run.done()


def _survives(run, spark, rng, kills, meanwhile=lambda: None, disturb=_disturbed):
    """Kill a run while plans change; all that was used is on record and gives the matches."""
    application = load_application(run.folder / "app.yaml").application
    edge = _edge(application)
    try:
        disturb(run, _tables(run), rng, kills, lambda: _publish(run, edge, rng))
        run.wait_for(lambda: _all_read(run), 300)
        run.look()
        expected, found = _expected(run, application, edge)
        run.wait_for(lambda: _is_delivered(run, expected), 120)
        meanwhile()
        _ended(run)
    finally:
        _kill(*family(run.process.pid))
    run.look()
    _check_sinks(run, spark, expected)
    outbox = read_outbox(spark, str(run.checkpoint / "edge" / "outbox"), streaming=False)
    for stream in (K, P, Q):
        packed = packed_of(outbox, stream).collect()
        tables = [decode_table(read_blob(row.events)) for row in packed]
        there = [one for table in tables for one in table["id"].to_pylist()]
        assert sorted(there) == sorted(found[stream]["id"].to_pylist())
    used = {text for (node, _), text in run.records.items() if node == "edge"}
    assert len(used) > min(kills, 3), "plans have changed"
    assert run.repeated, "it was killed within micro-batches"


def _check_sinks(run, spark, expected):
    """Read the sinks as Spark does, which honours the log of what was committed."""
    for name, rows in expected.items():
        assert len(rows) > 20
        found = spark.read.parquet(str(run.folder / "out" / name)).toArrow()
        assert sink_rows(found) == rows


def _is_delivered(run, expected):
    return all(
        _delivered(run.folder / "out" / name) == sorted(row["id"] for row in rows)
        for name, rows in expected.items()
    )


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_finds_every_match_once(place, spark):
    """With all its processes, and a Python worker before that."""
    _survives(Run(place, files=5), spark, random.Random(1), kills=1)


@pytest.mark.soak
def test_a_run_that_is_killed_twenty_times_finds_every_match_once(place, spark):
    """And while it runs, a second one on its checkpoint is refused."""
    run = Run(place, files=60)

    def second():
        assert run.start("second").wait(timeout=120) == 1
        said = f"is in use by process {run.process.pid} on"
        assert said in (place / "second").read_text()

    _survives(run, spark, random.Random(2), 20, second)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_a_run_that_is_killed_fifty_times_in_all_ways_finds_every_match_once(
    place, spark, part
):
    """Ten kills in each part: driver, JVM, workers, their daemon, all; also while it starts."""
    run = Run(place, 40, ("--restarts", "20"))
    _survives(run, spark, random.Random(100 + part), 10, disturb=_disturbed_in_all_ways)


@pytest.mark.soak
def test_a_run_whose_jvm_is_killed_ten_times_finds_every_match_once(place, spark):
    """It starts Spark again by itself, in the same process."""
    run = Run(place, 30, ("--shedder", "none", "--restarts", "10"))
    tables, rng = _tables(run), random.Random(4)
    expected = locally(load_application(place / "app.yaml").application, tables)
    run.process = run.start()
    feeding = threading.Thread(target=_feed, args=(run, tables), daemon=True)
    feeding.start()
    try:
        for _ in range(10):
            run.wait_for(partial(run.is_beyond, run.done()))
            time.sleep(rng.uniform(0, 0.5))
            _kill(*jvms(run.process.pid))
        feeding.join()
        for name, table in tables.items():
            _write(run.folder, name, table.slice(run.files * EVENTS), run.files)
        run.wait_for(lambda: _is_delivered(run, expected), 300)
        _ended(run)
    finally:
        _kill(*family(run.process.pid))
    assert (place / "said").read_text().count("; starting again from the checkpoint") == 10
    _check_sinks(run, spark, expected)


@pytest.mark.soak
def test_a_run_that_sheds_nothing_and_is_killed_finds_what_the_engine_without_spark_finds(
    place, spark
):
    """Which knows nothing of micro-batches, logs and kills."""
    run = Run(place, 20, ("--shedder", "none"))
    tables = _tables(run)
    expected = locally(load_application(place / "app.yaml").application, tables)
    try:
        _disturbed(run, tables, random.Random(3), kills=5)
        run.wait_for(lambda: _is_delivered(run, expected), 300)
        _ended(run)
    finally:
        _kill(*family(run.process.pid))
    _check_sinks(run, spark, expected)


def _is_dividing(run, _):
    """Say whether states of shards are being written for those that come after them."""
    first = json.loads((run.checkpoint / "application").read_text())["sharding"]["first"]
    folders = (run.checkpoint / "edge" / "states").glob("before-*")
    return any(int(path.name.removeprefix("before-")) > first for path in folders)


def _is_divided(run, shards):
    """Say whether it is on record that there are as many shards as were asked for."""
    record = json.loads((run.checkpoint / "application").read_text())
    return bool(record["sharding"]["shards"] == shards)


def _is_within_next(run, shards):
    """Say whether a micro-batch of the new shards has begun, and is not done."""
    return _is_divided(run, shards) and run.is_within_one()


@pytest.mark.soak
def test_a_run_that_is_killed_while_its_keys_are_divided_finds_every_match_once(place, spark):
    """As states are written, when the number is on record, and in the micro-batch after it."""
    run = Run(place, 25, ("--shedder", "none", "--shards", "3"))
    tables = _tables(run)
    expected = locally(load_application(place / "app.yaml").application, tables)
    feeding = threading.Thread(target=_feed, args=(run, tables), daemon=True)
    feeding.start()
    try:
        run.process = run.start()
        run.wait_for(partial(run.is_beyond, 2))
        run.kill()
        for shards in (7, 3, 7):
            run.options = ("--shedder", "none", "--shards", str(shards))
            for moment in (_is_dividing, _is_divided, _is_within_next):
                run.process = run.start()
                run.wait_for(partial(moment, run, shards))
                run.kill()
            run.process = run.start()
            run.wait_for(partial(run.is_beyond, run.done() + 1))
            run.kill()
        feeding.join()
        for name, table in tables.items():
            _write(run.folder, name, table.slice(run.files * EVENTS), run.files)
        run.process = run.start()
        run.wait_for(lambda: _is_delivered(run, expected), 900)
        _ended(run)
    finally:
        _kill(*family(run.process.pid))
    _check_sinks(run, spark, expected)

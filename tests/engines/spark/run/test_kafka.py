"""Kafka in and out, on a real broker: what is read, what is written, what is missing.

And what is delivered though the run and the broker are killed under way.
"""

import json
import os
import random
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from shedlight.engines.event_files import read_events
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.support import kafka_admin
from shedlight.errors import InputError
from shedlight.graph import load_application
from tests.engines.spark.broker import JARS, Broker, connector
from tests.engines.spark.processes import family, python_workers
from tests.engines.spark.runs import locally

pytestmark = pytest.mark.spark

APPLICATION = """
name: kafka
sources:
  s:
    format: kafka
    options: {{kafka.bootstrap.servers: "{servers}", subscribe: {topic}-in}}
    value: {{format: json, schema: {{n: bigint, time: bigint, type: bigint, user: bigint}}}}
    time: time
    lateness: 1000 s
    malformed:
      format: kafka
      options: {{kafka.bootstrap.servers: "{servers}", topic: {topic}-bad}}
nodes: {{edge: {{}}}}
operators:
  w:
    node: edge
    input: [s]
    patterns:
      P: >
        SELECT a.user AS who, b.n AS last
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY user
sinks:
  out:
    input: w.P
    format: kafka
    options: {{kafka.bootstrap.servers: "{servers}", topic: {topic}-out}}
"""


def _application(broker, topic, *edits):
    """Load the application with changes, for topics that begin so."""
    return load_application(_text(broker, topic, *edits)).application


def _text(broker, topic, *edits):
    text = APPLICATION.format(servers=broker.servers, topic=topic)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def _created(topics, topic, partitions=1):
    names = [f"{topic}-{part}" for part in ("in", "out", "bad")]
    topics.create(*names, partitions=partitions)
    return names


def _event(n, seconds, event_type, user=1, **more):
    row = {"n": n, "time": round(seconds * 1e6), "type": event_type, "user": user}
    return json.dumps(row | more)


# What is read, and what is written.


def test_a_topic_in_and_a_topic_out(broker, topics, spark, tmp_path):
    """Keys are partition keys; what is no event is in the side output with its place."""
    _created(topics, "plain", partitions=2)
    topics.send("plain-in", [_event(1, 1, 0), '{"n": 7, "ti'], partition=0)
    topics.send("plain-in", [_event(2, 2, 1), '{"n": "x", "time": 1}', None, ""], partition=1)
    topics.send("plain-in", [_event(3, 1, 0, 2), '{"n": 8}', _event(4, 1, 1, 2)], partition=1)
    application = _application(broker, "plain")

    found = run_on_spark(application, spark, checkpoint=str(tmp_path), deliver=True)

    rows = sorted(found["out"].toArrow().to_pylist(), key=lambda row: row["who"])
    assert [(row["who"], row["last"]) for row in rows] == [(1, 2), (2, 4)]
    records = sorted(topics.read("plain-out"), key=lambda row: row["who"])
    assert [record["key"] for record in records] == ["1", "2"]
    for record, row in zip(records, rows, strict=True):
        assert {name: record[name] for name in ("id", "who", "last")} == {
            name: row[name] for name in ("id", "who", "last")
        }
        assert len(record["events"]) == 2
    bad = sorted(topics.read("plain-bad"), key=lambda row: (row["partition"], row["offset"]))
    assert [(row["topic"], row["partition"], row["offset"]) for row in bad] == [
        ("plain-in", 0, 1),
        ("plain-in", 1, 1),
        ("plain-in", 1, 2),
        ("plain-in", 1, 3),
        ("plain-in", 1, 5),
    ]
    parsed = "a record cannot be parsed as json"
    assert [row["problem"] for row in bad] == [*[parsed] * 4, "'time' is null"]
    assert [row["record"] for row in bad[:4]] == [
        '{"n": 7, "ti',
        '{"n": "x", "time": 1}',
        "",
        "",
    ]
    assert json.loads(bad[4]["record"])["n"] == 8


def test_what_kafka_knows_of_a_record_is_in_columns(broker, topics, spark, tmp_path):
    """Under other names where the value has a field of that name; and values may be CSV."""
    _created(topics, "columns")
    line = {"key": "k", "headers": [("h", "old"), ("h", "new")], "timestamp_ms": 1_000_500}
    topics.send("columns-in", ["1,2,0,5", "2,3,1,5"], **line)
    topics.send("columns-in", ["3,4"], key="other")
    fields = (
        "time: bigint, type: bigint, user: bigint",
        "offset: bigint, type: bigint, u: bigint",
    )
    selected = (
        "a.key AS k, a.headers AS h, a.partition AS p, b.kafka_offset AS o, b.offset AS own"
    )
    edits = (
        ("format: json", "format: csv"),
        fields,
        ("time: time\n", "time: timestamp\n"),
        ("a.user AS who, b.n AS last", selected),
        ("PARTITION BY user", "PARTITION BY key"),
    )
    application = _application(broker, "columns", *edits)

    found = run_on_spark(application, spark, checkpoint=str(tmp_path), deliver=True)

    (row,) = found["out"].toArrow().to_pylist()
    assert (row["k"], row["h"], row["p"], row["o"], row["own"]) == ("k", '{"h":"new"}', 0, 1, 3)
    assert row["time"] == 1_000_500_000
    (record,) = topics.read("columns-out")
    assert record["key"] == "k"
    (bad,) = topics.read("columns-bad")
    assert (bad["offset"], bad["record"]) == (2, "3,4")


def test_a_malformed_value_without_a_side_output_is_an_error_with_its_place(
    broker, topics, spark, tmp_path
):
    """The record is shown, and where it is."""
    _created(topics, "error")
    topics.send("error-in", ['{"n": 7, "ti'])
    application = _application(broker, "error")
    source = replace(application.sources["s"], malformed=None)
    with pytest.raises(InputError) as error:
        run_on_spark(
            replace(application, sources={"s": source}), spark, checkpoint=str(tmp_path)
        )
    assert str(error.value) == (
        'source s: a record cannot be parsed as json: {"n": 7, "ti, topic error-in, partition '
        "0, offset 0; put it right, or have them written elsewhere with `malformed` of source s"
    )


@pytest.mark.soak
def test_a_run_begins_at_the_end_of_a_topic_and_stays_there(broker, topics, spark, tmp_path):
    """All queries begin at one place; a restart goes on, also with a partition that is new."""
    _created(topics, "end")
    topics.send("end-in", [_event(1, 1, 0), "old"])
    application = _application(broker, "end", ("1000 s", "0 s"))
    options = Options(shares={}, delivery_interval=0.2, watermark_interval=0.2)
    with Live(application, spark, checkpoint=str(tmp_path), options=options) as running:
        topics.send("end-in", ["new", _event(2, 2, 0), _event(3, 3, 1)])
        running.process_all()
    offsets = json.loads((tmp_path / "s.offsets").read_text())
    assert offsets == {"end-in": {"0": 2}}
    assert [row["offset"] for row in topics.read("end-bad")] == [2]
    topics.send("end-in", [_event(4, 3, 0), _event(5, 4, 1)])
    with Live(application, spark, checkpoint=str(tmp_path), options=options) as running:
        running.end("s")
        running.process_all()
    assert sorted(row["last"] for row in topics.read("end-out")) == [3, 5]


# The example.

EXAMPLE = Path(__file__).parents[4] / "examples" / "kafka"
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


def _example_ids(application, folder):
    """Find what `shedlight match` finds in the events of the example, by sink."""
    found = locally(application, {"events": read_events(folder)})
    return {name: {row["id"] for row in rows} for name, rows in found.items()}


def test_the_example_finds_what_match_finds(broker, topics, spark, tmp_path):
    """Its application as it is, but for the address; with fewer events."""
    lines = runpy.run_path(str(EXAMPLE / "generate.py"))["make_lines"](8_000, 1)
    text = (EXAMPLE / "app.yaml").read_text().replace("localhost:9092", broker.servers)
    application = load_application(text).application
    topics.create("events", "alarms", "attacks", "malformed")
    topics.send("events", ["not an event", *lines])
    run_on_spark(application, spark, checkpoint=str(tmp_path / "state"), deliver=True)
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    found = {name: topics.read(name) for name in ("alarms", "attacks")}
    ids = {name: {row["id"] for row in rows} for name, rows in found.items()}
    assert ids == _example_ids(application, tmp_path / "events.jsonl")
    assert len(found["attacks"]) > 20
    assert all(row["key"] == str(row["user"]) and row["tries"] >= 3 for row in found["alarms"])
    assert all(row["key"] == str(row["network"]) for row in found["attacks"])
    assert [row["offset"] for row in topics.read("malformed")] == [0]


@pytest.mark.soak
@pytest.mark.usefixtures("jars")
def test_the_page_of_the_example_can_be_followed(tmp_path):
    """With Kafka's own tools; the run ends when all is read, as the page says it can."""
    (tmp_path / "bin").mkdir()
    for name, main in TOOLS.items():
        tool = tmp_path / "bin" / name
        tool.write_text(f'#!/bin/sh\nexec java -cp "{JARS}/kafka-broker/*" {main} "$@"\n')
        tool.chmod(0o755)
    fresh = Broker(tmp_path)
    fresh.start()
    command = [sys.executable, "-m", "shedlight.cli", "new", "app", "--example", "kafka"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "app"
    text = (folder / "app.yaml").read_text().replace("localhost:9092", fresh.servers)
    (folder / "app.yaml").write_text(text)
    blocks = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        said = [
            subprocess.run(
                ["/bin/sh", "-ec", _for_the_test(block, fresh.servers)],
                cwd=folder,
                env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout
            for block in blocks
        ]
    finally:
        fresh.kill()
    ids = _example_ids(load_application(text).application, folder / "data" / "events.jsonl")
    attacks = {json.loads(v)["id"] for v in re.findall(r"\d+\t(\{.*\})", said[1])}
    assert attacks == ids["attacks"]
    assert len(attacks) > 100
    assert len(said[0].splitlines()) > 20


def _for_the_test(block, servers):
    """Have the commands of the page end, and find the broker and the jars of the test."""
    block = re.sub(r"spark\.jars\.packages=\S+", f"spark.jars={connector()} --once", block)
    block = block.replace("--from-beginning", "--from-beginning --timeout-ms 8000")
    return block.replace("localhost:9092", servers)


# What is missing.


def test_a_connector_that_is_missing(broker, spark, tmp_path, monkeypatch):
    """The package is named, with the version of this Spark."""
    monkeypatch.setattr(kafka_admin, "CONNECTOR", "org.apache.spark.sql.kafka010.Missing")
    with pytest.raises(InputError) as error:
        run_on_spark(_application(broker, "none"), spark, checkpoint=str(tmp_path))
    assert str(error.value) == (
        "source s: Spark has no connector for Kafka; add it with --conf spark.jars.packages="
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or its jars with --conf "
        "spark.jars=..."
    )


@pytest.mark.parametrize("part", ["in", "out", "bad"])
def test_a_topic_that_is_not_there(broker, topics, spark, tmp_path, part):
    """It is named, with those that are there, and nothing is begun."""
    there = [f"{part}-{one}" for one in ("in", "out", "bad") if one != part]
    topics.create(*there)
    with pytest.raises(InputError) as error:
        run_on_spark(_application(broker, part), spark, checkpoint=str(tmp_path / "state"))
    who, option = {
        "in": ("source s", "subscribe"),
        "out": ("sink out", "topic"),
        "bad": ("malformed of source s", "topic"),
    }[part]
    assert str(error.value).startswith(
        f"{who}: Kafka at {broker.servers} has no topic '{part}-{part}'; create it, or put the "
        f"option {option} right; known: "
    )
    assert not (tmp_path / "state" / "application").exists()


def test_what_answers_and_is_no_broker(broker, spark, tmp_path, monkeypatch):
    """It is called once, and not for minutes."""
    monkeypatch.setattr(kafka_admin, "_ANSWER_WITHIN_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        servers = f"127.0.0.1:{other.getsockname()[1]}"
        application = _application(broker, "none", (broker.servers, servers))
        with pytest.raises(InputError) as error:
            run_on_spark(application, spark, checkpoint=str(tmp_path))
    assert str(error.value).startswith(
        f"source s: Kafka at {servers} does not answer as it should: "
    )


# What is delivered though all is killed.


class _KilledRun:
    """A run of the command line that is fed by two partitions all the time, and killed.

    Each portion of events comes with a value that is no event.
    """

    def __init__(self, broker, topics, folder, seed):
        self._broker, self._topics, self._folder = broker, topics, folder
        self._rng, self._topic = random.Random(seed), f"killed-{seed}"
        _created(topics, self._topic, partitions=2)
        identified = ("time: time\n", "time: time\n    id: [n]\n")
        (folder / "app.yaml").write_text(_text(broker, self._topic, identified))
        self._rows, self._portions, self._enough = [], 0, threading.Event()
        self._feeding = threading.Thread(target=self._feed, args=(seed,), daemon=True)
        self._process = self._start()

    def _start(self):
        command = [sys.executable, "-m", "shedlight.cli", "run", "app.yaml"]
        command += ["--shedder", "none", "--checkpoint", "state"]
        command += ["--conf", f"spark.jars={connector()}"]
        with (self._folder / "said").open("ab") as said:
            return subprocess.Popen(
                command, stdout=said, stderr=said, cwd=self._folder, start_new_session=True
            )

    def _feed(self, seed):
        rng = random.Random(seed)
        while not self._enough.wait(0.5):
            first = len(self._rows)
            rows = [
                {
                    "n": n,
                    "time": n * 20_000,
                    "type": rng.randrange(3),
                    "user": rng.randrange(20),
                }
                for n in range(first, first + 200)
            ]
            values = [*map(json.dumps, rows), f"bad {self._portions}"]
            self._topics.send(f"{self._topic}-in", values[::2], partition=0)
            self._topics.send(f"{self._topic}-in", values[1::2], partition=1)
            self._rows, self._portions = self._rows + rows, self._portions + 1

    def _wait(self, is_so, patience=300, interval=0.2):
        over = time.monotonic() + patience
        while not is_so():
            assert self._process.poll() is None, (self._folder / "said").read_text()
            assert time.monotonic() < over, (self._folder / "said").read_text()
            time.sleep(interval)

    def _done(self):
        commits = (self._folder / "state" / "edge" / "query" / "commits").glob("[0-9]*")
        return max((int(path.name) for path in commits), default=-1)

    def disturb(self, kills):
        """Kill a worker and then all of it, again and again, and sometimes the broker."""
        self._wait((self._folder / "state" / "s.offsets").exists)
        self._feeding.start()
        for number in range(kills):
            before = self._done()
            self._wait(lambda before=before: self._done() > before + 1)
            self._kill_worker()
            if number % 3 == 0:
                self._broker.kill()
                self._broker.start()
            time.sleep(self._rng.uniform(0, 2))
            self.kill()
            self._process = self._start()
        self._enough.set()
        self._feeding.join()
        last = self._rows[-1]
        end = last | {"n": len(self._rows), "time": last["time"] + 3600 * 10**6, "type": 9}
        self._topics.send(f"{self._topic}-in", [json.dumps(end)], partition=0)

    def _kill_worker(self):
        for one in reversed(python_workers(self._process.pid)):
            with suppress(OSError):
                os.kill(one, signal.SIGKILL)
                return

    def kill(self):
        """Kill all of its processes."""
        for one in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()

    def end(self):
        """Leave nothing behind."""
        self._enough.set()
        self.kill()

    def check(self):
        """Wait until all is delivered; stop it in order; there is nothing else."""
        application = load_application(self._folder / "app.yaml").application
        events = pa.Table.from_pylist(self._rows)
        ids = {row["id"] for row in locally(application, {"s": events})["out"]}
        bad = {(0, f"bad {number}") for number in range(self._portions)}
        assert len(ids) > self._portions
        self._wait(lambda: ids <= self._delivered(), interval=2)
        self._wait(lambda: bad <= self._malformed(), interval=2)
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=60) == 0, (self._folder / "said").read_text()
        assert self._delivered() == ids
        assert self._malformed() == bad

    def _delivered(self):
        return {row["id"] for row in self._topics.read(f"{self._topic}-out")}

    def _malformed(self):
        rows = self._topics.read(f"{self._topic}-bad")
        return {(row["partition"], row["record"]) for row in rows}


def _survives(run, kills):
    try:
        run.disturb(kills)
        run.check()
    finally:
        run.end()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_all_is_delivered_though_run_worker_and_broker_are_killed(broker, topics, tmp_path):
    """Once each; ids that are delivered twice are the same."""
    _survives(_KilledRun(broker, topics, tmp_path, seed=1), kills=1)


@pytest.mark.soak
def test_all_is_delivered_though_everything_is_killed_ten_times(broker, topics, tmp_path):
    """Under load all the time."""
    _survives(_KilledRun(broker, topics, tmp_path, seed=2), kills=10)

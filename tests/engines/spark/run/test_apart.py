"""Nodes and their controller as processes of their own, on a real broker."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.control.kafka_links import NodesLink
from shedlight.engines.spark.control.messages import PlanMessage
from shedlight.engines.spark.run.fingerprint import application_digest
from shedlight.errors import ApplicationError
from shedlight.graph import Stream, load_application
from shedlight.graph.part import alone, apart, part_of
from shedlight.shedding.shares import PatternShares, sheddable
from tests.engines.spark.broker import connector
from tests.engines.spark.processes import family
from tests.engines.spark.run.test_channels import found_in, make_events, text_for
from tests.engines.spark.runs import locally

pytestmark = pytest.mark.spark

NODES = "edge-1", "edge-2", "core"
PATIENCE_S = 300


def application_text(prefix="none", *edits):
    """Write the application for a broker that nobody calls, with changes."""
    text = text_for(type("Nobody", (), {"servers": "127.0.0.1:1"}), prefix)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_node_reads_and_writes_what_is_its_own():
    """Operators stay: what one may shed depends on the others."""
    application = load_application(application_text()).application

    own = part_of(application, "edge-1")

    assert (list(own.sources), list(own.sinks)) == (["s1"], ["p"])
    assert own.operators == application.operators
    assert part_of(application, None) is application


def test_a_node_that_cannot_run_by_itself_is_refused():
    """It is said why, and what to do."""
    application = load_application(application_text()).application
    with pytest.raises(ApplicationError, match=r"there is no node 'edge'; .*did you mean"):
        alone(application, "edge")
    start = application_text().index("channels:")
    end = application_text().index("nodes:")
    without = application_text().replace(application_text()[start:end], "")
    application = load_application(without).application
    with pytest.raises(ApplicationError) as error:
        alone(application, "edge-1")
    assert str(error.value) == (
        "operator w3 on node core reads w1.P of node edge-1, and there is no channel between "
        "them; to run edge-1 alone give the application `channels: {format: kafka, options: "
        "...}`"
    )


class Apart:
    """The nodes of an application and its controller, each a process in a folder of its own."""

    def __init__(self, broker, folder, seed, *, shedder="none"):
        self.folder, self.rng, self.shedder = folder, random.Random(seed), shedder
        self.text = text_for(broker, f"apart-{seed}")
        (folder / "app.yaml").write_text(self.text)
        self.tables = make_events(seed)
        for name in self.tables:
            (folder / "in" / name).mkdir(parents=True)
        self.processes = {}

    def start(self, *names):
        """Start nodes, or the controller."""
        for name in names:
            if name == "control":
                self.start_controller(name)
            else:
                words = ["run", self.file_for(name), "--node", name, "--shards", "2"]
                words += ["--shedder", self.shedder, "--watermark-interval", "500 ms"]
                words += ["--idle-timeout", "1 h"]  # tests wait longer than sources may
                self._start(name, [*words, "--master", "local[1,4]"])

    def start_controller(self, name):
        """Start a controller with a checkpoint of its own."""
        self._start(name, ["control", self.file_for(name), "--checkpoint", f"state/{name}"])

    def file_for(self, name):  # noqa: ARG002  # all read the same
        """Name the application file that a process reads."""
        return "app.yaml"

    def command_for(self, name, command):  # noqa: ARG002
        """Give the command by which a process is started where it belongs."""
        return command

    def _start(self, name, words):
        command = [sys.executable, "-m", "shedlight.cli", *words]
        command += ["--conf", f"spark.jars={connector()}"]
        with (self.folder / f"{name}.said").open("ab") as said:
            self.processes[name] = subprocess.Popen(
                self.command_for(name, command),
                stdout=said,
                stderr=said,
                cwd=self.folder,
                start_new_session=True,
            )

    def feed(self, number, of):
        """Give each source a part of its events."""
        for name, table in self.tables.items():
            size = -(-len(table) // of)
            file = self.folder / "in" / name / f"{number:04}.parquet"
            pq.write_table(table.slice(number * size, size), file.with_suffix(".tmp"))
            file.with_suffix(".tmp").rename(file)

    def wait(self, is_so, patience=PATIENCE_S, every=0.5):
        """Wait until something is so, while all run."""
        over = time.monotonic() + patience
        while not is_so():
            for name, process in self.processes.items():
                assert process.poll() is None, (name, self.said(name))
            assert time.monotonic() < over, {name: self.said(name) for name in self.processes}
            time.sleep(every)

    def said(self, name):
        """Read what a process said."""
        return (self.folder / f"{name}.said").read_text()

    def kill(self, name):
        """Kill a process and all that it started."""
        process = self.processes.pop(name)
        for one in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()

    def end(self):
        """Leave nothing behind."""
        for name in list(self.processes):
            self.kill(name)

    def micro_batches(self, node):
        """Count the micro-batches of a node that are done."""
        folder = self.folder / "state" / f"apart-{node}" / node / "query" / "commits"
        return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)

    def check(self):
        """Wait until all is in the sinks; stop in order; there is nothing else."""
        application = load_application(self.folder / "app.yaml").application
        expected = {
            name: sorted(str(row["id"]) for row in rows)
            for name, rows in locally(application, self.tables).items()
        }
        self.wait(
            lambda: all(len(found_in(self.folder, n)) >= len(i) for n, i in expected.items())
        )
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            assert process.wait(timeout=120) == 0, (name, self.said(name))
        for name, ids in expected.items():
            assert found_in(self.folder, name) == ids
            assert len(ids) > 10


@pytest.mark.soak
@pytest.mark.parametrize("kills", [1, 6])
def test_nodes_apart_find_what_match_finds(broker, tmp_path, kills):
    """Though nodes are killed; the others go on meanwhile."""
    run = Apart(broker, tmp_path, kills)
    try:
        run.start(*NODES)
        for number in range(kills + 1):
            name = run.rng.choice(NODES)
            before = run.micro_batches(name)
            run.feed(number, kills + 1)
            run.wait(lambda name=name, before=before: run.micro_batches(name) > before)
            if number < kills:
                time.sleep(run.rng.uniform(0, 3))
                run.kill(name)
                run.start(name)
        run.check()
    finally:
        run.end()


def open_link(spark, file):
    """Be a controller of the application of a file."""
    application = apart(load_application(file).application)
    digest = application_digest(application, sheddable(application))
    return NodesLink(spark, application, digest)


@pytest.mark.soak
def test_there_is_one_controller_and_plans_go_on_with_the_next_number(broker, spark, tmp_path):
    """A second one waits; one that is locked out says so, and is the next."""
    run = Apart(broker, tmp_path, 5, shedder="global")
    said = partial(run.said, "second")
    run.tables, parts = make_events(5, 9_000), iter(range(300))
    log = tmp_path / "state" / "control" / "log.jsonl"
    taken = tmp_path / "state" / "apart-edge-2" / "taken"

    def fed(is_so):
        """Give the sources a little now and then, until something is so."""
        run.wait(lambda: is_so() or run.feed(next(parts), 300))

    try:
        run.start("control", "edge-2")
        run.wait(lambda: "in control of apart: epoch 1" in run.said("control"))
        kinds = ('"record":"decision"', '"record":"micro_batch"')
        fed(lambda: log.exists() and all(kind in log.read_text() for kind in kinds))
        run.start_controller("second")
        run.wait(lambda: "another controller of apart is there" in said())
        assert "in control" not in said()

        run.kill("control")
        run.wait(lambda: "in control of apart: epoch 2" in said())
        link = open_link(spark, tmp_path / "app.yaml")
        began, shares = time.monotonic(), {Stream("Q", "w2"): PatternShares({"type=0": 0.5})}
        link.publish(PlanMessage(epoch=3, number=1, shares=shares))
        run.wait(lambda: taken.exists() and json.loads(taken.read_text()) == [3, 1])
        assert (took := time.monotonic() - began) < 10, took
        run.wait(lambda: "another controller of apart took over" in said())
        link.close()
        run.wait(lambda: "in control of apart: epoch 4, the last plan is 1" in said())
    finally:
        run.end()

"""What `shedlight run` logs of a run, with a stand-in for Spark, and the web UI of it."""

import json
from types import SimpleNamespace

import pytest

from shedlight.cli.run_view import LiveView, live_table
from shedlight.control.override import Override
from shedlight.control.planning_input import planning_input_path
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.override_store import (
    OverrideOutcome,
    OverrideWatcher,
    store_override,
)
from shedlight.engines.spark.support.checkpoint import LOCK
from shedlight.runlog.aggregate import run_totals
from tests.engines.spark.control.test_loop import BOUND, COST, NODE, World
from tests.page.client import PageClient, posted, to_close
from tests.runlog.logs import batch, header, run

RATE = 3 / (1.25 * COST)


@pytest.fixture
def watched(tmp_path):
    """Have an overloaded application that is watched as the command watches it."""
    world = World(tmp_path)
    (tmp_path / LOCK).touch()
    log = tmp_path / "log.jsonl"
    watch = LiveView(world.application, log, timed=True)
    world.loop = ControlLoop(
        world.application,
        world.nodes,
        on_decision=watch.decision,
        overrides=OverrideWatcher(tmp_path),
        on_override=watch.override,
    )
    watch.controller = world.loop
    watch.running = SimpleNamespace(loop=world.loop, deployment=world)  # type: ignore[assignment]
    watch.begin()
    world.loop.start(world.clock)
    yield SimpleNamespace(world=world, watch=watch, log=log, folder=tmp_path)
    watch._log.close()  # noqa: SLF001
    while to_close:
        to_close.pop().close()


def batches(watched, number):
    """Run micro-batches, and have each seen."""
    for _ in range(number):
        watched.world.loop.poll_overrides(watched.world.clock)
        watched.watch.batch(watched.world.batch(RATE, seconds=0.05)[0])


def rows(watched, record_type):
    """Read the records of a type."""
    lines = map(json.loads, watched.log.read_text().splitlines())
    return [row for row in lines if row["record"] == record_type]


def test_it_begins_once_with_what_is_run(watched):
    """However often it is said."""
    watched.watch.begin()
    batches(watched, 2)
    (header,) = rows(watched, "run")
    assert header["bounds"] == {NODE: BOUND}
    assert watched.log.read_text().startswith('{"record":"run"')


def test_batches_say_what_was_offered_and_used(watched):
    """By type, with the plan and the pressure."""
    batches(watched, 20)
    last = rows(watched, "micro_batch")[-1]
    assert last["plan"] > 1
    assert last["relevant_events"] == pytest.approx(last["events"], abs=4)
    assert last["arrived"]["w2"]["s2"] == last["events"]
    assert last["patterns"]["w2.Q22"]["offered"] > last["patterns"]["w2.Q22"]["kept"]


def test_the_page_shows_it_and_can_plan_from_it(watched):
    """From the log and the planning input next to it, written by the run itself."""
    batches(watched, 30)
    assert planning_input_path(watched.log).exists()
    page = PageClient(watched.log, clock=lambda: watched.world.clock)
    status = page.get("/api/status")
    assert (status["status"], status["bottleneck"]) == ("SHEDDING", NODE)
    assert status["keep_rows"][0]["rate"] > 0
    assert status["sinks"]["k1"]["predicted"] is not None
    longer = page.get("/api/what-if", **posted({"bounds": {NODE: 60.0}}))
    assert longer["feasible"]
    then = sum(one["forecast"] for one in longer["sinks"].values())
    assert then > sum(one["current"] for one in longer["sinks"].values())


def test_an_override_is_in_the_table_the_log_and_the_web_ui(watched):
    """As soon as it is applied."""
    batches(watched, 10)
    store_override(watched.folder, Override(bounds={NODE: 7.0}))
    batches(watched, 5)
    assert rows(watched, "override")[-1]["bounds"] == {NODE: 7.0}
    assert watched.watch.totals.nodes[NODE].bound == 7.0
    assert "7 s on average" in list(live_table(watched.watch.totals).columns[5].cells)
    assert PageClient(watched.log).get("/api/run")["nodes"][NODE]["bound"] == 7.0


def test_a_rejected_override_is_logged(watched):
    """Nothing else changes."""
    watched.watch.override(OverrideOutcome(1.0, Override(), "there is no node 'x'"))
    assert rows(watched, "override")[0]["rejected"] == "there is no node 'x'"
    assert watched.watch.totals.nodes[NODE].bound == BOUND


def test_rate_share_seconds_and_latency_are_of_the_last_micro_batch():
    """The latency of the last one that kept events."""
    log = run(header(99.0), batch(102.0, kept=50, mean=0.5), batch(103.0, events=0, kept=0))
    table = live_table(run_totals(log.records))
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells[:5] == ["edge", "0", "100%", "1.0 s", "0.5 s"]

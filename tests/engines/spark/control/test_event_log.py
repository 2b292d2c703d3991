"""What is in the log of a run: its starts, types that matter, and no more than is bounded."""

import json
import os
import stat
from dataclasses import replace

import pytest

from shedlight.control.controller import Memory
from shedlight.control.override import Override
from shedlight.control.planning_input import planning_input_path
from shedlight.engines.spark.control.event_log import (
    BatchRecorder,
    RunLog,
    override_record,
)
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.override_store import OverrideOutcome
from shedlight.engines.spark.control.type_counts import (
    arrived_row,
    offered_rows,
    relevant_events,
)
from shedlight.engines.spark.shed.type_catalog import TypeCatalog
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.engines.spark.support.atomic_file import write_atomically
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.graph import Stream
from shedlight.runlog.decisions import MAX_SHARES, decision_record
from shedlight.runlog.follow import read_run
from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    PatternRecord,
    RunHeader,
    run_header,
)
from shedlight.shedding.shares import PatternShares
from tests.control.loops import TOO_MUCH, run
from tests.control.observations import APPLICATION
from tests.engines.spark.control.test_loop import NODE, World

Q = Stream("Q", "w")


def batch(arrived, types=None):
    """Make a micro-batch to which so many events of each type came."""
    shards = (ShardMetrics(0, 0.1, 5, {"w": OperatorMetrics(3, 0, 0, 0, {}, types or {})}),)
    return MicroBatchReport(
        node="edge",
        number=0,
        start=100.0,
        seconds=1.0,
        arrived={key: ArrivalStats(sum(of.values()), 1, 1, of) for key, of in arrived.items()},
        kept_arrivals={},
        shards=shards,
    )


CATALOGS = {
    "w": TypeCatalog(
        ("", "a", "b"), {Q: (False, True, True), Stream("R", "w"): (False, False, True)}
    )
}


def test_patterns_say_what_they_were_offered():
    """Of the types that they use."""
    rows = offered_rows(batch({("w", "s"): {0: 5, 1: 3, 2: 2}}), CATALOGS)
    assert rows == {
        "w.Q": {"offered": 5, "types": {"a": 3, "b": 2}},
        "w.R": {"offered": 2, "types": {"b": 2}},
    }


def test_the_types_of_a_node_are_known_from_what_it_runs(tmp_path):
    """Four types, of which one pattern uses two and the other three; all are relevant."""
    world = World(tmp_path)
    known = world.nodes[NODE].catalogs
    done, _, _ = world.batch(rate=2_000, seconds=0.5)
    rows = offered_rows(done, known)
    assert {name: row["offered"] for name, row in rows.items()} == {
        "w2.Q21": 500,
        "w2.Q22": 750,
    }
    assert rows["w2.Q21"]["types"] == {"type=0": 250, "type=1": 250}
    assert relevant_events(done, known) == 1000


def test_what_is_of_use_is_counted_once():
    """An event that two patterns use is one."""
    assert relevant_events(batch({("w", "s"): {0: 5, 1: 3, 2: 2}}), CATALOGS) == 5


def test_what_two_operators_read_is_not_known_to_be_relevant():
    """Each knows its own types only."""
    both = batch({("w", "s"): {1: 3}, ("v", "s"): {1: 3}})
    assert relevant_events(both, CATALOGS) is None


def test_types_that_have_no_numbers_are_not_known():
    """Neither what is relevant, nor what was offered."""
    one = batch({("v", "s"): {1: 3}})
    known = {"v": TypeCatalog((), {Stream("Q", "v"): ()})}
    assert relevant_events(one, known) is None
    assert offered_rows(one, known) == {}


def test_complex_events_are_counted_in_shards():
    """Those that come from the same node are no events from outside."""
    one = batch({("w", "s"): {1: 3}}, {"v.P": {"b": 4}})
    assert arrived_row(one) == {"w": {"s": 3, "v.P": 4}}
    assert offered_rows(one, CATALOGS)["w.Q"]["offered"] == 7
    assert relevant_events(one, CATALOGS) == 3


def test_many_types_are_cut_to_those_that_come_often():
    """And to fewer if there are many patterns."""
    labels = [f"t{i}" for i in range(1000)]
    relevant = (True,) * len(labels)
    known = {
        "w": TypeCatalog(tuple(labels), {Stream(f"Q{i}", "w"): relevant for i in range(20)})
    }
    rows = offered_rows(batch({("w", "s"): {i: i for i in range(1000)}}), known)
    assert len(rows) == 20
    for row in rows.values():
        assert list(row["types"]) == [f"t{i}" for i in range(999, 974, -1)]
        assert row["offered"] == sum(range(1000))


@pytest.fixture
def decided():
    """Have a controller that sheds, and its last decision."""
    memory, decisions = run(Memory(application=APPLICATION), [TOO_MUCH] * 2)
    return memory, decisions[0]


def test_a_decision_says_what_the_sinks_get_and_what_more_would_bring(decided):
    """Prices are of a plan that was made."""
    memory, decision = decided
    record = decision_record(decision, memory)
    assert set(record.sinks) == set(APPLICATION.sinks)
    assert set(record.prices) == {"edge-2"}
    assert record.omitted_shares == 0
    assert record.rates["w2.Q21"].keys() == record.shares["w2.Q21"].keys()


def test_of_many_shares_those_are_told_of_which_most_is_shed(decided):
    """Not those that are kept."""
    memory, decision = decided
    shares = {f"type={i}": 0.5 if i < 60 else 1.0 for i in range(200)}
    rates = {f"type={i}": float(i) for i in range(200)}
    mean = replace(memory.smoothed.mean, arrivals={"w2": {Stream("s2"): rates}})
    memory = replace(memory, smoothed=replace(memory.smoothed, mean=mean))
    decision = replace(decision, shares={Stream("Q21", "w2"): PatternShares(shares)})
    record = decision_record(decision, memory)
    assert list(record.shares["w2.Q21"]) == [f"type={i}" for i in range(59, 9, -1)]
    assert record.omitted_shares == 200 - MAX_SHARES


def test_a_log_begins_with_what_is_run(tmp_path, decided):
    """And what is written is what is read; the planning input is beside it."""
    memory, decision = decided
    log = RunLog(tmp_path / "log.jsonl")
    log.write(run_header(APPLICATION, 100.0, version="9", timed=False))
    log.write(BatchRecorder().record(batch({("w", "s"): {1: 3}}), CATALOGS, 2, 0.5))
    log.write(decision_record(replace(decision, time=102.0), memory))
    log.write_planning_input(memory)
    override = OverrideOutcome(103.0, Override({"edge-2": 5.0}, {"sink1": 2.0}))
    log.write(override_record(override))
    log.close()

    header, one, other, applied = read_run(tmp_path).records
    assert isinstance(header, RunHeader)
    assert isinstance(one, MicroBatchRecord)
    assert isinstance(other, DecisionRecord)
    assert isinstance(applied, OverrideRecord)
    assert (header.version, header.timed) == ("9", False)
    assert header.weights == dict.fromkeys(APPLICATION.sinks, 1.0)
    assert (one.relevant_events, one.arrived) == (3, {"w": {"s": 3}})
    assert one.patterns["w.Q"].types == {"a": 3}
    assert other.sinks == pytest.approx(dict(decision.sinks))
    assert (one.plan, one.pressure) == (2, 0.5)
    assert (applied.bounds, applied.weights) == ({"edge-2": 5.0}, {"sink1": 2.0})
    assert not applied.rejected
    written = json.loads(planning_input_path(tmp_path / "log.jsonl").read_text())
    assert set(written["snapshot"]["rates"]) >= {"s1", "s2"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "log.jsonl",
        "log.planning.json",
    ]


def test_before_the_first_observation_there_is_no_planning_input(tmp_path, decided):
    """A decision alone does not say what it was made from."""
    log = RunLog(tmp_path / "log.jsonl")
    log.write(decision_record(decided[1]))
    log.write_planning_input(Memory(application=APPLICATION))
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_load_that_is_no_number_is_left_out(decided):
    """A log has none of these, and a run does not stop over them."""
    decision = replace(decided[1], loads={"edge-1": float("inf"), "edge-2": 0.5})
    assert decision_record(decision).loads == {"edge-2": 0.5}


def late_batch(number, late, shards=1):
    """Make a micro-batch of shards that have each had so many late events."""
    metrics = OperatorMetrics(10, 0, late, 0, {"A": PatternMetrics({}, 0.1, 3, 1, 0, 0)})
    arrivals = (98_000_000,) * 2 + (99_000_000,) * 10 + (99_500_000,) * 88
    return MicroBatchReport(
        node="edge",
        number=number,
        start=100.0,
        seconds=2.0,
        arrived={("w1", "s1"): ArrivalStats(10, 5, 99_000_000, {})},
        kept_arrivals={"s1": ArrivalSketch(4, 99.5e6, arrivals)},
        shards=tuple(ShardMetrics(i, 0.2, 100, {"w1": metrics}) for i in range(shards)),
        malformed={"s1": 1},
    )


def test_a_micro_batch_adds_up_its_shards():
    """A shard that has nothing to do has had its late events all the same."""
    recorder = BatchRecorder()
    first = recorder.record(late_batch(0, late=2, shards=2), plan=3)
    second = recorder.record(late_batch(1, late=3))

    assert (first.late, second.late) == ({"w1": 4}, {"w1": 5})
    assert first.patterns == {
        "w1.A": PatternRecord(kept=0, seconds=0.2, matches=6, partial_matches=2)
    }
    assert (first.plan, second.plan, first.malformed) == (3, None, {"s1": 1})
    assert first.latency == {"mean": 2.5, "p50": 2.5, "p95": 3.0, "p99": 4.0}


def test_the_files_of_a_run_are_for_their_owner_alone(tmp_path):
    """Whatever the umask says; a folder that is there already stays as it is."""
    umask = os.umask(0o022)
    try:
        checkpoint, elsewhere = tmp_path / "state" / "app", tmp_path / "log" / "log.jsonl"
        with lock_checkpoint(checkpoint):
            (tmp_path / "shared").mkdir(mode=0o755)
            with lock_checkpoint(tmp_path / "shared"):
                log = RunLog(elsewhere)
                log.write(RunHeader(time=1.0))
                log.close()
                write_atomically(checkpoint / "override.json", "{}")
    finally:
        os.umask(umask)

    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o600
    assert stat.S_IMODE((checkpoint / "override.json").stat().st_mode) == 0o600

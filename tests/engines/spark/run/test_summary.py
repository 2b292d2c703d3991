"""What is told of a run: its nodes, what was found, late, or no event."""

import json
from dataclasses import replace

from shedlight.control.node_status import NodeHealth, NodeStatus
from shedlight.engines.spark.control.event_log import RunLog
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run.summary import new_summary
from shedlight.engines.spark.source.arrival import ArrivalStats, KeptArrivals
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from tests.graph.applications import loaded


def _batch(number, *, late=0, refused=0):
    pattern = PatternMetrics({}, 0.1, 3, 1, 0, 0)
    tally = OperatorMetrics(10, 0, late, 0, {"A": pattern})
    return MicroBatchReport(
        node="edge",
        number=number,
        start=100.0,
        seconds=2.0,
        arrived={("w1", "s1"): ArrivalStats(10, 5, 99_000_000, {})},
        passed={"s1": KeptArrivals(4, 99.5e6, (99.5e6,) * 3)},
        shards=(ShardMetrics(0, 0.2, 100, {"w1": tally}),),
        refused={"s1": refused},
    )


def test_a_summary_is_for_people_and_for_machines():
    """Late events are counted by the groups themselves, from the beginning on."""
    summary = new_summary(loaded())
    summary.batch(_batch(0, late=2))
    summary.batch(_batch(1, late=5, refused=1))

    assert summary.as_text() == (
        "node edge: 20 events in 2 micro-batches, 40% of use and kept, "
        "mean latency 2.50 s of 3 s; OK\n"
        "node core: 0 events in 0 micro-batches; OK\n"
        "found 6 of w1.A\n"
        "late at w1: 5 events\n"
        "no events in source s1: 1 record"
    )
    told = summary.as_json()
    assert told["late"] == {"w1": 5}
    assert told["refused"] == {"s1": 1}
    assert summary.nodes["edge"].mean == 2.5


def test_a_remedy_stands_below_its_node():
    """As the controller says it."""
    summary = new_summary(loaded(), timed=False)
    summary.nodes["edge"].state = str(NodeStatus.INFEASIBLE)
    summary.nodes["edge"].remedy = NodeHealth(NodeStatus.INFEASIBLE, "ask for 2 s").advice
    summary.batch(_batch(0))

    assert summary.as_text().splitlines()[:2] == [
        "node edge: 10 events in 1 micro-batch, 40% of use and kept; INFEASIBLE",
        "  ask for 2 s",
    ]


def test_the_log_adds_up_what_groups_say(tmp_path):
    """A group that has nothing to do has had its late events all the same."""
    log = RunLog(tmp_path / "new" / "log.jsonl")
    one = _batch(0, late=2)
    other = replace(one.shards[0], shard=1)
    log.batch(replace(one, shards=(*one.shards, other)), {"plan": 3})
    log.batch(_batch(1, late=3), {})
    log.close()

    lines = (tmp_path / "new" / "log.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert (first["late"], second["late"]) == ({"w1": 4}, {"w1": 5})
    assert first["patterns"] == {
        "w1.A": {"kept": 0, "seconds": 0.2, "found": 6, "partial_matches": 2}
    }
    assert first["plan"] == 3

"""What the driver makes of the unshed sample: heavy hitters, estimates, what is not known."""

from dataclasses import replace

import numpy as np
import pytest

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.sample_tracker import (
    INTERVAL,
    KEYS_PER_BATCH,
    MAX_LOOKED_AT,
    SampleTracker,
    build_tracker,
    follow_sample,
)
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.metrics import ShardMetrics
from shedlight.engines.spark.step.sample_counts import SampleMetrics
from shedlight.engines.spark.support.placement import operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.engines.spark.support.sample_spec import SampleSpec, find_sample
from shedlight.graph.closures import find_closures
from shedlight.shedding.estimate import SampleCounts, estimate_sink
from shedlight.shedding.shares import PatternShares
from tests.sampled_runs import OTHER, PAIR, keyed_application

SHARE = 0.1
APPLICATION = replace(keyed_application(), unshed_sample=SHARE)
SAMPLE = find_sample(
    APPLICATION, find_closures(APPLICATION), dict.fromkeys([PAIR, OTHER], PatternShares({}))
)
GROUP = SAMPLE.groups[PAIR]
LIGHT = tuple(range(10**6, 10**6 + 1500))


def tracker(heavy=()):
    """Follow the keyed application in two shards of each node."""
    chains = {node: operator_chains(APPLICATION, node, 2) for node in APPLICATION.nodes}
    return SampleTracker(APPLICATION, SAMPLE, chains, heavy)


def counted(keys, since=0, until=10_000_000, heavy=0):
    """Say what a shard counted: results, those left, keys."""
    return SampleMetrics(since, until, keys, heavy)


def report(number=0, keys=LIGHT, shards=None, arrived=1000):
    """Make a micro-batch of the edge, in which shards counted results of P."""
    return MicroBatchReport(
        node="edge",
        number=number,
        start=100.0 + INTERVAL * number,
        seconds=1.0,
        arrived={("w", "s"): ArrivalStats(arrived, 1, 1, {})},
        kept_arrivals={},
        shards=tuple(
            ShardMetrics(shard, 0.1, 5, samples={str(PAIR): each})
            for shard, each in (shards or {}).items()
        ),
        keys={GROUP: keys, SAMPLE.groups[OTHER]: ()},
    )


def test_the_keys_of_all_shards_are_estimated_from_together():
    """As from one list of all of them."""
    shards = {0: counted([(4, 2, 40)], until=5_000_000), 1: counted([(1, 1, 30), (2, 0, 5)])}
    said = tracker().add(report(shards=shards)).unshed_sample

    results = np.repeat([4, 1, 2], [40, 30, 5])
    left = np.repeat([2, 1, 0], [40, 30, 5])
    counts = SampleCounts(np.arange(75), results, left, left)
    assert said["P"] == estimate_sink(counts, SHARE, 10.0, 0)
    assert said["P"].recall.value == pytest.approx(110 / 200)
    assert said["P"].rate.value == pytest.approx(200 / 10 / SHARE)


def test_what_is_not_known_is_said_so():
    """Not all shards have spoken, keys are too few, or too few were looked at."""
    all_shards = {0: counted([(1, 1, 49)]), 1: counted([])}
    cases = [
        (report(shards={0: counted([(1, 1, 90)])}), "not all shards"),
        (report(shards=all_shards), "49 of the sample's keys have results, 50 are needed"),
        (report(shards=all_shards, keys=LIGHT[:7]), "the keys of 7 events are known"),
    ]
    for batch, why in cases:
        said = tracker().add(batch).unshed_sample["P"]
        assert why in said.unknown
        assert said.recall is said.rate is None


def test_sinks_are_estimated_now_and_then():
    """Those of the node, every few seconds, and by what is known then."""
    follows = tracker()
    assert set(follows.add(report()).unshed_sample) == {"P", "Q"}
    soon = replace(report(1), start=100.0 + INTERVAL / 2)
    assert follows.add(soon).unshed_sample == {}
    assert set(follows.add(report(2)).unshed_sample) == {"P", "Q"}


def test_a_key_that_comes_too_often_is_a_heavy_hitter():
    """One in a hundred events is, one of 1,500 is not; and it stays one after a restart."""
    follows = tracker()
    assert follows.heavy == ()
    follows.add(report(keys=(*LIGHT, *[7] * 15)))
    assert follows.heavy == (7,)
    again = tracker(follows.heavy)
    assert again.heavy == (7,)
    shards = {0: counted([(2, 1, 60)], heavy=3), 1: counted([], heavy=4)}
    said = again.add(report(keys=(*LIGHT, *[7] * 500), shards=shards)).unshed_sample["P"]
    assert (said.heavy_hitters, said.heavy_work, said.heavy_results) == (1, 0.25, 7)


@pytest.mark.parametrize(
    ("arrived", "share"),
    [(10, MAX_LOOKED_AT), (10**6, KEYS_PER_BATCH / 10**6), (0, 0.01)],
)
def test_so_many_keys_are_looked_at_whatever_arrives(arrived, share):
    """But never all, for the next micro-batch may be larger; without events as before."""
    follows = tracker()
    follows.add(report(arrived=arrived))
    plan = follows.update_plan("edge", ActivePlan(3, 0.5, 7), None)
    assert plan == ActivePlan(3, 0.5, 7, looked_at=share)
    assert follows.update_plan("edge", plan, 4) == replace(plan, heavy=4)
    assert follows.update_plan("cloud", plan, None) == plan


def test_all_nodes_know_of_a_new_heavy_hitter(tmp_path):
    """With their next micro-batch; who is asked after a restart knows it still."""
    nodes = {
        name: PlannedNode((), {}, PlanStore(tmp_path / name)) for name in APPLICATION.nodes
    }
    for node in nodes.values():
        node.plans.activate(ActivePlan(2, 0.5, 3))
    chains = {node: operator_chains(APPLICATION, node, 2) for node in nodes}
    follows = build_tracker(APPLICATION, SAMPLE, chains, nodes)
    adopted: dict[str, ActivePlan] = {}
    assert follows is not None
    batch = report(keys=(*LIGHT, *[7] * 15), arrived=40_000)

    follow_sample(follows, nodes, batch, adopted.__setitem__)

    assert adopted["edge"] == ActivePlan(2, 0.5, 3, heavy=1, looked_at=0.05)
    assert adopted["cloud"] == ActivePlan(2, 0.5, 3, heavy=1)
    for name, node in nodes.items():
        assert node.plans.active == adopted[name]
        assert node.plans.heavy(adopted[name]) == (7,)
    again, later = build_tracker(APPLICATION, SAMPLE, chains, nodes), dict(adopted)
    assert again is not None
    assert again.heavy == (7,)
    follow_sample(again, nodes, report(arrived=40_000), adopted.__setitem__)
    assert adopted == later


def test_without_a_sample_there_is_nothing_to_follow():
    """As where the share is 0, or nothing may be shed."""
    assert build_tracker(APPLICATION, SampleSpec(), {}, {}) is None

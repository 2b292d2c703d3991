"""What the driver learns of keys, and has the next micro-batch know."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from experiments.keyed_data import NODE, keyed_application
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.strata_tracker import MOST_EVENTS, KeyTracker
from shedlight.engines.spark.control.stratum_rates import strata_rates
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.shed.strata_sql import KeyEvents
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.chain import define_chain
from shedlight.engines.spark.step.metrics import OperatorMetrics, ShardMetrics
from shedlight.engines.spark.step.strata_counts import StrataMetrics, to_text
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.graph import Stream
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.stratum_split import REST, heavy_name
from shedlight.shedding.found_keys import ALL_OPEN
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import sheddable

APPLICATION = keyed_application(10.0)
READ, SECOND = Stream("s"), 1_000_000
RNG = np.random.default_rng(1)
KEYS = RNG.integers(-(1 << 63), 1 << 63, 3_000, dtype=np.int64)
HEAVY = int(KEYS[0])


class _World:
    """A node of two shards."""

    def __init__(self, folder):
        (placement,) = operator_chains(APPLICATION, NODE, 2)
        names = ("time", "id", "type", "key")
        schema = pa.schema(dict.fromkeys((*names, "#at"), pa.int64()))
        chain = define_chain(
            ChainSpec(
                placement=placement,
                inputs={READ: (StreamInput("s", ("id",), "#at", 0), schema)},
                origins={READ: (0,)},
                context=NodeContext(
                    shares=sheddable(APPLICATION), windows={"key": 10 * SECOND}
                ),
            )
        )
        catalogs = type_catalogs([chain], {"w"})
        self.planned = PlannedNode((chain,), catalogs, PlanStore(folder / "plan"))
        shares = self.planned.own_shares(sheddable(APPLICATION))
        self.plans = self.planned.plans
        self.plans.activate(ActivePlan(self.planned.publish(shares), looked_at=0.1))
        self.tracker, self.number = self.start(), 0

    def start(self):
        """Begin to follow keys, as after a restart."""
        return KeyTracker(APPLICATION, {NODE: self.planned})

    def batch(self, looked=(), histories=(), told=None, *, renews=True, types=None, cells=None):
        """Follow a micro-batch; give the report with counts."""
        opened = told or {}
        report = MicroBatchReport(
            node=NODE,
            number=self.number,
            start=float(self.number),
            seconds=0.5,
            arrived={
                ("w", "s"): ArrivalStats(
                    1_000, self.number * SECOND, 1, types or {}, cells=cells or {}
                )
            },
            kept_arrivals={},
            shards=tuple(_shard(shard, opened.get(shard)) for shard in (0, 1)),
            key_events={"w": KeyEvents(tuple(looked), tuple(histories))},
        )
        self.plans.plan_for_batch(self.number)
        counted = self.tracker.add(report)
        if renews:
            self.tracker.renew()
        active = self.tracker.update_plan(NODE, self.plans.active, counted)
        self.plans.activate(replace(active, after=self.number))
        self.number += 1
        return counted

    @property
    def found(self):
        """What the next micro-batch knows."""
        active = self.plans.active
        assert active is not None
        return self.plans.found(active)["w"]


def _shard(shard, opened):
    keys = KEYS[1 + shard : 200 : 2]
    kept, results = np.full(len(keys), 4), np.arange(len(keys)) % 2
    strata = StrataMetrics(
        {"P": {REST: {"type=0": 4 * len(keys)}}},
        {"P": {REST: int(results.sum())}},
        {},
        to_text(np.stack([keys, kept, results])),
        {"P": to_text(opened)} if opened is not None else {},
    )
    return ShardMetrics(shard, 0.1, 0, {"w": OperatorMetrics(0, 0, 0, 0, {}, {}, strata)})


@pytest.fixture
def world(tmp_path):
    """Make a node."""
    return _World(tmp_path)


def test_a_heavy_hitter_is_known_to_the_next_micro_batch_and_after_a_restart(world):
    """It has a third of the keys that were looked at."""
    looked = [*KEYS[1:201].tolist(), *[HEAVY] * 100]
    world.batch(looked)

    assert world.found.table.names[0] == heavy_name(HEAVY)
    world.tracker = world.start()
    world.batch(looked)
    assert world.found.table.heavy.tolist() == [HEAVY]


def test_open_keys_are_known_when_all_shards_have_told(world):
    """Until then all may be; and of a plan that does not ask, nothing is known again."""
    bits = [KeyBitmap.of(KEYS[shard:100:2], 2).words for shard in (0, 1)]

    world.batch(told={0: bits[0]})
    assert world.found.opened("P") is ALL_OPEN
    world.batch(told={0: bits[0], 1: bits[1]})
    assert world.found.opened("P").has(KEYS[:100]).all()
    assert world.found.opened("P").has(KEYS[100:]).mean() < 0.05
    world.tracker = world.start()
    world.batch(told={1: bits[1]})  # the other shard had nothing to do
    assert world.found.opened("P").has(KEYS[:100]).all()
    world.batch()
    assert world.found.opened("P") is ALL_OPEN


def test_what_is_known_has_a_new_number_only_if_it_changed(world):
    """A micro-batch that learns nothing new costs nothing on record."""
    world.batch()
    before = world.plans.active.found
    world.batch(renews=False)
    assert world.plans.active.found == before


def test_histories_are_of_fewer_keys_if_there_are_too_many_events(world):
    """They begin with some hundred events of a micro-batch, once it is known how many come."""
    assert world.plans.active.history == 0
    world.batch(KEYS[1:101].tolist())
    share = world.plans.active.history
    assert share == pytest.approx(0.5)  # 500 of about 1,000

    rows = [(at, int(KEYS[at % 3_000]), at % 2, 7 * at) for at in range(MOST_EVENTS + 1)]
    world.batch(KEYS[1:101].tolist(), rows)

    assert world.plans.active.history == share / 2
    history = world.tracker.histories["w"]
    assert 0.1 < len(history.time) / len(rows) < 0.4
    assert (np.diff(history.time) >= 0).all()


def test_rates_of_strata_are_of_all_micro_batches(world):
    """A cell is a stratum and a type; per second of the time in which events arrived."""
    world.batch([*KEYS[1:201].tolist(), *[HEAVY] * 100])
    labels = world.planned.catalogs["w"].labels
    zero, one = labels.index("type=0"), labels.index("type=1")
    given = {"types": {zero: 60, one: 40}, "cells": {zero: 60}, "renews": False}
    batches = (world.batch(**given), world.batch(**given))

    rates = strata_rates(batches, 4.0)["w"]

    assert rates[heavy_name(HEAVY)].arrivals == {"type=0": 30.0}
    assert rates[REST].arrivals == {"type=1": 20.0}
    assert rates[REST].kept["P"]["type=0"] > 0
    assert rates[REST].outputs["P"] > 0

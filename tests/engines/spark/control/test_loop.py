"""The control loop on Spark, fed with micro-batches that somebody else has run."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import ObservationWindow
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.chain import define_chain
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.graph import Stream
from shedlight.graph.topology import longest_windows
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.spark_costs import DEFAULT_COSTS
from shedlight.shedding.shares import sheddable, sheddable_by_pressure
from tests.engines.applications import edge_application

NODE, SOURCE = "edge-2", Stream("s2")
SCHEMA = pa.schema(
    {"time": pa.int64(), "id": pa.int64(), "type": pa.int64(), "#at": pa.int64()}
)
SIZE = 60  # bytes of a complex event
COST = 50e-6
"""Seconds that each pattern takes for an event."""
FIXED = 0.2
BOUND = 4.0


class World:
    """An application whose one node runs micro-batches as Spark would, by the active plan."""

    def __init__(self, folder, percentile=None):
        application = edge_application()
        node = application.nodes[NODE]
        nodes = {NODE: type(node)(name=NODE, bound=BOUND, percentile=percentile)}
        self.application = type(application)(
            name="edge",
            sources=application.sources,
            nodes=nodes,
            operators=application.operators,
            sinks=application.sinks,
        )
        (placement,) = operator_chains(self.application, NODE, 2)
        self.chain = define_chain(
            ChainSpec(
                placement=placement,
                inputs={SOURCE: (StreamInput("s2", ("id",), "#at"), SCHEMA)},
                origins={SOURCE: (0,)},
                context=NodeContext(
                    shares=sheddable(self.application),
                    windows=longest_windows(self.application),
                ),
            )
        )
        catalogs = type_catalogs([self.chain])
        self.plans = PlanStore(folder / "plan")
        self.nodes = {NODE: PlannedNode((self.chain,), catalogs, self.plans)}
        first = sheddable_by_pressure(self.application)
        self.plans.activate(ActivePlan(self.nodes[NODE].publish(first)))
        self.loop = ControlLoop(self.application, self.nodes)
        self.clock, self.newest, self.number = 1000.0, 1000.0, 0
        self.newest_time = 1
        self.loop.start(self.clock)

    def batch(self, rate, seconds=0.0):
        """Read all that has arrived, keep what the plan says, and tell the loop."""
        self.clock += seconds
        events = round(rate * (self.clock - self.newest))
        used = self.plans.plan_for_batch(self.number)
        labels = self.nodes[NODE].catalogs["w2"].labels
        known = [label for label in labels if label]
        shares = self.plans.shares(used)
        metrics, matching, most = {}, 0.0, 0
        for name in ("Q21", "Q22"):
            one = shares[Stream(name, "w2")]
            uses = known[:2] if name == "Q21" else known[1:]
            kept = {u: round(events / 4 * one.shares.get(u, one.mean)) for u in uses}
            cost = COST * sum(kept.values())
            matching, most = matching + cost, max(most, sum(kept.values()))
            metrics[name] = PatternMetrics(kept, cost, sum(kept.values()) // 6, 5, 0, 0)
        middle = (self.clock + self.newest) / 2 * 1e6
        kept_arrivals = {"s2": ArrivalSketch(most, middle, (round(middle),))} if most else {}
        took = FIXED + matching + events * 1e-6 + most * 2e-6
        types = {labels.index(label): events // 4 for label in known}
        done = MicroBatchReport(
            node=NODE,
            number=self.number,
            start=self.clock,
            seconds=took,
            arrived={
                ("w2", "s2"): ArrivalStats(
                    events, self.newest_time, round(self.clock * 1e6), types
                )
            },
            kept_arrivals=kept_arrivals,
            shards=(
                ShardMetrics(
                    0,
                    matching,
                    10,
                    {"w2": OperatorMetrics(events, 0, 0, 0, metrics)},
                    sent={f"w2.{name}": SIZE * one.found for name, one in metrics.items()},
                ),
            ),
        )
        self.newest, self.clock, self.number = self.clock, self.clock + took, self.number + 1
        decision = self.loop.on_micro_batch(done)
        return done, used, decision


@pytest.fixture
def world(tmp_path):
    """Make an application that is not overloaded yet."""
    return World(tmp_path)


def test_the_bytes_of_complex_events_are_observed(world):
    """Over all shards and micro-batches since the last observation."""
    for _ in range(10):
        world.batch(rate=2_000, seconds=0.5)
    sizes = world.loop.memory.latest.event_bytes
    assert sizes == {Stream(name, "w2"): pytest.approx(SIZE) for name in ("Q21", "Q22")}


def test_a_load_that_fits_is_left_alone(world):
    """Neither plan nor pressure."""
    for _ in range(10):
        _, used, decision = world.batch(rate=2_000, seconds=0.5)
        assert (used.plan, used.pressure) == (1, 1.0)
        assert decision is None or decision.plan is None


def test_an_overload_is_shed_and_micro_batches_keep_the_bound(world):
    """Three times what the node can do: the mean latency is 1.5 micro-batches."""
    rate = 3 / (1.25 * COST)
    done = [world.batch(rate, seconds=0.2)[0] for _ in range(40)]
    assert world.loop.memory.shares
    assert all(1.5 * one.seconds < BOUND for one in done[10:])
    assert all(one.kept > 0 for one in done[10:])


@pytest.mark.parametrize("load", [1.2, 2.0, 3.0])
@pytest.mark.parametrize(
    ("percentile", "allowed"), [(50, 0.5), (90, 0.1), (95, 0.05), (99, 0.02)]
)
def test_a_percentile_of_the_events_of_micro_batches_keeps_the_bound(
    tmp_path, percentile, allowed, load
):
    """An event waits for the rest of the one before and for its own; these vary by a little."""
    world, waits = World(tmp_path, percentile), []
    for number in range(60):
        began = world.newest
        done = world.batch(load / (1.25 * COST), seconds=0.2)[0]
        if number >= 10:
            arrived = np.linspace(began, world.newest, done.kept)
            waits.append(world.clock - arrived)
    over = (np.concatenate(waits) > BOUND).mean()

    assert world.loop.memory.shares
    assert over <= allowed


def test_a_plan_follows_a_step_and_lets_go_after_it(world):
    """Everything is kept again when there is room."""
    rate = 1.5 / (1.25 * COST)
    for _ in range(15):
        world.batch(rate, seconds=0.2)
    first = world.loop.memory.shares
    later = [world.batch(2 * rate, seconds=0.2)[0] for _ in range(25)]
    assert world.loop.memory.shares != first
    assert all(1.5 * one.seconds < BOUND for one in later[8:])
    for _ in range(30):
        world.batch(rate / 6, seconds=0.5)
    _, used, _ = world.batch(rate / 6, seconds=0.5)
    shares = world.plans.shares(used)
    assert all(share == 1 for one in shares.values() for share in one.shares.values())


def test_a_backlog_is_under_pressure_before_any_plan_is_made(world):
    """The second micro-batch already keeps no more than it can match in time."""
    world.batch(rate=20_000, seconds=0.5)
    world.clock += 30.0
    done, used, _ = world.batch(rate=20_000)
    assert used.pressure < 1 or world.loop.memory.shares
    after, used, _ = world.batch(rate=20_000)
    assert used.pressure < 1
    assert after.seconds < done.seconds
    assert after.seconds < 1.5 * BOUND


def test_what_is_decided_says_after_which_micro_batch(world):
    """The next one waits for that, and empty ones count too."""
    world.batch(rate=2_000, seconds=0.5)
    assert world.plans.active.after == 0
    world.batch(rate=0, seconds=0.5)
    assert world.plans.active.after == 1


def test_the_latest_timestamps_are_on_record(world):
    """So far; after micro-batches that nobody saw, by the lateness later."""
    late = 7_000_000
    world.loop = ControlLoop(_with_lateness(world.application, late), world.nodes)
    world.loop.start(world.clock)
    world.newest_time = 10
    world.batch(rate=2_000, seconds=0.5)
    assert world.plans.active.latest == {"s2": 10}
    world.newest_time = 5
    world.batch(rate=2_000, seconds=0.5)
    assert world.plans.active.latest == {"s2": 10}
    world.number += 1
    world.newest_time = 20
    world.batch(rate=2_000, seconds=0.5)
    assert world.plans.active.latest == {"s2": 20 + late}


def _with_lateness(application, late):
    sources = {n: replace(s, lateness=late) for n, s in application.sources.items()}
    return replace(application, sources=sources)


def test_a_silence_before_a_burst_does_not_make_it_look_small(world):
    """Forty seconds nothing, then a burst: its rate is that of the burst."""
    burst = ArrivalStats(20_000, 1, round(1041.5 * 1e6), {}, round(1040.0 * 1e6))
    kept = ArrivalSketch(20_000, 1040.75e6, tuple(range(4)))
    batch = MicroBatchReport(
        node=NODE,
        number=0,
        start=1042.0,
        seconds=3.0,
        arrived={("w2", "s2"): burst},
        kept_arrivals={},
        shards=(ShardMetrics(0, 1.0, 1, kept={"s2": kept}),),
    )
    watched = ObservationWindow(
        node=world.nodes[NODE],
        batches=(batch,),
        window_start=1000.0,
        costs=DEFAULT_COSTS,
    )
    assert watched.rate == pytest.approx(10_000)
    steady = replace(watched, window_start=1039.0)
    assert steady.rate == pytest.approx(8_000), "a short gap is between any two"

"""Planning goes on with the nodes that have events, whoever is idle."""

import pytest

from shedlight.engines.spark.control.activity import MAX_IDLE_S, MIN_IDLE_S, NodeActivity
from shedlight.graph import Stream
from tests.engines.spark.control.plant import START, TRIGGER, Plant

BOUNDS = {"busy": 3.0, "other": 3.0}
OVERLOAD = 60_000.0


def _nothing(_):
    return 0.0


def _overload(_):
    return OVERLOAD


def _first_plan(plant, name):
    """Say after how many micro-batches of a node a plan of the controller was active."""
    return next(i for i, done in enumerate(plant.nodes[name].done) if done.used.plan > 1)


def _keeps(plant, name):
    plans = plant.nodes[name].planned.plans
    shares = plans.shares(plans.active)
    return min(min(shares[Stream(p, f"w-{name}")].shares.values(), default=1.0) for p in "PQ")


def test_a_node_that_never_had_events_does_not_stop_planning(tmp_path):
    """The plan of the busy one is active within five of its micro-batches."""
    plant = Plant(tmp_path, {"busy": _overload, "other": _nothing}, bounds=BOUNDS)
    plant.run(20)
    assert _first_plan(plant, "busy") <= 5
    assert not plant.nodes["other"].done


def test_a_node_that_falls_idle_has_no_load(tmp_path):
    """Its last micro-batches do not speak for it: it would seem as loaded as ever."""

    def until_20(at):
        return OVERLOAD if at < 20 else 0.0

    def later(at):
        return 20_000.0 if at < 30 else OVERLOAD

    plant = Plant(tmp_path, {"busy": later, "other": until_20}, bounds=BOUNDS)
    plant.run(20)
    assert "other" in plant.decisions[-1].loads
    plant.run(8)
    assert plant.observed() == {"w-busy"}
    before, done = len(plant.decisions), len(plant.nodes["busy"].done)
    plant.run(15)
    batches = len(plant.nodes["busy"].done) - done
    assert batches > 5
    assert len(plant.decisions) - before >= batches // 3, "it decides as often as it did"
    assert _keeps(plant, "busy") < 1


def test_a_node_that_has_events_again_is_planned_at_the_next_decision(tmp_path):
    """It is fresh from its first micro-batch on."""

    def from_20(at):
        return OVERLOAD if at >= 20 else 0.0

    plant = Plant(tmp_path, {"busy": _overload, "other": from_20}, bounds=BOUNDS)
    plant.run(40)
    assert _first_plan(plant, "other") <= 5
    first = plant.nodes["other"].done[0].end
    after = next(d for d in plant.decisions if d.time >= first)
    assert plant.observed() == {"w-busy", "w-other"}
    assert after.time - first < 5


def test_a_busy_query_is_no_idle_node():
    """While a micro-batch runs, nobody knows what has come meanwhile."""
    activity = NodeActivity(TRIGGER)
    activity.start(START)
    for tick in range(300):
        assert not activity.is_idle(START + tick / 10, lambda: True)
    assert not activity.is_idle(START + 30, lambda: False), "it counts the next time"
    assert activity.is_idle(START + 30.1, lambda: False)


@pytest.mark.parametrize(
    ("gap", "trigger", "idle"),
    [(0.5, 0.2, MIN_IDLE_S), (3.0, 0.2, 6.0), (60.0, 0.2, MAX_IDLE_S), (60.0, 30.0, 60.0)],
)
def test_a_node_is_waited_for_by_how_far_its_micro_batches_are_apart(gap, trigger, idle):
    """Twice as long, within limits; and never less than two looks of its query."""
    activity, now = NodeActivity(trigger), START
    activity.start(now)
    for _ in range(5):
        now += gap
        activity.on_events(now, 0.0)
    ticks = (tick / 10 for tick in range(2000))
    fell_idle = next(t for t in ticks if activity.is_idle(now + t, lambda: False))
    assert fell_idle == pytest.approx(idle, abs=0.3)

"""INFEASIBLE is said from steady micro-batches alone, and a node does what is said of it."""

import pytest

from shedlight.control.node_status import NodeStatus
from shedlight.engines.spark.control.loop_settings import STARTUP_BATCHES
from tests.engines.spark.control.plant import NodeCosts, Plant

SLOW_START = (12.0, 6.0, 3.0, 1.5)
"""What the first micro-batches took longer, about as it was measured."""


def _plant(folder, bound, rate, **costs):
    given = {"n": NodeCosts(**costs)}
    return Plant(folder, {"n": lambda _: rate}, bounds={"n": bound}, costs=given)


def _statuses(plant):
    return [decision.health["n"].status for decision in plant.decisions if decision.health]


def test_a_slow_start_is_not_infeasible(tmp_path):
    """An empty micro-batch takes 0.6 s, and 1.5 of them 0.9: a bound of 2 s can be kept."""
    plant = _plant(tmp_path, 2.0, 2_000.0, fixed=0.6, startup=SLOW_START)
    plant.run(60)
    assert len(plant.nodes["n"].done) > 2 * STARTUP_BATCHES
    assert NodeStatus.INFEASIBLE not in _statuses(plant)
    latest = plant.loop.memory.latest
    assert latest is not None
    assert latest.micro_batch["n"].fixed == pytest.approx(0.6, rel=0.15)


def test_a_bound_that_steady_micro_batches_cannot_keep_is_infeasible(tmp_path):
    """Not before there are any; the sentence has the cause and what to do about it."""
    plant = _plant(tmp_path, 0.8, 2_000.0, fixed=0.6, startup=SLOW_START)
    plant.run(60)
    first = next(d for d in plant.decisions if d.health["n"].status is NodeStatus.INFEASIBLE)
    steady = plant.nodes["n"].done[STARTUP_BATCHES]
    assert first.time >= steady.report.end
    advice = first.health["n"].advice
    assert "s even if it is empty, and an event spends 1.5 of them" in advice
    assert "more cores make no empty micro-batch shorter; its shares stay as they are" in advice
    assert {one.used.plan for one in plant.nodes["n"].done[-5:]} == {steady.used.plan}
    assert {one.used.pressure for one in plant.nodes["n"].done[-5:]} == {1.0}


def test_nothing_is_shed_where_reading_alone_takes_too_long(tmp_path):
    """Shedding helps nobody: every event has been read by then."""
    plant = _plant(tmp_path, 3.0, 30_000.0, reading=40e-6, matching=1e-6, noise=0.0)
    plant.run(60)
    assert plant.decisions[-1].health["n"].status is NodeStatus.INFEASIBLE
    assert "cannot keep any bound: reading" in plant.decisions[-1].health["n"].advice
    assert plant.nodes["n"].done[-1].used.pressure == 1.0


def test_one_short_micro_batch_speaks_against_infeasible(tmp_path):
    """Where all others are alike, a fit cannot tell what an empty one would take."""
    plant = _plant(tmp_path, 2.0, 2_000.0, fixed=0.6)
    plant.run(20)
    node = plant.loop._nodes["n"]  # noqa: SLF001  # what it knows is not for others
    slow = [*node.batches]
    for number, batch in enumerate(slow):
        slow[number] = type(batch)(
            **{n: getattr(batch, n) for n in batch.__slots__} | {"seconds": 5.0}
        )
    node.batches = slow
    spec = plant.application.nodes["n"]
    assert node.window(spec).costs.fixed < 0.7
    node.besides.clear()
    node.besides.append(5.0)
    assert node.window(spec).costs.fixed > 2.0

"""The loop is steady: after a step in load it soon is where it should be, and stays there.

Busy time over its limit is that of single micro-batches, by the true costs of the plant. Plans
aim at 0.9.
"""

from itertools import pairwise

import pytest

from shedlight.engines.spark.control.loop_settings import MIN_PRESSURE
from tests.engines.spark.control.plant import START, NodeCosts, Plant

STEPS, FACTOR = 10, 3
SETTLING_BATCHES = 5
COSTS = NodeCosts(noise=0.03)
UNSHED_WORK = 1.25 * COSTS.matching + 0.75 * COSTS.carrying
"""Seconds for an event of any of four types: the patterns use two and three of them."""


def _full_load(bound):
    """Give the rate at which all work is just at the limit."""
    return (1 - 1.5 * COSTS.fixed / bound) / (UNSHED_WORK + COSTS.reading)


def _run_steps(folder, bound, load, seed):
    """Run steps from a load, in units of the limit, up and down; give ratios by step."""
    low, period = load * _full_load(bound), max(20.0, 10 * bound)

    def rate(at):
        return low * FACTOR if int(at // period) % 2 else low

    plant = Plant(folder, {"n": rate}, bounds={"n": bound}, costs={"n": COSTS}, seed=seed)
    plant.run(period * (STEPS + 1))
    ratios: dict[int, list[float]] = {step: [] for step in range(1, STEPS + 1)}
    for done in plant.nodes["n"].done:
        step = int((done.read_since - START + 1e-6) // period)
        within = done.start - START < (step + 1) * period
        if step in ratios and within:
            ratios[step].append(done.busy / plant.limit("n", rate(step * period)))
    return plant, ratios


@pytest.mark.parametrize(
    ("bound", "load", "seed"), [(3.0, 1.2, 1), (3.0, 0.85, 2), (5.0, 1.5, 1), (1.5, 1.2, 2)]
)
def test_busy_time_is_near_its_limit_soon_after_a_step_and_stays_there(
    tmp_path, bound, load, seed
):
    """Ten steps by three, up and down: within five micro-batches from 0.75 to 1.1 of it."""
    plant, ratios = _run_steps(tmp_path, bound, load, seed)
    for step, busy in ratios.items():
        later = busy[SETTLING_BATCHES:]
        assert len(later) >= 5
        assert all(0.75 <= ratio <= 1.1 for ratio in later), (step, busy)
    done = plant.nodes["n"].done
    assert all(one.report.kept for one in done)
    late = [1.5 * one.report.seconds > 1.1 * bound for one in done]
    assert sum(late) <= 0.05 * len(late)


@pytest.mark.parametrize("factor", [20, 200])
def test_after_a_burst_the_bound_holds_within_five_micro_batches(tmp_path, factor):
    """Ten seconds of many times the load: no micro-batch keeps nothing, and it is over soon."""
    bound, start, end = 3.0, 20.0, 30.0
    low = 0.9 * _full_load(bound)

    def rate(at):
        return low * factor if start <= at < end else low

    plant = Plant(tmp_path, {"n": rate}, bounds={"n": bound})
    plant.run(90)
    done = plant.nodes["n"].done
    assert all(one.report.kept for one in done)
    assert min(one.used.pressure for one in done) >= MIN_PRESSURE
    after = [one for one in done if one.read_since - START >= end]
    assert all(1.5 * one.report.seconds <= 1.1 * bound for one in after[5:])


def test_nothing_is_shed_while_it_catches_up_and_then_the_bound_holds(tmp_path):
    """At twice the capacity; also after a restart from a plan that sheds."""
    bound = 3.0

    def rate(_):
        return 2 * _full_load(bound)

    plant = Plant(tmp_path, {"n": rate}, bounds={"n": bound}, costs={"n": COSTS})
    plant.run(20)
    plant.loop.hold()
    before = len(plant.nodes["n"].done) + 1  # one was under way
    plant.run(30)
    held = len(plant.nodes["n"].done)
    plant.loop.release(plant.now)
    plant.run(90)

    done = plant.nodes["n"].done
    caught_up = done[before:held]
    assert caught_up
    assert all(one.report.kept >= 0.99 * 0.75 * one.report.events for one in caught_up)
    assert max(1.5 * one.report.seconds for one in caught_up) > bound, "it is overloaded"
    assert all(1.5 * one.report.seconds <= 1.1 * bound for one in done[held + 6 :])
    assert len(done) > held + 20


def test_pressure_eases_step_by_step(tmp_path):
    """By a factor of three at most, while the plan stays."""
    plant = Plant(
        tmp_path, {"n": lambda at: 200_000.0 if 20 <= at < 25 else 20_000.0}, bounds={"n": 3.0}
    )
    plant.run(60)
    done = plant.nodes["n"].done
    pairs = [(a.used, b.used) for a, b in pairwise(done)]
    eased = [b.pressure / a.pressure for a, b in pairs if a.plan == b.plan]
    assert max(eased) <= 3.001


def test_a_steady_load_has_few_plans(tmp_path):
    """Noise is no jump: at most one plan in ten observations."""
    costs = {"n": NodeCosts(noise=0.05)}
    plant = Plant(
        tmp_path, {"n": lambda _: 2 * _full_load(3.0)}, bounds={"n": 3.0}, costs=costs
    )
    plant.run(120)
    later = [d for d in plant.decisions if d.time > START + 20]
    assert len(later) > 20
    assert sum(d.plan is not None for d in later) <= len(later) / 10

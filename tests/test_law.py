"""Nothing is invented, whatever is shed: held by a checker that shares no code with engines."""

import random
from itertools import count, islice

import pytest

from shedlight.control.controller import ControlSettings
from shedlight.control.strata import StrataSettings
from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.shedders import Shedder, make_policy
from shedlight.graph import Application
from shedlight.graph.strata import find_stratified
from tests.drawn_graphs import DrawnPlans, DrawnStrata, draw_application, draw_events
from tests.law import Kept, Run

RUNS, SOAK_RUNS, PARTS = 200, 20_000, 20
STRATA_RUNS, SOAK_STRATA_RUNS = 12, 600
FOUND = (6075, 17875)
"""What is watched for had not been seen yet, and what opens a match was shed; what is read had
been whole for longer."""
SHEDDERS = Shedder.GLOBAL, Shedder.LOCAL, Shedder.RANDOM, Shedder.UTILITY


def simulated(seed: int, *, with_strata: bool = False) -> Run:
    """Run a random application, and give what the checker reads.

    Two of three runs are under plans without reason, the others are overloaded, and a shedder
    keeps the bounds. With strata, keys are shed in them by both.
    """
    rng = random.Random(seed)
    application, events = draw_application(rng), draw_events(rng)
    load, policy = 1e-3, None
    if seed % 3 == 0:
        load, strata = rng.uniform(1, 5), StrataSettings(enabled=with_strata)
        shedders = SHEDDERS[:2] if with_strata else SHEDDERS
        settings = ControlSettings(strata=strata)
        policy = make_policy(rng.choice(shedders), application, settings, 5)
    drawn = DrawnStrata if with_strata else DrawnPlans
    done = simulate(
        application,
        {"s": events},
        _service(application, load),
        interval=rng.choice([0.05, 0.2, 1.0]),
        policy=policy or drawn(application, rng),
        with_outputs=True,
        unshed_sample=rng.choice([0.0, 0.3, 0.7]),
    )
    record = [Kept(*row) for row in done.thresholds]
    return Run(application, {"s": events}, record, done.outputs)


def _service(application: Application, load: float) -> Service:
    """Have all patterns of a node together take as much as makes its load, more or less."""
    at = dict.fromkeys(application.nodes, 0)
    for spec in application.operators.values():
        at[spec.node] += len(spec.patterns)
    rate, relevant = 30.0, 0.3
    return Service(
        seconds={
            stream: load / (rate * relevant * at[spec.node])
            for spec in application.operators.values()
            for stream in spec.outputs
        }
    )


@pytest.mark.parametrize("tenth", range(10))
def test_nothing_is_invented_under_random_plans(tenth):
    """And watchers with a key emit exactly what they may."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for seed in range(tenth, RUNS, 10):
        for what, number in simulated(seed).check().items():
            checked[what] += number
    assert all(number > 5 for number in checked.values()), checked


def stratified_seeds(start=0):
    """Give the seeds of applications that have keys to be shed in strata."""
    return (
        seed for seed in count(start) if find_stratified(draw_application(random.Random(seed)))
    )


def test_nothing_is_invented_in_strata():
    """Whatever is kept of which stratum in which way: also where others watch for absences."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for seed in islice(stratified_seeds(), STRATA_RUNS):
        for what, number in simulated(seed, with_strata=True).check().items():
            checked[what] += number
    assert checked["words"] > 50, checked


@pytest.mark.soak
def test_nothing_is_invented_in_strata_in_many_runs():
    """As above, for longer."""
    for seed in islice(stratified_seeds(1_000), SOAK_STRATA_RUNS):
        simulated(seed, with_strata=True).check()


@pytest.mark.parametrize("seed", FOUND)
def test_nothing_is_lost_that_is_on_record_as_whole(seed):
    """As above, where it once was lost."""
    simulated(seed).check()


def test_a_watcher_can_go_along_with_the_key_of_another():
    """A key that was whole from the beginning on is so for a window of events, too."""
    simulated(3379).check()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_invented_in_many_runs(part):
    """As above, for longer."""
    for seed in range(RUNS + part, RUNS + SOAK_RUNS, PARTS):
        simulated(seed).check()

"""Nothing is invented, whatever is shed: held by a checker that shares no code with engines."""

import random

import pytest

from shedlight.engines.simulator import Service, simulate
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events
from tests.law import Kept, Run

RUNS, SOAK_RUNS = 200, 20_000


def simulated(seed: int) -> Run:
    """Run a random application under random plans, and give what the checker reads."""
    rng = random.Random(seed)
    application, events = draw_application(rng), draw_events(rng)
    streams = [stream for stream in application.streams if stream.operator]
    done = simulate(
        application,
        {"s": events},
        Service(seconds=dict.fromkeys(streams, 1e-6)),
        interval=rng.choice([0.05, 0.2, 1.0]),
        policy=DrawnPlans(application, rng),
        with_outputs=True,
    )
    record = [Kept(*row) for row in done.thresholds]
    return Run(application, {"s": events}, record, done.outputs)


@pytest.mark.parametrize("tenth", range(10))
def test_nothing_is_invented_under_random_plans(tenth):
    """And watchers with a key emit exactly what they may."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for seed in range(tenth, RUNS, 10):
        for what, number in simulated(seed).check().items():
            checked[what] += number
    assert all(number > 50 for number in checked.values()), checked


@pytest.mark.soak
def test_nothing_is_invented_in_many_runs():
    """As above, for longer."""
    for seed in range(RUNS, RUNS + SOAK_RUNS):
        simulated(seed).check()

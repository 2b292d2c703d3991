"""The control loop in virtual time: it follows what changes, and leaves alone what does not."""

import itertools

import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.policies import ControllerPolicy, RandomPolicy
from shedlight.graph import Stream
from tests.engines.applications import edge_application, paper_application, stepped_events

PATTERNS = (Stream("Q21", "w2"), Stream("Q22", "w2"))
SERVICE = Service(seconds=dict(zip(PATTERNS, (0.002, 0.004), strict=True)))
CAPACITY = 250
"""Events per second that the bottleneck can process if types are equally frequent."""
BOUND = 1.0
OBSERVATION = 5
"""Seconds from one observation to the next."""
ALIKE = (0.25, 0.25, 0.25, 0.25)
FIRST, LAST = (0.4, 0.4, 0.1, 0.1), (0.1, 0.1, 0.4, 0.4)
BEFORE, AFTER = 40, 60
"""Seconds before a step and after it."""


def run(phases, *, policy=ControllerPolicy, interval=1.0, seed=1, application=None):
    """Simulate phases of source 2: seconds, load, and how frequent each type is."""
    application = application or edge_application()
    deciding = policy(application, every=round(OBSERVATION / interval))
    drawn = [(seconds, CAPACITY * load, types) for seconds, load, types in phases]
    tables = {"s2": stepped_events(drawn, seed)}
    if "s1" in application.sources:
        seconds = sum(length for length, *_ in phases)
        tables["s1"] = stepped_events([(seconds, CAPACITY, ALIKE)], seed + 100)
    done = simulate(application, tables, SERVICE, interval=interval, policy=deciding, seed=seed)
    return done.intervals[:-1], deciding


def latency(intervals):
    """Find the mean seconds that a processed event spent at the bottleneck."""
    processed = sum(one.processed["edge-2"] for one in intervals)
    return sum(one.latency["edge-2"] for one in intervals) / processed if processed else 0.0


def observations(intervals):
    """Put the intervals of each observation together."""
    return [intervals[i : i + OBSERVATION] for i in range(0, len(intervals), OBSERVATION)]


STEPS = {
    "rates up": ((0.6, ALIKE), (2.5, ALIKE)),
    "rates down": ((2.5, ALIKE), (1.3, ALIKE)),
    "type shares swapped": ((1.5, FIRST), (1.5, LAST)),
    "type shares swapped back": ((1.5, LAST), (1.5, FIRST)),
}


@pytest.mark.parametrize("policy", [ControllerPolicy, RandomPolicy, UtilityPolicy])
@pytest.mark.parametrize("step", STEPS)
def test_after_a_step_the_bound_holds_again_within_five_observations(step, policy):
    """In every observation from then on, with busy time from 0.8 to 1.0 of the limit."""
    before, after = STEPS[step]
    intervals, deciding = run([(BEFORE, *before), (AFTER, *after)], policy=policy)
    settled = [one for one in intervals if one.start >= BEFORE + 5 * OBSERVATION]
    assert all(latency(one) < BOUND for one in observations(settled))
    busy = sum(one.busy["edge-2"] for one in settled) / len(settled)
    assert 0.8 <= busy / deciding.limit("edge-2") <= 1.0


@pytest.mark.parametrize("policy", [ControllerPolicy, RandomPolicy, UtilityPolicy])
def test_the_queue_is_bounded_before_there_is_any_plan(policy):
    """Pressure is there from the first interval on: bound, and what comes in an interval."""
    intervals, _ = run([(20, 3.0, ALIKE)], policy=policy)
    assert max(one.backlog["edge-2"] for one in intervals) < BOUND + 3.0 - 1.0 + 0.3


def test_a_plan_for_a_backlog_does_not_outlast_it():
    """The first plan spares a part of the limit; as soon as the queue is gone, none does."""
    intervals, deciding = run([(60, 3.0, ALIKE)])
    settled = [one for one in intervals if one.start >= 3 * OBSERVATION]
    busy = sum(one.busy["edge-2"] for one in settled) / len(settled)
    assert busy / deciding.limit("edge-2") > 0.85
    assert sum(decision.plan is not None for decision in deciding.log) <= 3


def test_when_the_load_fits_again_nothing_is_shed_within_five_observations():
    """Shedding ends with its cause."""
    intervals, _ = run([(BEFORE, 2.5, ALIKE), (AFTER, 0.6, ALIKE)])
    for one in intervals:
        if one.start >= BEFORE + 5 * OBSERVATION:
            offered = one.arrivals["w2"][Stream("s2")]
            for stream in PATTERNS:
                assert one.kept[stream] == {label: offered[label] for label in one.kept[stream]}


def flaps(decisions):
    """Whether there are two plans in any ten observations."""
    plans = [i for i, decision in enumerate(decisions) if decision.plan]
    return any(later - earlier < 10 for earlier, later in itertools.pairwise(plans))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("load", [0.98, 1.0, 1.02, 1.05])
def test_a_stationary_load_at_the_threshold_does_not_make_plans_flap(load, seed):
    """At most one plan in any ten observations, of a hundred and ten."""
    phases = [(110 * OBSERVATION, load * 0.99, ALIKE)]
    _, deciding = run(phases, interval=float(OBSERVATION), seed=seed)
    assert len(deciding.log) >= 109
    assert max(decision.loads["edge-2"] for decision in deciding.log) > 1.0
    assert not flaps(deciding.log)


def test_nor_does_it_where_several_operators_are_watched():
    """The more types there are, the more often one is off by chance."""
    phases = [(110 * OBSERVATION, 1.0, ALIKE)]
    _, deciding = run(
        phases, interval=float(OBSERVATION), seed=2, application=paper_application()
    )
    assert not flaps(deciding.log)

"""The control loop in virtual time: the bound is kept, whoever sheds, and not without."""

from dataclasses import replace

import pytest

from shedlight.control.controller import ControlSettings
from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.policies import ControllerPolicy, RandomPolicy
from shedlight.graph import Stream
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, paper_application

CAPACITY = 250
"""Events per second of source 2 that edge-2 can process."""
SERVICE = Service(seconds={Stream("Q21", "w2"): 0.002, Stream("Q22", "w2"): 0.004})
PATTERN = Stream("Q22", "w2")
SETTLED = 60
BASELINES = {"random": RandomPolicy, "utility": UtilityPolicy}


def _policy(name):
    application = paper_application()
    if name in BASELINES:
        return application, BASELINES[name](application, every=5)
    settings = ControlSettings(
        plan_settings=PlanSettings(local=name == "local", bottleneck="edge-2")
    )
    return application, ControllerPolicy(application, settings, every=5)


def _run(name, load):
    application, policy = _policy(name)
    tables = {f"s{i}": drawn_events(CAPACITY * load, 110, i) for i in (1, 2)}
    done = simulate(application, tables, SERVICE, interval=1.0, policy=policy)
    return [one for one in done.intervals[:-1] if one.start > SETTLED], policy


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("utility", 1.2),
        ("global", 1.2),
        ("random", 3.0),
        ("local", 3.0),
        ("global", 3.0),
        pytest.param("random", 1.2, marks=pytest.mark.soak),
        pytest.param("local", 1.2, marks=pytest.mark.soak),
        pytest.param("utility", 3.0, marks=pytest.mark.soak),
    ],
)
def test_an_overloaded_node_keeps_its_bound_and_uses_its_budget(name, load):
    """After settling: busy between 0.8 and 1.0 of the limit, mean latency under the bound."""
    intervals, policy = _run(name, load)
    busy = sum(one.busy["edge-2"] for one in intervals) / len(intervals)
    limit = policy.limit("edge-2")
    assert 0.8 * limit <= busy <= limit
    spent = sum(one.latency["edge-2"] for one in intervals)
    assert spent / sum(one.processed["edge-2"] for one in intervals) < 1.0


@pytest.mark.parametrize("name", ["random", pytest.param("utility", marks=pytest.mark.soak)])
def test_a_run_goes_on_if_a_single_event_took_longer_than_the_bound(name):
    """At five times the capacity few are processed, and what they took says little."""
    application = paper_application()
    nodes = {n: replace(node, bound=0.01) for n, node in application.nodes.items()}
    application = replace(application, nodes=nodes)
    policy = BASELINES[name](application, every=1)
    tables = {f"s{i}": drawn_events(CAPACITY * 5, 5, i) for i in (1, 2)}
    done = simulate(application, tables, SERVICE, interval=0.02, policy=policy)
    assert sum(interval.processed.get("edge-2", 0) for interval in done.intervals) > 100


def test_a_dead_controller_leaves_the_plan_active():
    """What it decided last is what is kept."""
    application, policy = _policy("global")
    tables = {f"s{i}": drawn_events(CAPACITY * 2, 60, i) for i in (1, 2)}
    simulate(application, tables, SERVICE, interval=1.0, policy=policy)
    shares = policy.memory.shares
    again = simulate(application, tables, SERVICE, interval=1.0, shares=shares)
    assert all(active == shares for active in again.shares)
    backlog = [one.backlog["edge-2"] for one in again.intervals[:-1]]
    assert max(backlog) < 3


@pytest.mark.parametrize("name", ["random", "utility", "global"])
def test_a_replay_sheds_the_same_events(name):
    """What is kept depends on ids and on what was observed, and on nothing else."""
    runs = []
    for _ in range(2):
        application, policy = _policy(name)
        tables = {f"s{i}": drawn_events(CAPACITY * 2, 30, i) for i in (1, 2)}
        runs.append(simulate(application, tables, SERVICE, interval=1.0, policy=policy))
    one, other = runs
    assert one.intervals == other.intervals
    assert all(one.sinks[name].equals(other.sinks[name]) for name in one.sinks)
    assert sum(sum(interval.kept[PATTERN].values()) for interval in one.intervals) < sum(
        interval.arrivals["w2"][Stream("s2")].get(label, 0)
        for interval in one.intervals
        for label in ("type=1", "type=2", "type=3")
    )


def test_a_replay_in_other_batches_sheds_the_same_events():
    """An active plan keeps the same events wherever the stream is cut."""
    application, _ = _policy("global")
    tables = {f"s{i}": drawn_events(CAPACITY * 2, 20, i) for i in (1, 2)}
    shares = {PATTERN: PatternShares({f"type={i}": 0.4 for i in (1, 2, 3)})}
    runs = [
        simulate(application, tables, SERVICE, interval=interval, shares=shares)
        for interval in (0.3, 4.0)
    ]
    kept = [
        {
            label: sum(interval.kept[PATTERN].get(label, 0) for interval in run.intervals)
            for label in shares[PATTERN].shares
        }
        for run in runs
    ]
    assert kept[0] == kept[1]
    found = [sorted(run.sinks["k4"]["id"].to_pylist()) for run in runs]
    assert found[0] == found[1]

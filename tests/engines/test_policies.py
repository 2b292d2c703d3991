"""The control loop in virtual time: the bound is kept, whoever sheds, and not without."""

import pytest

from shedlight.control.controller import Settings
from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.policies import Controlled, Random
from shedlight.graph import Stream
from shedlight.planning.plan import Wanted
from tests.engines.test_simulator import _events, _paper

CAPACITY = 250
"""Events per second of source 2 that edge-2 can process."""
SERVICE = Service(seconds={Stream("Q21", "w2"): 0.002, Stream("Q22", "w2"): 0.004})
SETTLED = 60


def _policy(name):
    application = _paper()
    if name == "random":
        return application, Random(application, every=5)
    settings = Settings(wanted=Wanted(local=name == "local", bottleneck="edge-2"))
    return application, Controlled(application, settings, every=5)


def _run(name, load):
    application, policy = _policy(name)
    tables = {f"s{i}": _events(CAPACITY * load, 140, i) for i in (1, 2)}
    done = simulate(application, tables, SERVICE, interval=1.0, policy=policy)
    return [one for one in done.intervals[:-1] if one.start > SETTLED], policy


@pytest.mark.parametrize("load", [1.2, 3.0])
@pytest.mark.parametrize("name", ["random", "local", "global"])
def test_an_overloaded_node_keeps_its_bound_and_uses_its_budget(name, load):
    """After settling: busy between 0.8 and 1.0 of the limit, mean latency under the bound."""
    intervals, policy = _run(name, load)
    busy = sum(one.busy["edge-2"] for one in intervals) / len(intervals)
    limit = policy.limit("edge-2")
    assert 0.8 * limit <= busy <= limit
    spent = sum(one.latency["edge-2"] for one in intervals)
    assert spent / sum(one.processed["edge-2"] for one in intervals) < 1.0


def test_a_step_in_the_load_is_followed():
    """Back inside the bound within five observations."""
    application, policy = _policy("global")
    calm, rush = _events(CAPACITY * 0.6, 60, 1), _events(CAPACITY * 2.5, 60, 3)
    later = rush.set_column(0, "time", [rush["time"].to_numpy() + 60_000_000])
    tables = {
        "s1": _events(CAPACITY, 120, 2),
        "s2": _joined(calm, later),
    }
    done = simulate(application, tables, SERVICE, interval=1.0, policy=policy)
    settled = [one for one in done.intervals[:-1] if one.start > 60 + 5 * 5]
    spent = sum(one.latency["edge-2"] for one in settled)
    assert spent / sum(one.processed["edge-2"] for one in settled) < 1.0
    assert any(decision.plan for decision in policy.log)


def _joined(one, other):
    import pyarrow as pa  # noqa: PLC0415

    return pa.concat_tables([one, other])


def test_a_dead_controller_leaves_the_plan_in_force():
    """What it decided last is what is kept."""
    application, policy = _policy("global")
    tables = {f"s{i}": _events(CAPACITY * 2, 60, i) for i in (1, 2)}
    simulate(application, tables, SERVICE, interval=1.0, policy=policy)
    shares = policy.memory.shares
    again = simulate(application, tables, SERVICE, interval=1.0, shares=shares)
    assert all(in_force == shares for in_force in again.shares)
    backlog = [one.backlog["edge-2"] for one in again.intervals[:-1]]
    assert max(backlog) < 3

"""Links of limited capacity in virtual time: what waits for them, and plans that keep them."""

from dataclasses import replace

import numpy as np
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.graph import Channels, Stream
from shedlight.model.spark_costs import Costs
from tests.engines.applications import drawn_events, paper_application

SERVERS = {"kafka.bootstrap.servers": "nobody:1"}
EDGE, LINK = ("edge-2", "core"), "edge-2 -> core"
PATTERNS = [Stream(f"Q{i}{j}", f"w{i}") for i in (1, 2) for j in (1, 2)]
JOINS = [Stream("Q31", "w3"), Stream("Q41", "w4")]
SERVICE = Service(seconds=dict.fromkeys((*PATTERNS, *JOINS), 1e-4))
COSTS = dict.fromkeys(("edge-1", "edge-2", "core"), Costs(fixed=0.5, reading=1e-5))
SECONDS = 60


def _run(capacity, *, policy=False, costs=None, seed=1):
    application = paper_application()
    links = {} if capacity is None else {EDGE: capacity}
    application = replace(application, channels=Channels(options=SERVERS, links=links))
    tables = {f"s{i}": drawn_events(200, SECONDS, seed * 10 + i) for i in (1, 2)}
    deciding = ControllerPolicy(application, every=2) if policy else None
    done = simulate(application, tables, SERVICE, policy=deciding, costs=costs, seed=seed)
    return done, deciding


def _sent(intervals):
    """Give the bytes per second that were sent over the link."""
    return sum(i.links[LINK] for i in intervals) / sum(i.length for i in intervals)


def _found(done):
    return sum(map(len, done.sinks.values()))


@pytest.mark.parametrize("costs", [None, COSTS], ids=["queues", "micro-batches"])
def test_what_a_link_cannot_carry_waits(costs):
    """Without a plan ever more is on its way, and nothing is lost."""
    wide, _ = _run(1e9, costs=costs)
    rate = _sent(wide.intervals[:-1])
    narrow, _ = _run(rate / 2, costs=costs)

    assert _sent(narrow.intervals[:-1]) == pytest.approx(rate, rel=0.01)
    assert _found(narrow) == _found(wide)
    busy = [sum(each.arrivals["w3"][PATTERNS[2]].values()) for each in narrow.intervals[:-1]]
    half = [sum(each.arrivals["w3"][PATTERNS[2]].values()) for each in wide.intervals[:-1]]
    assert np.sum(busy) < 0.6 * np.sum(half), "half of it is still on its way"


@pytest.mark.parametrize("costs", [None, COSTS], ids=["queues", "micro-batches"])
@pytest.mark.parametrize("part", [0.7, 0.3])
def test_a_plan_keeps_a_link_within_five_per_cent(part, costs):
    """And sheds no more than it must: the link is used."""
    wide, _ = _run(1e9, costs=costs)
    capacity = part * _sent(wide.intervals[:-1])
    done, deciding = _run(capacity, policy=True, costs=costs)

    settled = [each for each in done.intervals[:-1] if each.start > 20]
    assert 0.75 * capacity <= _sent(settled) <= 1.05 * capacity
    plan = next(each.plan for each in deciding.log if each.plan is not None)
    assert plan.prices[LINK] > 0
    assert plan.links[LINK].limit == pytest.approx(0.9 * capacity)
    reasons = [each.reason for each in deciding.log if each.plan is not None]
    assert f"{LINK} is at" in reasons[0]

"""Keys shed in strata, in a simulation."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.keyed_data import CHAIN, HALF, NODE, PAIR, RARE, YIELDS, ZIPF, draw_uniform
from shedlight.control.controller import ControlSettings
from shedlight.control.strata import StrataSettings
from shedlight.engines.simulator import simulate
from shedlight.engines.simulator.policies import ControllerPolicy, RandomPolicy
from shedlight.graph.strata import find_stratified
from shedlight.matching.output.complex_events import EVENTS, TIME
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.model import SheddingWay
from shedlight.model.spark_costs import Costs
from shedlight.model.stratum_split import HEAVY_PREFIX, REST
from shedlight.planning.plan import PlanSettings
from tests.engines.simulator.test_closures import _application

SECONDS, WARM_UP = 24.0, 8.0
IN_STRATA = ControlSettings(strata=StrataSettings(enabled=True))
SHORT_RARE = replace(RARE, window=3)


def _control(application, settings=IN_STRATA):
    return ControllerPolicy(application, settings, every=2)


def _run(data, load, seed, make=_control, seconds=SECONDS):
    run = data.draw(load, seconds, seed)
    policy = make(run.application) if make else None
    done = simulate(
        run.application,
        {"s": run.events},
        run.service,
        interval=0.5,
        policy=policy,
        seed=seed,
        with_outputs=True,
    )
    return run, policy, done


def _busy(done):
    measured = [i for i in done.intervals[:-1] if i.start >= WARM_UP]
    return sum(i.busy[NODE] for i in measured) / sum(i.length for i in measured)


def _results(done, since=WARM_UP):
    return np.count_nonzero(done.sinks["found"][TIME].to_numpy() > since * 1e6)


@pytest.mark.parametrize(("data", "load"), [(HALF, 3.0), (ZIPF, 2.0)], ids=["half", "zipf"])
def test_heavy_hitters_do_not_decide_about_all_others(data, load):
    """A share of keys is no share of events; strata bring more than random shedding.

    0.9 / load of the work fits, so whole keys bring 0.9 / load of the results.
    """
    _, policy, done = _run(data, load, 1)
    *_, random = _run(data, load, 1, RandomPolicy)
    *_, unshed = _run(data, load, 1, None)

    assert _results(done) > _results(random)
    assert _results(done) > 0.95 * 0.9 / load * _results(unshed)
    assert 0.8 < _busy(done) < 1.0
    strata = policy.memory.shares[PAIR].strata
    assert sum(name.startswith(HEAVY_PREFIX) for name in strata) >= 1


def test_keys_of_high_yield_are_kept_before_others():
    """Half of the keys bring ten times as much; a hash of the key leaves 0.9 / load of all.

    Few keys, so that what they yield is learned soon.
    """
    data = replace(YIELDS, draw_keys=draw_uniform(200), window=3)
    _, policy, done = _run(data, 2.0, 1, seconds=40.0)
    *_, unshed = _run(data, 2.0, 1, None, seconds=40.0)

    assert _results(done, 20.0) > 1.15 * 0.45 * _results(unshed, 20.0)
    strata = policy.memory.shares[PAIR].strata
    shares = {name: min(each.shares.values()) for name, each in strata.items()}
    assert shares["good-yield"] > shares["low-yield"]


@pytest.mark.soak
def test_keys_of_high_yield_are_kept_before_others_where_there_are_many():
    """The same with 2,000 keys, of which less is known."""
    _, _, done = _run(YIELDS, 2.0, 1, seconds=200.0)
    *_, unshed = _run(YIELDS, 2.0, 1, None, seconds=200.0)

    assert _results(done, 50.0) > 1.15 * 0.45 * _results(unshed, 50.0)


def test_where_few_events_close_openers_are_shed():
    """One event in fifty closes; whole keys would leave 0.9 / load of the results."""
    _, policy, done = _run(SHORT_RARE, 2.0, 1)
    *_, unshed = _run(SHORT_RARE, 2.0, 1, None)

    assert _results(done, 12.0) > 1.3 * 0.45 * _results(unshed, 12.0)
    ways = {each.way for each in policy.memory.shares[PAIR].strata.values()}
    assert ways & {SheddingWay.EVENTS, SheddingWay.OPENERS}
    assert any("whole keys: " in decision.reason for decision in policy.log)


def test_what_is_counted_of_strata_is_all_that_was_counted():
    """Arrivals, kept events and results add up, and every match is an opener and a closer."""
    run, _, done = _run(ZIPF, 2.0, 2)

    for interval in done.intervals:
        strata = interval.strata["w"]
        arrived = sum(sum(each.arrivals.values()) for each in strata.values())
        kept = sum(sum(each.kept.get("P", {}).values()) for each in strata.values())
        found = sum(each.outputs.get("P", 0) for each in strata.values())
        inputs = interval.arrivals.get("w", {}).values()
        assert arrived == sum(sum(counts.values()) for counts in inputs)
        assert kept == sum(interval.kept.get(PAIR, {}).values())
        assert found == interval.outputs.get(PAIR, 0)
        assert REST in strata
    pairs = np.array(done.outputs[PAIR][EVENTS].to_pylist())
    rows = {name: run.events[name].to_numpy()[pairs] for name in ("type", "key", "time")}
    assert len(pairs) > 100
    assert (rows["type"] == [0, 1]).all()
    assert (rows["key"][:, 0] == rows["key"][:, 1]).all()
    assert (np.diff(rows["time"]) <= 10e6).all()
    assert len(np.unique(pairs)) == pairs.size


def test_the_same_run_is_the_same_again():
    """Decisions are functions of what is on record: a replay sheds the same events."""
    one, same = (_run(ZIPF, 3.0, 4, seconds=10.0)[2] for _ in range(2))

    assert one.outputs[PAIR].equals(same.outputs[PAIR])
    assert [i.busy[NODE] for i in one.intervals] == [i.busy[NODE] for i in same.intervals]


def test_protected_closures_have_no_strata():
    """What a NOT watches is shed by a hash of keys, or not at all."""
    text = "SEQ(a.type = 0, NOT(x.type = 2), b.type = 1) WITHIN 1 s PARTITION BY key"
    assert find_stratified(_application({"P": text})) == {}


def test_strata_are_off_unless_they_are_asked_for():
    """Then nobody finds any, and nothing is planned in any."""
    _, policy, done = _run(HALF, 2.0, 1, lambda app: _control(app, ControlSettings()), 10.0)

    assert not any(interval.strata or interval.key_histories for interval in done.intervals)
    assert not any(shares.strata for shares in policy.memory.shares.values())
    assert (policy.memory.strata, policy.memory.feedback) == ({}, {})


def test_nodes_of_micro_batches_shed_in_strata_too():
    """Counts of strata add up to those of the node, and heavy hitters are found."""
    run = HALF.draw(2.0, 12.0, 1)
    target = Target(latency=LatencyModel.MICRO_BATCH)
    settings = replace(IN_STRATA, plan_settings=PlanSettings(target=target))
    policy = ControllerPolicy(run.application, settings)
    done = simulate(
        run.application,
        {"s": run.events},
        run.service,
        interval=1.0,
        policy=policy,
        costs={NODE: Costs(fixed=0.1, reading=0.0, carrying=0.0)},
    )

    strata = [interval.strata["w"].values() for interval in done.intervals]
    kept = [sum(sum(s.kept.get("P", {}).values()) for s in each) for each in strata]
    assert kept == [sum(i.kept.get(PAIR, {}).values()) for i in done.intervals]
    names = policy.memory.shares[PAIR].strata
    assert sum(name.startswith(HEAVY_PREFIX) for name in names) == 1
    assert 0.3 < sum(kept) / len(run.events) < 0.7


def test_keys_are_not_classed_where_operators_read_what_is_found():
    """What a key yields on the first level is not what it yields at the sink."""
    *_, done = _run(CHAIN, 2.0, 1, seconds=10.0)

    names = {name for interval in done.intervals for name in interval.strata["w"]}
    assert {name for name in names if not name.startswith(HEAVY_PREFIX)} == {REST}

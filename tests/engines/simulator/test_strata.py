"""Keys shed in strata, in a simulation."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.keyed_data import HALF, NODE, PAIR, RARE, YIELDS, ZIPF
from shedlight.engines.simulator import simulate
from shedlight.engines.simulator.policies import ControllerPolicy, RandomPolicy
from shedlight.graph.strata import find_stratified
from shedlight.matching.output.complex_events import EVENTS, TIME
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import HEAVY_PREFIX, REST
from tests.engines.simulator.test_closures import _application

SECONDS, WARM_UP = 60.0, 15.0


def _run(data, load, seed, make=ControllerPolicy):
    run = data.draw(load, SECONDS, seed)
    policy = make(run.application, every=5)
    done = simulate(
        run.application,
        {"s": run.events},
        run.service,
        interval=0.2,
        policy=policy,
        seed=seed,
        with_outputs=True,
    )
    return run, policy, done


def _busy(done):
    measured = [i for i in done.intervals[:-1] if i.start >= WARM_UP]
    return sum(i.busy[NODE] for i in measured) / sum(i.length for i in measured)


@pytest.mark.parametrize(("data", "load"), [(HALF, 1.5), (HALF, 3.0), (ZIPF, 2.0)])
def test_heavy_hitters_do_not_decide_about_all_others(data, load):
    """A share of keys is no share of events; strata bring more than random shedding.

    0.9 / load of the work fits, so whole keys bring 0.9 / load of the results.
    """
    run, policy, done = _run(data, load, 1)
    *_, random = _run(data, load, 1, RandomPolicy)
    unshed = simulate(run.application, {"s": run.events}, run.service, interval=SECONDS)

    found = len(done.sinks["found"])

    assert found > len(random.sinks["found"])
    assert found > 0.95 * 0.9 / load * len(unshed.sinks["found"])
    assert 0.8 < _busy(done) < 1.0
    strata = policy.memory.shares[PAIR].strata
    assert sum(name.startswith(HEAVY_PREFIX) for name in strata) >= 1


def test_keys_of_high_yield_are_kept_before_others():
    """Half of the keys bring ten times as much; a hash of the key leaves 0.9 / load of all.

    What keys yield must be learned first, so a quarter of the run is not counted.
    """
    run = YIELDS.draw(2.0, 200.0, 1)
    policy = ControllerPolicy(run.application, every=5)
    done, unshed = (
        simulate(
            run.application, {"s": run.events}, run.service, interval=1.0, policy=each, seed=1
        )
        for each in (policy, None)
    )

    kept, whole = (
        np.count_nonzero(each.sinks["found"][TIME].to_numpy() > 50e6) for each in (done, unshed)
    )
    assert kept > 1.15 * 0.45 * whole
    strata = policy.memory.shares[PAIR].strata
    shares = {name: min(each.shares.values()) for name, each in strata.items()}
    assert shares["good-yield"] > shares["low-yield"]


def test_where_few_events_close_openers_are_shed():
    """One event in fifty closes; whole keys would leave 0.9 / load of the results."""
    run, policy, done = _run(replace(RARE, window=10), 2.0, 1)
    unshed = simulate(run.application, {"s": run.events}, run.service, interval=SECONDS)

    kept, whole = (
        np.count_nonzero(each.sinks["found"][TIME].to_numpy() > 30e6) for each in (done, unshed)
    )

    assert kept > 1.3 * 0.45 * whole
    ways = {each.way for each in policy.memory.shares[PAIR].strata.values()}
    assert ways & {SheddingWay.EVENTS, SheddingWay.OPENERS}
    assert any("whole keys: " in decision.reason for decision in policy.log)


@pytest.mark.parametrize("data", [HALF, replace(RARE, window=10)], ids=["half", "rare"])
def test_nothing_is_invented_in_strata(data):
    """Every match is a word: an opener and a closer of one key, in order, within the window."""
    run, _, done = _run(data, 2.0, 3)
    rows = run.events.to_pydict()
    by_id = {n: i for i, n in enumerate(rows["id"])}

    pairs = [[by_id[n] for n in pair] for pair in done.outputs[PAIR][EVENTS].to_pylist()]

    assert len(pairs) > 100
    for first, last in pairs:
        assert (rows["type"][first], rows["type"][last]) == (0, 1)
        assert rows["key"][first] == rows["key"][last]
        assert 0 <= rows["time"][last] - rows["time"][first] <= 10e6
    taken = [event for pair in pairs for event in pair]
    assert len(taken) == len(set(taken))


def test_what_is_counted_of_strata_is_all_that_was_counted():
    """Arrivals, kept events and results of strata add up to those of the operator."""
    _, _, done = _run(ZIPF, 2.0, 2)

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


def test_the_same_run_is_the_same_again():
    """Decisions are functions of what is on record: a replay sheds the same events."""
    one, same = (_run(ZIPF, 3.0, 4)[2] for _ in range(2))

    assert one.outputs[PAIR].equals(same.outputs[PAIR])
    assert np.array_equal(
        [i.busy[NODE] for i in one.intervals], [i.busy[NODE] for i in same.intervals]
    )


def test_protected_closures_have_no_strata():
    """What a NOT watches is shed by a hash of keys, or not at all."""
    text = "SEQ(a.type = 0, NOT(x.type = 2), b.type = 1) WITHIN 1 s PARTITION BY key"
    assert find_stratified(_application({"P": text})) == {}

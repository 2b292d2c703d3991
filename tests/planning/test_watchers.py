"""What plans do with watchers, and what they say about it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.graph import Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.planning.watchers import WatcherPlan, list_watchers
from tests.planning.closures import alarms_model, draw_model

ALARM = Stream("alarm", "w2")


def test_a_closure_that_does_not_fit_switches_its_watcher_off():
    """Q takes 80 events/s of 15 ms each, and there are 0.9 s of work a second, less waiting."""
    plan = make_plan(alarms_model())

    assert plan.watchers == (
        WatcherPlan(
            stream=ALARM,
            keep=0.0,
            reason="with w1.Q whole, it takes 1.2 s of work a second at edge, which has 0.887",
        ),
    )
    assert plan.rates.sinks["alarms"] == 0


def test_a_closure_that_fits_may_be_off_for_others_that_bring_more():
    """Q takes 0.8 s a second for 20 alarms; R takes 0.48 for 40 of the others."""
    (watcher,) = make_plan(alarms_model(0.010)).watchers

    assert watcher.keep == 0
    assert watcher.reason.endswith("at edge, which has 0.891, and others bring more")


def test_a_closure_that_is_worth_it_is_on():
    """An alarm is worth ten of the others."""
    plan = make_plan(alarms_model(0.010, weight=10))

    assert [str(watcher) for watcher in plan.watchers] == ["w2.alarm is on"]
    assert plan.rates.sinks["alarms"] > 0
    assert list_watchers(plan.watchers) == ""


def test_a_closure_with_a_key_keeps_a_share_of_it():
    """At its own node nothing is shed, yet its share is that of Q, and the plan knows."""
    plan = make_plan(alarms_model(keyed=True, weight=10))

    (watcher,) = plan.watchers
    assert (watcher.key, watcher.state) == ("host", "69.3% of all host")
    assert plan.rates.sinks["alarms"] == pytest.approx(20 * watcher.keep)
    assert list_watchers(plan.watchers).startswith("w2.alarm keeps 69.3% of all host: with")


def test_of_many_watchers_the_first_are_named():
    """A reason is read by people."""
    watchers = [WatcherPlan(stream=Stream(f"q{i}", "w"), keep=0.0) for i in range(5)]

    assert list_watchers(watchers) == (
        "w.q0 is off; w.q1 is off; w.q2 is off; 2 more are not all on"
    )


@given(seed=st.integers(0, 10**6), latency=st.sampled_from([*LatencyModel]), fill=st.booleans())
def test_what_is_said_of_watchers_is_what_the_plan_does(seed, latency, fill):
    """One that is off has no results; one that keeps a share of keys no more than that."""
    model = draw_model(random.Random(seed))
    plan = make_plan(model, PlanSettings(target=Target(latency=latency), fill=fill))

    assert {each.stream for each in plan.watchers} == {
        stream for stream, pattern in model.patterns.items() if pattern.watches
    }
    for watcher in plan.watchers:
        rate, before = (r.outputs[watcher.stream] for r in (plan.rates, plan.unshed_rates))
        assert watcher.key or watcher.keep in {0, 1}
        assert rate <= before * watcher.keep * (1 + 1e-6) + 1e-9
        assert watcher.keep == 1 or watcher.reason
        pattern = model.patterns[watcher.stream]
        whole = [plan.keep[s] for s in pattern.members if s in plan.keep]
        if watcher.keep == 1:
            assert all(shares.min(initial=1.0) >= 1 - 1e-9 for shares in whole)

"""The controller: it replans when there is a cause, says why, and is pure."""

import random
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.shedders import PAPER_POLICY
from shedlight.control.controller import ControlSettings, Memory, decide
from shedlight.control.node_status import NodeStatus
from shedlight.control.observation import Observation
from shedlight.control.replan_trigger import ControlHistory
from shedlight.language.ast.expression import Attribute
from shedlight.planning.plan import PlanSettings
from tests.control.loops import FITS, START, TOO_MUCH, run, still
from tests.control.observations import APPLICATION, NODE, RATES, observed
from tests.graph.applications import stream
from tests.planning.closures import ALARM_LOAD, alarms

AT_AIM, AT_LIMIT = 0.724, 0.804
Q21, Q22 = stream("w2.Q21"), stream("w2.Q22")


def _plans(decisions):
    return [number for number, each in enumerate(decisions) if each.plan is not None]


def _with_constraint(**override):
    sinks = {
        name: replace(sink, **override) if name == "sink2" else sink
        for name, sink in APPLICATION.sinks.items()
    }
    return Memory(application=replace(APPLICATION, sinks=sinks))


def _bounded(bound):
    node = replace(APPLICATION.nodes[NODE], bound=bound)
    return replace(APPLICATION, nodes={**APPLICATION.nodes, NODE: node})


def test_what_fits_needs_no_plan():
    """There is no plan without a cause."""
    memory, decisions = run(START, [FITS] * 5)

    assert _plans(decisions) == []
    assert decisions[0].reason == "all nodes are within their limits"
    assert memory.shares == {}
    assert {str(each) for each in decisions[-1].health.values()} == {"OK"}


def test_an_overload_is_planned_for_at_once_and_once():
    """The plan holds while the load does."""
    _, decisions = run(START, [FITS, *[TOO_MUCH] * 20])

    assert _plans(decisions) == [1]
    assert decisions[1].reason == (
        "edge-2 is at 186 % of its limit: 255 events/s arrive; the new plan sheds at edge-2"
    )
    assert decisions[1].plan.loads[NODE].fits
    assert decisions[-1].health[NODE].status is NodeStatus.SHEDDING
    assert "more cores" in decisions[-1].health[NODE].advice


@given(st.floats(0.9, 4), st.integers(1, 12))
@settings(max_examples=15)
def test_a_load_that_doubles_is_planned_for_at_once(factor, after):
    """However short the last plan was ago."""
    _, decisions = run(START, [factor] * after + [2 * factor])

    assert _plans(decisions) == [0, after]
    rates = [factor * sum(RATES["s2"].values()) for factor in (2 * factor, factor)]
    words = r"([\d,]+) events/s arrive, the plan was made for ([\d,]+); "
    said = re.search(words, decisions[-1].reason)
    assert said, decisions[-1].reason
    numbers = [float(number.replace(",", "")) for number in said.groups()]
    assert numbers == pytest.approx(rates, abs=0.51)  # they are rounded


def test_more_work_of_as_many_events_is_told_as_work():
    """Events per second would not say why there is a new plan."""
    memory, _ = decide(START, observed(TOO_MUCH), clock=still)
    seen = observed(TOO_MUCH, memory.shares, time=5.0)
    slower = {stream("w2.Q21"): 0.008, stream("w2.Q22"): 0.016}

    _, decision = decide(memory, replace(seen, processing_time=slower), clock=still)

    assert "201 % of the work arrives that the plan was made for; " in decision.reason


@pytest.mark.parametrize("key", ["", "PARTITION BY type"])
def test_more_cores_are_advised_where_they_help(key):
    """Without a key the events of a pattern are not split over cores."""
    spec = APPLICATION.operators["w2"]
    patterns = {
        name: replace(pattern, partition_by=(Attribute("", ("type",)),) if key else ())
        for name, pattern in spec.patterns.items()
    }
    operators = {**APPLICATION.operators, "w2": replace(spec, patterns=patterns)}
    application = replace(APPLICATION, operators=operators)

    _, decision = decide(Memory(application=application), observed(TOO_MUCH), clock=still)

    advice = decision.health[NODE].advice
    assert ("give it more cores" in advice) is bool(key)
    assert ("more cores would not help" in advice) is not bool(key)


def test_shedding_ends_with_its_cause():
    """When everything fits again everything is kept."""
    memory, decisions = run(START, [TOO_MUCH, TOO_MUCH, FITS, FITS])

    assert _plans(decisions) == [0, 2]
    assert "sheds and is at only 36 % of its limit" in decisions[2].reason
    assert all(share == 1 for each in memory.shares.values() for share in each.shares.values())
    assert decisions[-1].health[NODE].status is NodeStatus.OK


def _noisy(seed, level, noise):
    """Vary each type by itself, and all of them together."""
    rng = random.Random(seed)
    memory, decisions = START, []
    for number in range(45):
        common = 1 + rng.gauss(0, noise)
        rates = {
            label: max(0.0, rate * level * common * (1 + rng.gauss(0, noise)))
            for label, rate in RATES["s2"].items()
        }
        seen = observed(1.0, memory.shares, time=5.0 * number, rates=rates)
        memory, decision = decide(memory, seen, clock=still)
        decisions.append(decision)
    return decisions


@given(
    st.integers(0, 10_000),
    st.sampled_from([AT_AIM, 0.75, AT_LIMIT, 0.85, 0.9]),
    st.sampled_from([0.0, 0.02, 0.05]),
)
@settings(max_examples=15)
def test_a_stationary_load_at_the_threshold_is_planned_for_once_in_ten(seed, level, noise):
    """The solver is asked no oftener; with little noise, in no ten observations in a row."""
    decisions = _noisy(seed, level, noise)
    asked = [number for number, each in enumerate(decisions) if each.attempted]

    assert len(asked) <= 1 + len(decisions) / 10
    if noise < 0.05:
        assert all(later - earlier > 10 for earlier, later in pairwise(asked))
    assert set(_plans(decisions)) <= set(asked)


def test_without_hysteresis_noise_would_be_planned_for():
    """The paper's rule replans whenever the busy time is off, and it is most of the time."""
    memory = replace(START, settings=ControlSettings(policy=PAPER_POLICY))
    rng = random.Random(1)
    _, decisions = run(memory, [0.9 * (1 + rng.gauss(0, 0.1)) for _ in range(40)])

    assert sum(each.attempted for each in decisions) > 4


def test_the_papers_policy():
    """Ten per cent either way is the paper's."""
    assert (PAPER_POLICY.over, PAPER_POLICY.under) == (1.1, 0.9)


def test_the_papers_rule_leaves_ten_per_cent_alone():
    """What exceeds the limit by less is no significant change."""
    memory = replace(START, settings=ControlSettings(policy=PAPER_POLICY))

    assert _plans(run(memory, [AT_LIMIT * 1.08])[1]) == []
    assert _plans(run(memory, [AT_LIMIT * 1.12])[1]) == [0]


def test_other_types_are_another_plan():
    """The same work asked for by other types; a rest that is over."""
    memory, decisions = run(START, [TOO_MUCH] * 12)
    other = {"type=0": 90.0, "type=1": 30.0, "type=2": 25.0, "type=3": 40.0}

    memory, decision = decide(memory, observed(TOO_MUCH, memory.shares, rates=other))

    assert _plans(decisions) == [0]
    assert decision.attempted
    assert "49 % of the events are type=0, the plan was made for 35 %" in decision.reason


def test_a_latency_over_its_bound_is_a_cause_and_a_risk():
    """If the load fits, no plan can help, and that is said."""
    memory, decision = decide(START, observed(FITS, latency={NODE: 4.0}))

    assert decision.plan is None
    assert "latency at edge-2 is 4 s, its bound 3 s on average: 102 events/s" in decision.reason
    assert decision.health[NODE].status is NodeStatus.BOUND_AT_RISK
    assert "bursts" in decision.health[NODE].advice
    again = decide(memory, observed(FITS, latency={NODE: 4.0}))[1]
    assert not again.attempted
    assert again.reason.endswith("; the active plan stays, for another would hardly differ")
    more = decide(memory, observed(1.3 * FITS, latency={NODE: 4.0}))[1]
    assert "133 events/s arrive, the plan was made for 102; " in more.reason
    assert more.reason.endswith("until that lasts for 3 observations, so far 1")


def test_a_backlog_is_worked_off_in_two_intervals():
    """The budget is 0.9 of the limit less (W - B) / T = (6 - 3) / 10."""
    _, decision = decide(START, observed(TOO_MUCH, backlog={NODE: 6.0}))

    assert decision.plan is not None
    assert decision.plan.loads[NODE].limit == pytest.approx(0.9 - 0.3)
    assert decision.health[NODE].status is NodeStatus.BOUND_AT_RISK


def test_a_plan_for_a_backlog_ends_with_it():
    """A fluid queue: it is worked off, then all of the limit is used again."""
    memory, backlog, decisions = START, 9.0, []
    for number in range(30):
        seen = observed(TOO_MUCH, memory.shares, time=5.0 * number, backlog={NODE: backlog})
        memory, decision = decide(memory, seen, clock=still)
        decisions.append(decision)
        kept = observed(TOO_MUCH, memory.shares).kept
        work = sum(kept[Q21].values()) * 0.004 + sum(kept[Q22].values()) * 0.008
        backlog = max(0.0, backlog + 5 * (work - 1))

    assert backlog == 0
    assert len(_plans(decisions)) <= 3
    best = decide(START, observed(TOO_MUCH))[1].plan
    last = decisions[_plans(decisions)[-1]].plan
    assert best is not None
    assert last is not None
    assert last.objective >= 0.98 * best.objective
    assert decisions[-1].health[NODE].status is NodeStatus.SHEDDING


def test_a_constraint_that_cannot_be_met_leaves_the_plan_active():
    """It is said which to relax, and not tried again while nothing moves."""
    memory, first = decide(START, observed(TOO_MUCH), clock=still)
    constrained = replace(memory, application=_with_constraint(min_rate=1e4).application)

    memory, decisions = run(constrained, [2 * TOO_MUCH] * 3)

    assert [each.attempted for each in decisions] == [True, False, False]
    assert _plans(decisions) == []
    assert memory.shares == first.shares
    for each in decisions:
        assert each.health[NODE].status is NodeStatus.INFEASIBLE
        assert "lower its min_" in each.health[NODE].advice
        assert "the active plan stays" in each.health[NODE].advice


def test_a_bound_that_cannot_be_kept_is_infeasible():
    """One event takes 12 ms, so a bound of 10 ms is beyond any plan."""
    _, decision = decide(Memory(application=_bounded(0.01)), observed(TOO_MUCH))

    assert decision.plan is None
    assert str(decision.health[NODE]).startswith("INFEASIBLE: node 'edge-2' cannot keep")
    assert "the least feasible bound is more than 0.012 s" in decision.health[NODE].advice
    assert decision.reason.startswith("node 'edge-2' cannot keep its bound of 0.01 s")


def test_all_is_said_to_be_well_only_if_it_is():
    """While a constraint cannot be met, the reason is that, however much room there is."""
    memory = _with_constraint(min_rate=1e6)
    memory, _ = decide(memory, observed(TOO_MUCH))

    _, decision = decide(replace(memory, history=ControlHistory()), observed(FITS))

    assert decision.health[NODE].status is NodeStatus.INFEASIBLE
    assert decision.reason.startswith("no plan: ")


def test_a_plan_can_be_asked_for():
    """Whatever was observed, and once."""
    memory, decision = decide(START, observed(FITS), forced_reason="somebody asked")
    _, after = decide(memory, observed(FITS))

    assert decision.attempted
    assert decision.reason.startswith("somebody asked; ")
    assert not after.attempted


def test_a_bound_that_cannot_be_kept_does_not_hinder_other_nodes():
    """edge-1 needs 0.1 ms per event; edge-2 has its plan all the same."""
    node = replace(APPLICATION.nodes["edge-1"], bound=1e-5)
    application = replace(APPLICATION, nodes={**APPLICATION.nodes, "edge-1": node})

    _, decision = decide(Memory(application=application), observed(TOO_MUCH))

    assert decision.health["edge-1"].status is NodeStatus.INFEASIBLE
    assert decision.health[NODE].status is NodeStatus.SHEDDING
    assert decision.plan is not None
    assert decision.plan.nodes == (NODE,)


def test_a_solver_that_fails_is_no_disaster():
    """No time is too little; the bound is at risk, and that is all."""
    hasty = replace(START, settings=ControlSettings(plan_settings=PlanSettings(time_limit=0.0)))

    _, decision = decide(hasty, observed(TOO_MUCH))

    assert decision.health[NODE].status is NodeStatus.BOUND_AT_RISK


def test_a_snapshot_that_cannot_be_used_is_waited_with():
    """A type that nobody knows is not a reason to stop."""
    memory, first = decide(START, observed(TOO_MUCH), clock=still)
    broken = observed(TOO_MUCH, memory.shares, rates={**RATES["s2"], "typ=9": 1.0})

    after, decision = decide(memory, broken)

    assert replace(after, latest=memory.latest) == memory
    assert decision.reason.startswith("no plan can be made yet: observation at 0 s: ")
    assert (decision.shares, decision.health) == (first.shares, first.health)


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=5), st.floats(0, 20))
@settings(max_examples=15)
def test_the_same_comes_of_the_same(factors, backlog):
    """Decisions depend on memory and observation alone, and memory is a value."""
    once, first = run(START, factors, backlog={NODE: backlog})
    again, second = run(START, factors, backlog={NODE: backlog})

    assert once == again
    for one, other in zip(first, second, strict=True):
        assert (one.reason, one.seconds, one.loads) == (
            other.reason,
            other.seconds,
            other.loads,
        )
        assert (one.plan is None, one.health) == (other.plan is None, other.health)
        if one.plan is not None:
            assert all(np.array_equal(one.plan.keep[k], v) for k, v in other.plan.keep.items())
    assert Memory(application=APPLICATION) == START


@given(st.lists(st.floats(0.1, 4), min_size=2, max_size=6))
@settings(max_examples=15)
def test_a_plan_always_has_a_cause_in_words(factors):
    """The log says of every replan why it was made, and what it cost."""
    _, decisions = run(START, factors)

    for each in decisions:
        if each.plan is not None:
            assert each.attempted
            assert "edge-2" in each.reason or "operator" in each.reason
            assert each.seconds == each.plan.seconds


def test_a_new_type_is_kept_as_its_pattern_keeps_on_average():
    """Shares are known by name, so a plan outlives the list of types it was made for."""
    memory, _ = decide(START, observed(TOO_MUCH), clock=still)
    known = memory.shares[Q22]
    fewer = replace(known, shares={k: v for k, v in known.shares.items() if k != "type=3"})
    memory = replace(memory, shares={**memory.shares, Q22: fewer})

    _, decision = decide(memory, observed(TOO_MUCH, rates=RATES["s2"]), clock=still)

    assert decision.loads[NODE] > 0


def test_a_decision_says_which_watchers_are_off_and_why():
    """The log and the web UI have the reason as it stands."""
    rates = {label: float(each) for label, each in ALARM_LOAD["rates"]["s"].items()}
    uses = {"P": (0, 1), "Q": (2, 3), "R": (4, 5)}
    fed = {"P": 20.0, "Q": 40.0}
    observation = Observation(
        time=0.0,
        interval=5.0,
        arrivals={
            "w1": {stream("s"): rates},
            "w2": {stream(f"w1.{name}"): {f"source={name}": fed[name]} for name in fed},
        },
        kept={
            stream(f"w1.{name}"): {f"type={i}": rates[f"type={i}"] for i in numbers}
            for name, numbers in uses.items()
        },
        processing_time={stream(k): v for k, v in ALARM_LOAD["processing_time"].items()},
        busy={"edge": 1.76},
    )

    _, decision = decide(Memory(application=alarms()), observation)

    assert decision.reason.endswith(
        "the new plan sheds at edge; w2.alarm is off: with w1.Q whole, it takes 1.2 s of work "
        "a second at edge, which has 0.887"
    )

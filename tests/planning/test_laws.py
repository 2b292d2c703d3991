"""Laws that hold for every plan where the model is plain."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shedlight.model.latency import LatencyModel, Target
from shedlight.model.load import node_load
from shedlight.model.rates import predict
from shedlight.planning.plan import PlanSettings, make_plan
from tests.planning.models import TARGETS, limits_of, models

RESTLESS = st.sampled_from([1, 2])


def _is_wide(model, factor=4.0):
    for node in model.nodes.values():
        longest = sum(
            p.seconds.max() for o in model.operators_on(node.name) for p in o.patterns
        )
        if node.bound is not None and node.bound < factor * longest:
            return False
    return True


def _value(model, target):
    return make_plan(model, PlanSettings(target=target, fill=False)).objective


def _scaled(model, rates=1.0, seconds=1.0, bounds=1.0):
    nodes = {
        name: replace(one, bound=one.bound and one.bound * bounds)
        for name, one in model.nodes.items()
    }
    operators = {}
    for name, one in model.operators.items():
        patterns = tuple(
            replace(p, seconds=p.seconds * seconds, moments=p.moments * seconds**2)
            for p in one.patterns
        )
        sources = {source: values * rates for source, values in one.sources.items()}
        capacity = one.capacity / seconds
        operators[name] = replace(one, patterns=patterns, sources=sources, capacity=capacity)
    return replace(model, nodes=nodes, operators=operators)


@settings(max_examples=100)
@given(models(bounded=2), TARGETS, st.floats(1.01, 3))
def test_more_budget_or_a_higher_bound_never_lowers_the_optimum(model, target, factor):
    """Neither a higher aim nor a higher bound costs anything."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    low = _value(model, replace(target, aim=target.aim / factor))
    assert low <= _value(model, target) * (1 + 1e-6) + 1e-9
    higher = _scaled(model, bounds=factor)
    assert _value(model, target) <= _value(higher, target) * (1 + 1e-6) + 1e-9


@settings(max_examples=100)
@given(models(bounded=2), TARGETS, st.floats(1.01, 3))
def test_more_arrivals_never_lower_the_optimum(model, target, factor):
    """What is too much can be shed."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    more = _scaled(model, rates=factor)
    assert _value(model, target) <= _value(more, target) * (1 + 1e-6) + 1e-9


@settings(max_examples=60)
@given(models(bounded=2), TARGETS, st.floats(0.2, 5))
def test_the_unit_of_time_does_not_matter(model, target, c):
    """Rates times c with times and bounds over c: the same shares."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    one = make_plan(model, PlanSettings(target=target, fill=False))
    other = make_plan(_scaled(model, c, 1 / c, 1 / c), PlanSettings(target=target, fill=False))
    assert one.nodes == other.nodes
    assert other.objective == pytest.approx(c * one.objective, rel=1e-6, abs=1e-9)
    for stream, shares in one.keep.items():
        assert other.keep[stream] == pytest.approx(shares, abs=1e-5)
        assert ((shares == 0) | (shares > 1e-9)).all()  # no rounding errors of the solver


@settings(max_examples=60)
@given(models(bounded=2), TARGETS)
def test_with_enough_capacity_everything_is_kept(model, target):
    """And nothing is planned."""
    quick = _scaled(model, seconds=1e-6)
    plan = make_plan(quick, PlanSettings(target=target))
    assert plan.nodes == ()
    assert all((shares == 1).all() for shares in plan.keep.values())


@settings(max_examples=100)
@given(models(bounded=2), TARGETS, st.booleans())
def test_the_limit_is_kept_and_two_runs_agree(model, target, fill):
    """With filling and without."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    plan_settings = PlanSettings(target=target, fill=fill)
    plan, again = make_plan(model, plan_settings), make_plan(model, plan_settings)
    rates = predict(model, plan.keep, plan.nodes)
    for limit in limits_of(model, target).values():
        load = node_load(model, limit, rates)
        assert load.cost <= load.limit * (1 + 1e-6) + 1e-9
    for stream, shares in plan.keep.items():
        assert (shares >= 0).all()
        assert (shares <= 1).all()
        assert np.array_equal(shares, again.keep[stream])


@settings(max_examples=100)
@given(models(bounded=2), TARGETS)
def test_filling_only_adds(model, target):
    """No share falls, no result is lost, and the limit that stops it is reached."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    bare = make_plan(model, PlanSettings(target=target, fill=False))
    full = make_plan(model, PlanSettings(target=target, fill=True))
    assert full.objective >= bare.objective * (1 - 1e-9)
    if bare.nodes == full.nodes:
        for stream, shares in bare.keep.items():
            assert (full.keep[stream] >= shares - 1e-9).all()


def test_an_aim_must_be_a_share():
    """Misuse by a programmer."""
    with pytest.raises(ValueError, match="aim must be above 0"):
        Target(aim=1.5)

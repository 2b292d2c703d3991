"""The equations and remarks of the paper, as it has them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.graph import load_application
from shedlight.graph.application import Stream
from shedlight.model.build import build_model
from shedlight.model.latency import LatencyModel, Target, node_limit
from shedlight.model.load import node_load
from shedlight.model.model import NodeModel
from shedlight.model.rates import predict
from shedlight.model.selectivity.demand import MatchDemand, Split, plain_demand
from shedlight.model.selectivity.flow_lp import match_rate
from shedlight.model.snapshot_file import read_snapshot
from shedlight.planning.paper import solve_paper
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.planning.reduced_lp import solve_reduced

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "paper"
TARGET = Target(latency=LatencyModel.MM1, aim=1.0)
Q11, Q12 = Stream("Q11", "w1"), Stream("Q12", "w1")
Q21, Q22 = Stream("Q21", "w2"), Stream("Q22", "w2")


def _model(tmp_path, **change):
    """Build the running example from its files, with some of the snapshot changed."""
    application = load_application(EXAMPLE / "app.yaml").application
    snapshot = json.loads((EXAMPLE / "snapshot.json").read_text()) | change
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot))
    return build_model(application, read_snapshot(path, application))


@settings(max_examples=300)
@given(st.floats(0.1, 1e4), st.floats(1e-3, 100))
def test_the_mean_processing_time_that_keeps_the_bound(arrivals, bound):
    """B* = 1 / (1/p* - lambda), and the limit on busy time is lambda p*."""
    node = NodeModel(name="n", bound=bound)
    model = _one_pattern(node, arrivals)
    limit = node_limit(model, node, TARGET)
    assert limit is not None
    most = limit.at(*limit.arrivals.at({})) / arrivals
    assert 1 / (1 / most - arrivals) == pytest.approx(bound, rel=1e-6)
    assert most == pytest.approx(1 / (arrivals + 1 / bound))


def _one_pattern(node, rate):
    from shedlight.model.model import OperatorModel, PatternModel, SinkModel  # noqa: PLC0415
    from tests.planning.models import application  # noqa: PLC0415

    stream = Stream("q", "w")
    pattern = PatternModel(
        stream=stream,
        demand=plain_demand(np.array([0]), np.ones(1)),
        seconds=np.array([0.01]),
        moments=np.array([2e-4]),
    )
    operator = OperatorModel(
        name="w",
        node="n",
        types=("type=0",),
        sources={"s": np.array([rate])},
        feeds={},
        patterns=(pattern,),
    )
    return application([node], [operator], [SinkModel(name="k", stream=stream)])


def test_the_average_processing_time_under_shedding(tmp_path):
    """P is the sum over types of their share of arrivals x what patterns keep x their time."""
    model = _model(tmp_path)
    keep = {Q21: np.array([0.5, 0.25]), Q22: np.array([0.2, 0.4, 0.6])}
    rates = np.array([60, 30, 40, 40])
    total = rates.sum()
    by_hand = (
        60 / total * 0.5 * 0.004
        + 30 / total * (0.25 * 0.004 + 0.2 * 0.008)
        + 40 / total * 0.4 * 0.008
        + 40 / total * 0.6 * 0.008
    )
    limit = node_limit(model, model.nodes["edge-2"], TARGET)
    assert limit is not None
    load = node_load(model, limit, predict(model, keep, ["edge-2"]))
    assert load.busy / total == pytest.approx(by_hand)


def test_the_selectivity_functions_of_the_running_example(tmp_path):
    """Q11 = min(T0 / 2, T1), Q21 likewise, and sink 1 = min(Q11, Q21)."""
    model = _model(tmp_path, output_rates={})
    rates = predict(model)
    assert rates.outputs[Q11] == min(40 / 2, 20)
    assert rates.outputs[Q21] == min(60 / 2, 30)
    assert rates.outputs[Q12] == min(20, 10, 10)
    assert rates.outputs[Q22] == min(30, 40, 40)
    assert rates.sinks == {"sink1": min(20, 30), "sink2": min(10, 30)}
    shed = predict(model, {Q21: np.array([0.5, 1.0])}, ["edge-2"])
    assert shed.outputs[Q21] == min(0.5 * 60 / 2, 30)
    assert shed.sinks["sink1"] == 15


def test_what_no_plan_changes_is_as_measured(tmp_path):
    """The y of operators that are no successors of the bottleneck are fixed."""
    model = _model(tmp_path)
    rates = predict(model, {}, ["edge-2"])
    assert rates.outputs[Q11] == 19.9
    assert rates.outputs[Q12] == 6.0


def _half(**more):
    """A quarter of the time that the example needs."""
    return {"processing_time": {"w2.Q21": 0.016, "w2.Q22": 0.032}} | more


def test_without_events_on_edge_1_1_everything_goes_to_edge_2_2(tmp_path):
    """The remark on the worst case: the local plan still serves both."""
    model = _model(tmp_path, **_half(output_rates={"w1.Q11": 0, "w1.Q12": 60}))
    plan = make_plan(model, PlanSettings(target=TARGET, bottleneck="edge-2", fill=False))
    assert not plan.keep[Q21].any()
    assert plan.keep[Q22].all()
    assert plan.rates.sinks["sink1"] == 0
    local = make_plan(
        model, PlanSettings(target=TARGET, bottleneck="edge-2", local=True, fill=False)
    )
    assert local.keep[Q21].any()
    assert local.rates.sinks["sink2"] < plan.rates.sinks["sink2"]


def test_the_global_plan_brings_more_than_the_local_one(tmp_path):
    """Availability on edge 1.1 is low, on 1.2 high: more goes along 2.2 than 2.1."""
    model = _model(tmp_path, **_half(output_rates={"w1.Q11": 2, "w1.Q12": 60}))
    both = [
        make_plan(
            model, PlanSettings(target=TARGET, bottleneck="edge-2", local=local, fill=False)
        )
        for local in (False, True)
    ]
    sinks = [sum(plan.rates.sinks.values()) for plan in both]
    assert sinks[0] > sinks[1] * 1.2
    outputs = both[0].rates.outputs
    assert outputs[Q22] > outputs[Q21]


def test_both_programs_solve_the_running_example(tmp_path):
    """Globally and locally, with the same optimum."""
    model = _model(tmp_path, **_half())
    limit = node_limit(model, model.nodes["edge-2"], TARGET)
    assert limit is not None
    for local in (False, True):
        reduced = solve_reduced(model, {"edge-2": limit}, local=local)
        assert reduced is not None
        paper = solve_paper(model, limit, local=local)
        assert reduced.objective == pytest.approx(paper.objective, rel=1e-9)


def _either(*, exclusive):
    """OR(A, B)."""
    return MatchDemand(
        np.array([0, 1]),
        np.zeros(2, np.bool_),
        np.array([1, 2]),
        np.ones(2),
        np.array([0, 1]),
        np.array([0, 1]),
        (Split(0, 1.0, (1, 2), exclusive),),
    )


@given(st.floats(0, 100), st.floats(0, 100))
def test_an_or_is_a_sum_and_in_the_papers_reading_the_greatest(a, b):
    """The paper's table says max(A, B); what matching emits is A + B."""
    kept = np.array([a, b])
    assert match_rate(_either(exclusive=False), kept) == pytest.approx(a + b)
    assert match_rate(_either(exclusive=True), kept) == pytest.approx(max(a, b), abs=1e-6)


def test_the_papers_or_can_be_planned(tmp_path):
    """By branching: one side alone is kept."""
    model = _model(tmp_path, **_half())
    operators = dict(model.operators)
    first, second = operators["w2"].patterns
    demand = _either(exclusive=True)
    operators["w2"] = replace(operators["w2"], patterns=(replace(first, demand=demand), second))
    changed = replace(model, operators=operators)
    limit = node_limit(changed, changed.nodes["edge-2"], TARGET)
    assert limit is not None
    reduced = solve_reduced(changed, {"edge-2": limit}, local=True)
    assert reduced is not None
    assert reduced.objective == pytest.approx(
        solve_paper(changed, limit, local=True).objective, rel=1e-6
    )
    assert (reduced.kept(Q21) > 1e-6).sum() <= 1

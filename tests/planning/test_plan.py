"""What a plan respects besides bounds: constraints, NOTs, keys, transport, the incumbent."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.errors import PlanError, SolverError
from shedlight.graph.application import Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.load import node_load
from shedlight.model.lp import LinearProgram
from shedlight.model.model import NodeModel, OperatorModel, SinkModel
from shedlight.model.rates import predict
from shedlight.model.selectivity.demand import MatchDemand
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import PlanSettings, make_plan
from tests.planning.models import application, limits_of, pattern

TARGET = Target(latency=LatencyModel.MM1, aim=1.0)
BARE = PlanSettings(target=TARGET, fill=False)
FILLED = PlanSettings(target=TARGET)


def _model(patterns, rates=(60, 30, 40, 40), bound=3.0, **node):
    """Make one operator whose patterns each have a sink."""
    operator = OperatorModel(
        name="w",
        node="n",
        types=tuple(f"type={i}" for i in range(len(rates))),
        sources={"s": np.array(rates, float)},
        feeds={},
        patterns=tuple(patterns),
    )
    sinks = [SinkModel(name=f"to-{p.stream.name}", stream=p.stream) for p in patterns]
    return application([NodeModel(name="n", bound=bound, **node)], [operator], sinks)


def _pair(first=0.004, second=0.008, **more):
    return [
        pattern("w", "a", [0, 1], [2, 1], first, **more),
        pattern("w", "b", [1, 2, 3], [1, 1, 1], second),
    ]


def _cost(model, plan):
    return node_load(model, limits_of(model, TARGET)["n"], plan.rates)


def _shares(plan, name):
    return plan.keep[Stream(name, "w")]


def test_a_pattern_keeps_what_it_can_use_of_each_type():
    """Types in surplus are shed first."""
    plan = make_plan(_model(_pair()), BARE)
    assert _shares(plan, "a") == pytest.approx([1, 1])
    used = _shares(plan, "b") * np.array([30, 40, 40])
    assert used == pytest.approx(np.full(3, used[0]))
    assert plan.loads["n"].cost == pytest.approx(plan.loads["n"].limit)


def test_a_type_that_is_never_shed_is_kept_whole():
    """Even where it brings no match."""
    flags = np.array([False, True])
    first, second = _pair(first=0.02)
    model = _model([replace(first, protected=flags), second])
    for plan_settings in (BARE, FILLED):
        plan = make_plan(model, plan_settings)
        assert _shares(plan, "a")[1] == 1
        assert _cost(model, plan).fits


def test_types_never_shed_that_do_not_fit_are_named():
    """With how much of them must go."""
    flags = np.ones(2, np.bool_)
    model = _model([replace(_pair(first=0.02)[0], protected=flags)])
    with pytest.raises(InfeasibleError, match="never sheds type=0; shedding") as raised:
        make_plan(model, FILLED)
    assert "cannot all be met" in raised.value.problem


def test_a_sink_gets_its_least_rate():
    """Though it is not the best use of the time."""
    model = _model(_pair())
    free = make_plan(model, BARE)
    sinks = dict(model.sinks)
    sinks["to-b"] = replace(sinks["to-b"], min_rate=free.rates.sinks["to-b"] + 3)
    bound = make_plan(replace(model, sinks=sinks), BARE)
    assert bound.rates.sinks["to-b"] >= free.rates.sinks["to-b"] + 3 - 1e-6
    assert bound.objective < free.objective


def test_a_sink_gets_its_least_share():
    """Of what would come without shedding."""
    model = _model(_pair())
    sinks = dict(model.sinks)
    sinks["to-b"] = replace(sinks["to-b"], min_share=0.9)
    plan = make_plan(replace(model, sinks=sinks), BARE)
    assert plan.rates.sinks["to-b"] >= 0.9 * plan.unshed_rates.sinks["to-b"] - 1e-6


def test_constraints_that_cannot_be_met_are_named_with_what_can():
    """The message says which to lower and to what."""
    model = _model(_pair())
    sinks = dict(model.sinks)
    sinks["to-b"] = replace(sinks["to-b"], min_share=1.0)
    sinks["to-a"] = replace(sinks["to-a"], min_rate=30)
    with pytest.raises(InfeasibleError, match=r"sink 'to-[ab]' asks for at least 30 events/s"):
        make_plan(replace(model, sinks=sinks), BARE)


def test_constraints_do_not_matter_where_everything_fits():
    """Everything is kept, required or not."""
    model = _model(_pair(first=1e-6, second=1e-6))
    sinks = {name: replace(one, min_rate=1e9) for name, one in model.sinks.items()}
    plan = make_plan(replace(model, sinks=sinks), FILLED)
    assert all((shares == 1).all() for shares in plan.keep.values())


def _with_not(name, seconds):
    """SEQ(type=0, NOT(type=1), type=2)."""
    made = pattern("w", name, [0, 1, 2], [1, 0, 1], seconds)
    demand = made.demand
    watched = np.array([False, True, False])
    return replace(
        made,
        demand=MatchDemand(
            demand.uses,
            watched,
            demand.leaf_branch,
            demand.leaf_need,
            demand.entry_leaf,
            demand.entry_use,
        ),
        watches=True,
        switches=(made.stream,),
    )


@settings(max_examples=60)
@given(st.floats(0.001, 0.05), st.floats(0.001, 0.05), st.booleans())
def test_a_pattern_with_a_not_sees_all_it_watches_or_is_off(one, other, fill):
    """Half of what it watches would make it find what is not there."""
    model = _model([_with_not("a", one), pattern("w", "b", [2, 3], [1, 1], other)])
    plan = make_plan(model, PlanSettings(target=TARGET, fill=fill))
    shares = _shares(plan, "a")
    assert shares[1] == 1 or not shares.any()
    assert _cost(model, plan).fits
    best = 0.0
    for on in (0.0, 1.0):
        for of_a in np.linspace(0, 1, 21) * on:
            for of_b in np.linspace(0, 1, 21):
                rates = model.operators["w"].sources["s"]
                keep = {
                    Stream("a", "w"): np.array([min(1, of_a * 40 / 60), on, of_a]),
                    Stream("b", "w"): np.array([of_b, of_b]),
                }
                busy = sum(
                    float(rates[p.demand.uses] * keep[p.stream] @ p.seconds)
                    for p in model.operators["w"].patterns
                )
                if busy <= plan.loads["n"].limit:
                    best = max(best, 40 * of_a + 40 * of_b)
    assert plan.objective >= best * (1 - 1e-6)


def test_a_pattern_shed_by_key_has_one_share():
    """Partners survive together: matches come in proportion."""
    first, second = _pair()
    model = _model([replace(first, key="machine"), second])
    plan = make_plan(model, BARE)
    shares = _shares(plan, "a")
    assert len(set(shares.tolist())) == 1
    assert plan.rates.outputs[first.stream] == pytest.approx(30 * shares[0])
    assert _cost(model, plan).fits


def test_keys_shed_upstream_are_not_shed_again():
    """The kept sets of keys nest: the lesser share counts, not the product."""
    first = replace(pattern("w", "a", [0], [1], 0.02), key="machine")
    upstream = OperatorModel(
        name="w",
        node="n",
        types=("type=0",),
        sources={"s": np.array([100.0])},
        feeds={},
        patterns=(first,),
    )
    second = replace(pattern("v", "b", [0], [1], 0.025), key="machine")
    downstream = OperatorModel(
        name="v",
        node="m",
        types=("source=a",),
        sources={},
        feeds={first.stream: np.ones(1)},
        patterns=(second,),
    )
    model = application(
        [NodeModel(name="n", bound=1.0), NodeModel(name="m", bound=1.0)],
        [upstream, downstream],
        [SinkModel(name="k", stream=second.stream)],
    )
    plan = make_plan(model, BARE)
    low = min(float(plan.keep[first.stream][0]), float(plan.keep[second.stream][0]))
    assert plan.objective == pytest.approx(100 * low, rel=1e-6)
    assert plan.objective == pytest.approx(40 * 40 / 41, rel=0.02)


def test_transport_is_paid_once_for_an_event_that_several_patterns_keep():
    """So patterns that share types are the better buy."""
    patterns = [
        pattern("w", "a", [0, 1], [1, 1], 0.0033),
        pattern("w", "b", [0, 1], [1, 1], 0.0033),
        pattern("w", "c", [2, 3], [1, 1], 0.0033),
    ]
    rates = (50, 50, 50, 50)
    dear = _model(patterns, rates, transport=0.0033)
    plan = make_plan(dear, BARE)
    assert _shares(plan, "a") == pytest.approx([1, 1])
    assert _shares(plan, "b") == pytest.approx([1, 1])
    assert _shares(plan, "c") == pytest.approx([0, 0], abs=0.05)
    assert _cost(dear, plan).fits
    assert _cost(dear, make_plan(dear, FILLED)).fits


@pytest.mark.parametrize("is_planned", [True, False])
def test_an_event_that_is_reused_completes_several_matches(is_planned):
    """With REUSE there may be more matches than events: only events take time."""
    patterns = [replace(pattern("w", "a", [0, 1], [1, 1], 0.004), calibration=5.0)]
    model = _model(patterns, rates=(60, 60))
    operator = replace(model.operators["w"], capacity=100.0)
    model = replace(model, operators={"w": operator})
    if not is_planned:
        assert predict(model).outputs[Stream("a", "w")] == pytest.approx(300)
        return
    plan = make_plan(_model(patterns, rates=(200, 200)), BARE)
    kept = float(_shares(plan, "a")[0]) * 200
    assert plan.objective == pytest.approx(5 * kept)
    assert plan.loads["n"].cost == pytest.approx(plan.loads["n"].limit)


def test_ties_go_to_what_was_declared_first():
    """Two patterns that are alike: all to the first, not half to each."""
    patterns = [pattern("w", name, [i], [1], 0.01) for i, name in enumerate("abcd")]
    plan = make_plan(_model(patterns, rates=(50, 50, 50, 50)), BARE)
    shares = [float(_shares(plan, name)[0]) for name in "abcd"]
    assert shares[0] == pytest.approx(1)
    assert shares[1] == pytest.approx(1, abs=0.02)
    assert shares[2:] == pytest.approx([0, 0], abs=0.02)


def test_the_incumbent_stays_if_it_is_nearly_as_good():
    """And goes if it is not, or breaks the limit."""
    model = _model(_pair())
    plan = make_plan(model, FILLED)
    again = make_plan(model, FILLED, incumbent=plan.keep)
    assert again.keeps_incumbent
    assert all(np.array_equal(again.keep[s], plan.keep[s]) for s in plan.keep)
    worse = {stream: shares * 0.5 for stream, shares in plan.keep.items()}
    assert not make_plan(model, FILLED, incumbent=worse).keeps_incumbent
    too_much = {stream: np.ones_like(shares) for stream, shares in plan.keep.items()}
    assert not make_plan(model, FILLED, incumbent=too_much).keeps_incumbent


def test_the_price_is_what_one_more_millisecond_brings():
    """Compared with a plan that has it."""
    model = _model(_pair())
    plan = make_plan(model, BARE)
    wider = replace(TARGET, aim=1 - 1e-3)
    less = make_plan(model, replace(BARE, target=wider))
    gained = plan.objective - less.objective
    spent = (plan.loads["n"].limit - less.loads["n"].limit) * 1e3
    assert plan.prices["n"] == pytest.approx(gained / spent, rel=1e-3)


def test_a_backlog_takes_its_part_of_the_budget():
    """A queue beyond the bound is to be worked off within the horizon."""
    model = _model(_pair())
    queued = _model(_pair(), backlog=4.0)
    plan, later = make_plan(model, BARE), make_plan(queued, BARE)
    assert plan.loads["n"].limit - later.loads["n"].limit == pytest.approx(1.0 / 10)
    swamped = make_plan(_model(_pair(), backlog=400.0), FILLED)
    assert all(not shares.any() for shares in swamped.keep.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bottleneck": "m"}, "there is no node 'm'"),
        ({"bottleneck": "idle"}, "node 'idle' has no bound"),
        ({"bottleneck": "blank"}, "processing times of its patterns are not known"),
        ({"bottleneck": "dead-end"}, "no sink is reached from node 'dead-end'"),
    ],
)
def test_a_bottleneck_that_cannot_be_planned_is_an_error(change, message):
    """With a sentence that says why."""
    model = _model(_pair())
    names = {"idle": None, "blank": 1.0, "dead-end": 1.0}
    nodes = dict(model.nodes) | {n: NodeModel(name=n, bound=b) for n, b in names.items()}
    operators = dict(model.operators)
    for name, seconds in (("blank", None), ("dead-end", 0.5)):
        operators[name] = replace(
            operators["w"],
            name=name,
            node=name,
            patterns=(pattern(name, f"q-{name}", [0], [1], seconds),),
        )
    with pytest.raises(PlanError, match=message):
        make_plan(replace(model, nodes=nodes, operators=operators), replace(BARE, **change))


@pytest.mark.parametrize(
    ("target", "node", "message"),
    [
        (Target(), {"bound": 0.01}, "least feasible bound is more than 0.012 s"),
        (
            Target(latency=LatencyModel.MICRO_BATCH),
            {"bound": 1.0, "fixed": 0.8},
            "least feasible bound is more than 1.2 s",
        ),
        (
            Target(latency=LatencyModel.MICRO_BATCH),
            {"bound": 9.0, "fixed": 0.8, "reading": 0.01},
            "cannot keep any bound",
        ),
    ],
)
def test_a_bound_that_cannot_be_kept_is_an_error_with_the_least_that_can(target, node, message):
    """Whatever is shed."""
    model = _model(_pair(), **node)
    with pytest.raises(PlanError, match=message):
        make_plan(model, PlanSettings(target=target))


def test_a_solver_that_runs_out_of_time_gives_no_plan():
    """It is said, and nothing is planned."""
    program = LinearProgram()
    rng = np.random.default_rng(1)
    size = 300
    program.add_columns(size, cost=rng.uniform(1, 2, size), upper=1.0, integer=True)
    for _ in range(60):
        program.add_row(np.arange(size), rng.uniform(0, 1, size), upper=40.0)
    with pytest.raises(SolverError, match="ended without a plan"):
        program.solve(time_limit=0.01)

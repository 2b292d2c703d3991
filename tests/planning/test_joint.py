"""Several overloaded nodes planned at once: to the best there is, within every bound."""

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from shedlight.errors import PlanError
from shedlight.graph.application import Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.model import NodeModel, OperatorModel, SinkModel
from shedlight.model.rates import predict
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.planning.problem import PlanningProblem
from tests.planning.models import TARGETS, application, limits_of, models, pattern

BARE = PlanSettings(target=Target(latency=LatencyModel.MM1, aim=1.0), fill=False)


def _operator(name, node, patterns, source=(), feeds=None):
    size = len(source) or max(max(p.demand.uses) for p in patterns) + 1
    spreads = {}
    for stream, number in (feeds or {}).items():
        spreads[stream] = np.eye(size)[number]
    return OperatorModel(
        name=name,
        node=node,
        types=tuple(f"type={i}" for i in range(size)),
        sources={"s": np.array(source, float)} if len(source) else {},
        feeds=spreads,
        patterns=tuple(patterns),
    )


def _nodes(*bounds):
    return [NodeModel(name=f"n{i}", bound=bound) for i, bound in enumerate(bounds)]


def _in_line():
    """Three nodes in line; each sheds what the one before it lets through."""
    first = _operator(
        "a",
        "n0",
        [pattern("a", "p", [0], [1], 0.02), pattern("a", "q", [1], [1], 0.03)],
        [40, 30],
    )
    second = _operator(
        "b",
        "n1",
        [pattern("b", "r", [0, 1], [1, 1], 0.025)],
        feeds={Stream("p", "a"): 0, Stream("q", "a"): 1},
    )
    third = _operator(
        "c", "n2", [pattern("c", "s", [0], [1], 0.08)], feeds={Stream("r", "b"): 0}
    )
    sinks = [SinkModel(name="k", stream=Stream("s", "c"))]
    return application(_nodes(0.5, 0.5, 0.5), [first, second, third], sinks)


def _in_parallel():
    """Two nodes side by side, a third that needs one of each."""
    one = _operator(
        "a", "n0", [pattern("a", "p", [0], [1], 0.03), pattern("a", "q", [0], [2], 0.02)], [45]
    )
    two = _operator("b", "n1", [pattern("b", "r", [0], [1], 0.05)], [35])
    join = _operator(
        "c",
        "n2",
        [pattern("c", "s", [0, 1], [1, 1]), pattern("c", "t", [2], [1])],
        feeds={Stream("p", "a"): 0, Stream("r", "b"): 1, Stream("q", "a"): 2},
    )
    sinks = [
        SinkModel(name="k", stream=Stream("s", "c"), weight=2.0),
        SinkModel(name="l", stream=Stream("t", "c"), weight=1.5),
    ]
    return application(_nodes(0.5, 1.0, None), [one, two, join], sinks)


def _diamond():
    """One node feeds two, which feed a fourth; all but the last are overloaded."""
    top = _operator(
        "a", "n0", [pattern("a", "p", [0], [1], 0.02), pattern("a", "q", [0], [1], 0.025)], [50]
    )
    left = _operator(
        "b", "n1", [pattern("b", "r", [0], [1], 0.06)], feeds={Stream("p", "a"): 0}
    )
    right = _operator(
        "c", "n2", [pattern("c", "s", [0], [1], 0.05)], feeds={Stream("q", "a"): 0}
    )
    bottom = _operator(
        "d",
        "n3",
        [pattern("d", "t", [0, 1], [1, 1])],
        feeds={Stream("r", "b"): 0, Stream("s", "c"): 1},
    )
    sinks = [
        SinkModel(name="k", stream=Stream("t", "d")),
        SinkModel(name="l", stream=Stream("r", "b"), weight=0.3),
    ]
    return application(_nodes(0.5, 0.7, 0.4, None), [top, left, right, bottom], sinks)


GRAPHS = {"line": _in_line, "parallel": _in_parallel, "diamond": _diamond}


@pytest.mark.parametrize("name", GRAPHS)
def test_joint_planning_is_as_good_as_a_grid(name):
    """No point of a grid over all shares is better, and the best of them comes near."""
    model = GRAPHS[name]()
    plan = make_plan(model, BARE)
    assert len(plan.nodes) >= 2
    problem = PlanningProblem(model, limits_of(model, BARE.target), plan.nodes)
    assert problem.evaluate(plan.keep).fits
    places = [(s, i) for s in plan.keep for i in range(len(plan.keep[s]))]
    best = 0.0
    steps = np.linspace(0, 1, {3: 31, 4: 13, 5: 9}[len(places)])
    for shares in product(steps, repeat=len(places)):
        keep = {s: np.zeros(len(plan.keep[s])) for s in plan.keep}
        for (stream, i), share in zip(places, shares, strict=True):
            keep[stream][i] = share
        candidate = problem.evaluate(keep)
        if candidate.fits:
            best = max(best, problem.value(candidate.rates))
    assert best <= plan.objective * (1 + 1e-6)
    assert best >= plan.objective * 0.85


def _sequence(model, order, target):
    """Plan one node after the other, each with what the others do by then."""
    limits = limits_of(model, target)
    keep: dict[Stream, Any] = {}
    for name in order:
        problem = PlanningProblem(model, limits, (name,))
        now = predict(model, keep, list(limits))
        fixed = _with_outputs(model, now.outputs, name)
        try:
            plan = make_plan(fixed, PlanSettings(target=target, bottleneck=name, fill=False))
        except PlanError:  # no sink behind it
            continue
        here = {p.stream for p in problem.patterns_on(name)}
        keep |= {stream: shares for stream, shares in plan.keep.items() if stream in here}
    problem = PlanningProblem(model, limits, tuple(limits))
    candidate = problem.evaluate(keep)
    return problem.value(candidate.rates) if candidate.fits else 0.0


def _with_outputs(model, outputs, node):
    """Fix what the patterns of other nodes emit."""
    operators = {}
    for name, one in model.operators.items():
        patterns = one.patterns
        if one.node != node:
            patterns = tuple(replace(p, measured=outputs[p.stream]) for p in patterns)
        operators[name] = replace(one, patterns=patterns)
    return replace(model, operators=operators)


@settings(max_examples=150)
@given(models(bounded=2), TARGETS)
def test_joint_planning_is_never_below_a_sequence_of_single_plans(model, target):
    """Whatever the order."""
    assume(target.latency is not LatencyModel.MG1 or _is_wide(model))
    plan = make_plan(model, PlanSettings(target=target, fill=False))
    problem = PlanningProblem(model, limits_of(model, target), plan.nodes)
    assert problem.evaluate(plan.keep).fits
    for order in permutations(plan.nodes):
        assert _sequence(model, order, target) <= plan.objective * (1 + 1e-6) + 1e-9


def _is_wide(model):
    """Whether bounds are well above the time that a single event takes."""
    for node in model.nodes.values():
        longest = sum(
            p.seconds.max() for o in model.operators_on(node.name) for p in o.patterns
        )
        if node.bound is not None and node.bound < 4 * longest:
            return False
    return True

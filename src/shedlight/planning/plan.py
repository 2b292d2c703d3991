"""A plan: from a model of the application and its bounds to the shares that patterns keep."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.errors import PlanError, known_names
from shedlight.model.latency import Limit, Target, check_feasible, limit_of
from shedlight.model.load import NodeLoad
from shedlight.model.model import Keep, Model
from shedlight.model.rates import Rates, changeable
from shedlight.model.sampled.draw import RateHistory
from shedlight.model.sampled.windows import WindowSample
from shedlight.planning.fill import spend_budget
from shedlight.planning.infeasible import explain_infeasible
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.reduced_lp import solve_reduced
from shedlight.planning.search import local_search, sample_for, value_of
from shedlight.planning.shares import to_shares

KEEP_INCUMBENT_RATIO = 0.99
"""A plan in force stays if it brings this share of the optimum."""
_NEARLY = 1 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """How to plan.

    Attributes:
        target: How bounds are kept.
        bottleneck: The node to plan; None: all that are over their limits, together.
        local: Whether to maximise the output of the planned nodes and not that of the sinks.
        fill: Whether to spend what is left of the budget.
        windows: Whether to try plans on the window-aware model where streams are sparse.
        time_limit: How long the solver may take, in seconds.
    """

    target: Target = field(default_factory=Target)
    bottleneck: str | None = None
    local: bool = False
    fill: bool = True
    windows: bool = True
    time_limit: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Which share of which type each pattern keeps, and what comes of it.

    Attributes:
        keep: The shares, of the patterns on nodes that have a limit; others keep all.
        nodes: The nodes that are planned; empty if everything fits.
        stays: Whether it is the plan in force, because a new one would bring hardly more.
        before: The rates without shedding, as measured where they were.
        rates: The rates with it.
        work: How busy each node with a limit is with it.
        unshed: How busy each would be without.
        objective: What it brings: the weighted rate at the sinks, or the output of the nodes.
        prices: What one more busy millisecond per second of a node would bring.
        seconds: How long it took to make.
    """

    keep: Keep
    nodes: tuple[str, ...]
    stays: bool = False
    before: Rates
    rates: Rates
    work: Mapping[str, NodeLoad]
    unshed: Mapping[str, NodeLoad]
    objective: float
    prices: Mapping[str, float]
    seconds: float


def make_plan(
    model: Model,
    wanted: PlanSettings | None = None,
    *,
    incumbent: Keep | None = None,
    course: RateHistory | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Find the shares that bring the most while every node keeps its bound.

    If everything fits, everything is kept.

    Args:
        model: The application at a moment.
        wanted: How to plan.
        incumbent: The shares in force, if there are any.
        course: How rates went of late, if that is known.
        clock: Says how long it takes.

    Raises:
        InfeasibleError: The wishes cannot all be met.
        PlanError: The bottleneck is none, a bound cannot be kept, or the solver failed.
    """
    wanted = wanted or PlanSettings()
    began = clock()
    scope = _scope(model, wanted)
    draft = scope.everything
    unshed = draft.works
    nodes = _overloaded(unshed, wanted)
    prices: Mapping[str, float] = dict.fromkeys(scope.limits, 0.0)
    stays = False
    while nodes:
        scope = scope if nodes == scope.nodes else replace(scope, nodes=nodes)
        draft, prices, stays = _solved(scope, wanted, incumbent, course)
        more = [n for n in scope.limits if n not in nodes and not draft.works[n].fits]
        if wanted.bottleneck is not None or not more:
            break
        nodes = (*nodes, *more)
    return Plan(
        keep=_completed(scope, draft.keep),
        nodes=nodes,
        stays=stays,
        before=_before(scope),
        rates=draft.rates,
        work=draft.works,
        unshed=unshed,
        objective=scope.value(draft.rates),
        prices={name: prices.get(name, 0.0) / 1e3 for name in scope.limits},
        seconds=clock() - began,
    )


def _before(scope: PlanningProblem) -> Rates:
    """Give the rates before a plan: what was measured stands."""
    if all(pattern.measured is None for pattern in scope.model.patterns.values()):
        return scope.unshed
    return replace(scope, nodes=()).unshed


def _scope(model: Model, wanted: PlanSettings) -> PlanningProblem:
    """Find the limits of all nodes, and check what was asked for."""
    limits: dict[str, Limit] = {}
    for node in model.nodes.values():
        limit = limit_of(model, node, wanted.target)
        if limit is not None:
            limits[node.name] = limit
    name = wanted.bottleneck
    nodes: tuple[str, ...] = ()
    if name is not None:
        _check_bottleneck(model, limits, wanted)
        nodes = (name,)
    scope = PlanningProblem(model, limits, nodes or tuple(limits), wanted.local)
    for one in scope.nodes:
        check_feasible(limits[one], limits[one].arrivals.at(scope.unshed.outputs)[1])
    return scope


def _check_bottleneck(model: Model, limits: Mapping[str, Limit], wanted: PlanSettings) -> None:
    name = str(wanted.bottleneck)
    if name not in model.nodes:
        raise PlanError(f"there is no node {name!r}; {known_names(name, model.nodes)}")
    if model.nodes[name].bound is None:
        raise PlanError(f"node {name!r} has no bound, so it needs no plan; give it one")
    if name not in limits:
        raise PlanError(
            f"node {name!r} has no limit: the processing times of its patterns are not known; "
            "add them to the snapshot under processing_time"
        )
    changed = changeable(model, [name])
    if not wanted.local and not any(s.stream in changed for s in model.sinks.values()):
        raise PlanError(
            f"no sink is reached from node {name!r}, so no plan for it is better than another; "
            "plan it for its own output (local), or plan another node"
        )


def _overloaded(unshed: Mapping[str, NodeLoad], wanted: PlanSettings) -> tuple[str, ...]:
    if wanted.bottleneck is None:
        return tuple(name for name, work in unshed.items() if not work.fits)
    return () if unshed[wanted.bottleneck].fits else (wanted.bottleneck,)


def _completed(scope: PlanningProblem, keep: Keep) -> Keep:
    """Keep everything wherever there is a limit and nothing is said."""
    patterns = [pattern for node in scope.limits for pattern in scope.patterns_on(node)]
    return {
        one.stream: keep[one.stream] if one.stream in keep else np.ones(len(one.needs.uses))
        for one in patterns
    }


def _solved(
    scope: PlanningProblem,
    wanted: PlanSettings,
    incumbent: Keep | None,
    course: RateHistory | None,
) -> tuple[CandidatePlan, Mapping[str, float], bool]:
    """Solve for the planned nodes: the plan, the prices, and whether the old plan stays."""
    optimum = solve_reduced(
        scope.model,
        scope.planned,
        local=scope.local,
        unshed=scope.unshed,
        time_limit=wanted.time_limit,
    )
    if optimum is None:
        raise explain_infeasible(scope, wanted.time_limit)
    draft = to_shares(scope, optimum)
    if wanted.fill:
        on = frozenset(stream for stream, is_on in optimum.on.items() if is_on)
        draft = spend_budget(scope, draft, on)
    sample = sample_for(scope, course) if wanted.windows and wanted.fill else None
    if sample is not None:
        draft, stays = _tried(scope, sample, draft, incumbent)
        return draft, optimum.prices, stays
    old = None if incumbent is None else _still_good(scope, incumbent, draft)
    return old or draft, optimum.prices, old is not None


def _tried(
    scope: PlanningProblem, sample: WindowSample, draft: CandidatePlan, incumbent: Keep | None
) -> tuple[CandidatePlan, bool]:
    """Improve a plan on the window-aware model, unless the one in force is as good."""
    old = None if incumbent is None else _in_force(scope, incumbent, draft)
    best = local_search(scope, sample, draft, () if old is None else (old,))
    if old is None or value_of(sample, old.keep) < KEEP_INCUMBENT_RATIO * value_of(
        sample, best.keep
    ):
        return best, False
    return old, True


def _still_good(
    scope: PlanningProblem, incumbent: Keep, best: CandidatePlan
) -> CandidatePlan | None:
    """Give the plan in force if it still keeps what it must and is near the best."""
    draft = _in_force(scope, incumbent, best)
    if draft is None or scope.value(draft.rates) < KEEP_INCUMBENT_RATIO * scope.value(
        best.rates
    ):
        return None
    return draft


def _in_force(
    scope: PlanningProblem, incumbent: Keep, best: CandidatePlan
) -> CandidatePlan | None:
    """Give the plan in force if it keeps the limits of the planned nodes, and the wishes."""
    if any(
        stream not in incumbent or len(incumbent[stream]) != len(shares)
        for stream, shares in best.keep.items()
    ):
        return None
    draft = scope.draft({stream: incumbent[stream] for stream in best.keep})
    keeps = all(draft.works[name].fits for name in scope.nodes)
    return draft if keeps and _are_met(scope, draft.rates) else None


def _are_met(scope: PlanningProblem, rates: Rates) -> bool:
    """Whether every sink gets the least that is wished for it."""
    return all(
        rates.sinks[sink.name] >= _NEARLY * max(sink.min_rate, sink.min_share * unshed)
        for sink in scope.model.sinks.values()
        for unshed in [scope.unshed.sinks[sink.name]]
    )

"""A plan: from a model of the application and its bounds to the shares that patterns keep."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.errors import PlanError, known_names
from shedlight.graph.application import Stream
from shedlight.model.latency import Limit, Target, check_feasible, node_limit
from shedlight.model.link import LinkLoad
from shedlight.model.load import NodeLoad
from shedlight.model.model import Keep, Model
from shedlight.model.rates import Rates, changeable
from shedlight.model.sampled.draw import RateHistory
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.strata import ExpandedModel, StratumPlan, copy_stream, expand_strata
from shedlight.planning.fill import spend_budget
from shedlight.planning.infeasible import explain_infeasible
from shedlight.planning.lp_rows import required_rate
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.reduced_lp import solve_reduced
from shedlight.planning.search import local_search, sample_problem, sampled_value
from shedlight.planning.shares import to_shares
from shedlight.planning.trial import Trial, can_try, try_ways
from shedlight.planning.watchers import WatcherPlan, plan_watchers

_MAX_TRIALS = 6  # of how many patterns ways to shed keys are tried for a plan
KEEP_INCUMBENT_RATIO = 0.99  # the incumbent is kept if it brings this share of the best plan
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
        keeps_incumbent: Whether it is the active plan, as a new one would bring hardly more.
        unshed_rates: The rates without shedding, as measured where they were.
        rates: The rates with it.
        loads: How busy each node with a limit is with it.
        unshed_loads: How busy each would be without.
        objective: What it brings: the weighted rate at the sinks, or the output of the nodes.
        prices: What one more busy millisecond per second of a node would bring, or one more
            kilobyte per second of a link.
        links: What goes over each link with it.
        unshed_links: What would without.
        watchers: What it does with each watcher: on, off, or a share of the keys; and why.
        strata: What patterns keep of each stratum of their keys, where there are strata; `keep`
            has the mean share then.
        trials: What came of each way to shed strata on the histories of keys, by pattern.
        seconds: How long it took to make.
    """

    keep: Keep
    nodes: tuple[str, ...]
    keeps_incumbent: bool = False
    unshed_rates: Rates
    rates: Rates
    loads: Mapping[str, NodeLoad]
    unshed_loads: Mapping[str, NodeLoad]
    objective: float
    prices: Mapping[str, float]
    links: Mapping[str, LinkLoad] = field(default_factory=dict)
    unshed_links: Mapping[str, LinkLoad] = field(default_factory=dict)
    watchers: tuple[WatcherPlan, ...] = ()
    strata: Mapping[Stream, tuple[StratumPlan, ...]] = field(default_factory=dict)
    trials: Mapping[Stream, Trial] = field(default_factory=dict)
    seconds: float


def make_plan(
    model: Model,
    settings: PlanSettings | None = None,
    *,
    incumbent: Keep | None = None,
    history: RateHistory | None = None,
    key_histories: Mapping[str, KeyHistory] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Find the shares that bring the most while every node keeps its bound.

    If everything fits, everything is kept.

    Args:
        model: The application at a moment.
        settings: How to plan.
        incumbent: The shares of the active plan, if there is one; where there are strata,
            those of the copies of patterns.
        history: How rates were lately, if that is known.
        key_histories: The histories of a sample of the keys of operators that have strata, on
            which the ways to shed them are tried.
        clock: Says how long it takes.

    Raises:
        InfeasibleError: The constraints cannot all be met.
        PlanError: The bottleneck is none, a bound cannot be kept, or the solver failed.
    """
    if model.strata:
        return _plan_strata(model, settings, incumbent, key_histories or {}, clock)
    settings = settings or PlanSettings()
    began = clock()
    problem = _planning_problem(model, settings)
    candidate = problem.everything
    unshed = candidate
    nodes = _overloaded(problem, settings)
    prices: Mapping[str, float] = dict.fromkeys(problem.limits, 0.0)
    keeps_incumbent = False
    while nodes:
        problem = problem if nodes == problem.nodes else replace(problem, nodes=nodes)
        candidate, prices, keeps_incumbent = _solve(problem, settings, incumbent, history)
        more = [name for name in problem.over(candidate) if name not in nodes]
        if settings.bottleneck is not None or not more:
            break
        nodes = (*nodes, *more)
    return Plan(
        keep=_complete(problem, candidate.keep),
        nodes=nodes,
        keeps_incumbent=keeps_incumbent,
        unshed_rates=_unshed_rates(problem),
        rates=candidate.rates,
        loads=candidate.loads,
        unshed_loads=unshed.loads,
        links=candidate.links,
        unshed_links=unshed.links,
        objective=problem.value(candidate.rates),
        prices={
            **{name: prices.get(name, 0.0) / 1e3 for name in problem.limits},
            **{name: prices.get(name, 0.0) * 1e3 for name in candidate.links},
        },
        watchers=plan_watchers(problem, candidate),
        seconds=clock() - began,
    )


def _plan_strata(
    model: Model,
    settings: PlanSettings | None,
    incumbent: Keep | None,
    key_histories: Mapping[str, KeyHistory],
    clock: Callable[[], float],
) -> Plan:
    """Plan the copies that patterns have for strata, try ways, and put them together again."""
    began = clock()
    expanded = expand_strata(model)
    plan = make_plan(expanded.model, settings, incumbent=incumbent, clock=clock)
    planned = expanded.plans(plan.keep, plan.rates)
    trials = dict(_trials(expanded, planned, key_histories)) if plan.nodes else {}
    strata = {**planned, **{stream: trial.plans for stream, trial in trials.items()}}
    keep = {
        **plan.keep,
        **{
            copy_stream(stream, each.name): each.keep
            for stream in trials
            for each in strata[stream]
        },
    }
    return replace(
        plan,
        keep=expanded.merge_keep(keep, plan.rates),
        keeps_incumbent=plan.keeps_incumbent and not trials,
        unshed_rates=expanded.merge_rates(plan.unshed_rates),
        rates=expanded.merge_rates(plan.rates),
        strata=strata,
        trials=trials,
        seconds=clock() - began,
    )


def _trials(
    expanded: ExpandedModel,
    planned: Mapping[Stream, tuple[StratumPlan, ...]],
    histories: Mapping[str, KeyHistory],
) -> Iterator[tuple[Stream, Trial]]:
    """Try the ways to shed the strata of patterns of which there are histories.

    Of many patterns those are tried of which most is shed.
    """
    model, patterns = expanded.source, expanded.source.patterns
    tried = [
        stream
        for stream in planned
        if str(stream.operator) in histories and can_try(model, patterns[stream])
    ]
    shed = {s: sum(each.rate * (1 - each.keep.mean()) for each in planned[s]) for s in tried}
    tried = sorted(tried, key=lambda stream: -shed[stream])[:_MAX_TRIALS]
    for stream in tried:
        operator = model.operators[str(stream.operator)]
        history, plans = histories[operator.name], planned[stream]
        trial = try_ways(operator, patterns[stream], plans, history, len(tried))
        if trial is not None:
            yield stream, trial


def _unshed_rates(problem: PlanningProblem) -> Rates:
    """Give the rates before a plan: what was measured stands."""
    if all(pattern.measured is None for pattern in problem.model.patterns.values()):
        return problem.unshed
    return replace(problem, nodes=()).unshed


def _planning_problem(model: Model, settings: PlanSettings) -> PlanningProblem:
    """Find the limits of all nodes, and check what was asked for."""
    limits: dict[str, Limit] = {}
    for node in model.nodes.values():
        limit = node_limit(model, node, settings.target)
        if limit is not None:
            limits[node.name] = limit
    nodes = tuple(limits)
    if settings.bottleneck is not None:
        _check_bottleneck(model, limits, settings.bottleneck, local=settings.local)
        nodes = (settings.bottleneck,)
    problem = PlanningProblem(model, limits, nodes, settings.local, settings.target.aim)
    for name in nodes:
        check_feasible(limits[name], limits[name].arrivals.at(problem.unshed.outputs)[1])
    return problem


def _check_bottleneck(
    model: Model, limits: Mapping[str, Limit], name: str, *, local: bool
) -> None:
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
    if not local and not any(s.stream in changed for s in model.sinks.values()):
        raise PlanError(
            f"no sink is reached from node {name!r}, so no plan for it is better than another; "
            "plan it for its own output (local), or plan another node"
        )


def _overloaded(problem: PlanningProblem, settings: PlanSettings) -> tuple[str, ...]:
    over = problem.over(problem.everything)
    if settings.bottleneck is None:
        return tuple(over)
    return (settings.bottleneck,) if settings.bottleneck in over else ()


def _complete(problem: PlanningProblem, keep: Keep) -> Keep:
    """Keep everything wherever there is a limit and nothing is said."""
    patterns = [pattern for node in problem.limits for pattern in problem.patterns_on(node)]
    return {
        p.stream: keep[p.stream] if p.stream in keep else np.ones(len(p.demand.uses))
        for p in patterns
    }


def _solve(
    problem: PlanningProblem,
    settings: PlanSettings,
    incumbent: Keep | None,
    history: RateHistory | None,
) -> tuple[CandidatePlan, Mapping[str, float], bool]:
    """Solve for the planned nodes: plan, prices, and whether it is the incumbent."""
    solution = solve_reduced(
        problem.model,
        problem.planned,
        local=problem.local,
        unshed=problem.unshed,
        time_limit=settings.time_limit,
        aim=problem.aim,
    )
    if solution is None:
        raise explain_infeasible(problem, settings.time_limit)
    best = to_shares(problem, solution)
    if settings.fill:
        best = spend_budget(problem, best, solution.on)
    old = None if incumbent is None else _usable(problem, incumbent, best)
    sample = sample_problem(problem, history) if settings.windows and settings.fill else None
    if sample is not None:
        best = local_search(problem, sample, best, old)

    def value(plan: CandidatePlan) -> float:
        return problem.value(plan.rates) if sample is None else sampled_value(sample, plan.keep)

    if old is not None and value(old) >= KEEP_INCUMBENT_RATIO * value(best):
        return old, solution.prices, True
    return best, solution.prices, False


def _usable(
    problem: PlanningProblem, incumbent: Keep, best: CandidatePlan
) -> CandidatePlan | None:
    """Give the incumbent if it keeps the planned nodes' limits and the constraints."""
    if any(
        stream not in incumbent or len(incumbent[stream]) != len(shares)
        for stream, shares in best.keep.items()
    ):
        return None
    candidate = problem.evaluate({stream: incumbent[stream] for stream in best.keep})
    is_usable = set(problem.nodes).isdisjoint(problem.over(candidate)) and all(
        candidate.rates.sinks[sink.name] >= _NEARLY * required_rate(sink, problem.unshed)
        for sink in problem.model.sinks.values()
    )
    return candidate if is_usable else None

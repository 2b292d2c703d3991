"""Load assessment: the work that arrives at each node, and what the active plan keeps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.control.calibration import Factors
from shedlight.control.observation import Observation
from shedlight.errors import PlanError
from shedlight.graph.application import Stream, bound_kind
from shedlight.model.arrays import Floats
from shedlight.model.latency import Limit, Target, check_feasible, node_limit
from shedlight.model.link import link_loads, sent_over
from shedlight.model.load import node_load
from shedlight.model.model import Keep, Model
from shedlight.model.rates import Rates, changeable, predict
from shedlight.model.strata import copy_stream, expand_strata
from shedlight.model.stratum_split import REST
from shedlight.shedding.shares import PatternShares, Shares

_MIN_BUDGET = 0.1
"""The least share of its limit that a node's budget is taken to be, when loads are compared."""

_KEEPS_ALL = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class PlanBaseline:
    """What a plan is made for: if none of it moves, no other plan would come of it."""

    # for each node with a limit, the work without shedding over its budget, which is its limit
    # less what a backlog takes
    demand: Mapping[str, float]
    # for each operator the share of each type in what arrives; not where that is what patterns
    # emit that a plan can change, for then it follows from the rest
    types: Mapping[str, Mapping[str, float]]
    events: Mapping[str, float]  # how many events of an operator the shares are from
    factors: Factors  # what patterns yield
    # for each node with a limit, the part of it that a backlog takes
    backlog_reserve: Mapping[str, float] = field(default_factory=dict)
    # complex events of patterns that no plan can change, for the interval, where they are
    # matched with what a plan can change
    fixed_partner_outputs: Mapping[Stream, float] = field(default_factory=dict)
    # for each node with a limit, the events per second that arrive there
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeAssessment:
    """The load of a node with a limit, under the active plan."""

    name: str  # its name
    bound: float  # its bound, in seconds
    percentile: int | None  # of which percentile that is; None: of the mean
    mean: float  # the mean latency that the bound allows, in seconds
    load: float  # busy time over the limit, as observed or as predicted, whichever is more
    busy_limit: float  # the limit, in busy seconds per second
    latency: float  # mean seconds that an event spent there; 0 if it was not observed
    backlog: float  # busy seconds that are queued
    sheds: bool  # whether a pattern there sheds a type that arrives
    events: float  # how many events arrived there in the interval
    rate: float  # how many that were per second

    @property
    def allowance(self) -> str:
        """What the mean latency may be, as text."""
        bound = f"its bound {self.bound:g} s {bound_kind(self.percentile)}"
        return bound if self.percentile is None else f"{bound} allows {self.mean:.3g} s"


@dataclass(frozen=True, slots=True)
class LoadAssessment:
    """The load of an application."""

    nodes: Mapping[str, NodeAssessment]  # the nodes that have a limit
    baseline: PlanBaseline  # what a plan would be made for
    infeasible: Mapping[str, str]  # nodes whose bound cannot be kept whatever is shed, and why
    # complex events per second at each sink, as the active plan predicts
    sinks: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, NodeAssessment] = field(default_factory=dict)  # as of a node, of links


def keep_arrays(model: Model, shares: Shares) -> Keep:
    """Number the types of active shares as a model does; a new type has the mean share.

    Where there are strata, they are those of the copies of patterns.
    """
    keep = {}
    for operator in model.operators.values():
        for pattern in operator.patterns:
            if pattern.stream not in shares:
                continue
            mine = shares[pattern.stream]
            labels = [operator.types[use] for use in pattern.demand.uses]
            if operator.name not in model.strata:
                keep[pattern.stream] = _keep(labels, mine)
                continue
            for name in model.strata[operator.name].names:
                stratum = mine.strata.get(name) or mine.strata.get(REST)
                known = mine if stratum is None else PatternShares(stratum.shares)
                keep[copy_stream(pattern.stream, name)] = _keep(labels, known)
    return keep


def has_planned_strata(model: Model, shares: Shares) -> bool:
    """Whether shares are for the strata that a model has."""
    return all(
        set(strata.names) == set(shares[pattern.stream].strata)
        for name, strata in model.strata.items()
        for pattern in model.operators[name].patterns
        if pattern.stream in shares
    )


def _keep(labels: list[str], shares: PatternShares) -> Floats:
    mean = shares.mean
    return np.array([shares.shares.get(label, mean) for label in labels], np.float64)


def assess(
    observation: Observation, model: Model, target: Target, shares: Shares, factors: Factors
) -> LoadAssessment:
    """Assess the load of each node under the active shares."""
    strata = expand_strata(model)
    expanded = strata.model
    unbound = predict(expanded, None, [n.name for n in model.nodes.values() if n.bound])
    limits, infeasible = _limits(expanded, target, unbound)
    keep, interval = keep_arrays(model, shares), observation.interval
    shed, unshed = predict(expanded, keep, limits), predict(expanded, None, limits)
    events = {name: float(rates.sum()) * interval for name, rates in unshed.arrivals.items()}
    nodes = {
        name: _assess_node(observation, expanded, limit, shed, keep, events)
        for name, limit in limits.items()
    }
    demand = {name: _demand(expanded, limit, unshed) for name, limit in limits.items()}
    links = _assess_links(observation, expanded, shed, nodes)
    unshed_links = link_loads(expanded, unshed, target.aim)
    demand |= {name: load.rate / load.limit for name, load in unshed_links.items()}
    if model.strata:  # what a plan is made for, whatever the strata are
        unshed = predict(model, None, limits)
    changed = changeable(model, limits)
    baseline = PlanBaseline(
        demand=demand,
        types={
            name: _shares(operator.types, unshed.arrivals[name])
            for name, operator in model.operators.items()
            if changed.isdisjoint(operator.feeds)
        },
        events=events,
        factors=dict(factors),
        backlog_reserve={name: limit.backlog_share for name, limit in limits.items()},
        fixed_partner_outputs={
            stream: unshed.outputs[stream] * interval
            for operator in model.operators.values()
            if not changed.isdisjoint(operator.feeds)
            for stream in operator.feeds
            if stream not in changed
        },
        rates={name: node.rate for name, node in (*nodes.items(), *links.items())},
    )
    return LoadAssessment(nodes, baseline, infeasible, strata.merge_rates(shed).sinks, links)


def _assess_links(
    observation: Observation, model: Model, rates: Rates, nodes: Mapping[str, NodeAssessment]
) -> dict[str, NodeAssessment]:
    """Assess what goes over each link under the active shares, as observed or as predicted."""
    assessed = {}
    predicted = link_loads(model, rates, aim=1.0)
    for link in model.links:
        sent = list(sent_over(model, link))
        events = sum(observation.outputs.get(stream, 0.0) for stream, _ in sent)
        seen = sum(observation.outputs.get(stream, 0.0) * size for stream, size in sent)
        assessed[link.name] = NodeAssessment(
            name=link.name,
            bound=math.inf,
            percentile=None,
            mean=math.inf,
            load=max(predicted[link.name].rate, seen) / link.capacity,
            busy_limit=link.capacity,
            latency=0.0,
            backlog=0.0,
            sheds=link.node in nodes and nodes[link.node].sheds,
            events=events * observation.interval,
            rate=events,
        )
    return assessed


def _limits(
    model: Model, target: Target, unshed: Rates
) -> tuple[Mapping[str, Limit], Mapping[str, str]]:
    """Find the limit of each node that can have one, and what is wrong with the others."""
    limits: dict[str, Limit] = {}
    problems: dict[str, str] = {}
    for node in model.nodes.values():
        try:
            limit = node_limit(model, node, target)
            if limit is not None:
                check_feasible(limit, limit.arrivals.at(unshed.outputs)[1])
                limits[node.name] = limit
        except PlanError as error:
            problems[node.name] = str(error)
    return limits, problems


def _whole_limit(limit: Limit) -> Limit:
    """Give all that a bound allows: no aim below it, and no backlog to work off."""
    node, target = replace(limit.node, backlog=0.0), replace(limit.target, aim=1.0)
    return replace(limit, node=node, target=target)


def _demand(model: Model, limit: Limit, unshed: Rates) -> float:
    work = node_load(model, limit, unshed)
    full = node_load(model, _whole_limit(limit), unshed).limit
    budget = max(work.limit, _MIN_BUDGET * full)
    return work.cost / budget if budget else 0.0


def _assess_node(
    observation: Observation,
    model: Model,
    limit: Limit,
    rates: Rates,
    keep: Keep,
    unshed_events: Mapping[str, float],
) -> NodeAssessment:
    name = limit.node.name
    predicted = node_load(model, _whole_limit(limit), rates)
    busy = observation.busy.get(name, 0.0)
    busy_limit = predicted.busy_limit / limit.node.boost
    operators = model.operators_on(name)
    events = sum(unshed_events[operator.name] for operator in operators)
    return NodeAssessment(
        name=name,
        bound=limit.bound,
        percentile=limit.node.percentile,
        mean=limit.mean,
        load=max(
            predicted.cost / predicted.limit if predicted.limit else 0.0,
            busy / busy_limit if busy_limit else 0.0,
        ),
        busy_limit=busy_limit,
        latency=observation.latency.get(name, 0.0),
        backlog=limit.node.backlog,
        sheds=any(
            _sheds(keep[pattern.stream], rates.arrivals[operator.name][pattern.demand.uses])
            for operator in operators
            for pattern in operator.patterns
            if pattern.stream in keep
        ),
        events=events,
        rate=events / observation.interval,
    )


def _sheds(shares: Floats, arrivals: Floats) -> bool:
    return bool(((shares < _KEEPS_ALL) & (arrivals > 0)).any())


def _shares(labels: tuple[str, ...], arrivals: Floats) -> Mapping[str, float]:
    total = float(arrivals.sum())
    return dict(zip(labels, (arrivals / total).tolist(), strict=True)) if total else {}


def streams_that_shed(shares: Shares) -> frozenset[Stream]:
    """Find the patterns that shed anything."""
    return frozenset(
        stream
        for stream, pattern in shares.items()
        if any(share < _KEEPS_ALL for share in pattern.shares.values())
    )

"""Where each node stands: what is asked of it, and what the plan in force makes of that."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.control.calibration import Factors
from shedlight.control.observation import Observation
from shedlight.errors import PlanError
from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats
from shedlight.model.latency import Limit, Target, check_feasible, node_limit
from shedlight.model.load import node_load
from shedlight.model.model import Keep, Model
from shedlight.model.rates import Rates, changeable, predict
from shedlight.shedding.shares import PatternShares, Shares

_LEAST_BUDGET = 0.1
"""The least share of its limit that a node's budget is taken to be, when loads are compared."""

_EVERYTHING = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class PlanBaseline:
    """What a plan is made for: if none of it moves, no other plan would come of it.

    Attributes:
        asked: For each node with a limit, the work without shedding over its budget, which is
            its limit less what a backlog takes.
        types: For each operator the share of each type in what arrives; not where that is
            what patterns emit that a plan can change, for then it follows from the rest.
        events: How many events of an operator the shares are from.
        factors: What patterns yield.
        spared: For each node with a limit, the part of it that a backlog takes.
        partners: Complex events of patterns that no plan can change, for the interval, where
            they are matched with what a plan can change.
    """

    asked: Mapping[str, float]
    types: Mapping[str, Mapping[str, float]]
    events: Mapping[str, float]
    factors: Factors
    spared: Mapping[str, float] = field(default_factory=dict)
    partners: Mapping[Stream, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeAssessment:
    """A node with a limit, under the plan in force.

    Attributes:
        name: Its name.
        bound: Its bound, in seconds.
        load: Busy time over the limit, as observed or as the plan says, whichever is more.
        busy_limit: The limit, in busy seconds per second.
        latency: Mean seconds that an event spent there; 0 if it was not observed.
        backlog: Busy seconds that are queued.
        sheds: Whether a pattern there sheds a type that arrives.
        events: How many events arrived there in the interval.
    """

    name: str
    bound: float
    load: float
    busy_limit: float
    latency: float
    backlog: float
    sheds: bool
    events: float


@dataclass(frozen=True, slots=True)
class LoadAssessment:
    """Where the application stands.

    Attributes:
        nodes: The nodes that have a limit.
        basis: What a plan would be made for.
        infeasible: Nodes whose bound cannot be kept whatever is shed, and why.
        sinks: Complex events per second at each sink, as the plan in force says.
    """

    nodes: Mapping[str, NodeAssessment]
    basis: PlanBaseline
    infeasible: Mapping[str, str]
    sinks: Mapping[str, float] = field(default_factory=dict)


def keep_arrays(model: Model, shares: Shares) -> Keep:
    """Number the types of shares in force as a model does; a new type has the mean share."""
    return {
        pattern.stream: _keep(
            [operator.types[use] for use in pattern.demand.uses], shares[pattern.stream]
        )
        for operator in model.operators.values()
        for pattern in operator.patterns
        if pattern.stream in shares
    }


def _keep(labels: list[str], shares: PatternShares) -> Floats:
    mean = shares.mean
    return np.array([shares.shares.get(label, mean) for label in labels], np.float64)


def assess(
    observation: Observation, model: Model, target: Target, shares: Shares, factors: Factors
) -> LoadAssessment:
    """See where each node stands under the shares in force."""
    unbound = predict(model, None, [n.name for n in model.nodes.values() if n.bound])
    limits, infeasible = _limits(model, target, unbound)
    unshed = predict(model, None, limits)
    keep = keep_arrays(model, shares)
    shed = predict(model, keep, limits)
    events = {
        name: float(rates.sum()) * observation.interval
        for name, rates in unshed.arrivals.items()
    }
    asked = {name: _asked(model, limit, unshed) for name, limit in limits.items()}
    nodes = {
        name: _node(observation, model, limit, (shed, keep, events))
        for name, limit in limits.items()
    }
    changed = changeable(model, limits)
    types = {
        name: _shares(operator.types, unshed.arrivals[name])
        for name, operator in model.operators.items()
        if changed.isdisjoint(operator.feeds)
    }
    spared = {name: limit.backlog_share for name, limit in limits.items()}
    partners = {
        stream: unshed.outputs[stream] * observation.interval
        for operator in model.operators.values()
        if not changed.isdisjoint(operator.feeds)
        for stream in operator.feeds
        if stream not in changed
    }
    basis = PlanBaseline(asked, types, events, dict(factors), spared, partners)
    return LoadAssessment(nodes, basis, infeasible, shed.sinks)


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


def _full(limit: Limit) -> Limit:
    """Give all that a bound allows: no aim below it, and no backlog to work off."""
    return replace(
        limit,
        node=replace(limit.node, backlog=0.0),
        target=replace(limit.target, aim=1.0),
    )


def _asked(model: Model, limit: Limit, unshed: Rates) -> float:
    load = node_load(model, limit, unshed)
    full = node_load(model, _full(limit), unshed).limit
    budget = max(load.limit, _LEAST_BUDGET * full)
    return load.cost / budget if budget else 0.0


def _node(
    observation: Observation,
    model: Model,
    limit: Limit,
    now: tuple[Rates, Keep, Mapping[str, float]],
) -> NodeAssessment:
    rates, keep, events = now
    name = limit.node.name
    load = node_load(model, _full(limit), rates)
    busy = observation.busy.get(name, 0.0)
    most = load.busy_limit
    operators = model.operators_on(name)
    return NodeAssessment(
        name=name,
        bound=limit.bound,
        load=max(load.cost / load.limit if load.limit else 0.0, busy / most if most else 0.0),
        busy_limit=most,
        latency=observation.latency.get(name, 0.0),
        backlog=limit.node.backlog,
        sheds=any(
            _sheds(keep[one.stream], rates.arrivals[operator.name][one.demand.uses])
            for operator in operators
            for one in operator.patterns
            if one.stream in keep
        ),
        events=sum(events[operator.name] for operator in operators),
    )


def _sheds(shares: Floats, arrivals: Floats) -> bool:
    return bool(((shares < _EVERYTHING) & (arrivals > 0)).any())


def _shares(labels: tuple[str, ...], arrivals: Floats) -> Mapping[str, float]:
    total = float(arrivals.sum())
    return dict(zip(labels, (arrivals / total).tolist(), strict=True)) if total else {}


def streams_that_shed(shares: Shares) -> frozenset[Stream]:
    """Find the patterns that shed anything."""
    return frozenset(
        stream
        for stream, one in shares.items()
        if any(share < _EVERYTHING for share in one.shares.values())
    )

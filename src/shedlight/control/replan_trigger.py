"""When to replan: what is wrong, and whether another plan would come of it.

Two things must come together. A node is *off*: over its limit or its bound, or shedding while
it is not busy; or the stream is no longer what it was. And what the plan was made for has
*moved*: a plan depends on nothing but its baseline, so from the same baseline comes the same
plan. That is the hysteresis: it is not on the busy time, which the plan itself changes, but on
the work that arrives before any shedding. A load that stays at the threshold is off in every
other observation and does not move.

How far is moved? By more than 5 %, and by more than counts of that many events vary by chance;
by 25 % in the first ten observations after a plan. An overload after these is planned for at
once, and so is whatever moved by 50 %, such as a load that doubles. All else must last for
three observations: a plan that is made, or taken back, at an extreme of a noisy load looks
wrong at the next. So noise causes at most one plan in ten observations; until then, pressure
keeps the bound.

A plan that reserves a part of the limit to work off a backlog ends with the backlog, at once:
it was never meant to last, and the next one reserves nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from shedlight.control.assessment import LoadAssessment, NodeAssessment, PlanBaseline


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanPolicy:
    """When to replan.

    Attributes:
        over: Replan if busy time is more than this share of its limit.
        under: Replan if it is less than this, and the node sheds.
        watches_latency: Whether to replan if the latency exceeds the bound.
        types: By how much the share of a type may move.
        yields: By how much, relatively, what a pattern yields may move, and what patterns emit
            that no plan can change.
        backlog_reserve: Which part of a limit may stay reserved for a backlog that is gone.
        moved: By how much, relatively, the work that arrives at a node must have moved.
        urgent: By how much during the cooldown, also the share of a type.
        jump_threshold: By how much to replan at once.
        cooldown: How many observations after a plan only what is urgent counts.
        persistence: How many observations in a row all else must last.
        noise: How many standard deviations of a count are chance.
    """

    over: float = 1.0
    under: float = 0.8
    watches_latency: bool = True
    types: float = 0.05
    yields: float = 0.25
    backlog_reserve: float = 0.02
    moved: float = 0.05
    urgent: float = 0.25
    jump_threshold: float = 0.5
    cooldown: int = 10
    persistence: int = 3
    noise: float = 3.0


DEFAULT_POLICY = ReplanPolicy()

WITHIN_LIMITS = "all nodes are within their limits"
"""The reason not to replan if no node is off."""

_CLOSE = 0.01
"""Relative changes below this are said in events per second, whatever they come from."""


@dataclass(frozen=True, slots=True)
class ReplanTrigger:
    """Why to replan, or why not."""

    replan: bool  # whether to
    reason: str  # with the numbers that say so
    # for how many observations in a row a node was a reason that has not lasted long enough
    lasting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlHistory:
    """The last attempt to plan, and what was observed since."""

    # what was last planned for, whether or not a plan came of it; None: no attempt yet
    planned: PlanBaseline | None = None
    averaged: int = 0  # how many observations were averaged for that
    since: int = 0  # how many observations ago that was
    lasting: Mapping[str, int] = field(default_factory=dict)  # see `ReplanTrigger`
    # the load of each node that the active plan was to bring
    expected: Mapping[str, float] = field(default_factory=dict)


def find_replan_trigger(
    policy: ReplanPolicy, assessment: LoadAssessment, history: ControlHistory
) -> ReplanTrigger:
    """Say whether to replan, and why."""
    baseline, planned = assessment.baseline, history.planned
    triggers = [
        _backlog_gone(policy, node, planned)
        or _node_trigger(policy, node, baseline.demand[node.name], history)
        for node in (*assessment.nodes.values(), *assessment.links.values())
    ]
    triggers = [trigger for trigger in triggers if trigger.reason]
    first = next((trigger for trigger in triggers if trigger.replan), None)
    if first is not None:
        return first
    if planned is not None and any(node.sheds for node in assessment.nodes.values()):
        in_cooldown = history.since <= policy.cooldown
        moved = _moved_types(policy, baseline, planned, in_cooldown=in_cooldown)
        if not moved and not in_cooldown:
            moved = _moved_yields(policy, baseline, planned)
            moved = moved or _moved_partners(policy, baseline, planned)
        if moved:
            return ReplanTrigger(replan=True, reason=moved)
    lasting = {name: n for trigger in triggers for name, n in trigger.lasting.items()}
    # a bound that cannot be kept is none that a plan could help
    reasons = [trigger.reason for trigger in triggers]
    reasons += [*assessment.infeasible.values(), WITHIN_LIMITS]
    return ReplanTrigger(replan=False, reason=reasons[0], lasting=lasting)


def _backlog_gone(
    policy: ReplanPolicy, node: NodeAssessment, planned: PlanBaseline | None
) -> ReplanTrigger | None:
    """Say whether a backlog that was planned for is gone."""
    reserve = planned.backlog_reserve.get(node.name, 0.0) if planned else 0.0
    if not node.sheds or node.backlog > node.bound or reserve <= policy.backlog_reserve:
        return None
    reason = (
        f"the backlog of {node.name} is down to {node.backlog:.2g} busy seconds, and the plan "
        f"reserved {_percent(reserve)} of its limit for it"
    )
    return ReplanTrigger(replan=True, reason=reason)


def _node_trigger(
    policy: ReplanPolicy, node: NodeAssessment, demand: float, history: ControlHistory
) -> ReplanTrigger:
    """Say whether to replan because of a node; no reason if it is not off."""
    planned, problem = history.planned, _problem(policy, node)
    if not problem or planned is None:
        arrive = f"{problem}: {node.rate:,.0f} events/s arrive" if problem else ""
        return ReplanTrigger(replan=bool(problem), reason=arrive)
    change = _change(demand, planned.demand.get(node.name))
    far, chance = abs(change), _chance(policy, node.events)
    in_cooldown = history.since <= policy.cooldown
    lasts = 0
    if far > max(policy.urgent if in_cooldown else policy.moved, chance):
        lasts = history.lasting.get(node.name, 0) + 1
    at_once = far > max(policy.jump_threshold, chance) or (
        node.load > policy.over and not in_cooldown
    )
    reason = f"{problem}: {_describe_change(node, change, planned)}"
    if lasts >= (1 if at_once else policy.persistence):
        return ReplanTrigger(replan=True, reason=reason)
    excess = _excess_load(policy, node, history)
    if excess > max(policy.yields, chance):
        lasts = max(lasts, history.lasting.get(node.name, 0) + 1)
        if lasts >= policy.persistence:
            reason = f"{problem}, {_percent(excess)} more than the plan predicted"
            return ReplanTrigger(replan=True, reason=reason)
    lasting = {node.name: lasts} if lasts else {}
    until = f"until that lasts for {policy.persistence} observations, so far {lasts}"
    stays = until if lasts else "for another would hardly differ"
    reason = f"{reason}; the active plan stays, {stays}"
    return ReplanTrigger(replan=False, reason=reason, lasting=lasting)


def _excess_load(policy: ReplanPolicy, node: NodeAssessment, history: ControlHistory) -> float:
    """Say by how much, relatively, an overloaded node has more to do than was planned.

    What an event costs depends on what is kept: with more partial matches, more is tried.
    """
    expected = history.expected.get(node.name, 0.0)
    return node.load / expected - 1 if expected > 0 and node.load > policy.over else 0.0


def _problem(policy: ReplanPolicy, node: NodeAssessment) -> str:
    """Say in what way a node is off; empty if it is not."""
    if node.load > policy.over:
        return f"{node.name} is at {_percent(node.load)} of its limit"
    if policy.watches_latency and node.latency > node.mean:
        return f"latency at {node.name} is {node.latency:.3g} s, {node.allowance}"
    if node.sheds and node.load < policy.under:
        return f"{node.name} sheds and is at only {_percent(node.load)} of its limit"
    return ""


def _change(demand: float, planned: float | None) -> float:
    """Find the relative change; what was not there before has changed beyond measure."""
    if not planned:
        return 0.0 if planned == demand else math.inf
    return demand / planned - 1


def _describe_change(node: NodeAssessment, change: float, planned: PlanBaseline) -> str:
    """Say what arrives and what was planned for: events, or else the work that they bring."""
    old = planned.rates.get(node.name, 0.0)
    if math.isinf(change) or not old:
        return f"{node.rate:,.0f} events/s arrive, the plan was made for none"
    moved = node.rate / old - 1
    if abs(change - moved) <= abs(change) / 2 or abs(change) < _CLOSE:
        return f"{node.rate:,.0f} events/s arrive, the plan was made for {old:,.0f}"
    return f"{_percent(1 + change)} of the work arrives that the plan was made for"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %"


def _chance(policy: ReplanPolicy, *counts: float) -> float:
    """Say by how much, relatively, counts of so many events differ by chance."""
    return policy.noise * math.sqrt(sum(1 / count for count in counts if count > 0))


def _moved_types(
    policy: ReplanPolicy, current: PlanBaseline, planned: PlanBaseline, *, in_cooldown: bool
) -> str:
    least = max(policy.types, policy.urgent) if in_cooldown else policy.types
    for name, shares in current.types.items():
        old_shares = planned.types.get(name, {})
        # what was planned for is itself a count, and as much by chance as this one
        counts = (current.events[name], planned.events.get(name, 0.0))
        for label in {**shares, **old_shares} if shares and old_shares else ():
            new, old = shares.get(label, 0.0), old_shares.get(label, 0.0)
            chance = _chance(policy, *counts) * math.sqrt(old * (1 - old))
            if abs(new - old) > max(least, chance):
                return (
                    f"at operator {name} {_percent(new)} of the events are {label}, "
                    f"the plan was made for {_percent(old)}"
                )
    return ""


def _moved_yields(policy: ReplanPolicy, current: PlanBaseline, planned: PlanBaseline) -> str:
    for stream, new in current.factors.items():
        old = planned.factors.get(stream, 1.0)
        if abs(new / old - 1) > policy.yields:
            return (
                f"pattern {stream} finds {_percent(new)} of the matches that the model "
                f"predicts, the plan was made for {_percent(old)}"
            )
    return ""


def _moved_partners(policy: ReplanPolicy, current: PlanBaseline, planned: PlanBaseline) -> str:
    for stream, new in current.fixed_partner_outputs.items():
        old = planned.fixed_partner_outputs.get(stream, 0.0)
        if abs(new - old) > max(old, 1.0) * max(policy.yields, _chance(policy, new, old)):
            return f"pattern {stream} has {new:.0f} matches, the plan was made for {old:.0f}"
    return ""

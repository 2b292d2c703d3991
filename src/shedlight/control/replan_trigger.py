"""When to replan: what is wrong, and whether another plan would come of it.

Two things must come together. Something is *wrong*: a node is over its limit or its bound,
sheds while it is not busy, or the stream is no longer what it was. And what was planned for has
*moved*: a plan depends on nothing but its basis, so from the same basis comes the same plan.
That is the hysteresis: it is not on the busy time, which the plan itself changes, but on what
was asked for before any shedding. A load that stays at the threshold is wrong in every other
observation and does not move.

How far is moved? By more than 5 %, and by more than counts of that many events vary by chance;
by 25 % in the first ten observations after a plan. An overload after these is planned for at
once, and so is whatever moved by 50 %, such as a load that doubles. All else must last for
three observations: a plan that is made, or taken back, at an extreme of a noisy load looks
wrong at the next. So noise causes at most one plan in ten observations; until then, pressure
keeps the bound.

A plan that spares a part of the limit to work off a backlog ends with the backlog, at once: it
was never meant to last, and the next one spares nothing.
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
        spared: Which part of a limit may stay spared for a backlog that is gone.
        moved: By how much, relatively, what is asked of a node must have moved.
        urgent: By how much in the first observations after a plan, also the share of a type.
        sudden: By how much if it is to count at once.
        rest: How many the first observations after a plan are.
        patience: How many observations in a row all else must last.
        noise: How many standard deviations of a count are chance.
    """

    over: float = 1.0
    under: float = 0.8
    watches_latency: bool = True
    types: float = 0.05
    yields: float = 0.25
    spared: float = 0.02
    moved: float = 0.05
    urgent: float = 0.25
    sudden: float = 0.5
    rest: int = 10
    patience: int = 3
    noise: float = 3.0


DEFAULT_POLICY = ReplanPolicy()
PAPER_POLICY = ReplanPolicy(
    over=1.1,
    under=0.9,
    watches_latency=False,
    types=math.inf,
    yields=math.inf,
    spared=math.inf,
    moved=0.0,
    urgent=0.0,
    sudden=0.0,
    rest=0,
    patience=1,
    noise=0.0,
)
"""The rule of the paper: busy time 10 % off its limit in either direction, and nothing else."""

WELL = "all nodes are within their bands"
"""The reason not to replan if nothing is wrong."""

RULES: Mapping[str, ReplanPolicy] = {"ours": DEFAULT_POLICY, "paper": PAPER_POLICY}


@dataclass(frozen=True, slots=True)
class ReplanTrigger:
    """Why to replan, or why not.

    Attributes:
        replan: Whether to.
        reason: In words.
        lasting: For how many observations in a row a node has been a cause, but for patience.
    """

    replan: bool
    reason: str
    lasting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlHistory:
    """What was before an observation.

    Attributes:
        planned: What was last planned for; None: there was no plan yet.
        since: How many observations ago that was, this one included.
        lasting: For how many observations in a row each node was a cause, but for patience.
        expected: The load of each node that the plan in force was to bring.
    """

    planned: PlanBaseline | None = None
    since: int = 0
    lasting: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)


def find_replan_trigger(
    rule: ReplanPolicy, outlook: LoadAssessment, before: ControlHistory
) -> ReplanTrigger:
    """Say whether to replan, and why."""
    rests = before.since <= rule.rest
    causes = [
        _ended(rule, node, before) or _cause(rule, node, outlook.basis.asked[node.name], before)
        for node in outlook.nodes.values()
    ]
    causes = [each for each in causes if each.reason]
    first = next((each for each in causes if each.replan), None)
    if first is not None:
        return first
    if before.planned is not None and any(node.sheds for node in outlook.nodes.values()):
        moved = _moved_types(rule, outlook.basis, before.planned, rests=rests)
        if not moved and not rests:
            moved = _moved_yields(rule, outlook.basis, before.planned)
            moved = moved or _moved_partners(rule, outlook.basis, before.planned)
        if moved:
            return ReplanTrigger(replan=True, reason=moved)
    lasting = {name: n for each in causes for name, n in each.lasting.items()}
    # a bound that cannot be kept is none that a plan could help
    matter = [each.reason for each in causes] or [*outlook.infeasible.values(), WELL]
    reason = matter[0]
    return ReplanTrigger(replan=False, reason=reason, lasting=lasting)


def _ended(
    rule: ReplanPolicy, node: NodeAssessment, before: ControlHistory
) -> ReplanTrigger | None:
    """Say whether a backlog that was planned for is gone."""
    spared = before.planned.spared.get(node.name, 0.0) if before.planned else 0.0
    if not node.sheds or node.backlog > node.bound or spared <= rule.spared:
        return None
    reason = f"node {node.name!r}: the backlog for which more was shed is gone"
    return ReplanTrigger(replan=True, reason=reason)


def _cause(
    rule: ReplanPolicy, node: NodeAssessment, asked: float, before: ControlHistory
) -> ReplanTrigger:
    """Say whether to replan because of a node; no reason if all is well with it."""
    wrong = _wrong(rule, node)
    if not wrong or before.planned is None:
        return ReplanTrigger(replan=bool(wrong), reason=wrong)
    change = _change(asked, before.planned.asked.get(node.name))
    far, chance = abs(change), _chance(rule, node.events)
    rests = before.since <= rule.rest
    lasts = 0
    if far > max(rule.urgent if rests else rule.moved, chance):
        lasts = before.lasting.get(node.name, 0) + 1
    at_once = far > max(rule.sudden, chance) or (node.load > rule.over and not rests)
    if lasts >= (1 if at_once else rule.patience):
        return ReplanTrigger(replan=True, reason=f"{wrong}; {_described(change)}")
    off = _off(rule, node, before)
    if off > max(rule.yields, chance):
        lasts = max(lasts, before.lasting.get(node.name, 0) + 1)
        if lasts >= rule.patience:
            return ReplanTrigger(
                replan=True, reason=f"{wrong}, {off:.0%} more than was planned"
            )
    reason = f"{wrong}, but {_described(change)}: the plan in force stays"
    return ReplanTrigger(
        replan=False, reason=reason, lasting={node.name: lasts} if lasts else {}
    )


def _off(rule: ReplanPolicy, node: NodeAssessment, before: ControlHistory) -> float:
    """Say by how much, relatively, an overloaded node has more to do than was planned.

    What an event costs depends on what is kept: where more machines are open, more is tried.
    """
    expected = before.expected.get(node.name, 0.0)
    return node.load / expected - 1 if expected > 0 and node.load > rule.over else 0.0


def _wrong(rule: ReplanPolicy, node: NodeAssessment) -> str:
    """Say what is wrong with a node; nothing if all is well."""
    name = f"node {node.name!r}"
    if node.load > rule.over:
        return f"{name}: busy time is {node.load:.2f} of its limit"
    if rule.watches_latency and node.latency > node.bound:
        return f"{name}: latency {node.latency:.3g} s exceeds its bound of {node.bound:g} s"
    if node.sheds and node.load < rule.under:
        return f"{name}: busy time is only {node.load:.2f} of its limit while it sheds"
    return ""


def _change(now: float, planned: float | None) -> float:
    """Find the relative change; what was not there before has changed beyond measure."""
    if not planned:
        return 0.0 if planned == now else math.inf
    return now / planned - 1


_MANY = 4.0
"""More than this is told in times, not in percent."""


def _described(change: float) -> str:
    if math.isinf(change):
        return "nothing was planned for it yet"
    if change > _MANY:
        return f"{change + 1:,.0f} times as much is asked as was planned for"
    return f"{abs(change):.0%} {'more' if change > 0 else 'less'} is asked than was planned for"


def _chance(rule: ReplanPolicy, *counts: float) -> float:
    """Say by how much, relatively, counts of so many events differ by chance."""
    return rule.noise * math.sqrt(sum(1 / count for count in counts if count > 0))


def _moved_types(
    rule: ReplanPolicy, now: PlanBaseline, planned: PlanBaseline, *, rests: bool
) -> str:
    least = max(rule.types, rule.urgent) if rests else rule.types
    for name, shares in now.types.items():
        before = planned.types.get(name, {})
        # what was planned for is itself a count, and as much by chance as this one
        counts = (now.events[name], planned.events.get(name, 0.0))
        for label in {**shares, **before} if shares and before else ():
            new, old = shares.get(label, 0.0), before.get(label, 0.0)
            chance = _chance(rule, *counts) * math.sqrt(old * (1 - old))
            if abs(new - old) > max(least, chance):
                return (
                    f"operator {name!r}: the share of {label} is {new:.0%}, "
                    f"and {old:.0%} was planned for"
                )
    return ""


def _moved_yields(rule: ReplanPolicy, now: PlanBaseline, planned: PlanBaseline) -> str:
    for stream, new in now.factors.items():
        old = planned.factors.get(stream, 1.0)
        if abs(new / old - 1) > rule.yields:
            return (
                f"pattern {stream} yields {new:.2f} of what the model says, "
                f"and {old:.2f} was planned for"
            )
    return ""


def _moved_partners(rule: ReplanPolicy, now: PlanBaseline, planned: PlanBaseline) -> str:
    for stream, new in now.partners.items():
        old = planned.partners.get(stream, 0.0)
        if abs(new - old) > max(old, 1.0) * max(rule.yields, _chance(rule, new, old)):
            return f"pattern {stream}: {new:.0f} matches, and {old:.0f} were planned for"
    return ""

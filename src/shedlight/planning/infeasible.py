"""Constraints that cannot all be met: which to relax, by how much, and what stands against it.

There are two ways out, and both are given: the least that must be given up of the constraints
so that the nodes keep their limits, and the least that nodes must do beyond their limits so
that the constraints are met.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from shedlight.errors import PlanError, join_words
from shedlight.graph.application import Stream
from shedlight.graph.channels import format_data_rate
from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import Limit
from shedlight.model.lp import SolverOutcome
from shedlight.model.model import LinkModel, Model, PatternModel, SinkModel
from shedlight.planning.lp_rows import LpRows, build_lp_rows, required_rate
from shedlight.planning.problem import PlanningProblem
from shedlight.planning.reduced_lp import ReducedLp, reduced_program, solve_rounds
from shedlight.planning.watchers import closure_loads, describe_closure

_NOTICEABLE_SHARE = 1e-6
_MAX_CLOSURES = 2  # how many closures a sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """A constraint to relax, and by how much.

    Attributes:
        setting: `min_rate` or `min_share` of a sink, `never_shed` of an operator, `limit` of a
            node, or `link`.
        name: The sink, the operator, the node or the link.
        by: The share by which to lower it, or by which a limit would have to be higher; of
            `never_shed`, the share of the type that would have to be shed.
        label: The type that is never shed; else empty.
        text: All of this as a sentence, with the protected closures that it is for.
    """

    setting: str
    name: str
    by: float
    label: str = ""
    text: str


class InfeasibleError(PlanError):
    """Constraints that cannot all be met: what is wrong, and a sentence for each remedy.

    Attributes:
        problem: What is wrong.
        lower: The constraints that would have to be relaxed, all of them.
        higher: The limits that would have to be higher instead, all of them; empty: no limit
            would do.
        remedies: The sentences of both.
    """

    def __init__(
        self,
        problem: str,
        lower: tuple[Relaxation, ...] = (),
        higher: tuple[Relaxation, ...] = (),
    ) -> None:
        self.problem, self.lower, self.higher = problem, lower, higher
        second = "or " if lower else ""
        self.remedies = (
            *(f"{'and ' * (i > 0)}{each.text}" for i, each in enumerate(lower)),
            *(f"{'and ' if i else second}{each.text}" for i, each in enumerate(higher)),
        )
        super().__init__("\n".join([problem, *(f"  {remedy}" for remedy in self.remedies)]))


def explain_infeasible(problem: PlanningProblem, time_limit: float) -> InfeasibleError:
    """Find the least that must be given up so that the rest can be had, and say so."""
    return InfeasibleError(
        "the constraints cannot all be met within the bounds",
        tuple(_lower_constraints(problem, time_limit)),
        tuple(_raise_limits(problem, time_limit)),
    )


def _lower_constraints(problem: PlanningProblem, time_limit: float) -> Iterator[Relaxation]:
    """Find the constraints to relax so that limits are kept."""
    rows = _build_rows(problem)
    program = rows.program
    slack = {
        name: program.add_columns(1, upper=1.0)
        for name, sink in problem.model.sinks.items()
        if required_rate(sink, rows.unshed) > 0
    }
    relaxed = {key: program.add_columns(1, upper=1.0) for key in _protected_types(rows)}
    reduced = reduced_program(rows, relaxed, aim=problem.aim)
    rows.add_constraints(slack)
    values = _least(reduced, [*slack.values(), *relaxed.values()], time_limit)
    if values is None:
        return
    for name, column in slack.items():
        if values[column] > _NOTICEABLE_SHARE:
            sink = problem.model.sinks[name]
            had = required_rate(sink, rows.unshed) * (1 - min(1.0, float(values[column])))
            yield from _lower_sink(problem, sink, had)
    for (name, number), column in relaxed.items():
        if values[column] > _NOTICEABLE_SHARE:
            yield _shed_type(problem, name, number, min(1.0, float(values[column])))


def _raise_limits(problem: PlanningProblem, time_limit: float) -> Iterator[Relaxation]:
    """Find the limits that would have to be higher so that all constraints are met."""
    rows = _build_rows(problem)
    names = (*rows.limits, *(link.name for link in problem.model.links))
    beyond = {name: rows.program.add_columns(1) for name in names}
    reduced = reduced_program(rows, beyond=beyond, aim=problem.aim)
    rows.add_constraints()
    values = _least(reduced, list(beyond.values()), time_limit)
    if values is None:
        return
    for name in rows.limits:
        limit, more = _limit_at(rows, rows.limits[name], values), float(values[beyond[name]])
        if more > _NOTICEABLE_SHARE * limit:
            by = more / limit if limit else math.inf
            text = _node_text(problem, name, by)
            yield Relaxation(setting="limit", name=name, by=by, text=text)
    for link in problem.model.links:
        by = float(values[beyond[link.name]])
        if by > _NOTICEABLE_SHARE:
            yield Relaxation(setting="link", name=link.name, by=by, text=_link_text(link, by))


def _limit_at(rows: LpRows, limit: Limit, values: Floats) -> float:
    """Give a limit at what arrives by a solution."""
    rates = []
    for is_read in (False, True):
        arrivals = rows.node_arrivals(limit.arrivals, read=is_read)
        rates.append(arrivals.constant + dot(values[arrivals.columns], arrivals.coefficients))
    return limit.at(*rates)


def _build_rows(problem: PlanningProblem) -> LpRows:
    return build_lp_rows(
        problem.model, problem.planned, local=problem.local, unshed=problem.unshed
    )


def _protected_types(rows: LpRows) -> list[tuple[str, int]]:
    """List the types that are never to be shed, with their operators."""
    return sorted(
        {
            (operator.name, int(number))
            for operator, pattern in rows.planned()
            if len(pattern.protected)
            for number in pattern.demand.uses[pattern.protected]
        }
    )


def _least(reduced: ReducedLp, columns: list[int], time_limit: float) -> Floats | None:
    """Find a solution with the least values of columns; None if there is no solution."""
    costs = reduced.program.costs * 0.0
    costs[columns] = -1.0
    solution = solve_rounds(reduced, time_limit, costs=costs)
    return solution.values if solution.outcome is SolverOutcome.OPTIMAL else None


def _lower_sink(problem: PlanningProblem, sink: SinkModel, had: float) -> Iterator[Relaxation]:
    """Say how far each constraint of a sink that asks for more than can be had must go down."""
    asked = {
        "min_rate": sink.min_rate,
        "min_share": sink.min_share * problem.unshed.sinks[sink.name],
    }
    watchers = _watchers_of(problem.model, sink.stream)
    for setting, rate in asked.items():
        if rate > had:
            by = 1 - had / rate
            text = (
                f"sink {sink.name!r} asks for at least {rate:.4g} events/s; "
                f"{_floor(had)} can be had: lower its {setting} by {_ceil(by)}"
                f"{_closures_text(problem, watchers)}"
            )
            yield Relaxation(setting=setting, name=sink.name, by=by, text=text)


def _shed_type(problem: PlanningProblem, name: str, number: int, shed: float) -> Relaxation:
    operator = problem.model.operators[name]
    label = operator.types[number]
    groups = {
        pattern.group
        for pattern in operator.patterns
        if pattern.group and number in pattern.demand.uses
    }
    patterns = problem.model.patterns.values()
    watchers = [p for p in patterns if p.watches and p.group in groups]
    text = f"operator {name!r} never sheds {label}; shedding {_ceil(shed)} of it would do"
    return Relaxation(
        setting="never_shed",
        name=name,
        by=shed,
        label=label,
        text=text + _closures_text(problem, watchers),
    )


def _node_text(problem: PlanningProblem, name: str, by: float) -> str:
    """Say how much more a node would have to do, and what would help."""
    load, target = problem.everything.loads[name], problem.limits[name].target
    if not load.limit:
        return f"node {name!r} must work off its backlog first"
    has = load.busy_limit
    needs = has * (1 + by)
    is_keyed = any(p.pattern and p.pattern.partition_by for p in problem.patterns_on(name))
    ways = ["more cores"] * is_keyed + ["a longer bound"] * (needs < target.aim)
    return (
        f"node {name!r} needs {_ceil(by)} more than its bound allows, {needs:.3g} s of work a "
        f"second where it has {has:.3g}: give it {join_words([*ways, 'fewer events'])}"
    )


def _link_text(link: LinkModel, by: float) -> str:
    has, needs = format_data_rate(link.capacity), format_data_rate(link.capacity * (1 + by))
    return f"the link {link.name} needs {_ceil(by)} more than its {has}: give it {needs}"


def _watchers_of(model: Model, stream: Stream) -> list[PatternModel]:
    """List the watchers among a pattern and those upstream whose complex events it uses."""
    patterns, reached, ahead = model.patterns, set[Stream](), [stream]
    while ahead:
        here = ahead.pop()
        if here not in reached:
            reached.add(here)
            feeds, uses = model.operators[str(here.operator)].feeds, patterns[here].demand.uses
            ahead += [before for before, spread in feeds.items() if spread[uses].any()]
    return [
        pattern
        for pattern in patterns.values()
        if pattern.watches and pattern.stream in reached
    ]


def _closures_text(problem: PlanningProblem, watchers: list[PatternModel]) -> str:
    """Say what the closures of watchers take, those that take most of a limit first."""
    closures = []
    for watcher in watchers:
        loads = closure_loads(problem, watcher)
        if loads:
            worst = max(load.cost / max(load.limit, 1e-12) for load in loads.values())
            takes = describe_closure(watcher, loads)
            closures.append((worst, f"; the closure of {watcher.stream}: {takes}"))
    closures.sort(key=lambda closure: -closure[0])
    return "".join(text for _, text in closures[:_MAX_CLOSURES])


def _floor(number: float) -> str:
    """Write a number with four digits, and none that is more."""
    if number <= 0:
        return "0"
    digits = 3 - math.floor(math.log10(number))
    scaled = number * 10.0**digits
    return f"{math.floor(scaled + 1e-5) / 10.0**digits:.4g}"


def _ceil(share: float) -> str:
    """Write a share in percent, and not less than it is."""
    return f"{math.ceil(share * 1e3 - 1e-5) / 10:.1f}%"

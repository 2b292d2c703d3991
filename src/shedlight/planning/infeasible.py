"""Wishes that cannot all be met: which to relax, and by how much."""

from shedlight.errors import PlanError
from shedlight.model.lp import SolverOutcome
from shedlight.planning.lp_rows import build_lp_rows
from shedlight.planning.problem import PlanningProblem
from shedlight.planning.reduced_lp import (
    add_constraints,
    reduced_program,
    required_rate,
    solve_rounds,
)

_NOTICED = 1e-6


class InfeasibleError(PlanError):
    """Wishes that cannot all be met, or a bound that cannot be kept.

    Args:
        problem: What is wrong.
        remedies: What to relax and by how much, one sentence each.
    """

    def __init__(self, problem: str, remedies: tuple[str, ...] = ()) -> None:
        self.problem, self.remedies = problem, remedies
        super().__init__("\n".join([problem, *(f"  {one}" for one in remedies)]))


def explain_infeasible(problem: PlanningProblem, time_limit: float) -> InfeasibleError:
    """Find the least that must be given up so that the rest can be had, and say so."""
    model = problem.model
    assembly = build_lp_rows(model, problem.planned, local=problem.local, unshed=problem.unshed)
    program = assembly.program
    slack = {
        name: program.add_columns(1, upper=1.0)
        for name in model.sinks
        if required_rate(assembly, name) > 0
    }
    types = sorted(
        {
            (operator.name, int(number))
            for operator, pattern in assembly.planned()
            if len(pattern.protected)
            for number in pattern.demand.uses[pattern.protected]
        }
    )
    relaxed = {one: program.add_columns(1, upper=1.0) for one in types}
    reduced = reduced_program(assembly, relaxed)
    add_constraints(assembly, slack)
    costs = program.costs * 0.0
    costs[[*slack.values(), *relaxed.values()]] = -1.0
    solution = solve_rounds(reduced, time_limit, costs=costs)
    summary = "the wishes cannot all be met within the bounds"
    if solution.outcome is not SolverOutcome.OPTIMAL:
        return InfeasibleError(summary)
    remedies = []
    for name, column in slack.items():
        missed = solution.values[column]
        if missed > _NOTICED:
            least = required_rate(assembly, name)
            remedies.append(
                f"sink {name!r} wishes for at least {least:.4g} events/s; "
                f"{least * (1 - missed):.4g} can be had: lower its wish by {missed:.1%}"
            )
    for (name, number), column in relaxed.items():
        shed = solution.values[column]
        if shed > _NOTICED:
            label = model.operators[name].types[number]
            remedies.append(
                f"operator {name!r} never sheds {label}; shedding {shed:.1%} of it would do"
            )
    return InfeasibleError(summary, tuple(remedies))

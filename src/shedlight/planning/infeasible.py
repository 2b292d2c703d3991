"""Constraints that cannot all be met: which to relax, and by how much."""

from shedlight.errors import PlanError
from shedlight.model.lp import SolverOutcome
from shedlight.planning.lp_rows import build_lp_rows, required_rate
from shedlight.planning.problem import PlanningProblem
from shedlight.planning.reduced_lp import reduced_program, solve_rounds

_NOTICEABLE_SHARE = 1e-6


class InfeasibleError(PlanError):
    """Constraints that cannot all be met: what is wrong, and a sentence for each remedy."""

    def __init__(self, problem: str, remedies: tuple[str, ...] = ()) -> None:
        self.problem, self.remedies = problem, remedies
        super().__init__("\n".join([problem, *(f"  {remedy}" for remedy in remedies)]))


def explain_infeasible(problem: PlanningProblem, time_limit: float) -> InfeasibleError:
    """Find the least that must be given up so that the rest can be had, and say so."""
    model = problem.model
    rows = build_lp_rows(model, problem.planned, local=problem.local, unshed=problem.unshed)
    program = rows.program
    slack = {
        name: program.add_columns(1, upper=1.0)
        for name, sink in model.sinks.items()
        if required_rate(sink, rows.unshed) > 0
    }
    protected = sorted(
        {
            (operator.name, int(number))
            for operator, pattern in rows.planned()
            if len(pattern.protected)
            for number in pattern.demand.uses[pattern.protected]
        }
    )
    relaxed = {key: program.add_columns(1, upper=1.0) for key in protected}
    reduced = reduced_program(rows, relaxed)
    rows.add_constraints(slack)
    costs = program.costs * 0.0
    costs[[*slack.values(), *relaxed.values()]] = -1.0
    solution = solve_rounds(reduced, time_limit, costs=costs)
    summary = "the constraints cannot all be met within the bounds"
    if solution.outcome is not SolverOutcome.OPTIMAL:
        return InfeasibleError(summary)
    remedies = []
    for name, column in slack.items():
        missed = solution.values[column]
        if missed > _NOTICEABLE_SHARE:
            required = required_rate(model.sinks[name], rows.unshed)
            is_rate = model.sinks[name].min_rate >= required
            setting = "min_rate" if is_rate else "min_share"
            remedies.append(
                f"sink {name!r} asks for at least {required:.4g} events/s; "
                f"{required * (1 - missed):.4g} can be had: lower its {setting} by {missed:.1%}"
            )
    for (name, number), column in relaxed.items():
        shed = solution.values[column]
        if shed > _NOTICEABLE_SHARE:
            label = model.operators[name].types[number]
            remedies.append(
                f"operator {name!r} never sheds {label}; shedding {shed:.1%} of it would do"
            )
    return InfeasibleError(summary, tuple(remedies))

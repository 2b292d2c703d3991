"""The paper's program, literally: the reference that the reduced program is compared with.

One bottleneck. A variable x for every type and pattern there, the share to drop; a variable y
for the output of every pattern; rows for the selectivity functions, for outputs (y <= f mu) and
for the average processing time. It has as many variables and rows as there are types in
patterns, which is why it is not the one that plans.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import Limit
from shedlight.model.lp import LinearProgram, Solution, SolverOutcome
from shedlight.model.model import Keep, Model
from shedlight.model.selectivity.flow_lp import add_use_rows, taken_terms
from shedlight.planning.lp_rows import LpRows, build_lp_rows


@dataclass(frozen=True, slots=True, eq=False)
class PaperPlan:
    """What the paper's program says."""

    keep: Keep  # the share that each pattern of the bottleneck keeps of each of its uses
    objective: float  # what the changeable patterns bring


def paper_program(
    model: Model, limit: Limit, *, local: bool = False
) -> tuple[LinearProgram, dict[Stream, int]]:
    """Write the paper's program down for one bottleneck, and say where the x of patterns are.

    Raises:
        ValueError: The bottleneck feeds itself: then shares would be multiplied with shares.
    """
    rows = build_lp_rows(model, {limit.node.name: limit}, local=local)
    if any(rows.arrivals[operator.name].feeds for operator, _ in rows.planned()):
        raise ValueError(f"operators of node {limit.node.name!r} feed each other")
    dropped = {}
    columns, costs, total = [], [], 0.0
    for operator, pattern in rows.planned():
        arrivals = rows.unshed.arrivals[operator.name][pattern.demand.uses]
        first = rows.program.add_columns(len(arrivals), upper=1.0)
        dropped[pattern.stream] = first
        _add_selectivity(rows, pattern.stream, first, arrivals)
        columns.append(first + np.arange(len(arrivals)))
        costs.append(arrivals * limit.costs[pattern.stream])
        total += dot(arrivals, limit.costs[pattern.stream])
    budget = limit.budget(rows.unshed.outputs)
    rows.program.add_row(np.concatenate(columns), np.concatenate(costs), lower=total - budget)
    return rows.program, dropped


def solve_paper(
    model: Model, limit: Limit, *, local: bool = False, time_limit: float = 600.0
) -> PaperPlan:
    """Solve the paper's program.

    Raises:
        SolverError: The solver ended without an answer.
    """
    program, dropped = paper_program(model, limit, local=local)
    solution = program.solve(time_limit=time_limit)
    if solution.outcome is not SolverOutcome.OPTIMAL:
        raise AssertionError("dropping everything is always feasible")
    return PaperPlan(_keep(model, dropped, solution), solution.objective)


def _add_selectivity(rows: LpRows, stream: Stream, first: int, arrivals: Floats) -> None:
    """Add y <= (1 - x) lambda / k for every type of a pattern."""
    terms = taken_terms(rows.patterns[stream].demand, rows.columns[stream])
    dropped = first + np.arange(len(arrivals))
    add_use_rows(rows.program, terms, arrivals, (dropped, arrivals))


def _keep(model: Model, dropped: dict[Stream, int], solution: Solution) -> Keep:
    patterns = model.patterns
    return {
        stream: 1.0 - solution.values[first : first + len(patterns[stream].demand.uses)]
        for stream, first in dropped.items()
    }

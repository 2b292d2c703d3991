"""The paper's program, literally: the reference that the reduced program is compared with.

One bottleneck. A variable x for every type and pattern there, the share to drop; a variable y
for the output of every pattern; rows for the selectivity functions, for outputs (y <= f mu) and
for the average processing time. It has as many variables and rows as there are types in
patterns, which is why it is not the one that plans.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Ints, dot
from shedlight.model.latency import Limit
from shedlight.model.lp import LinearProgram, SolverOutcome
from shedlight.model.model import Keep, Model
from shedlight.model.selectivity.flow_lp import add_use_rows, taken_terms
from shedlight.planning.lp_rows import build_lp_rows


@dataclass(frozen=True, slots=True, eq=False)
class PaperPlan:
    """What the paper's program says."""

    keep: Keep  # the share that each pattern of the bottleneck keeps of each of its uses
    objective: float  # what the changeable patterns bring


def paper_program(
    model: Model, limit: Limit, *, local: bool = False
) -> tuple[LinearProgram, dict[Stream, Ints]]:
    """Write the paper's program down for one bottleneck, and give the columns of patterns' x.

    Raises:
        ValueError: The bottleneck feeds itself: then shares would be multiplied with shares.
    """
    rows = build_lp_rows(model, {limit.node.name: limit}, local=local)
    if any(rows.arrivals[operator.name].feeds for operator, _ in rows.planned()):
        raise ValueError(f"operators of node {limit.node.name!r} feed each other")
    dropped: dict[Stream, Ints] = {}
    costs, total = [], 0.0
    for operator, pattern in rows.planned():
        arrivals = rows.unshed.arrivals[operator.name][pattern.demand.uses]
        first = rows.program.add_columns(len(arrivals), upper=1.0)
        x = dropped[pattern.stream] = first + np.arange(len(arrivals))
        terms = taken_terms(pattern.demand, rows.columns[pattern.stream])
        add_use_rows(rows.program, terms, arrivals, (x, arrivals))  # y <= (1 - x) lambda / k
        costs.append(arrivals * limit.costs[pattern.stream])
        total += dot(arrivals, limit.costs[pattern.stream])
    budget = limit.budget(rows.unshed.outputs)
    columns = np.concatenate(list(dropped.values()))
    rows.program.add_row(columns, np.concatenate(costs), lower=total - budget)
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
    keep = {stream: 1.0 - solution.values[columns] for stream, columns in dropped.items()}
    return PaperPlan(keep, solution.objective)

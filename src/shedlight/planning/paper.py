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
from shedlight.model.selectivity.flow_lp import taken_terms
from shedlight.planning.lp_rows import LpRows, build_lp_rows


@dataclass(frozen=True, slots=True, eq=False)
class PaperPlan:
    """What the paper's program says.

    Attributes:
        keep: The share that each pattern of the bottleneck keeps of each of its uses.
        objective: What the changeable patterns bring.
    """

    keep: Keep
    objective: float


def paper_program(
    model: Model, limit: Limit, *, local: bool = False
) -> tuple[LinearProgram, dict[Stream, int]]:
    """Write the paper's program down for one bottleneck, and say where the x of patterns are.

    Raises:
        ValueError: The bottleneck feeds itself: then shares would be multiplied with shares.
    """
    assembly = build_lp_rows(model, {limit.node.name: limit}, local=local)
    if any(assembly.supplies[operator.name].feeds for operator, _ in assembly.planned()):
        raise ValueError(f"operators of node {limit.node.name!r} feed each other")
    dropped = {}
    places, entries, total = [], [], 0.0
    for operator, pattern in assembly.planned():
        arrivals = assembly.unshed.arrivals[operator.name][pattern.demand.uses]
        first = assembly.program.add_columns(len(arrivals), upper=1.0)
        dropped[pattern.stream] = first
        _add_selectivity(assembly, pattern.stream, first, arrivals)
        places.append(first + np.arange(len(arrivals)))
        entries.append(arrivals * limit.costs[pattern.stream])
        total += dot(arrivals, limit.costs[pattern.stream])
    budget = limit.at(*limit.arrivals.at(assembly.unshed.outputs))
    assembly.program.add_row(
        np.concatenate(places), np.concatenate(entries), lower=total - budget
    )
    return assembly.program, dropped


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


def _add_selectivity(
    assembly: LpRows,
    stream: Stream,
    first: int,
    arrivals: Floats,
) -> None:
    """Add y <= (1 - x) lambda / k for every type of a pattern."""
    demand = assembly.patterns[stream].demand
    uses, places, factors = taken_terms(demand, assembly.columns[stream])
    order = np.argsort(uses, kind="stable")
    present, sizes = np.unique(uses[order], return_counts=True)
    ends = np.cumsum(sizes)
    columns = np.insert(places[order], ends, first + present)
    entries = np.insert(factors[order], ends, arrivals[present])
    assembly.program.add_rows(sizes + 1, columns, entries, upper=arrivals[present])


def _keep(model: Model, dropped: dict[Stream, int], solution: Solution) -> Keep:
    patterns = model.patterns
    return {
        stream: 1.0 - solution.values[first : first + len(patterns[stream].demand.uses)]
        for stream, first in dropped.items()
    }

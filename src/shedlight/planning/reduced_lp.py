"""The reduced program: the paper's optimum without its x, for any number of nodes at once.

At an optimum a pattern keeps of each type exactly what it can use, k y per second. So keep
shares need not be variables: they follow from the rates of matches. What remains of a node is
one row, its work against its limit. Where that limit depends on arrivals that are variables
themselves it is concave in them: tangents are added until they touch. What is paid once per
event that any pattern keeps has a row per type and pattern: rows are added as they are broken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, Ints, dot
from shedlight.model.latency import LatencyModel, Limit
from shedlight.model.lp import LinearProgram, Solution, SolverOutcome
from shedlight.model.model import Model
from shedlight.model.rates import Rates
from shedlight.model.selectivity.flow_lp import NONE
from shedlight.planning.kept_terms import KeptRateTerms, add_kept
from shedlight.planning.lp_rows import LpRows, arrival_terms, build_lp_rows
from shedlight.planning.solution import LpSolution

_MOST_ROUNDS = 60
_TOUCHES = 1e-8
"""How far, relatively, a row that is not in the program yet may be broken."""


@dataclass(slots=True, eq=False)
class ReducedLp:
    """The reduced program while it is solved.

    Attributes:
        assembly: The parts that all programs have.
        kept: What each planned pattern keeps.
        work: What keeping costs: a constant, columns and factors for each pattern.
        once: The columns of events that any pattern keeps, by operator, one per type.
        limit_rows: The rows of each node's limit.
    """

    assembly: LpRows
    kept: dict[Stream, KeptRateTerms] = field(default_factory=dict)
    work: dict[Stream, tuple[float, Ints, Floats]] = field(default_factory=dict)
    once: dict[str, int] = field(default_factory=dict)
    limit_rows: dict[str, list[int]] = field(default_factory=dict)

    @property
    def program(self) -> LinearProgram:
        """The program itself."""
        return self.assembly.program


def reduced_program(
    assembly: LpRows, relaxed: dict[tuple[str, int], int] | None = None
) -> ReducedLp:
    """Write the reduced program down, with the first tangent of each limit.

    Args:
        assembly: The parts that all programs have.
        relaxed: See `add_kept`.
    """
    reduced = ReducedLp(assembly)
    for operator, pattern in assembly.planned():
        kept = reduced.kept[pattern.stream] = add_kept(assembly, operator, pattern, relaxed)
        costs = assembly.limits[operator.node].costs[pattern.stream]
        reduced.work[pattern.stream] = kept.weighted(costs)
    for name, limit in assembly.limits.items():
        if limit.transport:
            for operator in assembly.model.operators_on(name):
                size = len(operator.types)
                reduced.once[operator.name] = assembly.program.add_columns(size)
        used, read = limit.arrivals.at(assembly.unshed.outputs)
        _add_limit(reduced, limit, used, read)
    return reduced


def solve_reduced(
    model: Model,
    limits: Mapping[str, Limit],
    *,
    local: bool = False,
    unshed: Rates | None = None,
    time_limit: float = 60.0,
) -> LpSolution | None:
    """Solve the reduced program; None if the wishes cannot all be met.

    Args:
        model: The application.
        limits: Of the nodes to plan.
        local: Whether the output of these nodes counts, and not that of the sinks.
        unshed: The rates if nothing is shed, if they are known.
        time_limit: For the solver, in seconds.

    Raises:
        SolverError: The solver ended without an answer.
    """
    reduced = reduced_program(build_lp_rows(model, limits, local=local, unshed=unshed))
    add_constraints(reduced.assembly)
    solution = solve_rounds(reduced, time_limit)
    if solution.outcome is SolverOutcome.INFEASIBLE:
        return None
    prices = _prices(reduced, solution, time_limit)
    values = _settled(reduced, solution, time_limit).values
    legs = {stream: reduced.assembly.columns[stream].legs for stream in reduced.kept}
    scale = max((float(abs(values[leg])) for leg in legs.values()), default=0.0)
    return LpSolution(
        reduced.kept,
        values,
        {s: float(values[k.share]) for s, k in reduced.kept.items() if k.share >= 0},
        {stream: bool(values[leg] > 1e-9 * scale) for stream, leg in legs.items()},
        solution.objective,
        prices,
    )


def add_constraints(assembly: LpRows, slack: Mapping[str, int] | None = None) -> None:
    """Add a row for the least that each sink wishes for, less a part that may be missed."""
    for sink in assembly.model.sinks.values():
        least = required_rate(assembly, sink.name)
        if least <= 0 or sink.stream not in assembly.columns:
            continue
        places = [assembly.columns[sink.stream].legs]
        factors = [assembly.patterns[sink.stream].yields]
        if slack:
            places.append(slack[sink.name])
            factors.append(least)
        assembly.program.add_row(places, factors, lower=least)


def required_rate(assembly: LpRows, sink: str) -> float:
    """Say how many complex events per second a sink wishes for at least."""
    one = assembly.model.sinks[sink]
    return max(one.min_rate, one.min_share * assembly.unshed.sinks[sink])


def solve_rounds(
    reduced: ReducedLp,
    time_limit: float,
    *,
    costs: Floats | None = None,
    fixed: Floats | None = None,
) -> Solution:
    """Solve, add the rows that the answer breaks, and solve again until it breaks none.

    Args:
        reduced: The program.
        time_limit: For each time it is solved, in seconds.
        costs: What to maximise instead of the program's own objective.
        fixed: Values for whole-numbered variables.
    """
    solution = Solution(SolverOutcome.INFEASIBLE, 0.0, np.zeros(0), np.zeros(0))
    for _ in range(_MOST_ROUNDS):
        solution = reduced.program.solve(time_limit=time_limit, costs=costs, fixed=fixed)
        if solution.outcome is SolverOutcome.INFEASIBLE:
            return solution
        tangents = _add_tangents(reduced, solution.values)
        if not (_add_once_rows(reduced, solution.values) or tangents):
            return solution
    return solution


def _add_limit(reduced: ReducedLp, limit: Limit, used: float, read: float) -> None:
    """Add the limit of a node as it is near these arrivals: a tangent, or the line itself."""
    assembly, name = reduced.assembly, limit.node.name
    fixed, places, factors = 0.0, [np.zeros(0, np.int64)], [np.zeros(0)]
    for operator in assembly.model.operators_on(name):
        for pattern in operator.patterns:
            more, at, by = reduced.work[pattern.stream]
            fixed += more
            places.append(at)
            factors.append(by)
        if operator.name in reduced.once:
            size = len(operator.types)
            places.append(reduced.once[operator.name] + np.arange(size))
            factors.append(np.full(size, limit.transport))
    budget = limit.at(used, read)
    for slope, at_now, is_read in zip(
        limit.slopes(used), (used, read), (False, True), strict=True
    ):
        if not slope or not budget:
            continue
        known, feeds, shares = arrival_terms(assembly, limit.arrivals, read=is_read)
        budget += slope * (known - at_now)
        places.append(np.array(feeds, np.int64))
        factors.append(-slope * np.array(shares))
    row = reduced.program.add_row(
        np.concatenate(places), np.concatenate(factors), upper=budget - fixed
    )
    reduced.limit_rows.setdefault(name, []).append(row)


def _add_tangents(reduced: ReducedLp, values: Floats) -> bool:
    """Add a tangent where the answer lies above a limit; say whether one was added."""
    assembly, added = reduced.assembly, False
    for limit in assembly.limits.values():
        known, feeds, shares = arrival_terms(assembly, limit.arrivals)
        if limit.target.latency is not LatencyModel.MM1 or not feeds:
            continue
        used = known + dot(values[feeds], np.array(shares))
        cost = _cost_at(reduced, limit, values)
        if cost > limit.at(used, 0.0) * (1 + _TOUCHES):
            _add_limit(reduced, limit, used, 0.0)
            added = True
    return added


def _cost_at(reduced: ReducedLp, limit: Limit, values: Floats) -> float:
    cost = 0.0
    for operator in reduced.assembly.model.operators_on(limit.node.name):
        for pattern in operator.patterns:
            kept = reduced.kept[pattern.stream].at(values)
            cost += dot(kept, limit.costs[pattern.stream])
        if operator.name in reduced.once:
            first = reduced.once[operator.name]
            cost += limit.transport * float(values[first : first + len(operator.types)].sum())
    return cost


def _add_once_rows(reduced: ReducedLp, values: Floats) -> bool:
    """Add rows for what is paid once per event, where a pattern keeps more than is paid for."""
    added = False
    for name, first in reduced.once.items():
        operator = reduced.assembly.model.operators[name]
        paid = values[first : first + len(operator.types)]
        most, who = paid.copy(), np.full(len(paid), -1)
        for number, pattern in enumerate(operator.patterns):
            uses = pattern.demand.uses
            kept = reduced.kept[pattern.stream].at(values)
            more = kept > most[uses] * (1 + _TOUCHES) + 1e-12
            most[uses[more]] = kept[more]
            who[uses[more]] = number
        for number in np.unique(who[who >= 0]):
            pattern = operator.patterns[number]
            chosen = np.flatnonzero(who[pattern.demand.uses] == number)
            _add_once(
                reduced, reduced.kept[pattern.stream], (chosen, first, pattern.demand.uses)
            )
            added = True
    return added


def _add_once(reduced: ReducedLp, kept: KeptRateTerms, where: tuple[Ints, int, Ints]) -> None:
    """Make a pattern pay for some of its uses: paid - kept >= 0."""
    chosen, first, types = where
    mine = np.isin(kept.uses, chosen)
    order = np.argsort(kept.uses[mine], kind="stable")
    uses = kept.uses[mine][order]
    sizes = np.bincount(np.searchsorted(chosen, uses), minlength=len(chosen))
    ends = np.cumsum(sizes)
    reduced.program.add_rows(
        sizes + 1,
        np.insert(kept.places[mine][order], ends, first + types[chosen]),
        np.insert(-kept.factors[mine][order], ends, 1.0),
        lower=kept.fixed[chosen],
    )


def _settled(reduced: ReducedLp, solution: Solution, time_limit: float) -> Solution:
    """Among all optima take one that does least work, then one that was declared first."""
    program = reduced.program
    costs = program.costs
    worth = np.flatnonzero(costs)
    program.add_row(worth, costs[worth], lower=solution.objective * (1 - 1e-11))
    fixed = np.round(solution.values) if program.has_whole else None
    settled = solve_rounds(reduced, time_limit, costs=_ties(reduced), fixed=fixed)
    return settled if settled.outcome is SolverOutcome.OPTIMAL else solution


_BY_PATTERN, _BY_TYPE = 1e-3, 1e-5
"""What declaring a pattern, a branch or a type first counts, against all of the work."""


def _ties(reduced: ReducedLp) -> Floats:
    """Say what to maximise among optima: little work, what was declared first."""
    assembly, planned = reduced.assembly, list(reduced.kept)
    ties = np.zeros(reduced.program.columns)
    budgets = {
        name: max(limit.at(*limit.arrivals.at(assembly.unshed.outputs)), 1e-12)
        for name, limit in assembly.limits.items()
    }
    for rank, stream in enumerate(planned):
        columns, demand = assembly.columns[stream], assembly.patterns[stream].demand
        operator = assembly.model.operators[str(stream.operator)]
        usual = max(assembly.supplies[operator.name].total, 1e-12)
        ties[columns.legs] += (1 - rank / len(planned)) * _BY_PATTERN / usual
        if demand.legs > 1:
            later = np.arange(demand.legs) ** 1.1  # no two sums of ranks are alike
            ties[columns.legs : columns.legs + demand.legs] -= later * _BY_TYPE / usual
        if columns.flows != NONE:
            later = demand.entry_use**1.1
            ties[columns.flows : columns.flows + len(later)] -= later * _BY_TYPE / usual
        _, places, factors = reduced.work[stream]
        ties[places] -= factors / budgets[operator.node]
    return ties


def _prices(reduced: ReducedLp, solution: Solution, time_limit: float) -> Mapping[str, float]:
    """Read the worth of one more busy second per second off the duals."""
    duals = solution.duals
    if reduced.program.has_whole:
        fixed = np.round(solution.values)
        duals = reduced.program.solve(time_limit=time_limit, fixed=fixed).duals
    return {
        name: abs(float(sum(duals[row] for row in rows))) if len(duals) else 0.0
        for name, rows in reduced.limit_rows.items()
    }

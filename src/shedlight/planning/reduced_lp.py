"""The reduced program: the paper's optimum without its x, for any number of nodes at once.

At an optimum a pattern keeps of each type exactly what it can use, k y per second. So keep
shares need not be variables: they follow from the rates of matches. What remains of a node is
one row, its load against its limit. Where that limit depends on arrivals that are variables
themselves it is concave in them: tangents are added until they touch. Transport, which is paid
once per event that any pattern keeps, has a row per type and pattern: rows are added as they
are broken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, Ints, dot
from shedlight.model.latency import LatencyModel, Limit
from shedlight.model.link import sent_over
from shedlight.model.lp import LinearExpression, LinearProgram, Solution, SolverOutcome
from shedlight.model.model import LinkModel, Model, PatternModel
from shedlight.model.rates import Rates
from shedlight.model.selectivity.flow_lp import NONE
from shedlight.planning.kept_terms import (
    KeptTerms,
    LpSolution,
    RelaxedColumns,
    add_kept,
    limit_by_share,
)
from shedlight.planning.lp_rows import LpRows, build_lp_rows

_MAX_ROUNDS = 60
CUT_TOLERANCE = 1e-8  # how far, relatively, a row that is not in the program yet may be broken


@dataclass(slots=True, eq=False)
class ReducedLp:
    """The reduced program while it is solved."""

    rows: LpRows  # the columns and rows that all programs have
    kept: dict[Stream, KeptTerms] = field(default_factory=dict)  # by planned pattern
    loads: dict[Stream, LinearExpression] = field(default_factory=dict)  # what keeping it costs
    # the columns of events that any pattern keeps, by operator, one per type
    transport_columns: dict[str, int] = field(default_factory=dict)
    limit_rows: dict[str, list[int]] = field(default_factory=dict)  # by node
    # the columns of what nodes may do beyond their limits, in busy seconds, and links as shares
    # of their limits, to find out how much it would take
    beyond: Mapping[str, int] = field(default_factory=dict)
    link_rows: dict[str, int] = field(default_factory=dict)  # by link

    @property
    def program(self) -> LinearProgram:
        """The program itself."""
        return self.rows.program


def reduced_program(
    rows: LpRows,
    relaxed: RelaxedColumns | None = None,
    beyond: Mapping[str, int] | None = None,
    aim: float = 1.0,
) -> ReducedLp:
    """Write the reduced program down, with the first tangent of each limit.

    Columns may be given for what is shed of types that are never to be, and for what nodes and
    links do beyond their limits. The aim is that of links.
    """
    reduced = ReducedLp(rows, beyond=beyond or {})
    for operator, pattern in rows.planned():
        kept = reduced.kept[pattern.stream] = add_kept(rows, operator, pattern, relaxed)
        costs = rows.limits[operator.node].costs[pattern.stream]
        reduced.loads[pattern.stream] = kept.weighted(costs)
    _limit_groups(rows)
    for name, limit in rows.limits.items():
        if limit.transport:
            for operator in rows.model.operators_on(name):
                first = rows.program.add_columns(len(operator.types))
                reduced.transport_columns[operator.name] = first
        used, read = limit.arrivals.at(rows.unshed.outputs)
        _add_limit(reduced, limit, used, read)
    for link in rows.model.links:
        _add_link(reduced, link, aim)
    return reduced


def _add_link(reduced: ReducedLp, link: LinkModel, aim: float) -> None:
    """Add the row of a link, if the plan changes what goes over it."""
    rows, columns, factors, fixed = reduced.rows, list[int](), list[float](), 0.0
    for stream, size in sent_over(rows.model, link):
        if stream in rows.columns:
            columns.append(rows.match_column(stream))
            factors.append(size * rows.patterns[stream].yields)
        else:
            fixed += size * rows.unshed.outputs[stream]
    if not columns:
        return
    if link.name in reduced.beyond:
        columns.append(reduced.beyond[link.name])
        factors.append(-aim * link.capacity)
    row = rows.program.add_row(columns, factors, upper=aim * link.capacity - fixed)
    reduced.link_rows[link.name] = row


def _limit_groups(rows: LpRows) -> None:
    """Let patterns that are not planned match only the keys that their group keeps."""
    for stream in rows.columns:
        pattern, operator = rows.patterns[stream], rows.model.operators[str(stream.operator)]
        if pattern.group in rows.shares and operator.node not in rows.limits:
            share = rows.shares[pattern.group]
            limit_by_share(rows, pattern, rows.arrivals[operator.name], share)


def solve_reduced(
    model: Model,
    limits: Mapping[str, Limit],
    *,
    local: bool = False,
    unshed: Rates | None = None,
    time_limit: float = 60.0,
    aim: float = 1.0,
) -> LpSolution | None:
    """Solve the reduced program for the nodes with limits; None if it is infeasible.

    If `local`, the output of these nodes counts, and not that of the sinks. The rates if
    nothing is shed need not be given; the time limit is for the solver, in seconds; the aim is
    that of links.

    Raises:
        SolverError: The solver ended without an answer.
    """
    reduced = reduced_program(build_lp_rows(model, limits, local=local, unshed=unshed), aim=aim)
    reduced.rows.add_constraints()
    solution = solve_rounds(reduced, time_limit)
    if solution.outcome is SolverOutcome.INFEASIBLE:
        return None
    prices = _prices(reduced, solution, time_limit)
    values = _break_ties(reduced, solution, time_limit).values
    rates, columns = values.tolist(), reduced.rows.columns
    matches = {stream: rates[columns[stream].branch_rates] for stream in reduced.kept}
    scale = max(map(abs, matches.values()), default=0.0)
    return LpSolution(
        reduced.kept,
        values,
        {s: float(values[k.share]) for s, k in reduced.kept.items() if k.share != NONE},
        frozenset(stream for stream, rate in matches.items() if rate > 1e-9 * scale),
        solution.objective,
        prices,
    )


def solve_rounds(
    reduced: ReducedLp,
    time_limit: float,
    *,
    costs: Floats | None = None,
    fixed: Floats | None = None,
) -> Solution:
    """Solve, add the rows that the answer breaks, and solve again until it breaks none.

    The time limit is for each time; see `LinearProgram.solve` for the rest.
    """
    solution = reduced.program.solve(time_limit=time_limit, costs=costs, fixed=fixed)
    for _ in range(_MAX_ROUNDS - 1):
        if solution.outcome is SolverOutcome.INFEASIBLE:
            break
        tangents = _add_tangents(reduced, solution.values)
        if not (_add_transport_rows(reduced, solution.values) or tangents):
            break
        solution = reduced.program.solve(time_limit=time_limit, costs=costs, fixed=fixed)
    return solution


def _add_limit(reduced: ReducedLp, limit: Limit, used: float, read: float) -> None:
    """Add the limit of a node as it is near these arrivals: a tangent, or the line itself."""
    name = limit.node.name
    fixed, columns, factors = 0.0, [np.zeros(0, np.int64)], [np.zeros(0)]
    for operator in reduced.rows.model.operators_on(name):
        for pattern in operator.patterns:
            load = reduced.loads[pattern.stream]
            fixed += load.constant
            columns.append(load.columns)
            factors.append(load.coefficients)
        if operator.name in reduced.transport_columns:
            size = len(operator.types)
            columns.append(reduced.transport_columns[operator.name] + np.arange(size))
            factors.append(np.full(size, limit.transport))
    if name in reduced.beyond:
        columns.append(np.array([reduced.beyond[name]]))
        factors.append(np.array([-1.0]))
    budget = limit.at(used, read)
    slopes = zip(limit.slopes(used), (used, read), (False, True), strict=True)
    for slope, rate, is_read in slopes:
        if not slope or not budget:
            continue
        arrivals = reduced.rows.node_arrivals(limit.arrivals, read=is_read)
        budget += slope * (arrivals.constant - rate)
        columns.append(arrivals.columns)
        factors.append(-slope * arrivals.coefficients)
    row = reduced.program.add_row(
        np.concatenate(columns), np.concatenate(factors), upper=budget - fixed
    )
    reduced.limit_rows.setdefault(name, []).append(row)


def _add_tangents(reduced: ReducedLp, values: Floats) -> bool:
    """Add a tangent where the answer lies above a limit; say whether one was added."""
    added = False
    for limit in reduced.rows.limits.values():
        arrivals = reduced.rows.node_arrivals(limit.arrivals)
        if limit.target.latency is not LatencyModel.MM1 or not len(arrivals.columns):
            continue
        used = arrivals.constant + dot(values[arrivals.columns], arrivals.coefficients)
        if _cost_at(reduced, limit, values) > limit.at(used, 0.0) * (1 + CUT_TOLERANCE):
            _add_limit(reduced, limit, used, 0.0)
            added = True
    return added


def _cost_at(reduced: ReducedLp, limit: Limit, values: Floats) -> float:
    cost = 0.0
    for operator in reduced.rows.model.operators_on(limit.node.name):
        for pattern in operator.patterns:
            kept = reduced.kept[pattern.stream].at(values)
            cost += dot(kept, limit.costs[pattern.stream])
        if operator.name in reduced.transport_columns:
            first = reduced.transport_columns[operator.name]
            cost += limit.transport * float(values[first : first + len(operator.types)].sum())
    name = limit.node.name
    return cost - float(values[reduced.beyond[name]]) if name in reduced.beyond else cost


def _add_transport_rows(reduced: ReducedLp, values: Floats) -> bool:
    """Add rows for transport, where a pattern keeps more than is paid for."""
    added = False
    for name, first in reduced.transport_columns.items():
        operator = reduced.rows.model.operators[name]
        most = values[first : first + len(operator.types)].copy()
        payer = np.full(len(most), NONE)
        for number, pattern in enumerate(operator.patterns):
            uses = pattern.demand.uses
            kept = reduced.kept[pattern.stream].at(values)
            more = kept > most[uses] * (1 + CUT_TOLERANCE) + 1e-12
            most[uses[more]] = kept[more]
            payer[uses[more]] = number
        for number in np.unique(payer[payer >= 0]):
            pattern = operator.patterns[number]
            chosen = np.flatnonzero(payer[pattern.demand.uses] == number)
            _charge(reduced, pattern, chosen, first)
            added = True
    return added


def _charge(reduced: ReducedLp, pattern: PatternModel, chosen: Ints, first: int) -> None:
    """Make a pattern pay transport, from column `first` on: paid - kept >= 0 if chosen."""
    kept = reduced.kept[pattern.stream]
    terms = kept.terms
    mine = np.flatnonzero(np.isin(terms.uses, chosen))
    mine = mine[np.argsort(terms.uses[mine], kind="stable")]
    sizes = np.bincount(np.searchsorted(chosen, terms.uses[mine]), minlength=len(chosen))
    ends = np.cumsum(sizes)
    reduced.program.add_rows(
        sizes + 1,
        np.insert(terms.columns[mine], ends, first + pattern.demand.uses[chosen]),
        np.insert(-terms.factors[mine], ends, 1.0),
        lower=kept.fixed[chosen],
    )


def _break_ties(reduced: ReducedLp, solution: Solution, time_limit: float) -> Solution:
    """Among all optima take one that does least work, then one that was declared first."""
    program = reduced.program
    costs = program.costs
    worth = np.flatnonzero(costs)
    program.add_row(worth, costs[worth], lower=solution.objective * (1 - 1e-11))
    fixed = np.round(solution.values) if program.has_integers else None
    settled = solve_rounds(reduced, time_limit, costs=_tie_costs(reduced), fixed=fixed)
    return settled if settled.outcome is SolverOutcome.OPTIMAL else solution


_BY_PATTERN, _BY_TYPE = 1e-3, 1e-5  # what being declared first counts, against all of the work


def _tie_costs(reduced: ReducedLp) -> Floats:
    """Say what to maximise among optima: little work, what was declared first."""
    rows, planned = reduced.rows, reduced.rows.planned()
    costs = np.zeros(reduced.program.column_count)
    outputs = rows.unshed.outputs
    budgets = {name: max(limit.budget(outputs), 1e-12) for name, limit in rows.limits.items()}
    loads = []
    for rank, (operator, pattern) in enumerate(planned):
        columns, demand = rows.columns[pattern.stream], pattern.demand
        usual = rows.arrivals[operator.name].total or np.inf  # nothing comes: all are alike
        first, count = columns.branch_rates, demand.branch_count
        costs[first] += (1 - rank / len(planned)) * _BY_PATTERN / usual
        if count > 1:
            later = np.arange(count) ** 1.1  # no two sums of ranks are alike
            costs[first : first + count] -= later * _BY_TYPE / usual
        if columns.flows != NONE:
            later = demand.entry_use**1.1
            costs[columns.flows : columns.flows + len(later)] -= later * _BY_TYPE / usual
        load = reduced.loads[pattern.stream]
        loads.append((load.columns, load.coefficients / budgets[operator.node]))
    if loads:
        loaded, work = map(np.concatenate, zip(*loads, strict=True))
        costs -= np.bincount(loaded, work, minlength=len(costs))
    return costs


def _prices(reduced: ReducedLp, solution: Solution, time_limit: float) -> Mapping[str, float]:
    """Read the worth of one more busy second, or byte on a link, per second off the duals."""
    duals = solution.duals
    if reduced.program.has_integers:
        fixed = np.round(solution.values)
        duals = reduced.program.solve(time_limit=time_limit, fixed=fixed).duals
    rows_of = reduced.limit_rows | {name: [row] for name, row in reduced.link_rows.items()}
    return {
        name: abs(float(sum(duals[row] for row in rows))) if len(duals) else 0.0
        for name, rows in rows_of.items()
    }

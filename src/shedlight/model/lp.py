"""Linear programs: columns (variables), rows (constraints), and a solver.

Rows are scaled so that their largest coefficient is 1: the solver's tolerances are absolute.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import highspy
import numpy as np

from shedlight.errors import SolverError
from shedlight.model.arrays import Flags, Floats, Ints

INFINITY = float("inf")
_TOLERANCE = 1e-9


class SolverOutcome(Enum):
    """How solving ended, where it ended well."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What the solver found."""

    outcome: SolverOutcome  # whether there is an optimum; if not, the arrays are empty
    objective: float  # the greatest value
    values: Floats  # the variables
    # what one more on the right-hand side of a row adds to the objective; empty if the program
    # has integer variables
    duals: Floats


class LinearExpression(NamedTuple):
    """A constant and a sum of variables times coefficients."""

    constant: float
    columns: Ints
    coefficients: Floats


class LinearProgram:
    """A linear program to be maximised; columns and rows are added one after the other."""

    def __init__(self) -> None:
        self.column_count = 0
        self.row_count = 0
        self._costs: list[float] = []
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._integer: list[bool] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._sizes: list[Ints] = []
        self._columns: list[Ints] = []
        self._coefficients: list[Floats] = []
        self._scales: list[Floats] = []
        self._solver: Any = None  # it has the columns
        self._passed = 0  # how many lists of rows it has

    def add_column(self, *, cost: float = 0.0, upper: float = INFINITY) -> int:
        """Add a variable from 0 on and return its number."""
        self._costs.append(cost)
        self._lower.append(0.0)
        self._upper.append(upper)
        self._integer.append(False)
        self.column_count += 1
        return self.column_count - 1

    def add_columns(
        self,
        count: int,
        *,
        cost: float | Floats = 0.0,
        lower: float | Floats = 0.0,
        upper: float | Floats = INFINITY,
        integer: bool = False,
    ) -> int:
        """Add variables and return the number of the first."""
        for goal, value in ((self._costs, cost), (self._lower, lower), (self._upper, upper)):
            goal.extend([value] * count if isinstance(value, float) else value.tolist())
        self._integer += [integer] * count
        self.column_count += count
        return self.column_count - count

    def add_row(
        self,
        columns: Ints | list[int],
        coefficients: Floats | list[float],
        *,
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> int:
        """Add a row, lower <= coefficients x variables <= upper, and return its number.

        A variable may be named several times; its coefficients are added up.
        """
        distinct, order = np.unique(np.asarray(columns, np.int64), return_inverse=True)
        if len(distinct) < len(order):
            sums = np.bincount(order, np.asarray(coefficients, np.float64))
            columns, coefficients = distinct, sums.astype(np.float64)
        sizes = np.array([len(columns)])
        return self.add_rows(sizes, columns, coefficients, lower=lower, upper=upper)

    def add_rows(
        self,
        sizes: Ints,
        columns: Ints | list[int],
        coefficients: Floats | list[float],
        *,
        lower: Floats | float = -INFINITY,
        upper: Floats | float = INFINITY,
    ) -> int:
        """Add rows of so many coefficients each and return the number of the first."""
        count, values = len(sizes), np.asarray(coefficients, np.float64)
        scales = np.ones(count)
        filled = np.flatnonzero(sizes)
        if len(filled):
            starts = (np.cumsum(sizes) - sizes)[filled]
            most = np.maximum.reduceat(np.abs(values), starts)
            scales[filled] = np.where(most > 0, 1 / np.where(most > 0, most, 1), 1.0)
        self._sizes.append(np.asarray(sizes, np.int64))
        self._columns.append(np.asarray(columns, np.int64))
        self._coefficients.append(values * np.repeat(scales, sizes))
        self._row_lower.append(np.broadcast_to(lower, count) * scales)
        self._row_upper.append(np.broadcast_to(upper, count) * scales)
        self._scales.append(scales)
        self.row_count += count
        return self.row_count - count

    @property
    def costs(self) -> Floats:
        """What one of each variable adds to the objective."""
        return np.array(self._costs, np.float64)

    @property
    def has_integers(self) -> bool:
        """Whether there are integer variables."""
        return any(self._integer)

    def solve(
        self,
        *,
        time_limit: float = 60.0,
        fixed: Floats | None = None,
        costs: Floats | None = None,
    ) -> Solution:
        """Solve it within so many seconds; `costs` are maximised instead of its own.

        `fixed` has values for the integer variables, for the duals of what is left; all others
        in it are ignored. Without integer variables it goes on from the optimum before, if only
        rows were added: those that it breaks, or other costs, take few steps.

        Raises:
            SolverError: The solver gave up, or found that there is no greatest value.
        """
        if not self.column_count:
            return Solution(SolverOutcome.OPTIMAL, 0.0, np.zeros(0), np.zeros(self.row_count))
        integer = np.array(self._integer, np.bool_)
        if integer.any() or self._solver is None or self._solver.numVariables != len(integer):
            self._start_solver(integer, fixed)
        solver, numbers = self._solver, np.arange(self.column_count, dtype=np.int32)
        self._pass_rows()
        solver.changeColsCost(len(numbers), numbers, self.costs if costs is None else costs)
        solver.setOptionValue("time_limit", solver.getRunTime() + time_limit)
        if solver.run() == highspy.HighsStatus.kError:
            solver.clearSolver()  # the optimum before was of no use to it
            _check(solver.run(), "run")
        has_duals = fixed is not None or not integer.any()
        return _solution(solver, _joined(self._scales) if has_duals else None)

    def _start_solver(self, integer: Flags, fixed: Floats | None) -> None:
        """Give the columns to a new solver, integer variables fixed if that is asked for."""
        program = highspy.HighsLp()
        program.num_col_ = self.column_count
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = self.costs
        lower, upper = np.array(self._lower, np.float64), np.array(self._upper, np.float64)
        if fixed is not None:
            lower, upper = np.where(integer, fixed, lower), np.where(integer, fixed, upper)
        elif integer.any():
            types = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            program.integrality_ = [types[int(flag)] for flag in integer]
        program.col_lower_, program.col_upper_ = lower, upper
        self._solver, self._passed = _new_solver(), 0
        _check(self._solver.passModel(program), "take the program")

    def _pass_rows(self) -> None:
        """Give the solver the rows that it has not got yet."""
        first, self._passed = self._passed, len(self._sizes)
        sizes = _joined(self._sizes[first:], np.int64)
        columns = _joined(self._columns[first:], np.int64)
        status = self._solver.addRows(
            len(sizes),
            _joined(self._row_lower[first:]),
            _joined(self._row_upper[first:]),
            len(columns),
            (np.cumsum(sizes) - sizes).astype(np.int32),
            columns.astype(np.int32),
            _joined(self._coefficients[first:]),
        )
        _check(status, "take the rows")


def _joined(arrays: list[Any], dtype: type = np.float64) -> Any:  # noqa: ANN401
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _new_solver() -> Any:  # noqa: ANN401  # highspy has no types
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "solver": "simplex",
        "primal_feasibility_tolerance": _TOLERANCE,
        "dual_feasibility_tolerance": _TOLERANCE,
        "mip_feasibility_tolerance": _TOLERANCE,
        "mip_rel_gap": _TOLERANCE,
        "mip_abs_gap": 0.0,
    }
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _check(status: Any, what: str) -> None:  # noqa: ANN401
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"the solver could not {what}; this is a fault in Shedlight")


def _solution(solver: Any, scales: Floats | None) -> Solution:  # noqa: ANN401
    """Read what was found; duals if there are any, of rows that were scaled so."""
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution(SolverOutcome.INFEASIBLE, 0.0, np.zeros(0), np.zeros(0))
    if status != highspy.HighsModelStatus.kOptimal:
        reason = solver.modelStatusToString(status).lower()
        raise SolverError(
            f"the solver ended without a plan ({reason}); the active plan stays; "
            "give it more time, or plan fewer nodes at once"
        )
    answer = solver.getSolution()
    values = np.array(answer.col_value)
    duals = np.zeros(0) if scales is None else np.array(answer.row_dual) * scales
    objective = solver.getInfo().objective_function_value
    return Solution(SolverOutcome.OPTIMAL, float(objective), values, duals)

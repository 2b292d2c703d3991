"""Linear programs: columns (variables), rows (constraints), and a solver.

Rows are scaled so that their largest coefficient is 1: the solver's tolerances are absolute.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

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


@dataclass(frozen=True, slots=True, eq=False)
class LinearExpression:
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
        in it are ignored.

        Raises:
            SolverError: The solver gave up, or found that there is no greatest value.
        """
        integer = np.array(self._integer, np.bool_)
        lower, upper = np.array(self._lower, np.float64), np.array(self._upper, np.float64)
        if fixed is not None:
            lower, upper = np.where(integer, fixed, lower), np.where(integer, fixed, upper)
            integer = np.zeros_like(integer)
        if not self.column_count:
            return Solution(SolverOutcome.OPTIMAL, 0.0, np.zeros(0), np.zeros(self.row_count))
        solver = _new_solver(time_limit)
        program = self._highs_program(lower, upper, integer)
        if costs is not None:
            program.col_cost_ = costs
        _check(solver.passModel(program), "take the program")
        _check(solver.run(), "run")
        return _solution(solver, _joined(self._scales), integer)

    def _highs_program(self, lower: Floats, upper: Floats, integer: Flags) -> Any:  # noqa: ANN401
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = self.column_count, self.row_count
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = self.costs
        program.col_lower_, program.col_upper_ = lower, upper
        program.row_lower_ = _joined(self._row_lower)
        program.row_upper_ = _joined(self._row_upper)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts = np.concatenate([[0], np.cumsum(_joined(self._sizes, np.int64))])
        program.a_matrix_.start_ = starts.astype(np.int32)
        program.a_matrix_.index_ = _joined(self._columns, np.int64).astype(np.int32)
        program.a_matrix_.value_ = _joined(self._coefficients)
        if integer.any():
            types = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            program.integrality_ = [types[int(flag)] for flag in integer]
        return program


def _joined(arrays: list[Any], dtype: type = np.float64) -> Any:  # noqa: ANN401
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _new_solver(time_limit: float) -> Any:  # noqa: ANN401  # highspy has no types
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "solver": "simplex",
        "time_limit": time_limit,
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


def _solution(solver: Any, scales: Floats, integer: Flags) -> Solution:  # noqa: ANN401
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
    duals = np.zeros(0) if integer.any() else np.array(answer.row_dual) * scales
    objective = solver.getInfo().objective_function_value
    return Solution(SolverOutcome.OPTIMAL, float(objective), values, duals)

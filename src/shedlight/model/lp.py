"""Linear programs: variables, rows, and a solver that either has the answer or says it has not.

Rows are scaled so that their largest entry is 1: the solver's tolerances are absolute.
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
    """An answer.

    Attributes:
        outcome: Whether there is an optimum; if not, the arrays are empty.
        objective: The greatest value.
        values: The variables.
        duals: What one more on the right-hand side of a row adds to the objective; empty if
            the program has whole-numbered variables.
    """

    outcome: SolverOutcome
    objective: float
    values: Floats
    duals: Floats


class LinearProgram:
    """A linear program to be maximised, put together piece by piece."""

    def __init__(self) -> None:
        self.columns = 0
        self.rows = 0
        self._costs: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._whole: list[Flags] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._sizes: list[Ints] = []
        self._places: list[Ints] = []
        self._entries: list[Floats] = []
        self._scales: list[Floats] = []

    def add_columns(
        self,
        number: int,
        *,
        cost: float | Floats = 0.0,
        lower: float | Floats = 0.0,
        upper: float | Floats = INFINITY,
        whole: bool = False,
    ) -> int:
        """Add variables and give the number of the first."""
        for goal, value in ((self._costs, cost), (self._lower, lower), (self._upper, upper)):
            goal.append(np.full(number, value, np.float64))
        self._whole.append(np.full(number, whole))
        self.columns += number
        return self.columns - number

    def add_row(
        self,
        places: Ints | list[int],
        entries: Floats | list[float],
        *,
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> int:
        """Add a row, lower <= entries x variables <= upper, and give its number.

        A variable may be named several times; its entries are added up.
        """
        names, order = np.unique(np.asarray(places, np.int64), return_inverse=True)
        if len(names) < len(order):
            entries = np.bincount(order, np.asarray(entries, np.float64)).astype(np.float64)
            places = names
        size = np.array([len(places)])
        return self.add_rows(
            size, places, entries, lower=np.array([lower]), upper=np.array([upper])
        )

    def add_rows(
        self,
        sizes: Ints,
        places: Ints | list[int],
        entries: Floats | list[float],
        *,
        lower: Floats | float = -INFINITY,
        upper: Floats | float = INFINITY,
    ) -> int:
        """Add rows of so many entries each and give the number of the first."""
        number, values = len(sizes), np.asarray(entries, np.float64)
        scales = np.ones(number)
        filled = np.flatnonzero(sizes)
        if len(filled):
            starts = (np.cumsum(sizes) - sizes)[filled]
            most = np.maximum.reduceat(np.abs(values), starts)
            scales[filled] = np.where(most > 0, 1 / np.where(most > 0, most, 1), 1.0)
        self._sizes.append(np.asarray(sizes, np.int64))
        self._places.append(np.asarray(places, np.int64))
        self._entries.append(values * np.repeat(scales, sizes))
        self._row_lower.append(np.broadcast_to(lower, number) * scales)
        self._row_upper.append(np.broadcast_to(upper, number) * scales)
        self._scales.append(scales)
        self.rows += number
        return self.rows - number

    @property
    def costs(self) -> Floats:
        """What one of each variable is worth."""
        return np.asarray(_joined(self._costs), np.float64)

    @property
    def has_whole(self) -> bool:
        """Whether there are whole-numbered variables."""
        return any(part.any() for part in self._whole)

    def solve(
        self,
        *,
        time_limit: float = 60.0,
        fixed: Floats | None = None,
        costs: Floats | None = None,
    ) -> Solution:
        """Solve it.

        Args:
            time_limit: In seconds.
            fixed: Values for the whole-numbered variables, for the duals of what is left; all
                others are ignored.
            costs: What to maximise instead.

        Raises:
            SolverError: The solver gave up, or found that there is no greatest value.
        """
        whole = _joined(self._whole, np.bool_)
        lower, upper = _joined(self._lower), _joined(self._upper)
        if fixed is not None:
            lower, upper = np.where(whole, fixed, lower), np.where(whole, fixed, upper)
            whole = np.zeros_like(whole)
        if not self.columns:
            return Solution(SolverOutcome.OPTIMAL, 0.0, np.zeros(0), np.zeros(self.rows))
        solver = _solver(time_limit)
        program = self._linear(lower, upper, whole)
        if costs is not None:
            program.col_cost_ = costs
        _check(solver.passModel(program), "take the program")
        _check(solver.run(), "run")
        return _answer(solver, np.concatenate([*self._scales, np.zeros(0)]), whole)

    def _linear(self, lower: Floats, upper: Floats, whole: Flags) -> Any:  # noqa: ANN401
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = self.columns, self.rows
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_, program.col_lower_ = _joined(self._costs), lower
        program.col_upper_ = upper
        program.row_lower_, program.row_upper_ = (
            _joined(self._row_lower),
            _joined(self._row_upper),
        )
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts = np.concatenate([[0], np.cumsum(_joined(self._sizes, np.int64))])
        program.a_matrix_.start_ = starts.astype(np.int32)
        program.a_matrix_.index_ = _joined(self._places, np.int64).astype(np.int32)
        program.a_matrix_.value_ = _joined(self._entries)
        if whole.any():
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            program.integrality_ = [kinds[int(one)] for one in whole]
        return program


def _joined(parts: list[Any], dtype: type = np.float64) -> Any:  # noqa: ANN401
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype, copy=False)


def _solver(time_limit: float) -> Any:  # noqa: ANN401  # highspy has no types
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    settings = {
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
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    return solver


def _check(status: Any, what: str) -> None:  # noqa: ANN401
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"the solver could not {what}; this is a fault in Shedlight")


def _answer(solver: Any, scales: Floats, whole: Flags) -> Solution:  # noqa: ANN401
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution(SolverOutcome.INFEASIBLE, 0.0, np.zeros(0), np.zeros(0))
    if status != highspy.HighsModelStatus.kOptimal:
        words = solver.modelStatusToString(status).lower()
        raise SolverError(
            f"the solver ended without a plan ({words}); the plan in force stays; "
            "give it more time, or plan fewer nodes at once"
        )
    solution = solver.getSolution()
    values = np.array(solution.col_value)
    duals = np.zeros(0) if whole.any() else np.array(solution.row_dual) * scales
    objective = solver.getInfo().objective_function_value
    return Solution(SolverOutcome.OPTIMAL, float(objective), values, duals)

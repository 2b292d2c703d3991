"""Linear programs that are solved several times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.lp import LinearProgram


def _program(costs, rows):
    program = LinearProgram()
    program.add_columns(len(costs), cost=costs, upper=5.0)
    for coefficients, upper in rows:
        program.add_row(np.arange(len(costs)), coefficients, upper=upper)
    return program


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 4))
def test_to_go_on_from_an_optimum_is_to_solve_anew(seed, columns, more):
    """With rows that were added, and with other costs."""
    rng = np.random.default_rng(seed)
    costs, others = rng.uniform(0, 1, columns), rng.uniform(-1, 1, columns)
    rows = [(rng.uniform(0, 1, columns), rng.uniform(0.1, 3)) for _ in range(1 + more)]
    program = _program(costs, rows[:1])
    program.solve()
    for coefficients, upper in rows[1:]:
        program.add_row(np.arange(columns), coefficients, upper=upper)

    for maximised in (None, others):
        again, anew = (
            program.solve(costs=maximised),
            _program(costs, rows).solve(costs=maximised),
        )
        assert again.objective == pytest.approx(anew.objective, abs=1e-7)
        assert again.values == pytest.approx(anew.values, abs=1e-6)
        assert len(again.duals) == len(rows)


def test_a_column_that_was_added_is_seen():
    """Then it is solved anew."""
    program = _program(np.ones(2), [(np.ones(2), 3.0)])
    assert program.solve().objective == pytest.approx(3.0)
    program.add_columns(1, cost=2.0, upper=1.0)
    assert program.solve().objective == pytest.approx(5.0)
    assert program.solve().values[2] == pytest.approx(1.0)

"""Queues of partial matches: order, caps, keys, many symbols."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.errors import CapError
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import (
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import count_partial_matches
from shedlight.testing import matches

OVERTAKING = """
    SELECT e
    WHERE SEQ(OR(a.type = 'A', SEQ(c.type = 'C', d.type = 'D')), b.type = 'B', e.type = 'E')
    WITHIN 1 h
"""


def _run(text, table, **options):
    """Match a table and give the state and the ids of the events of each match."""
    pattern = parse_pattern(text, schema_of(table.schema)).pattern
    inputs = [(StreamInput("events", ("n",), "time"), table.schema)]
    operator = build_operator(inputs, {"P": pattern}, **options)
    state, outcome = step_operator(
        operator, new_operator_state(operator), {0: table}, frozenset({0})
    )
    return state, outcome.complex_events["P"]["events"].to_pylist()


def _table(types, **columns):
    size = len(types)
    return pa.table({"type": types, "time": range(size), "n": range(size), **columns})


def test_a_partial_match_that_joins_behind_a_younger_one_still_comes_first():
    """A list alone would give E to the one that A opened: it reached the state first."""
    assert matches(OVERTAKING, "C0 A1 B2 D3 B4 E5 E6") == ["C0 D3 B4 E5", "A1 B2 E6"]


def test_many_partial_matches_out_of_order_leave_the_heap_oldest_first():
    """Older partial matches join one by one behind all the younger ones."""
    opened = [f"C{i}" for i in range(9)] + [f"A{i}" for i in range(10, 19)]
    younger = [f"B{i}" for i in range(20, 29)]
    older = [f"D{i}" for i in range(30, 39)] + [f"B{i}" for i in range(40, 49)]
    ends = [f"E{i}" for i in range(50, 68)]

    found = matches(OVERTAKING, " ".join(opened + younger + older + ends))

    assert [one.split()[0] for one in found] == opened


def test_past_the_cap_the_oldest_partial_match_goes_and_is_counted():
    """Three partial matches may be open: the first two of five go."""
    table = _table([0] * 5 + [1] * 5)
    text = "SELECT a.n WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s"

    state, found = _run(text, table, cap=3)

    assert found == [[2, 5], [3, 6], [4, 7]]
    assert count_partial_matches(state.states[0]).evicted == 2


def test_past_the_cap_the_oldest_partial_match_goes_also_with_conditions_across_events():
    """The scan kernel keeps the same cap."""
    table = _table([0] * 5 + [1] * 5)
    text = "SELECT a.n WHERE SEQ(a.type = 0, b.type = 1) AND b.n > a.n WITHIN 1 s"

    state, found = _run(text, table, cap=3)

    assert found == [[2, 5], [3, 6], [4, 7]]
    assert count_partial_matches(state.states[0]).evicted == 2


def test_a_wide_and_is_kept_as_regions():
    """Forty parts would be 2^40 states; each is a region of two."""
    parts = ", ".join(f"E{i}.type = {i}" for i in range(40))
    types = np.random.default_rng(1).permutation(np.repeat(np.arange(40), 25))

    _, found = _run(f"SELECT E0.n WHERE AND({parts}) WITHIN 1 s", _table(types))

    assert len(found) == 25
    assert all(sorted(types[n] for n in one) == list(range(40)) for one in found)


def test_an_and_of_equal_elements_takes_them_in_turn():
    """Twenty elements that ask the same are a count, not 2^20 states."""
    parts = ", ".join(f"E{i}.type = 0" for i in range(20))

    _, found = _run(f"SELECT E0.n, E19.n AS m WHERE AND({parts}) WITHIN 1 s", _table([0] * 40))

    assert found == [list(range(20)), list(range(20, 40))]


def test_an_and_of_too_many_overlapping_parts_is_refused():
    """Which part an event is for cannot be known, so all sets of parts are possible."""
    parts = ", ".join(f"E{i}.n > {i}" for i in range(20))
    with pytest.raises(CapError, match="more than 16,384 states"):
        _run(f"SELECT E0.n WHERE AND({parts}) WITHIN 1 s", _table([0]))


def test_ten_thousand_values_of_one_attribute_are_one_look_up():
    """An OR over 10,000 types has two states, and each type is a symbol of its own."""
    values = ", ".join(map(str, range(0, 20_000, 2)))
    table = _table(np.arange(20_000))
    text = f"SELECT a.n WHERE SEQ(a.type IN ({values}), b.type = 19999) WITHIN 1 s"

    state, found = _run(text, table)

    assert found == [[0, 19_999]]
    assert len(state.types.signatures) == 10_002


def test_an_event_that_matches_nothing_has_an_empty_label():
    """Types are named after what holds; what is of no use has no name."""
    text = "SELECT a.n WHERE SEQ(a.type = 0, b.type <> 0, c.n > 3) WITHIN 1 s"
    state, _ = _run(text, _table([0, 1, None, 0, 1]))
    labels = [state.types.label(i) for i in range(len(state.types.signatures))]
    assert sorted(labels) == ["", "type <> 0", "type <> 0 & n > 3", "type=0"]

"""What times out: which partial matches, when, and as what; see the reference for the rest."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.tables import match_tables
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

PAIR = "SELECT * WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 2 s"


def _timed_out(pattern, events):
    return matches(pattern, events, timed_out=True)


def _result(text, kinds, times, **columns):
    table = pa.table({"n": range(len(kinds)), "time": times, "type": kinds, **columns})
    pattern = parse_pattern(text, schema_of(table.schema)).pattern
    inputs = [(StreamInput("events", ("n",), "time"), table)]
    return match_tables(inputs, {"P": pattern}, timed_out=True)


def test_only_the_window_times_a_partial_match_out():
    """Not a match, not a NOT, and not the cap."""
    assert _timed_out(PAIR, "A0 B2 A3 B5.1") == ["A3"]
    spoilt = "SELECT * WHERE SEQ(a.type = 'A', NOT(x.type = 'X'), b.type = 'B') WITHIN 2 s"
    assert _timed_out(spoilt, "A0 X1 A5") == ["A5"]

    pattern = parse_pattern("SELECT a.n WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 9 us")
    table = pa.table({"n": range(5), "time": range(5), "type": ["A"] * 5})
    inputs = [(StreamInput("events", ("n",), "time"), table.schema)]
    operator = build_operator(inputs, {"P": pattern.pattern}, cap=3, timed_out={"P"})
    state, done = step_operator(
        operator, new_operator_state(operator), {0: table}, frozenset({0})
    )
    assert done.timed_out["P"]["events"].to_pylist() == [[2], [3], [4]]
    assert count_partial_matches(state.states[0]).evicted == 2


def test_what_an_absence_finds_is_a_match_and_the_rest_timed_out():
    """A0 lacks its B; A10 has one, and no C after it."""
    absent = "SELECT * WHERE SEQ(a.type = 'A', b.type = 'B', NOT(c.type = 'C')) WITHIN 5 s"
    assert matches(absent, "A0 A10 B11") == ["A10 B11"]
    assert _timed_out(absent, "A0 A10 B11") == ["A0"]


@pytest.mark.parametrize("across", ["", " AND b.x > a.x"])
def test_the_time_is_the_end_of_the_window(across):
    """Whatever event shows that it is over; none does at the end of the table."""
    text = f"SELECT a.n, b.n AS m WHERE SEQ(a.type = 'A', b.type = 'B'){across} WITHIN 10 us"
    result = _result(text, ["A", "A", "C"], [0, 50, 99], x=[1, 1, 1])

    assert result.complex_events["P"].to_pylist() == []
    found = result.timed_out["P"]
    assert found.schema == result.complex_events["P"].schema
    assert found.drop_columns(["id"]).to_pylist() == [
        {"source": "P", "time": 10, "events": [0], "n": 0, "m": None},
        {"source": "P", "time": 60, "events": [1], "n": 1, "m": None},
    ]


@pytest.mark.parametrize("across", ["", " AND b.x > a.x"])
def test_a_window_of_events_ends_with_the_event_that_is_too_many(across):
    """Of its key; a window that is not full when the events end is not over."""
    text = f"SELECT a.n WHERE SEQ(a.type = 'A', b.type = 'B'){across} WITHIN 2 EVENTS"
    by_key = f"{text} PARTITION BY key"
    kinds, times = ["A", "C", "C", "A", "C"], [0, 5, 7, 8, 9]
    columns = {"x": [1] * 5, "key": [1, 2, 1, 2, 1]}

    found = _result(text, kinds, times, **columns).timed_out["P"]
    assert list(zip(found["n"].to_pylist(), found["time"].to_pylist(), strict=True)) == [(0, 7)]
    found = _result(by_key, kinds, times, **columns).timed_out["P"]
    assert list(zip(found["n"].to_pylist(), found["time"].to_pylist(), strict=True)) == [(0, 9)]


def test_what_is_selected_is_of_the_events_so_far():
    """Aggregates are over those that were taken, and null or 0 where there are none."""
    text = (
        "SELECT COUNT(a) AS a, SUM(a.x) AS sum, COUNT(b) AS b, MAX(b.x) AS most, b.x "
        "WHERE SEQ(a.type = 'A' +, b.type = 'B') WITHIN 10 us"
    )
    found = _result(text, ["A", "A", "B"], [0, 5, 11], x=[1, 2, 4]).timed_out["P"]
    assert found.drop_columns(["source", "time", "id", "events"]).to_pylist() == [
        {"a": 2, "sum": 3, "b": 0, "most": None, "x": None}
    ]


def test_each_gives_a_complex_event_for_every_event_taken():
    """With the id of the whole, and a number."""
    text = "SELECT EACH n WHERE SEQ(a.type = 'A', b.type = 'B', c.type = 'C') WITHIN 10 us"
    found = _result(text, ["A", "B"], [0, 5]).timed_out["P"].to_pylist()
    assert [(one["time"], one["n"], one["events"]) for one in found] == [
        (10, 0, [0, 1]),
        (10, 1, [0, 1]),
    ]
    assert [one["id"][-2:] for one in found] == ["-0", "-1"]


def test_an_id_is_that_of_no_match():
    """The same events can be a match of one partial match and time out in another."""
    text = "SELECT a.n WHERE OR(SEQ(a.type = 'A', b.type = 'B'), c.type = 'C') WITHIN 9 us"
    result = _result(text, ["A", "C"], [0, 0])
    other = _result(text, ["C", "A"], [0, 0])
    ids = [
        name
        for one in (result, other)
        for part in (one.complex_events, one.timed_out)
        for name in part["P"]["id"].to_pylist()
    ]
    assert len(set(ids)) == len(ids) == 4


@pytest.mark.parametrize(
    "where",
    [
        "SEQ(a.type = 0, b.type = 1)",
        "SEQ(a.type = 0, b.type = 1) AND a.n < b.n",
        "AND(a.type = 0, b.type = 1, c.type = 2)",
        "SEQ(a.type = 0, NOT(x.type = 3), b.type = 1)",
        "SEQ(a.type = 0 {1,3}, b.type <= 1, c.type = 4)",
    ],
)
@pytest.mark.parametrize("window", ["20 us", "20 EVENTS", "20 us REUSE"])
def test_nothing_is_lost_however_many_time_out(where, window):
    """More than there is room for at first, and in two parts the same as at once."""
    rng = np.random.default_rng(3)
    size = 60_000 if "REUSE" not in window else 6_000
    kinds = rng.choice(5, size, p=[0.7, 0.1, 0.1, 0.05, 0.05])
    table = pa.table({"n": range(size), "time": range(size), "type": kinds})
    pattern = parse_pattern(f"SELECT a.n WHERE {where} WITHIN {window}").pattern
    inputs = [(StreamInput("events", ("n",), "time"), table.schema)]
    operator = build_operator(inputs, {"P": pattern}, timed_out={"P"})
    start = new_operator_state(operator)
    whole, at_once = step_operator(operator, start, {0: table}, frozenset({0}))
    state, done = step_operator(operator, start, {0: table[:777]})
    found, over = [done.complex_events["P"]], [done.timed_out["P"]]
    state, done = step_operator(operator, state, {0: table[777:]}, frozenset({0}))
    found.append(done.complex_events["P"])
    over.append(done.timed_out["P"])

    assert pa.concat_tables(found).equals(at_once.complex_events["P"])
    assert pa.concat_tables(over).equals(at_once.timed_out["P"])
    assert len(at_once.timed_out["P"]) == count_partial_matches(whole.states[0]).expired > 100

"""States of operators and groups as bytes: they go on where they stopped, or say why not."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step.saved import VERSION, from_bytes, to_bytes
from shedlight.errors import StateError
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import new_operator_state, step_operator
from tests import strategies
from tests.kernel import operator_for, table_of
from tests.reference import Event

PATTERN = "SELECT b.name WHERE SEQ(a.kind = 0, b.kind = 1, c.kind = 2) AND c.x > a.x WITHIN 1 h"


def _run(operator, arrivals, cuts, *, saved):
    state, found = new_operator_state(operator), []
    bounds = [0, *sorted(cuts), len(arrivals)]
    for number, (start, end) in enumerate(pairwise(bounds), 1):
        ended = frozenset({0, 1}) if number == len(bounds) - 1 else frozenset()
        batch = arrivals[start:end]
        tables = {i: table_of([event for event in batch if event.input == i]) for i in (0, 1)}
        state, outcome = step_operator(operator, state, tables, ended)
        found += outcome.complex_events["P"].to_pylist()
        if saved:
            state = from_bytes(operator, to_bytes(operator, state))
    return repr(found), state.reorder_buffer.late, state.reorder_buffer.duplicates


@settings(max_examples=150)
@given(
    strategies.patterns(),
    strategies.streams(5, 24),
    st.lists(st.integers(0, 24), max_size=4),
    st.tuples(*[st.sampled_from([0, 1, 3])] * 2),
)
def test_an_operator_goes_on_from_its_bytes(pattern, arrivals, cuts, lateness):
    """Waiting events, remembered ids and open machines survive, at any cut."""
    operator = operator_for(pattern, lateness)
    cuts = [cut for cut in cuts if cut <= len(arrivals)]
    expected = _run(operator, arrivals, cuts, saved=False)
    assert _run(operator, arrivals, cuts, saved=True) == expected


def _state():
    operator = operator_for(parse_pattern(PATTERN).pattern, (5, 5))
    values = {"kind": 0, "x": 1, "y": 0.5, "key": 1, "name": "ä"}
    events = [Event(10 * i, i % 2, (i,), values) for i in range(9)]
    tables = {i: table_of([event for event in events if event.input == i]) for i in (0, 1)}
    state, _ = step_operator(operator, new_operator_state(operator), tables)
    return operator, state


@settings(max_examples=200)
@given(st.data())
def test_damaged_bytes_are_always_found_out(data):
    """Cut off or changed anywhere."""
    operator, state = _state()
    good = bytearray(to_bytes(operator, state))
    place = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = bytes(good[:place])
    else:
        good[place] ^= data.draw(st.integers(1, 255))
        bad = bytes(good)
    with pytest.raises(StateError, match="saved state"):
        from_bytes(operator, bad)


def test_the_state_of_other_inputs_or_patterns_is_refused():
    """The message says which they were."""
    operator, state = _state()
    data = to_bytes(operator, state)
    with pytest.raises(StateError, match="of other inputs"):
        from_bytes(operator_for(parse_pattern(PATTERN).pattern, (5, 6)), data)
    other = operator_for(parse_pattern(PATTERN.replace("1 h", "2 h")).pattern, (5, 5))
    with pytest.raises(StateError, match="another pattern"):
        from_bytes(other, data)


def test_another_version_is_refused_with_its_number():
    """Who goes back to an older release is told so."""
    operator, state = _state()
    data = bytearray(to_bytes(operator, state))
    data[len(b"SHEDLIGHT-OPERATOR")] = VERSION + 1
    with pytest.raises(StateError, match=f"version {VERSION + 1}"):
        from_bytes(operator, bytes(data))

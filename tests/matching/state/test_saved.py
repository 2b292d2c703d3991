"""States as bytes: they go on where they stopped, or say why not."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.errors import StateError
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import new_operator_state, step_operator
from shedlight.matching.operators.step import count_partial_matches
from shedlight.matching.state.compact import shrink
from shedlight.matching.state.container import VERSION, read_container
from tests import strategies
from tests.kernel import from_bytes, listed, operator_for, step, table_of, to_bytes
from tests.reference import Event

PINNED = Path(__file__).parents[2] / "fixtures" / "states"
PATTERNS = {
    "fifo": "SELECT b.name WHERE SEQ(a.kind = 0, NOT(x.kind = 9), b.kind = 1 {2}) WITHIN 1 h",
    "keys": "SELECT b.name WHERE AND(a.kind = 0, b.kind = 1, c.kind = 2) WITHIN 5 EVENTS "
    "PARTITION BY key, name",
    "implicit": "SELECT b.name WHERE SEQ(a.kind = 0, b.kind = 1) AND b.y = a.y WITHIN 1 h",
    "scan": "SELECT b.name WHERE SEQ(a.kind = 0, b.kind = 1 +, c.kind = 2) AND b.x > a.x "
    "WITHIN 1 h",
}
FIRST = [0, 1, 0, 0, 1]
REST = [2, 1, 1, 1, 2, 2, 0, 1, 2, 2]


def _events(types):
    return [
        Event(10 * i, i % 2, (i,), {"kind": n, "x": i % 5, "y": 0.5, "key": i % 2, "name": "ä"})
        for i, n in enumerate(types)
    ]


def _operator(name):
    return operator_for(parse_pattern(PATTERNS[name]).pattern, (5, 5))


def _state(name):
    """Match five events; the inputs go on, and the last events wait in the reorder buffer."""
    operator = _operator(name)
    state, _ = step(operator, new_operator_state(operator), _events(FIRST), ended=False)
    return operator, state


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pinned_state_goes_on(name):
    """The file was saved once; a new format has a new version and other files."""
    operator, state = _state(name)
    assert count_partial_matches(state.states[0]).open > 0
    assert len(state.reorder_buffer.buffer) > 0
    rest = _events(FIRST + REST)[len(FIRST) :]
    _, expected = step(operator, state, rest, ended=True)
    assert len(expected) > 0

    pinned = from_bytes(operator, (PINNED / f"{name}-v{VERSION}.state").read_bytes())

    _, found = step(operator, pinned, rest, ended=True)
    assert listed(operator, found) == listed(operator, expected)
    assert to_bytes(operator, pinned) == to_bytes(operator, state)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_state_shrinks_after_a_burst_and_goes_on(name):
    """Thousands of partial matches begin and end; the room that they had is given back."""
    operator, later = _operator(name), 3_600_000_010
    burst = [(0, 0, i, 0) for i in range(3_000)] + [
        (later, 0, i, 0) for i in range(3_000, 3_005)
    ]
    ends = [(later + 100, 0, 4_000, 7), (later + 100, 1, 4_001, 7)]
    events = [
        Event(time, of, (i,), {"kind": kind, "x": 1, "y": i / 2, "key": i, "name": "ä"})
        for time, of, i, kind in burst + ends
    ]
    state, _ = step(operator, new_operator_state(operator), events, ended=False)
    wide = state.states[0]
    few = count_partial_matches(wide).open
    assert few >= 5
    small = replace(state, states=(shrink(wide),))
    if few < 0.25 * len(wide.records.partial_matches):
        assert len(small.states[0].records.partial_matches) == few
    assert shrink(small.states[0]) is small.states[0]
    rest = [replace(each, time=each.time + 2 * later) for each in _events(FIRST + REST)]
    found = [step(operator, each, rest, ended=True)[1] for each in (state, small)]
    assert listed(operator, found[0]) == listed(operator, found[1])


@pytest.mark.parametrize("start", [b"", b"-OPERATOR", b"-GROUP"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_state_of_an_earlier_version_is_refused(start, version):
    """Patterns, operators and groups had formats of their own before version 4."""
    old = b"SHEDLIGHT" + start + bytes([version, 0]) + bytes(40)
    sentence = (
        "^the saved state was written by an earlier version .*; start with a new checkpoint$"
    )
    with pytest.raises(StateError, match=sentence):
        from_bytes(_operator("fifo"), old)


@pytest.mark.parametrize(("change", "which"), [(1, "a later"), (-1, "an earlier")])
def test_a_state_of_another_version_is_refused(change, which):
    """Who goes back to an older release is told so, and who comes from one without indexes."""
    operator, state = _state("fifo")
    data = bytearray(to_bytes(operator, state))
    data[len(b"SHEDLIGHT-STATE")] = VERSION + change
    sentence = f"by {which} version of Shedlight; start with a new"
    with pytest.raises(StateError, match=sentence):
        from_bytes(operator, bytes(data))


def test_the_state_of_other_inputs_or_patterns_is_refused():
    """The message says which they were."""
    operator, state = _state("fifo")
    data = to_bytes(operator, state)
    with pytest.raises(StateError, match="of other inputs"):
        from_bytes(operator_for(operator.matchers[0].pattern, (5, 6)), data)
    with pytest.raises(StateError, match=r"other patterns:\n  saved: SELECT b.name WHERE SEQ"):
        from_bytes(_operator("scan"), data)


def test_a_section_is_named_by_its_pattern_and_has_the_key_of_every_partial_match():
    """Two hashes, as every event of the key has them; so keys can be listed from bytes."""
    operator, state = _state("keys")
    own, section = read_container(to_bytes(operator, state))
    assert (own.kind, section.kind) == ("operator", "pattern")
    assert section.name == operator.matchers[0].fingerprint
    records = from_bytes(operator, to_bytes(operator, state)).states[0].records
    assert list(section.facts["arrays"])[: len(records)] == list(records._fields)
    slots = records.key_slots[records.partial_matches["key_slot"]]
    assert len(slots) == count_partial_matches(state.states[0]).open > 0
    assert (slots["hash1"] != 0).all()
    assert len(np.unique(slots["hash1"])) == 2


@pytest.mark.parametrize("place", range(len(b"SHEDLIGHT-STATE") + 10))
def test_no_byte_of_the_front_can_be_changed(place):
    """Magic word, version, length and checksum; the number of another version above all."""
    operator, state = _state("scan")
    good = to_bytes(operator, state)
    for change in range(1, 256):
        bad = good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]
        with pytest.raises(StateError, match="saved state"):
            from_bytes(operator, bad)


@settings(max_examples=150)
@given(st.data())
def test_damaged_bytes_are_always_found_out(data):
    """Cut off or changed anywhere."""
    operator, state = _state("scan")
    good = bytearray(to_bytes(operator, state))
    place = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = bytes(good[:place])
    else:
        good[place] ^= data.draw(st.integers(1, 255))
        bad = bytes(good)
    with pytest.raises(StateError, match="saved state"):
        from_bytes(operator, bad)


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


@settings(max_examples=100)
@given(
    strategies.patterns(),
    strategies.streams(5, 24),
    st.lists(st.integers(0, 24), max_size=4),
    st.tuples(*[st.sampled_from([0, 1, 3])] * 2),
)
def test_an_operator_goes_on_from_its_bytes(pattern, arrivals, cuts, lateness):
    """Reorder buffer, deduplication state and partial matches survive, at any cut."""
    operator = operator_for(pattern, lateness)
    cuts = [cut for cut in cuts if cut <= len(arrivals)]
    expected = _run(operator, arrivals, cuts, saved=False)
    assert _run(operator, arrivals, cuts, saved=True) == expected

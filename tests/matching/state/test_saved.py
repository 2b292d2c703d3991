"""States as bytes: they go on where they stopped, in later versions too, or say why not."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.errors import StateError
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import new_operator_state
from shedlight.matching.operators.step import count_partial_matches
from shedlight.matching.state.saved import VERSION, from_bytes, to_bytes
from tests.kernel import listed, operator_for, step
from tests.reference import Event

GOLDEN = Path(__file__).parents[2] / "fixtures" / "states"
PATTERNS = {
    "queues": "SELECT b.name WHERE SEQ(a.kind = 0, NOT(x.kind = 9), b.kind = 1 {2}) WITHIN 1 h",
    "keys": "SELECT b.name WHERE AND(a.kind = 0, b.kind = 1, c.kind = 2) WITHIN 5 EVENTS "
    "PARTITION BY key, name",
    "scan": "SELECT b.name WHERE SEQ(a.kind = 0, b.kind = 1 +, c.kind = 2) AND b.x > a.x "
    "WITHIN 1 h",
}
REFUSED = {"keys-v1.state", "keys-v2.state"}
"""A key of several columns had another hash then."""
FIRST = [0, 1, 0, 0, 1]
REST = [2, 1, 1, 1, 2, 2, 0, 1, 2, 2]


def _events(kinds):
    return [
        Event(
            10 * i, i % 2, (i,), {"kind": kind, "x": i % 5, "y": 0.5, "key": i % 2, "name": "ä"}
        )
        for i, kind in enumerate(kinds)
    ]


def _operator(name):
    return operator_for(parse_pattern(PATTERNS[name]).pattern)


def _state(name):
    """Match five events; the input is still open."""
    operator = _operator(name)
    state, _ = step(operator, new_operator_state(operator), _events(FIRST), ended=False)
    return operator, state


@pytest.mark.parametrize("name", PATTERNS)
def test_a_state_of_any_version_goes_on(name):
    """A file per version and pattern was saved once and must be read for good."""
    files = sorted(GOLDEN.glob(f"{name}-v*.state"))
    assert f"{name}-v{VERSION}.state" in {file.name for file in files}
    operator, state = _state(name)
    assert count_partial_matches(state.states[0]).open > 0
    rest = _events(FIRST + REST)[len(FIRST) :]
    _, expected = step(operator, state, rest, ended=True)
    assert len(expected) > 0
    for file in files:
        if file.name in REFUSED:
            with pytest.raises(StateError, match="keys of several columns"):
                from_bytes(operator.matchers[0], file.read_bytes())
            continue
        restored = from_bytes(operator.matchers[0], file.read_bytes())
        _, found = step(operator, replace(state, states=(restored,)), rest, ended=True)
        assert listed(operator, found) == listed(operator, expected)


def test_the_state_of_another_pattern_is_refused():
    """The message shows both patterns."""
    operator, state = _state("queues")
    data = to_bytes(operator.matchers[0], state.states[0])
    with pytest.raises(StateError, match=r"another pattern:\n  saved: SELECT b.name WHERE SEQ"):
        from_bytes(_operator("scan").matchers[0], data)


def test_a_newer_version_is_refused_with_its_number():
    """Who goes back to an older release is told so."""
    operator, state = _state("queues")
    matcher = operator.matchers[0]
    data = bytearray(to_bytes(matcher, state.states[0]))
    data[9] = VERSION + 1
    with pytest.raises(
        StateError, match=f"version {VERSION + 1}, this Shedlight reads version"
    ):
        from_bytes(matcher, bytes(data))


@pytest.mark.parametrize("place", range(len(b"SHEDLIGHT") + 10))
def test_no_byte_of_the_front_can_be_changed(place):
    """Mark, version, length and checksum; an older version's number above all."""
    operator, state = _state("scan")
    matcher = operator.matchers[0]
    good = to_bytes(matcher, state.states[0])
    for change in range(1, 256):
        bad = good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]
        with pytest.raises(StateError, match="saved state"):
            from_bytes(matcher, bad)


@settings(max_examples=300)
@given(st.data())
def test_damaged_bytes_are_always_found_out(data):
    """Cut off or changed anywhere."""
    operator, state = _state("scan")
    matcher = operator.matchers[0]
    good = bytearray(to_bytes(matcher, state.states[0]))
    place = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = bytes(good[:place])
    else:
        good[place] ^= data.draw(st.integers(1, 255))
        bad = bytes(good)
    with pytest.raises(StateError, match="saved state"):
        from_bytes(matcher, bad)

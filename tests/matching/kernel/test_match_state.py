"""Keys with partial matches can be listed, and cancelled as if they had not been seen."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.matching.kernel.match_state import cancel, open_keys
from shedlight.matching.operators.cep_operator import new_operator_state, operator_keys
from shedlight.matching.operators.step import count_partial_matches
from tests import reference, strategies
from tests.kernel import check_sizes, from_bytes, listed, operator_for, step, table_of, to_bytes
from tests.reference import Event

_cuts = st.integers(0, 24)


def _as_set(keys):
    return set(map(tuple, keys.tolist()))


def _keys(operator, events):
    """Find the key of every event, as a pair of hashes."""
    by = operator.matchers[0].pattern.partition_by
    if not by:
        return [(0, 0)] * len(events)
    both = operator_keys(operator, table_of(events))[by]
    return list(zip(*(hashes.tolist() for hashes in both), strict=True))


def _cancelling_agrees(pattern, events, cut, data):
    """Hold it against the reference, which sees no event of a key before its cancel."""
    note(str(pattern))
    operator = operator_for(pattern)
    matcher = operator.matchers[0]
    state, before = step(operator, new_operator_state(operator), events[:cut], ended=False)
    keys = open_keys(state.states[0])
    chosen = keys[data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))]

    cancelled = cancel(matcher, state.states[0], chosen)

    check_sizes(cancelled)
    assert _as_set(open_keys(state.states[0])) == _as_set(keys), "the old state has not changed"
    assert _as_set(open_keys(cancelled)) == _as_set(keys) - _as_set(chosen)
    counts, old = count_partial_matches(cancelled), count_partial_matches(state.states[0])
    assert counts.cancelled == old.open - counts.open >= len(chosen)
    again = from_bytes(operator, to_bytes(operator, replace(state, states=(cancelled,))))
    end, after = step(operator, again, events[cut:], ended=True)
    assume(count_partial_matches(end.states[0]).dropped == 0)

    lost = _as_set(chosen)
    ready = min(cut, len(events)) - len(state.reorder_buffer.buffer)
    of_event = dict(zip((e.id[0] for e in events), _keys(operator, events), strict=True))
    seen = [e for i, e in enumerate(events) if i >= ready or of_event[e.id[0]] not in lost]
    expected = reference.match(pattern, seen)
    found = [one for one in listed(operator, before) if of_event[one[1][0]] not in lost]
    found += listed(operator, after)
    assert found == [(m.time, tuple(e.id[0] for e in m.events), m.elements) for m in expected]


@settings(max_examples=100)
@given(strategies.patterns(cross=False), strategies.ready_streams(8, 24), _cuts, st.data())
def test_queued_partial_matches_are_cancelled_by_key(pattern, events, cut, data):
    """Of cancelled keys nothing is found with earlier events; other keys are untouched."""
    _cancelling_agrees(pattern, events, cut, data)


@settings(max_examples=100)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 24), _cuts, st.data())
def test_scanned_partial_matches_are_cancelled_by_key(pattern, events, cut, data):
    """The same with conditions across events."""
    _cancelling_agrees(pattern, events, cut, data)


def test_keys_without_a_partial_match_are_left_out():
    """Also where there are no keys: there all partial matches are of the key (0, 0)."""
    text = "SELECT a.x WHERE SEQ(a.kind = 0, b.kind = 1) WITHIN 1 h"
    values = {"kind": 0, "x": 0, "y": 0.0, "key": 7, "name": "a"}
    events = [Event(time, 0, (time,), values) for time in range(4)]
    for query, number in ((text, 3), (f"{text} PARTITION BY key", 3)):
        operator = operator_for(parse_pattern(query).pattern)
        first = new_operator_state(operator)
        assert open_keys(first.states[0]).shape == (0, 2)
        state = step(operator, first, [*events, replace(events[3], input=1)], ended=False)[0]
        matcher, old = operator.matchers[0], state.states[0]
        assert len(open_keys(old)) == 1
        same = cancel(matcher, old, np.array([[1, 2], [3, 4]]))
        assert count_partial_matches(same).open == number
        none = cancel(matcher, old, open_keys(old))
        assert count_partial_matches(none).open == 0
        assert count_partial_matches(none).cancelled == number

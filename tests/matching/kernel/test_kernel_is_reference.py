"""The compiled matcher finds what the reference finds, event by event."""

from contextlib import contextmanager

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.compile import dfa
from shedlight.matching.kernel import driver, match_state, tables
from shedlight.matching.operators.step import count_partial_matches
from tests import reference, strategies
from tests.kernel import operator_for, run, run_all
from tests.reference import Event

_tries = st.sampled_from([8, 0, 1])
_cuts = st.lists(st.integers(0, 20), max_size=3)
_lateness = st.tuples(*[st.sampled_from([0, 1, 3])] * 2)


def _agree(pattern, arrivals, cuts, lateness=(0, 0)):
    """Hold the kernel against the reference, the stream cut into batches."""
    note(str(pattern))
    operator = operator_for(pattern, lateness)
    note(str(operator.matchers[0].automaton))
    window = pattern.within
    remember = window.length if window and window.unit is WindowUnit.TIME else 0
    events, late, duplicates = reference.ready_events(arrivals, lateness, remember)

    found, selected, state = run(operator, arrivals, [c for c in cuts if c <= len(arrivals)])

    # past the cap on the bindings of a partial match the kernel says so and may find less
    assume(count_partial_matches(state.states[0]).dropped == 0)
    expected = reference.match(pattern, events)
    assert found == [(m.time, tuple(e.id[0] for e in m.events), m.elements) for m in expected]
    assert sum(state.reorder_buffer.late) == len(late)
    assert sum(state.reorder_buffer.duplicates) == len(duplicates)
    _same_values(pattern, selected, [reference.selected(pattern, m) for m in expected])


def _agree_on_what_timed_out(pattern, arrivals, cuts, lateness=(0, 0)):
    """Hold the kernel that is asked for it against the reference; no match may change."""
    note(str(pattern))
    operator = operator_for(pattern, lateness, timed_out=True)
    window = pattern.within
    remember = window.length if window and window.unit is WindowUnit.TIME else 0
    events, _, _ = reference.ready_events(arrivals, lateness, remember)
    cuts = [cut for cut in cuts if cut <= len(arrivals)]

    found, selected, over, over_selected, state = run_all(operator, arrivals, cuts)

    assume(count_partial_matches(state.states[0]).dropped == 0)
    expected, timed_out = reference.match_and_time_out(pattern, events)
    assert found == [(m.time, tuple(e.id[0] for e in m.events), m.elements) for m in expected]
    assert over == [(m.time, tuple(e.id[0] for e in m.events), m.elements) for m in timed_out]
    assert len(over) == count_partial_matches(state.states[0]).expired
    _same_values(pattern, selected, [reference.selected(pattern, m) for m in expected])
    _same_values(pattern, over_selected, [reference.selected(pattern, m) for m in timed_out])
    assert not {row["id"] for row in selected} & {row["id"] for row in over_selected}


@contextmanager
def _always_indexed(tries):
    """Have all partial matches in the index; so many candidates are looked up one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FEW", 0)
        patch.setattr(tables, "MAX_TRIES", tries)
        yield


def _same_values(pattern, selected, expected):
    names = [item.name for item in pattern.select]
    ours = [{name: _plain(row[name]) for name in names} for row in selected]
    theirs = [{name: _plain(row[name]) for name in names} for row in expected]
    assert repr(ours) == repr(theirs)


def _plain(value):
    """Make the two zeros one: MAX of both may give either."""
    return value + 0.0 if isinstance(value, float) else value


@settings(max_examples=300)
@given(strategies.patterns(cross=False), strategies.ready_streams(8, 24), _cuts)
def test_queues_find_what_the_reference_finds(pattern, events, cuts):
    """All constructs but conditions across events, at random places cut into batches."""
    _agree(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(cross=False), strategies.ready_streams(8, 24), _cuts)
def test_exploring_states_as_late_as_possible_changes_nothing(pattern, events, cuts):
    """Sets of states are explored when a partial match gets there, none ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dfa, "EXPLORED_AHEAD", 0)
        _agree(pattern, events, cuts)


@settings(max_examples=300)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 24), _cuts)
def test_the_scan_finds_what_the_reference_finds(pattern, events, cuts):
    """The same with conditions across events."""
    _agree(pattern, events, cuts)


@settings(max_examples=400)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 24), _cuts, _tries)
def test_indexes_find_what_the_reference_finds(pattern, events, cuts, tries):
    """Every partial match is found by the index, and there are none without it."""
    with _always_indexed(tries):
        _agree(pattern, events, cuts)


@settings(max_examples=150)
@given(strategies.chained_patterns(), strategies.ready_streams(8, 24), _cuts, st.booleans())
def test_implicit_keys_find_what_the_reference_finds(pattern, events, cuts, is_asked):
    """Chains of equality, whole and broken; null is equal to nothing."""
    (_agree_on_what_timed_out if is_asked else _agree)(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(cross=False), strategies.ready_streams(8, 24), _cuts)
def test_queues_time_out_what_the_reference_does(pattern, events, cuts):
    """Windows of time and of events, absence, NOT, keys and both policies."""
    _agree_on_what_timed_out(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 24), _cuts)
def test_the_scan_times_out_what_the_reference_does(pattern, events, cuts):
    """The same with conditions across events: of several bindings the first as written."""
    _agree_on_what_timed_out(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 24), _cuts, _tries)
def test_indexes_time_out_what_the_reference_does(pattern, events, cuts, tries):
    """The same with conditions across events: of several bindings the first as written."""
    with _always_indexed(tries):
        _agree_on_what_timed_out(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(depth=2), strategies.streams(), _cuts, _lateness)
def test_what_times_out_between_late_events_is_the_same(pattern, arrivals, cuts, lateness):
    """Arrivals of two inputs out of order, with ids that come again."""
    _agree_on_what_timed_out(pattern, arrivals, cuts, lateness)


@settings(max_examples=100)
@given(strategies.patterns(), strategies.ready_streams(8, 24), _cuts)
def test_what_times_out_finds_room_where_there_is_little(pattern, events, cuts):
    """There is room for one match at first, and it grows as it is needed."""
    new = match_state.new_output
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_state, "_INITIAL_MATCHES", 1)
        patch.setattr(match_state, "_INITIAL_NODES", 1)
        patch.setattr(
            driver,
            "new_output",
            lambda _=0, *, with_symbols=True: new(with_symbols=with_symbols),
        )
        _agree_on_what_timed_out(pattern, events, cuts)


@settings(max_examples=100)
@given(strategies.patterns(depth=2), strategies.streams(), _cuts, _lateness)
def test_late_and_duplicate_events_are_the_same(pattern, arrivals, cuts, lateness):
    """Arrivals of two inputs out of order, with ids that come again."""
    _agree(pattern, arrivals, cuts, lateness)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(strategies.patterns(cross=False), strategies.ready_streams(8, 32), _cuts)
def test_queues_find_what_the_reference_finds_at_length(pattern, events, cuts):
    """Ten times as many."""
    _agree(pattern, events, cuts)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 32), _cuts)
def test_the_scan_finds_what_the_reference_finds_at_length(pattern, events, cuts):
    """Ten times as many."""
    _agree(pattern, events, cuts)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(strategies.patterns(cross=True), strategies.ready_streams(8, 48), _cuts, _tries)
def test_indexes_find_what_the_reference_finds_at_length(pattern, events, cuts, tries):
    """Ten times as many, with longer streams."""
    with _always_indexed(tries):
        _agree(pattern, events, cuts)


@pytest.mark.soak
@settings(max_examples=10_000)
@given(strategies.chained_patterns(), strategies.ready_streams(8, 32), _cuts, st.booleans())
def test_implicit_keys_find_what_the_reference_finds_at_length(pattern, events, cuts, is_asked):
    """Many times as many."""
    (_agree_on_what_timed_out if is_asked else _agree)(pattern, events, cuts)


@pytest.mark.soak
@settings(max_examples=3_000)
@given(strategies.patterns(), strategies.streams(), _cuts, _lateness)
def test_late_and_duplicate_events_are_the_same_at_length(pattern, arrivals, cuts, lateness):
    """Ten times as many."""
    _agree(pattern, arrivals, cuts, lateness)


def test_assignments_past_the_cap_are_counted():
    """Elements that all take the same events: too many ways to assign them."""
    text = (
        "SELECT a.kind WHERE AND(a.kind = 0, b.kind >= 0 +, c.kind = 0, d.kind = 0, e.kind = 0)"
        " AND a.x <= b.x WITHIN 1 s"
    )
    operator = operator_for(parse_pattern(text).pattern)
    events = [
        Event(time, 0, (time,), {"kind": 0, "x": 0, "y": 0.0, "key": 0, "name": "a"})
        for time in range(8)
    ]

    _, _, state = run(operator, events)

    assert count_partial_matches(state.states[0]).dropped > 0

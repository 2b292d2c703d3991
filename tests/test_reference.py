"""The reference matcher, rule by rule, on histories small enough to check by eye.

`A0 B2` is a history: an event of kind A at 0 and one of kind B at 2 microseconds; `A0=7` has
x = 7 and `A0@k` has key k (both are null otherwise). In a pattern `"A"` is the element A of
kind A, `"A2"` another one of kind A. A match is written as the events it took.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product, starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language.ast.expression import (
    TRUE,
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Case,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
    without_variable,
)
from shedlight.language.ast.pattern import (
    And,
    Element,
    Item,
    Not,
    Or,
    Part,
    Pattern,
    Repeat,
    Seq,
    Window,
    WindowUnit,
    child_parts,
    elements,
)
from tests.reference import (
    Event,
    Match,
    PartialMatch,
    Rules,
    evaluate,
    first_as_written,
    match,
    ready_events,
    selected,
)
from tests.strategies import patterns, ready_streams, streams

# ---------------------------------------------------------------------------------------------
# The tiny language.

TOKEN = re.compile(r"(?P<kind>[A-Z])(?P<time>\d+)(?:=(?P<x>-?\d+))?(?:@(?P<key>\w+))?")


def history(text: str) -> list[Event]:
    """Read a history."""
    return list(starmap(event, enumerate(text.split())))


def event(number: int, text: str) -> Event:
    """Read one event; its number is its id."""
    found = TOKEN.fullmatch(text)
    assert found, text
    x = int(found["x"]) if found["x"] else None
    values = {"kind": found["kind"], "x": x, "key": found["key"]}
    return Event(int(found["time"]), 0, (number,), values)


def part(what: Part | str) -> Part:
    """Read an element; other parts are given as they are."""
    if isinstance(what, Part):
        return what
    test = Binary(Operator.EQUAL, Attribute(what, ("kind",)), Literal(what[0]))
    return Element(what, test)


def seq(*parts: Part | str) -> Seq:
    """Build a SEQ."""
    return Seq(tuple(map(part, parts)))


def all_of(*parts: Part | str) -> And:
    """Build an AND."""
    return And(tuple(map(part, parts)))


def one_of(*parts: Part | str) -> Or:
    """Build an OR."""
    return Or(tuple(map(part, parts)))


def no(name: str) -> Not:
    """Build a NOT."""
    element = part(name)
    assert isinstance(element, Element)
    return Not(element)


def times(what: Part | str, least: int, most: int | None) -> Repeat:
    """Build a repetition."""
    return Repeat(part(what), least, most)


def some(what: Part | str) -> Repeat:
    """Build `what+`."""
    return times(what, 1, None)


def maybe(what: Part | str) -> Repeat:
    """Build `what?`."""
    return times(what, 0, 1)


def rising(first: str, second: str) -> Expression:
    """Say that x of the first is less than x of the second."""
    return Binary(Operator.LESS, Attribute(first, ("x",)), Attribute(second, ("x",)))


def pattern(
    where: Part | str,
    *conditions: Expression,
    within: int | str = 100,
    by_key: bool = False,
    reuse: bool = False,
) -> Pattern:
    """Build a pattern; `within` is microseconds or, say, `3 events`."""
    if isinstance(within, int):
        window = Window(within)
    else:
        window = Window(int(within.removesuffix(" events")), WindowUnit.EVENTS)
    return Pattern(
        select=(),
        where=part(where),
        conditions=conditions,
        within=window,
        partition_by=(Attribute("", ("key",)),) if by_key else (),
        reuse=reuse,
    )


def found_in(what: Pattern | Part, text: str) -> list[Match]:
    """Find the matches in a history."""
    return match(what if isinstance(what, Pattern) else pattern(what), history(text))


def matches(what: Pattern | Part, text: str) -> list[str]:
    """Find the matches in a history, as text."""
    return [
        " ".join(f"{event.values['kind']}{event.time}" for event in found.events)
        for found in found_in(what, text)
    ]


def assigned(what: Pattern | Part, text: str) -> list[str]:
    """Find the elements that the events of each match were assigned to."""
    return [" ".join(found.elements) for found in found_in(what, text)]


# ---------------------------------------------------------------------------------------------
# Rule 2: what a pattern accepts.


def test_seq_takes_its_parts_in_order():
    """C1 comes too early and A3 is a partial match of its own."""
    assert matches(seq("A", "B", "C"), "A0 C1 B2 A3 C4") == ["A0 B2 C4"]


def test_and_takes_its_parts_in_any_order():
    """The order of writing does not matter."""
    assert matches(all_of("A", "B", "C"), "C0 A1 B2") == ["C0 A1 B2"]


def test_and_interleaves_its_parts():
    """Each part keeps its own order: D1 comes before its C."""
    where = all_of(seq("A", "B"), seq("C", "D"))
    assert matches(where, "A0 C1 D2 B3") == ["A0 C1 D2 B3"]
    assert matches(where, "A0 D1 C2 D3 B4") == ["A0 C2 D3 B4"]


def test_or_takes_one_of_its_parts():
    """Each alternative leads on to what follows the OR."""
    where = seq(one_of(seq("A", "B"), "C"), "D")
    assert matches(where, "A0 B1 D2 C3 D4") == ["A0 B1 D2", "C3 D4"]


def test_an_or_that_began_one_part_does_not_take_another():
    """C cannot continue the partial match of A, so it opens its own."""
    where = seq(one_of(seq("A", "B"), "C"), "D")
    assert matches(where, "A0 C1 D2") == ["C1 D2"]


def test_repetition_counts_rounds():
    """B1 comes before the second A; a fourth A opens a partial match of its own."""
    assert matches(seq(times("A", 2, 3), "B"), "A0 B1 A2 B3 B4") == ["A0 A2 B3"]
    assert matches(seq(times("A", 2, 3), "B"), "A0 A1 A2 A3 B4") == ["A0 A1 A2 B4"]
    assert matches(seq(some("A"), "B"), "A0 A1 A2 B3") == ["A0 A1 A2 B3"]


def test_rounds_of_parts_nest():
    """C3 comes after one round, and two are needed."""
    where = seq(times(seq("A", some("B")), 2, 2), "C")
    assert matches(where, "A0 B1 B2 C3 A4 B5 C6") == ["A0 B1 B2 A4 B5 C6"]


def test_a_round_of_nothing_counts():
    """Two rounds of `A?` are none, one or two As; A5 is one too many."""
    assert matches(seq(times(maybe("A"), 2, 2), "B"), "B0 A1 B2 A3 A4 A5 B6") == [
        "B0",
        "A1 B2",
        "A3 A4 B6",
    ]


def test_an_option_may_be_left_out():
    """B is taken where it comes, and not waited for."""
    where = seq("A", maybe("B"), "C")
    assert matches(where, "A0 B1 C2 A3 C4 C5") == ["A0 B1 C2", "A3 C4"]


def test_a_condition_that_is_null_does_not_hold():
    """X is null at A0."""
    positive = Element("E", Binary(Operator.GREATER, Attribute("E", ("x",)), Literal(0)))
    assert matches(pattern(positive), "A0 B1=1 C2=0") == ["B1"]


# ---------------------------------------------------------------------------------------------
# Rules 3, 4 and 7: partial matches and matches.


def test_an_event_is_consumed_once():
    """The oldest partial match takes the event; each A pairs with one B."""
    assert matches(seq("A", "B"), "A0 A1 B2 B3") == ["A0 B2", "A1 B3"]


def test_an_event_that_a_machine_can_use_opens_none():
    """A1 goes to the partial match of A0, so nobody waits for B3."""
    assert matches(seq("A", "A2", "B"), "A0 A1 B2 B3") == ["A0 A1 B2"]


def test_reuse_offers_an_event_to_every_machine():
    """Both partial matches take B2 and close."""
    assert matches(pattern(seq("A", "B"), reuse=True), "A0 A1 B2 B3") == ["A0 B2", "A1 B2"]


def test_reuse_also_opens_a_machine():
    """A1 is the second A of one partial match and the first of another."""
    where = seq("A", "A2", "B")
    assert matches(pattern(where, reuse=True), "A0 A1 A2 B3") == ["A0 A1 B3", "A1 A2 B3"]


def test_a_match_is_the_shortest():
    """A trailing repetition never takes more than its least."""
    assert matches(seq("A", some("B")), "A0 B1 B2 B3") == ["A0 B1"]
    assert matches(seq("A", maybe("B")), "A0 B1") == ["A0"]


def test_of_several_assignments_the_first_as_written_counts():
    """Both elements accept A0; the one written first gets it."""
    anything = Element("E", TRUE)
    assert assigned(seq(one_of(anything, "A"), "B"), "A0 B1") == ["E B"]
    assert assigned(seq(one_of("A", anything), "B"), "A0 B1") == ["A B"]
    assert assigned(all_of("A", "A2", "A3"), "A0 A1 A2") == ["A A2 A3"]


def test_the_first_assignment_may_turn_out_not_to_be_a_word():
    """A0 can only be A2 once the B that A waits for has not come and C has."""
    where = one_of(seq("A", "B"), seq("A2", "C"))
    assert assigned(where, "A0 C1") == ["A2 C"]


def test_an_earlier_event_decides_between_assignments():
    """For A0 A1: (A A2) comes before (A2 A), though both end the same."""
    where = seq(all_of("A", "A2"), "B")
    assert assigned(where, "A0 A1 B2") == ["A A2 B"]


def test_the_oldest_machine_is_the_one_opened_first():
    """The partial match of A0 advanced later than that of A1, and is still the older."""
    where = seq("A", one_of("B", "C"), "D")
    assert matches(where, "A0 A1 B2 C3 D4 D5") == ["A0 B2 D4", "A1 C3 D5"]


def test_a_match_has_the_time_of_its_last_event():
    """The partial match was opened by the event after C0."""
    (found,) = found_in(seq("A", "B"), "C0 A3 B7")
    assert (found.time, found.opened, found.elements) == (7, 1, ("A", "B"))


# ---------------------------------------------------------------------------------------------
# Rule 5: windows, and keys.


def test_the_window_is_inclusive():
    """A match may last exactly as long as the window, and no longer."""
    assert matches(pattern(seq("A", "B"), within=5), "A0 B5") == ["A0 B5"]
    assert matches(pattern(seq("A", "B"), within=5), "A0 B6") == []


def test_fewer_events_may_give_more_matches():
    """Consume-once with windows is not monotone (docs/design.md, section 2)."""
    where = pattern(seq("A", "A2", "B"), within=10)
    assert matches(where, "A0 A9 A11 B15") == []
    assert matches(where, "A9 A11 B15") == ["A9 A11 B15"]


def test_a_window_of_events_counts_those_that_are_no_use():
    """The opening event is the first of three."""
    where = pattern(seq("A", "B"), within="3 events")
    assert matches(where, "A0 C1 B2") == ["A0 B2"]
    assert matches(where, "A0 C1 C2 B3") == []


def test_a_window_of_events_counts_per_key():
    """C1 and C2 are of another key."""
    where = pattern(seq("A", "B"), within="2 events", by_key=True)
    assert matches(where, "A0@p C1@q C2@q B3@p") == ["A0 B3"]


def test_keys_are_kept_apart():
    """B2 is not offered to the older partial match of the other key."""
    where = pattern(seq("A", "B"), by_key=True)
    assert matches(where, "A0@p A1@q B2@q B3@p") == ["A1 B2", "A0 B3"]


def test_null_is_a_key():
    """Two events without a key are of the same key."""
    where = pattern(seq("A", "B"), by_key=True)
    assert matches(where, "A0 A1@p B2 B3@q") == ["A0 B2"]


# ---------------------------------------------------------------------------------------------
# Rule 6: NOT.


def test_not_in_a_seq_closes_the_machine():
    """X1 leaves no place to wait at; X2 is too late to matter."""
    where = seq("A", no("X"), "B")
    assert matches(where, "A0 X1 B2") == []
    assert matches(where, "A0 B1 X2") == ["A0 B1"]


def test_not_before_the_first_event_has_no_effect():
    """There is no partial match yet at X0."""
    assert matches(seq("A", no("X"), "B"), "X0 A1 B2") == ["A1 B2"]


def test_not_is_checked_before_the_event_is_offered():
    """B is what must not come, so the B of the SEQ cannot come either."""
    assert matches(seq("A", no("B"), "B2"), "A0 B1") == []


def test_the_event_that_opens_a_machine_does_not_close_it():
    """A0 comes before the gap, not in it."""
    assert matches(seq("A", no("A2"), "B"), "A0 B1") == ["A0 B1"]


def test_the_event_that_closes_a_machine_can_open_another():
    """A1 is not consumed by the NOT."""
    assert matches(seq("A", no("A2"), "B"), "A0 A1 B2") == ["A1 B2"]


def test_not_closes_every_machine_of_its_key():
    """X3 closes both partial matches of p and none of q."""
    where = pattern(seq("A", no("X"), "B"), by_key=True)
    assert matches(where, "A0@p A1@p A2@q X3@p B4@p B5@p B6@q") == ["A2 B6"]


def test_not_matters_only_while_its_gap_is_open():
    """The gap is that between B and C alone."""
    where = seq("A", "B", no("X"), "C", "D")
    assert matches(where, "A0 X1 B2 C3 X4 D5") == ["A0 B2 C3 D5"]
    assert matches(where, "A0 B2 X3 C4 D5") == []


def test_a_further_round_survives_not_and_enters_the_gap_anew():
    """Who waits for another A does not wait beyond the gap."""
    where = seq(some("A"), no("X"), "B")
    assert matches(where, "A0 X1 B2") == []
    assert matches(where, "A0 X1 A2 B3") == ["A0 A2 B3"]
    assert matches(where, "A0 X1 A2 X3 B4") == []


def test_the_event_that_kills_a_place_can_be_taken_by_another():
    """A1 closes the gap of A0 for good, and is the next round."""
    where = seq(some("A"), no("A2"), "B")
    assert matches(where, "A0 A1 B2") == ["A0 A1 B2"]


def test_an_option_left_out_leaves_both_gaps_to_cross():
    """Who waits for C straight after A crosses X and Y; who waits for B crosses X."""
    where = seq("A", no("X"), maybe("B"), no("Y"), "C")
    assert matches(where, "A0 X1 B2 C3") == []
    assert matches(where, "A0 Y1 C2") == []
    assert matches(where, "A0 Y1 B2 C3") == ["A0 B2 C3"]
    assert matches(where, "A0 B1 X2 C3") == ["A0 B1 C3"]
    assert matches(where, "A0 B1 Y2 C3") == []


def test_seq_in_seq_is_flattened():
    """The gap is open from A on if B is left out."""
    where = seq("A", seq(maybe("B"), no("X"), "C"))
    assert matches(where, "A0 X1 C2") == []
    assert matches(where, "A0 X1 B2 C3") == ["A0 B2 C3"]


def test_a_gap_of_an_inner_seq_is_open_from_when_it_is_waited_for():
    """That is from A on, as if the OR were not there; D is not beyond the gap."""
    where = seq("A", one_of(seq(maybe("B"), no("X"), "C"), "D"))
    assert matches(where, "A0 X1 C2") == []
    assert matches(where, "A0 X1 B2 C3") == ["A0 B2 C3"]
    assert matches(where, "A0 X1 D2") == ["A0 D2"]


def test_a_gap_at_the_end_of_an_inner_seq_reaches_to_what_comes_next():
    """An OR around a SEQ, or a further round, changes nothing about the gap."""
    assert matches(seq("A", no("X"), maybe("B"), "C"), "A0 X1 C2") == []
    assert matches(seq(one_of(seq("A", no("X"), maybe("B")), "D"), "C"), "A0 X1 C2") == []
    assert matches(seq(times(seq("A", no("X"), maybe("B")), 2, 2)), "A0 X1 A2") == []
    assert matches(seq(times(seq("A", no("X"), maybe("B")), 2, 2)), "A0 A1") == ["A0 A1"]
    assert matches(all_of(seq("A", no("X"), maybe("B")), "C"), "A0 X1 C2") == []


def test_a_gap_before_an_and_is_closed_by_its_first_event():
    """Whichever part it belongs to."""
    where = seq("A", no("X"), all_of("B", "C"))
    assert matches(where, "A0 X1 B2 C3") == []
    assert matches(where, "A0 B1 X2 C3") == ["A0 B1 C3"]


def test_a_gap_within_an_and_is_not_closed_by_another_part():
    """C1 is no event of the inner SEQ; before A3 its gap is not open."""
    where = all_of(seq("A", no("X"), "B"), "C")
    assert matches(where, "A0 C1 X2 B3") == []
    assert matches(where, "X0 C1 X2 A3 B4") == ["C1 A3 B4"]


def test_not_in_an_and_counts_between_its_first_and_last_event():
    """X1 is before it and X4 after it."""
    where = seq("A", all_of("B", no("X"), "C"), "D")
    assert matches(where, "A0 X1 B2 C3 X4 D5") == ["A0 B2 C3 D5"]
    assert matches(where, "A0 B1 X2 C3 D4") == []


def test_the_last_event_of_an_and_can_be_what_must_not_come():
    """It is checked before it is offered; the first event is not in between."""
    assert matches(all_of("A", "B", no("B2")), "A0 B1") == []
    assert matches(all_of("A", "B", no("B2")), "B0 A1") == ["B0 A1"]


def test_not_in_an_and_spares_who_has_left_it():
    """With B left out the AND is over at A; a B later is within it."""
    where = seq(all_of("A", maybe("B"), no("X")), "C")
    assert matches(where, "A0 X1 C2") == ["A0 C2"]
    assert matches(where, "A0 X1 B2 C3") == ["A0 C3"]
    assert matches(where, "A0 B1 X2 C3") == ["A0 B1 C3"]


def test_not_in_an_inner_and_waits_for_that_one_to_begin():
    """C0 belongs to the outer AND alone."""
    where = all_of(all_of("A", "B", no("X")), "C")
    assert matches(where, "C0 X1 A2 B3") == ["C0 A2 B3"]
    assert matches(where, "C0 A1 X2 B3") == []


# ---------------------------------------------------------------------------------------------
# Rule 6: absence.


def test_absence_is_known_when_the_window_is_over():
    """It ends at 5, which is still in it."""
    where = pattern(seq("A", no("X")), within=5)
    (found,) = found_in(where, "A0")
    assert found.time == 5
    assert matches(where, "A0 X5") == []
    assert matches(where, "A0 X6") == ["A0"]


def test_absence_counts_from_the_last_part_on():
    """X1 is before B; without B there is nothing to wait for."""
    where = pattern(seq("A", "B", no("X")), within=5)
    assert matches(where, "A0 X1 B2") == ["A0 B2"]
    assert matches(where, "A0 B1 X2") == []
    assert matches(where, "A0") == []


def test_absence_of_several():
    """None of them may come."""
    where = pattern(seq("A", no("X"), no("Y")), within=5)
    assert matches(where, "A0 Y1 A2 X3 A4") == ["A4"]


def test_absence_goes_on_taking_what_it_can_use():
    """It is no match before the window is over; a further round enters the gap anew."""
    where = pattern(seq("A", some("B"), no("X")), within=5)
    assert matches(where, "A0 B1 B2") == ["A0 B1 B2"]
    assert matches(where, "A0 B1 X2 B3") == ["A0 B1 B3"]
    assert matches(where, "A0 B1 X2") == []


def test_an_option_before_absence_leaves_both_gaps_to_cross():
    """Without B the end of the window is beyond X and Y."""
    where = pattern(seq("A", no("X"), maybe("B"), no("Y")), within=5)
    assert matches(where, "A0 X1") == []
    assert matches(where, "A0 Y1 B2") == ["A0 B2"]
    assert matches(where, "A0 B1 X2") == ["A0 B1"]


def test_absences_come_before_the_event_that_shows_them_whatever_its_key():
    """C7 is past the end of both older windows."""
    absent = pattern(seq(one_of("A", seq("C", "D")), no("X")), within=5, by_key=True)
    assert matches(absent, "A0@p A1@q C7@r D8@r") == ["A0", "A1", "C7 D8"]


# ---------------------------------------------------------------------------------------------
# Rule 8: conditions across events.


def test_a_condition_is_checked_when_its_last_variable_gets_its_event():
    """B1 and B2 are refused by the partial match of A0 and can go to another."""
    where = pattern(seq("A", "B"), rising("A", "B"))
    assert matches(where, "A0=5 B1=5 B2=6") == ["A0 B2"]
    assert matches(where, "A0=5 A1=3 B2=4 B3=6") == ["A1 B2", "A0 B3"]


def test_a_condition_that_is_null_refuses_the_event():
    """X is null at B1."""
    assert matches(pattern(seq("A", "B"), rising("A", "B")), "A0=5 B1 B2=6") == ["A0 B2"]


def test_a_condition_on_a_repeated_element_holds_for_each_round():
    """B2 is refused."""
    where = pattern(seq("A", times("B", 2, 2)), rising("A", "B"))
    assert matches(where, "A0=2 B1=3 B2=1 B3=3") == ["A0 B1 B3"]


def test_elsewhere_the_name_of_a_repeated_element_means_its_last_event():
    """B2 is more than the first A, but not more than the last."""
    where = pattern(seq(some("A"), "B"), rising("A", "B"))
    assert matches(where, "A0=1 A1=7 B2=5 B3=8") == ["A0 A1 B3"]


def test_a_condition_on_what_was_left_out_holds():
    """C2 is refused because of B1; C5 has no B to be compared with."""
    where = pattern(seq("A", maybe("B"), "C"), rising("B", "C"))
    assert matches(where, "A0 B1=4 C2=3 C3=5 A4 C5=0") == ["A0 B1 C3", "A4 C5"]


def test_in_an_and_either_variable_may_come_last():
    """The condition is checked when the second one comes."""
    where = pattern(all_of("A", "B"), rising("A", "B"))
    assert matches(where, "A0=5 B1=4 A2=3") == ["B1 A2"]
    assert matches(where, "B0=5 A1=6 A2=4") == ["B0 A2"]


def test_in_a_round_the_earlier_variable_is_not_checked_against_the_round_before():
    """A2=9 is after B1=5, but A < B speaks of a B that follows."""
    where = pattern(times(seq("A", "B"), 2, 2), rising("A", "B"))
    assert matches(where, "A0=1 B1=5 A2=9 B3=8 B4=10") == ["A0 B1 A2 B4"]


def test_a_condition_picks_the_parse():
    """A0 as A2 fails with C, A0 as A does not."""
    where = pattern(all_of("A", seq("A2", "C")), rising("A2", "C"))
    assert assigned(where, "A0=5 A1=1 C2=3") == ["A A2 C"]
    assert assigned(where, "A0=1 A1=5 C2=3") == ["A2 A C"]


def test_a_condition_on_what_must_not_come_narrows_it():
    """Only an X that is more than A closes the partial match; null is not more."""
    where = pattern(seq("A", no("X"), "B"), rising("A", "X"))
    assert matches(where, "A0=5 X1=5 B2") == ["A0 B2"]
    assert matches(where, "A0=5 X1=6 B2") == []
    assert matches(where, "A0=5 X1 B2") == ["A0 B2"]


def test_what_must_not_come_is_compared_with_what_is_there():
    """With B left out, B < X holds and any X kills; with B there it must be greater."""
    where = pattern(seq("A", maybe("B"), no("X"), "C"), rising("B", "X"))
    assert matches(where, "A0 X1=0 C2") == []
    assert matches(where, "A0 B1=3 X2=2 C3") == ["A0 B1 C3"]
    assert matches(where, "A0 B1=3 X2=4 C3") == []


# ---------------------------------------------------------------------------------------------
# Rule 9: the complex event.


def test_aggregates_speak_of_all_rounds_and_a_name_of_the_last():
    """Nulls are counted by FIRST, LAST and COUNT without an attribute alone."""
    x = ("x",)
    folds = {function.value: Aggregate(function, "A", x) for function in AggregateFunction}
    items = {
        **folds,
        "rounds": Aggregate(AggregateFunction.COUNT, "A"),
        "last": Attribute("A", x),
    }
    items |= {"none": Attribute("C", x), "whole": WholeEvent("B")}
    where = seq(some("A"), maybe("C"), "B")
    select = tuple(Item(expression, name) for name, expression in items.items())
    asked = Pattern(select=select, where=where, within=Window(100))

    (found,) = match(asked, history("A0=4 A1 A2=1 B3=2"))

    assert selected(asked, found) == {
        "FIRST": 4,
        "LAST": 1,
        "COUNT": 2,
        "MIN": 1,
        "MAX": 4,
        "SUM": 5,
        "AVG": 2.5,
        "rounds": 3,
        "last": 1,
        "none": None,
        "whole": {"kind": "B", "x": 2, "key": None},
    }


# ---------------------------------------------------------------------------------------------
# Rules 1 and 10: order, late events and duplicates.


def arrivals(text: str) -> list[Event]:
    """Read arrivals as `input.time.id`, such as `0.5.a`."""
    found = (word.split(".") for word in text.split())
    return [Event(int(time), int(source), (name,), {}) for source, time, name in found]


def sorted_out(text: str, lateness: int = 0, remember: int = 100) -> list[str]:
    """Sort arrivals into ready, late and duplicate ones, as text."""
    return [
        " ".join(f"{event.input}.{event.time}.{event.id[0]}" for event in events)
        for events in ready_events(arrivals(text), [lateness, lateness], remember)
    ]


def test_events_are_processed_by_time_then_input_then_id():
    """Upper case comes before lower case."""
    assert sorted_out("1.5.a 0.5.c 0.5.b 0.6.a 1.5.A")[0] == "0.5.b 0.5.c 1.5.A 1.5.a 0.6.a"


def test_numbers_in_ids_compare_as_numbers_and_strings_by_bytes():
    """As text 10 would come before 2; in UTF-16 the last two would change places."""
    ids = [(2, "a"), (10, "a"), (10, "\uffee"), (10, "\U0001f600")]
    events = [Event(0, 0, name, {}) for name in ids]
    assert ready_events(reversed(events), [0], 0)[0] == events


def test_an_event_behind_the_frontier_of_its_input_is_late():
    """The watermark is 5 - 2 = 3: an event at 3 is in time, one at 2 is not."""
    ready, late, _ = sorted_out("0.5.a 0.3.b 0.2.c 1.2.d", lateness=2)
    assert (ready, late) == ("1.2.d 0.3.b 0.5.a", "0.2.c")


def test_a_second_event_with_an_id_that_is_remembered_is_a_duplicate():
    """Its time may differ; an id of another input is another id."""
    ready, _, duplicates = sorted_out("0.1.a 0.2.a 1.2.a", remember=5)
    assert (ready, duplicates) == ("0.1.a 1.2.a", "0.2.a")


def test_an_id_is_forgotten_some_time_behind_the_frontier():
    """The arrival itself moves the watermark: to 6 (1 is remembered), to 7 (1 is not)."""
    assert sorted_out("0.1.a 0.6.a", remember=5) == ["0.1.a", "", "0.6.a"]
    assert sorted_out("0.1.a 0.7.a", remember=5) == ["0.1.a 0.7.a", "", ""]
    assert sorted_out("0.1.a 0.7.a", remember=5, lateness=1) == ["0.1.a", "", "0.7.a"]


def test_a_late_event_is_not_remembered():
    """So the next event with its id is no duplicate."""
    assert sorted_out("0.5.a 0.1.b 0.5.b") == ["0.5.a 0.5.b", "0.1.b", ""]


# ---------------------------------------------------------------------------------------------
# Expressions.

NULL = Literal(None)
YES, NO = TRUE, Literal(value=False)
NAN = Literal(math.nan)
LEAST = Literal(-(2**63))


def binary(left: object, sign: str, right: object) -> Expression:
    """Build an operation on expressions or plain values."""
    return Binary(Operator(sign), _literal(left), _literal(right))


def _literal(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Literal(value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (binary(2, "+", 3), 5),
        (binary(2**63 - 1, "+", 1), None),
        (binary(LEAST, "-", 1), None),
        (binary(2**62, "*", 2), None),
        (binary(2**63 - 1, "+", 1.0), 2.0**63),
        (binary(7, "/", 2), 3.5),
        (binary(7, "/", 0), None),
        (binary(7.0, "/", 0.0), None),
        (binary(-7, "DIV", 2), -3),
        (binary(LEAST, "DIV", -1), None),
        (binary(-7, "%", 3), -1),
        (binary(7, "%", -3), 1),
        (binary(-7.5, "%", 2), -1.5),
        (binary(7, "%", 0), None),
        (binary(None, "+", 1), None),
        (Unary(Sign.MINUS, binary(LEAST, "+", 0)), None),
        (binary(NAN, "=", NAN), True),
        (binary(NAN, ">", math.inf), True),
        (binary(1, "<", NAN), True),
        (binary(2, "=", 2.0), True),
        (binary("\uffee", "<", "\U0001f600"), True),
        (binary(None, "=", None), None),
        (binary(YES, "OR", None), True),
        (binary(None, "OR", NO), None),
        (binary(NO, "AND", None), False),
        (binary(None, "AND", YES), None),
        (binary(YES, "AND", YES), True),
        (Unary(Sign.NOT, NULL), None),
        (Unary(Sign.NOT, NO), True),
        (IsNull(NULL), True),
        (IsNull(NULL, negated=True), False),
        (In(Literal(1), (Literal(2), Literal(1))), True),
        (In(Literal(1), (Literal(2), NULL)), None),
        (In(Literal(1), (Literal(2), NULL), negated=True), None),
        (In(Literal(1), (Literal(2),), negated=True), True),
        (In(NULL, (Literal(2),)), None),
        (Case(((NULL, Literal(1)), (YES, Literal(2))), Literal(3)), 2),
        (Case(((NO, Literal(1)),)), None),
        (Call("abs", (Literal(-2),)), 2),
        (Call("abs", (LEAST,)), None),
        (Call("coalesce", (NULL, Literal(2), Literal(3))), 2),
        (Call("coalesce", (NULL,)), None),
        (Call("least", (Literal(2), NULL, NAN)), 2.0),
        (Call("greatest", (NULL, NULL)), None),
    ],
    ids=str,
)
def test_an_expression_has_the_value_that_spark_gives_it(expression, expected):
    """Nulls, failures, NaN, and truth with three values."""
    value = evaluate(expression, lambda node: node)

    assert value == expected
    assert type(value) is type(expected)


def test_the_greatest_of_numbers_with_nan_is_nan():
    """NaN is greater than any other number."""
    value = evaluate(Call("greatest", (Literal(2), NAN)), lambda node: node)

    assert isinstance(value, float)
    assert math.isnan(value)


# ---------------------------------------------------------------------------------------------
# Words: the rules once more, without partial matches, by listing all that a pattern accepts.


@dataclass(frozen=True)
class Word:
    """What a part may take, and what must not come meanwhile.

    Attributes:
        taken: Variables, one per event; cut off where there are more than events to take.
        gaps: Variables of the NOTs that are watched after 0, 1, 2, ... of these events.
        whole: Whether nothing was cut off.
    """

    taken: tuple[str, ...]
    gaps: tuple[frozenset[str], ...]
    whole: bool = True

    def cut(self, most: int) -> "Word":
        """Cut off what is too long."""
        whole = self.whole and len(self.taken) <= most
        return Word(self.taken[:most], self.gaps[: most + 1], whole)


NOTHING = Word((), (frozenset(),))


def words(part: Part, most: int) -> set[Word]:
    """List the words of a part, cut off after so many events."""
    if isinstance(part, Element):
        return {Word((part.variable,), (frozenset(), frozenset())).cut(most)}
    if isinstance(part, Not):
        return {Word((), (frozenset({part.element.variable}),))}
    if isinstance(part, Or):
        return set().union(*(words(inner, most) for inner in part.parts))
    if isinstance(part, Seq):
        return _concatenated([words(inner, most) for inner in part.parts], most)
    if isinstance(part, Repeat):
        longest = part.least + most if part.most is None else part.most
        counts = range(part.least, min(longest, part.least + most) + 1)
        inner = words(part.part, most)
        return set().union(*(_concatenated([inner] * count, most) for count in counts))
    return _interleaved(part, most)


def _concatenated(choices: Sequence[set[Word]], most: int) -> set[Word]:
    """Put words one after the other: where they meet, the gaps of both are open."""
    found = {NOTHING}
    for choice in choices:
        found = {_joined(left, right).cut(most) for left in found for right in choice}
    return found


def _joined(left: Word, right: Word) -> Word:
    if not left.whole:
        return left
    meeting = left.gaps[-1] | right.gaps[0]
    gaps = (*left.gaps[:-1], meeting, *right.gaps[1:])
    return Word(left.taken + right.taken, gaps, right.whole)


def _interleaved(part: Part, most: int) -> set[Word]:
    """Shuffle words: each has its gaps open; NOTs are watched from first to last event."""
    inner = child_parts(part)
    forbidden = frozenset(p.element.variable for p in inner if isinstance(p, Not))
    choices = [words(p, most) for p in inner if not isinstance(p, Not)]
    return {word for chosen in product(*choices) for word in _shuffles(chosen, forbidden, most)}


def _shuffles(chosen: tuple[Word, ...], forbidden: frozenset[str], most: int) -> Iterator[Word]:
    length = sum(len(word.taken) for word in chosen)
    turns = [number for number, word in enumerate(chosen) for _ in word.taken]
    for order in set(permutations(turns, min(most, length))):
        at = [0] * len(chosen)
        taken = []
        gaps = [frozenset[str]().union(*(word.gaps[0] for word in chosen))]
        for count, turn in enumerate(order, start=1):
            taken.append(chosen[turn].taken[at[turn]])
            at[turn] += 1
            open_now = [word.gaps[k] for word, k in zip(chosen, at, strict=True)]
            gaps.append(frozenset().union(*open_now, forbidden if count < length else ()))
        whole = all(word.whole for word in chosen) and length <= most
        yield Word(tuple(taken), tuple(gaps), whole)


def read_by_words(asked: Pattern, events: Sequence[Event]) -> list[tuple[str, ...] | None]:
    """Offer events to one partial match; say after each its assignment if it is a word."""
    tests = {element.variable: element.condition for element in elements(asked.where)}
    order = list(tests)
    alive = words(asked.where, len(events))
    count = 0
    said: list[tuple[str, ...] | None] = []
    for offered in events:
        true = {name for name, test in tests.items() if holds(test, offered)}
        if count:
            alive = {word for word in alive if not word.gaps[count] & true}
        users = {word for word in alive if set(word.taken[count : count + 1]) & true}
        if users:
            alive, count = users, count + 1
        complete = [w.taken for w in alive if w.whole and len(w.taken) == count]
        said.append(min(complete, key=lambda names: [*map(order.index, names)], default=None))
    return said


def read_by_places(asked: Pattern, events: Sequence[Event]) -> list[tuple[str, ...] | None]:
    """Do the same with the rules of the reference."""
    rules = Rules(asked)
    partial_match = PartialMatch((), 0, 0, (), rules.start)
    said: list[tuple[str, ...] | None] = []
    for offered in events:
        if partial_match.events:
            partial_match = rules.spared(partial_match, offered)
        partial_match = rules.taken(partial_match, offered) or partial_match
        found = first_as_written(partial_match, 0)
        said.append(found.elements if found else None)
    return said


def holds(condition: Expression, of: Event) -> bool:
    """Tell whether a condition on one event is true of it."""
    row = without_variable(condition)
    return evaluate(row, lambda node: of.values[str(node)]) is True


@given(patterns(cross=False, depth=2), ready_streams(max_size=4))
def test_the_places_of_a_machine_are_those_of_the_words_that_are_left(asked, events):
    """Waiting somewhere is the same as being the beginning of a word."""
    assert read_by_places(asked, events) == read_by_words(asked, events)


# ---------------------------------------------------------------------------------------------
# Laws, on random patterns and streams.


@given(patterns(), ready_streams())
def test_a_match_lies_within_its_window_and_its_key(asked, events):
    """And its events are in order."""
    for found in match(asked, events):
        times_ = [event.time for event in found.events]
        assert times_ == sorted(times_)
        if asked.within and asked.within.unit is WindowUnit.TIME:
            assert found.time - times_[0] <= asked.within.length
        for attribute in asked.partition_by:
            assert len({event.values[attribute.column] for event in found.events}) == 1


@given(patterns(reuse=False), ready_streams())
def test_no_event_is_in_two_matches_unless_reused(asked, events):
    """Consume-once."""
    used = [event for found in match(asked, events) for event in found.events]
    assert len(used) == len(set(used))


@given(patterns(absence=False), ready_streams(), st.integers(0, 20))
def test_what_comes_later_does_not_change_what_was_found(asked, events, length):
    """Without absence, the matches of a beginning are a beginning of the matches."""
    beginning = match(asked, events[:length])
    assert match(asked, events)[: len(beginning)] == beginning


@given(streams(), st.integers(0, 5), st.integers(0, 10))
def test_each_arrival_is_ready_late_or_a_duplicate(arrived, lateness, remember):
    """And no event is ready twice."""
    ready, late, duplicates = ready_events(arrived, [lateness, 0], remember)
    assert len(ready) + len(late) + len(duplicates) == len(arrived)
    assert len(set(ready)) == len(ready)

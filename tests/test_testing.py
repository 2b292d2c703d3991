"""What users test their own patterns with: events as text in, matches as text out."""

import subprocess
import sys

import pytest

from shedlight import testing
from shedlight.errors import InputError, LanguageError
from shedlight.language import dsl as p

PAIR = "SELECT * WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"


def test_the_fixture_needs_no_import(matches):
    """It comes with the plugin for pytest, and is the function."""
    assert matches is testing.matches
    assert matches(PAIR, "A0 A1 B2 B3") == ["A0 B2", "A1 B3"]


def test_a_pattern_made_in_python_is_taken(matches):
    """It was checked when it was made."""
    a, b = p.event("a"), p.event("b")
    made = p.pattern(where=p.seq(a.type == "A", b.type == "B"), within="5 s")

    assert matches(made, "A0 B2") == ["A0 B2"]


@pytest.mark.parametrize("line", ["", "  \n "])
def test_without_events_there_are_no_matches(matches, line):
    """Of what the events have, nothing is known; the pattern is read all the same."""
    assert matches(PAIR, line) == []
    assert matches("SELECT a WHERE a.cpu > 0.5", line) == []
    with pytest.raises(LanguageError, match="unexpected 'SELCT'"):
        matches("SELCT a WHERE a", line)


VALUES = {
    "1": "a.v = 1",
    "-1.5": "a.v = -1.5",
    "1e3": "a.v = 1000",
    "nan": "isnan(a.v)",
    "true": "a.v",
    "FALSE": "NOT a.v",
    "null": "a.v IS NULL",
    "'ann'": "a.v = 'ann'",
    '"ann"': "a.v = 'ann'",
    "''": "a.v = ''",
    "'f(x, y)'": "a.v = 'f(x, y)'",
    "'a) B1(v=2'": "a.v = 'a) B1(v=2'",
    "'it''s'": "a.v = 'it''s'",
    '"it\'s"': "a.v = 'it''s'",
}


@pytest.mark.parametrize("value", VALUES)
def test_attributes_have_values_of_all_kinds(matches, value):
    """Text in quotes may have anything in it."""
    event = f"A0(v={value}, other=1)"

    assert matches(f"SELECT a WHERE a.type = 'A' AND ({VALUES[value]})", event) == [event]


def test_whole_and_decimal_numbers_mix(matches):
    """They are doubles then, also the largest."""
    line = "A0(v=1) A1(v=0.5) A2(v=9223372036854775807) A3"

    assert matches("SELECT a WHERE a.v >= 1", line) == ["A0(v=1)", "A2(v=9223372036854775807)"]


def test_equal_times_are_in_order(matches):
    """Of one time, the order is that of the line."""
    assert matches(PAIR, "A0 B1 A1 B1") == ["A0 B1", "A1 B1"]


def test_the_type_can_be_written_as_an_attribute(matches):
    """Then it need not be text: in the paper, types are numbers."""
    assert matches("SELECT a WHERE a.type = 1", "E0(type=0) E1(type=1)") == ["E1(type=1)"]


BLOCKED = """
import sys
sys.modules["pytest"] = None
from shedlight.testing import matches
print(matches("SELECT a WHERE a.type = 'A'", "A0 B1"))
"""


def test_it_works_without_pytest():
    """Whoever has it not installed can match events all the same."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['A0']\n"


MISTAKES = {
    "A0 B2 A1": "event 'A1' is out of order: it stands after 'B2'; write the events by time",
    "A0(v=1) B1(v='x')": "attribute 'v' is a number in 'A0(v=1)' and text in \"B1(v='x')\"",
    "A0(v=1) B1(v=true)": "attribute 'v' is a number in 'A0(v=1)' and true or false in",
    "A0 B1(type=5)": "attribute 'type' is text in 'A0' and a number in 'B1(type=5)'",
    "A0(time=5)": "attribute 'time' of 'A0(time=5)' cannot be written",
    "A0(x=1, row=5)": "attribute 'row' of 'A0(x=1, row=5)' cannot be written",
    "A0(x=1, x=2)": "attribute 'x' is twice in 'A0(x=1, x=2)'",
    "A0(x=[1])": "cannot read the value '[1]'; write a number, 'text', true, false or null",
    "A0(x=ann)": "cannot read the value 'ann'",
    "A0(x='a' y=1)": "cannot read an attribute of \"A0(x='a' y=1)\" at \"x='a' y=1\"",
    "A0(5)": "cannot read an attribute of 'A0(5)' at '5'; write cpu=0.5, user='ann'",
    "A0(x='a)": 'cannot read an event at "(x=\'a)"',
    "A0 B": "cannot read an event at 'B'; write it as A0 (type and seconds)",
    "A0(x=9223372036854775808)": "the number 9223372036854775808 does not fit the 64 bits",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_in_the_events_is_explained(matches, line):
    """A test that leaves out events without a word would pass for the wrong reason."""
    with pytest.raises(InputError) as caught:
        matches(PAIR, line)

    assert str(caught.value).startswith(MISTAKES[line])

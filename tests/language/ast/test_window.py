"""Windows and times, read from text."""

import pytest

from shedlight.errors import RuleError
from shedlight.language.ast.window import read_duration, read_window

NO_WINDOWS = ("", "10", "s", "10 s s", "ten s", "+1 s", "1..5 s", "10 s\0", "\u0663 s")


@pytest.mark.parametrize("text", NO_WINDOWS)
def test_what_is_no_window_is_refused(text):
    """Also other digits than those of the language."""
    with pytest.raises(RuleError, match="is not a window; write a number and a unit"):
        read_window(text)


def test_a_window_of_many_digits_is_refused_at_once():
    """Whole numbers of unlimited length would take their time."""
    for text in ("1" * 5_000, "0." + "0" * 5_000 + "1", "1e999999999", "-1"):
        with pytest.raises(RuleError, match="this length is out of range"):
            read_window(f"{text} s")
    with pytest.raises(RuleError, match="is not a whole number of microseconds"):
        read_window("1e-999999999 s")
    with pytest.raises(RuleError, match=r"a window of 0\.0e99 s is empty"):
        read_window("0.0e99 s")


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("3 s", 3_000_000),
        ("3s", 3_000_000),
        ("0 s", 0),
        ("500 ms", 500_000),
        ("1.5 min", 90_000_000),
        (".5 H", 1_800_000_000),
        ("2 days", 172_800_000_000),
        ("7 us", 7),
    ],
)
def test_a_time_is_a_number_and_a_unit(text, microseconds):
    """In any case, with or without a space."""
    assert read_duration(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "soon", "3", "3 sek", "-1 s", "0.5 us", "5 events", "9" * 41]
)
def test_what_is_no_time_is_an_error_that_shows_it(text):
    """The message goes on after the name of a setting."""
    with pytest.raises(ValueError, match=f"^is '{text[:40]}"):
        read_duration(text)

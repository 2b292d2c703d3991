"""The length of a window, as it is written."""

import re
from datetime import timedelta
from fractions import Fraction

from shedlight.errors import known_names
from shedlight.language.ast.pattern import MICROSECONDS, Window, WindowUnit
from shedlight.language.check.normal_form import RuleError

UNITS = {
    **MICROSECONDS,
    **dict.fromkeys(("sec", "second", "seconds"), MICROSECONDS["s"]),
    **dict.fromkeys(("minute", "minutes"), MICROSECONDS["min"]),
    **dict.fromkeys(("hour", "hours"), MICROSECONDS["h"]),
    **dict.fromkeys(("day", "days"), MICROSECONDS["d"]),
}
"""How many microseconds each unit of time has, by all of its names."""

MOST_LENGTH = 10**16
"""The longest window: microseconds (some 300 years) or events."""

_EVENTS = ("events", "event")
_MOST_DIGITS = 40
_FORM = re.compile(
    r"\s*(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"\s*(?P<unit>[A-Za-z]+)\s*"
)


def window_of(number: str, unit: str) -> Window:
    """Make a window of a number and a unit.

    Raises:
        RuleError: It is none; the node is the argument that is wrong.

    Example:
        >>> print(window_of("90", "sec"), window_of("0.5", "ms"), window_of("7", "EVENTS"))
        90 s 500 us 7 EVENTS
    """
    counted = unit.lower() in _EVENTS
    size = 1 if counted else UNITS.get(unit.lower())
    if size is None:
        raise RuleError(
            unit, f"unknown unit {str(unit)!r}", known_names(unit, [*UNITS, *_EVENTS], 99)
        )
    if not 0 < float(number) * size <= MOST_LENGTH or len(number) > _MOST_DIGITS:
        most = f"{MOST_LENGTH:,} {'events' if counted else 'us'}"
        hint = f"it is longer than zero and at most {most}"
        raise RuleError(number, "a window cannot have this length", hint)
    length = Fraction(number) * size
    if length.denominator != 1:
        what = "events" if counted else "microseconds"
        raise RuleError(number, f"{number} {unit} is not a whole number of {what}")
    return Window(int(length), WindowUnit.EVENTS if counted else WindowUnit.TIME)


def read_window(text: str) -> Window:
    """Make a window of text.

    Raises:
        RuleError: It is none.

    Example:
        >>> read_window("10 min")
        Window(length=600000000, span=<WindowUnit.TIME: 'microseconds'>)
    """
    found = _FORM.fullmatch(text)
    if not found:
        hint = "write a number and a unit, such as '10 min' or '5 events'"
        raise RuleError(text, f"{text!r} is not a window", hint)
    return window_of(found["number"], found["unit"])


def window_lasting(time: timedelta) -> Window:
    """Make a window that lasts for a time.

    Example:
        >>> print(window_lasting(timedelta(minutes=10)))
        10 min
    """
    return window_of(str(time // timedelta(microseconds=1)), "us")

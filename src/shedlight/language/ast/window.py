"""Windows and times as they are written: `10 min`, `500 ms`, `5 events`."""

import re
from collections.abc import Mapping
from fractions import Fraction

from shedlight.errors import RuleError, known_names
from shedlight.language.ast.pattern import MICROSECONDS, Window, WindowUnit

UNITS = {
    **MICROSECONDS,
    **dict.fromkeys(("sec", "second", "seconds"), MICROSECONDS["s"]),
    **dict.fromkeys(("minute", "minutes"), MICROSECONDS["min"]),
    **dict.fromkeys(("hour", "hours"), MICROSECONDS["h"]),
    **dict.fromkeys(("day", "days"), MICROSECONDS["d"]),
}
"""How many microseconds each unit of time has, by all of its names."""

MAX_LENGTH = 10**16  # the longest window: microseconds (some 300 years) or events

_EVENTS = {"events": 1, "event": 1}
_MAX_CHARACTERS = 40
_FORM = re.compile(
    r"\s*(?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"\s*(?P<unit>[A-Za-z]*)\s*"
)


def make_window(number: str, unit: str) -> Window:
    """Make a window of a number and a unit.

    Raises:
        RuleError: It is none; the node is the argument that is wrong.

    Example:
        >>> print(make_window("0.5", "ms"), make_window("7", "EVENTS"))
        500 us 7 EVENTS
    """
    length = _length(number, unit, UNITS | _EVENTS)
    if not length:
        raise RuleError(number, f"a window of {number} {unit} is empty", "make it longer")
    return Window(length, WindowUnit.EVENTS if unit.lower() in _EVENTS else WindowUnit.TIME)


def read_window(text: str) -> Window:
    """Make a window of text; RuleError if it is none.

    Example:
        >>> read_window("10 min")
        Window(length=600000000, unit=<WindowUnit.TIME: 'microseconds'>)
    """
    form = _FORM.fullmatch(text)
    if not form or not form["unit"]:
        hint = "write a number and a unit, such as '10 min' or '5 events'"
        raise RuleError(text, f"{text!r} is not a window", hint)
    return make_window(form["number"], form["unit"])


def read_duration(text: str) -> int:
    """Read a time, in microseconds; 0 is one too.

    Raises:
        ValueError: It is none; the message goes on after the name of the setting.

    Example:
        >>> read_duration("500 ms"), read_duration("1.5min")
        (500000, 90000000)
    """
    form = _FORM.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    shown = repr(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")
    if not form:
        raise ValueError(f"is {shown}, which is no time; write '3 s', '500 ms' or '10 min'")
    number, unit = form["number"], form["unit"]
    if not unit:
        raise ValueError(f"is {shown} without a unit; write {number + ' s'!r} for seconds")
    try:
        return _length(number, unit, UNITS)
    except RuleError as error:
        raise ValueError(f"is {shown}: {error}") from error


def _length(number: str, unit: str, units: Mapping[str, int]) -> int:
    """Count the microseconds or events of a length."""
    size = units.get(unit.lower())
    if size is None:
        raise RuleError(unit, f"unknown unit {str(unit)!r}", known_names(unit, units, 99))
    counted = unit.lower() in _EVENTS
    rough = float(number) * size
    if not 0 <= rough <= MAX_LENGTH or len(number) > _MAX_CHARACTERS:
        days = MAX_LENGTH // UNITS["day"]
        most = f"{MAX_LENGTH:,} events" if counted else f"{days:,} days"
        raise RuleError(number, "this length is out of range", f"it may be from 0 to {most}")
    if not rough and set(number.lower().partition("e")[0]) <= set("0.-"):
        return 0
    length = Fraction(number) * size if rough else Fraction(1, 2)  # never a power of 10**999999
    if length.denominator != 1:
        what = "events" if counted else "microseconds"
        raise RuleError(number, f"{number} {unit} is not a whole number of {what}")
    return int(length)

"""Times as an application file has them: `3 s`, `500 ms`, `10 min`."""

import re
from fractions import Fraction

from shedlight.errors import known_names
from shedlight.graph.file.problem import shortened
from shedlight.language.ast.window import MOST_LENGTH, UNITS

_FORM = re.compile(
    r"\s*(?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))\s*(?P<unit>[A-Za-z]*)\s*"
)
_MOST_CHARACTERS = 40


def read_duration(text: str) -> int:
    """Read a time, in microseconds.

    Raises:
        ValueError: It is none; the message goes on after the name of the setting.

    Example:
        >>> read_duration("500 ms"), read_duration("1.5min")
        (500000, 90000000)
    """
    shown = repr(shortened(text))
    found = _FORM.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if not found:
        raise ValueError(f"is {shown}, which is no time; write '3 s', '500 ms' or '10 min'")
    number, unit = found["number"], found["unit"]
    if not unit:
        raise ValueError(f"is {shown} without a unit; write {number + ' s'!r} for seconds")
    size = UNITS.get(unit.lower())
    if size is None:
        raise ValueError(f"is {shown}, an unknown unit; {known_names(unit, UNITS, 99)}")
    length = Fraction(number) * size
    if not 0 <= length <= MOST_LENGTH:
        most = MOST_LENGTH // UNITS["day"]
        raise ValueError(f"is {shown}; it must be from 0 s to {most:,} days")
    if length.denominator != 1:
        raise ValueError(f"is {shown}, which is not a whole number of microseconds")
    return int(length)

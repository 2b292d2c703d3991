"""Test your own patterns: a line of events in, a line of matches out.

An event is written `A0`: its type and its time in seconds, `type = 'A'` and `time` 0. It may
have more attributes, written `A0(cpu=0.5, user='ann')`: numbers, text in quotes (a quote inside
is written twice), true, false or null. A `type` that is written so replaces the first. A match
is the events it took, as they were written, in the order taken.

    from shedlight.testing import matches

    def test_an_event_is_consumed_once():
        pattern = "SELECT a, b WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"
        assert matches(pattern, "A0 A1 B2 B3") == ["A0 B2", "A1 B3"]

In pytest, the fixture `matches` is the same function; nothing needs to be imported.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from shedlight.engines.tables import match_tables
from shedlight.errors import InputError
from shedlight.language import Pattern, parse_pattern
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput

_EVENT = re.compile(
    r"\s*(?P<type>[A-Za-z_]+)(?P<time>-?\d+(?:\.\d+)?)"
    r"""(?:\((?P<attributes>(?:'[^']*'|"[^"]*"|[^()'"])*)\))?"""
)
_ATTRIBUTE = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\s*=\s*"""
    r"""(?P<value>'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s,'"]+)\s*(?:,|$)"""
)
_RESERVED = ("time", "row")
_DATA_TYPES = {bool: "true or false", int: "a number", float: "a number", str: "text"}
_MAX_BIGINT = 2**63 - 1

_Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class _Event:
    """An event as it is written, its time in microseconds, and its attributes."""

    text: str
    time: int
    attributes: Mapping[str, _Value]


def matches(pattern: str | Pattern, events: str, *, timed_out: bool = False) -> list[str]:
    """Match a line of events and return a line for each match.

    Args:
        pattern: The pattern, as text or made by the builder.
        events: Events such as `A0 B2 B3.5(cpu=0.9)`, by time.
        timed_out: Whether to return a line for each partial match that timed out instead.

    Raises:
        LanguageError: The pattern is not understood.
        InputError: The events are not, or they are out of order.

    Example:
        >>> sudden = "SELECT a WHERE SEQ(a.type = 'A', b.cpu > 0.8) WITHIN 5 s"
        >>> matches(sudden, "A0 B1(cpu=0.5) B2(cpu=0.9)")
        ['A0 B2(cpu=0.9)']
    """
    written = _read_events(events)
    table = _table(written)
    if not isinstance(pattern, Pattern):
        schema = schema_of(table.schema) if written else None
        pattern = parse_pattern(pattern, schema).pattern
    if not written:
        return []
    once = replace(pattern, each=False)
    inputs = [(StreamInput("events", ("row",), "time"), table)]
    result = match_tables(inputs, {"test": once}, timed_out=timed_out)
    rows_of = (result.timed_out if timed_out else result.complex_events)["test"]["events"]
    return [" ".join(written[row].text for row in rows) for rows in rows_of.to_pylist()]


try:
    import pytest
except ImportError:  # the function works without it
    pass
else:

    @pytest.fixture(name="matches")
    def _matches() -> Callable[..., list[str]]:
        """Give the function `matches` to a test."""
        return matches


def _read_events(line: str) -> list[_Event]:
    events: list[_Event] = []
    at = 0
    while line[at:].strip():
        read = _EVENT.match(line, at)
        if not read:
            raise InputError(
                f"cannot read an event at {line[at:].strip()[:20]!r}; write it as A0 (type "
                "and seconds) or A0(cpu=0.5, user='ann')"
            )
        text, time = read.group().strip(), round(float(read["time"]) * 1e6)
        if events and time < events[-1].time:
            raise InputError(
                f"event {text!r} is out of order: it stands after {events[-1].text!r}; "
                "write the events by time"
            )
        attributes = _read_attributes(text, read["attributes"] or "")
        events.append(_Event(text, time, {"type": read["type"]} | attributes))
        at = read.end()
    return events


def _table(events: Sequence[_Event]) -> pa.Table:
    times = pa.array([event.time for event in events], pa.int64())
    rows = pa.array(range(len(events)), pa.int64())
    names = dict.fromkeys(name for event in events for name in event.attributes)
    columns = {name: _column(name, events) for name in names}
    return pa.table({"time": times, "row": rows} | columns)


def _column(name: str, events: Sequence[_Event]) -> pa.Array:
    """Make a column of an attribute; all of its values are of one data type."""
    first: dict[str, _Event] = {}
    for event in events:
        value = event.attributes.get(name)
        if value is not None:
            first.setdefault(_DATA_TYPES[type(value)], event)
    if len(first) > 1:
        types = " and ".join(f"{name} in {event.text!r}" for name, event in first.items())
        raise InputError(f"attribute {name!r} is {types}; write values of one data type")
    values = [event.attributes.get(name) for event in events]
    if float in map(type, values):
        return pa.array([None if value is None else float(value) for value in values])
    return pa.array(values)


def _read_attributes(event: str, text: str) -> dict[str, _Value]:
    attributes: dict[str, _Value] = {}
    at = 0
    while text[at:].strip():
        read = _ATTRIBUTE.match(text, at)
        if not read:
            raise InputError(
                f"cannot read an attribute of {event!r} at {text[at:].strip()!r}; write "
                "cpu=0.5, user='ann'"
            )
        name = read["name"]
        if name in _RESERVED:
            raise InputError(
                f"attribute {name!r} of {event!r} cannot be written; every event has its own"
            )
        if name in attributes:
            raise InputError(f"attribute {name!r} is twice in {event!r}")
        attributes[name] = _read_value(read["value"])
        at = read.end()
    return attributes


def _read_value(text: str) -> _Value:
    constants = {"null": None, "true": True, "false": False}
    if text.lower() in constants:
        return constants[text.lower()]
    if text[0] in "'\"":
        return text[1:-1].replace(text[0] * 2, text[0])
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        if isinstance(value, float) or abs(value) <= _MAX_BIGINT:
            return value
        raise InputError(f"the number {text} does not fit the 64 bits of a bigint")
    raise InputError(
        f"cannot read the value {text!r}; write a number, 'text', true, false or null"
    )

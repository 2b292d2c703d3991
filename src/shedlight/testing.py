"""Test your own patterns: a line of events in, a line of matches out.

An event is written `A0`: its kind and its time in seconds, `kind = 'A'` and `time` 0. It may
have more attributes, written `A0(cpu=0.5, user='ann')`. A match is the events it took, as they
were written, in the order taken.

    from shedlight.testing import matches

    def test_an_event_is_consumed_once():
        pattern = "SELECT a, b WHERE SEQ(a.kind = 'A', b.kind = 'B') WITHIN 5 s"
        assert matches(pattern, "A0 A1 B2 B3") == ["A0 B2", "A1 B3"]

In pytest, the fixture `matches` is the same function; nothing needs to be imported.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from shedlight.automaton.intake import Input
from shedlight.automaton.operator import schema_of
from shedlight.engines.finished import match_tables
from shedlight.errors import InputError
from shedlight.language import Pattern, parse_pattern

_EVENT = re.compile(
    r"\s*(?P<kind>[A-Za-z_]+)(?P<time>-?\d+(?:\.\d+)?)(?:\((?P<rest>[^()]*)\))?"
)
_ATTRIBUTE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>'[^']*'|[^,]+)\s*(?:,|$)")


def matches(pattern: str | Pattern, events: str) -> list[str]:
    """Match a line of events and give a line for each match.

    Args:
        pattern: The pattern, as text or made by the builder.
        events: Events such as `A0 B2 B3.5(cpu=0.9)`, in the order of their arrival.

    Example:
        >>> sudden = "SELECT a WHERE SEQ(a.kind = 'A', b.cpu > 0.8) WITHIN 5 s"
        >>> matches(sudden, "A0 B1(cpu=0.5) B2(cpu=0.9)")
        ['A0 B2(cpu=0.9)']
    """
    texts, table = _table(events)
    parsed = (
        pattern
        if isinstance(pattern, Pattern)
        else parse_pattern(pattern, schema_of(table.schema)).pattern
    )
    once = replace(parsed, each=False)
    result = match_tables([(Input("events", ("row",), "time"), table)], {"test": once})
    found = result.complex_events["test"]["events"].to_pylist()
    return [" ".join(texts[row] for row in rows) for rows in found]


@pytest.fixture(name="matches")
def _matches() -> Callable[[str | Pattern, str], list[str]]:
    """Give the function `matches` to a test."""
    return matches


def _table(events: str) -> tuple[list[str], pa.Table]:
    texts: list[str] = []
    rows: list[dict[str, object]] = []
    at = 0
    while events[at:].strip():
        found = _EVENT.match(events, at)
        if not found:
            raise InputError(
                f"cannot read an event at {events[at:].strip()[:20]!r}; write it as A0 (kind "
                "and seconds) or A0(cpu=0.5, user='ann')"
            )
        texts.append(found.group().strip())
        row = {
            "kind": found["kind"],
            "time": round(float(found["time"]) * 1e6),
            "row": len(rows),
        }
        rows.append(row | _attributes(found["rest"] or ""))
        at = found.end()
    names = dict.fromkeys(name for row in rows for name in row) or ["kind", "time", "row"]
    return texts, pa.table({name: [row.get(name) for row in rows] for name in names})


def _attributes(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    at = 0
    while text[at:].strip():
        one = _ATTRIBUTE.match(text, at)
        if not one:
            raise InputError(
                f"cannot read an attribute at {text[at:]!r}; write cpu=0.5, user='ann'"
            )
        found[one["name"]] = _value(one["value"].strip())
        at = one.end()
    return found


def _value(text: str) -> object:
    constants = {"null": None, "true": True, "false": False}
    if text.lower() in constants:
        return constants[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise InputError(
            f"cannot read the value {text!r}; write a number, 'text', true, false or null"
        ) from error

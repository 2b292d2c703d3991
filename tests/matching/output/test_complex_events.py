"""What SELECT makes of a match."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from shedlight.engines.tables import match_tables
from shedlight.language import parse_pattern
from shedlight.matching.operators.reorder import StreamInput

EVENTS = pa.table(
    {
        "time": [0, 1, 2, 3],
        "n": [10, 11, 12, 13],
        "kind": ["A", "B", "B", "C"],
        "x": [1, 5, None, 2**62],
        "y": [0.5, float("nan"), 1.5, None],
        "name": ["ä", "b", "a", None],
    }
)
WHERE = "WHERE SEQ(a.kind = 'A', b.kind = 'B' +, z.kind = 'Z' ?, c.kind = 'C') WITHIN 1 s"


def _selected(select, events=EVENTS, where=WHERE):
    pattern = parse_pattern(f"SELECT {select} {where}").pattern
    result = match_tables([(StreamInput("events", ("n",), "time"), events)], {"P": pattern})
    return result.complex_events["P"].to_pylist()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a.x", 1),
        ("b.name", "a"),
        ("FIRST(b.name)", "b"),
        ("LAST(b.x)", None),
        ("FIRST(b.x)", 5),
        ("COUNT(b)", 2),
        ("COUNT(b.x)", 1),
        ("MIN(b.name)", "a"),
        ("MAX(b.name)", "b"),
        ("MIN(b.y)", 1.5),
        ("SUM(b.x)", 5),
        ("AVG(b.x)", 5.0),
        ("COUNT(z)", 0),
        ("SUM(z.x)", None),
        ("z.name", None),
        ("c.x + c.x", None),
        ("c.x - a.x * 2 + COUNT(b)", 2**62),
        ("CASE WHEN COUNT(b) > 1 THEN concat(a.name, b.name) END", "äa"),
    ],
)
def test_values_of_a_match(expression, value):
    """The last event of an element, or an aggregate over all of them; left out is null."""
    (row,) = _selected(f"{expression} AS it")
    assert row["it"] == value


def test_nan_is_the_greatest():
    """As in comparisons."""
    (row,) = _selected("MAX(b.y) AS it")
    assert row["it"] != row["it"]


def test_a_sum_that_does_not_fit_is_null():
    """2^62 twice is one too many."""
    events = EVENTS.set_column(3, "x", [[1, 2**62, 2**62, 0]])
    (row,) = _selected("SUM(b.x) AS it", events)
    assert row["it"] is None


def test_a_bare_variable_is_the_whole_event():
    """As a struct with all columns; `*` is every variable, but none under NOT."""
    (row,) = _selected("a, z")
    assert row["a"] == {"time": 0, "n": 10, "kind": "A", "x": 1, "y": 0.5, "name": "ä"}
    assert row["z"] is None
    (row,) = _selected("*", where=WHERE.replace("z.kind = 'Z' ?", "NOT(z.kind = 'Z')"))
    assert list(row) == ["source", "time", "id", "events", "a", "b", "c"]


def test_each_emits_one_event_per_event_of_the_match():
    """A name without a variable is that event's own attribute; ids differ by a number."""
    rows = _selected("EACH kind, x, a.name AS first_name")
    assert [row["kind"] for row in rows] == ["A", "B", "B", "C"]
    assert {row["first_name"] for row in rows} == {"ä"}
    assert [row["id"][-2:] for row in rows] == ["-0", "-1", "-2", "-3"]
    assert {row["time"] for row in rows} == {3}


def test_each_of_everything_leaves_the_complex_events_own_columns_alone():
    """The timestamp is that of the match, not that of the event."""
    rows = _selected("EACH *")
    assert {row["time"] for row in rows} == {3}
    assert [row["n"] for row in rows] == [10, 11, 12, 13]


def test_the_id_depends_on_the_events_and_the_pattern_only():
    """Columns that are not part of an event's id do not matter."""
    (one,) = _selected("a.x")
    (other,) = _selected("b.y", EVENTS.set_column(3, "x", [[9, 9, 9, 9]]))
    (third,) = _selected("a.x", EVENTS.set_column(1, "n", [[10, 12, 11, 13]]))
    assert one["id"] == other["id"] != third["id"]


ANY = pa.table(
    {
        "time": [0, 1],
        "n": [1, 2],
        "kind": ["A", "B"],
        "tags": pa.array([["x", None], None], pa.list_(pa.string())),
        "counts": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "inner": pa.array(
            [{"list": [1], "short": 2}, None],
            pa.struct([("list", pa.list_(pa.int32())), ("short", pa.int16())]),
        ),
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "bytes": pa.array([b"\0", None], pa.binary()),
        "day": pa.array([date(2020, 1, 1), None], pa.date32()),
        "small": pa.array([1, None], pa.int32()),
        "single": pa.array([1.5, None], pa.float32()),
        "local": pa.array([1, None], pa.timestamp("us")),
        "zoned": pa.array([1, None], pa.timestamp("us", tz="Europe/Berlin")),
        "length": pa.array([1, None], pa.duration("us")),
    }
)


def _found(select, where="WHERE SEQ(a.kind = 'A', b.kind = 'B') WITHIN 1 s"):
    pattern = parse_pattern(f"SELECT {select} {where}").pattern
    stream = StreamInput("events", ("n",), "time")
    return match_tables([(stream, ANY)], {"P": pattern}).complex_events["P"]


def test_whole_events_have_columns_of_any_type():
    """As they are: nobody has to look into them."""
    found = _found("*")

    assert found["a"].to_pylist() == ANY.slice(0, 1).to_pylist()
    assert found["b"].to_pylist() == ANY.slice(1, 1).to_pylist()
    assert found.schema.field("a").type == pa.struct(list(ANY.schema))


def test_each_event_has_columns_of_any_type():
    """But for those that a complex event has itself."""
    found = _found("EACH *")

    assert found.drop_columns(["source", "time", "id", "events"]) == ANY.drop_columns(["time"])


@pytest.mark.parametrize("name", ["price", "day", "small", "single", "local", "zoned", "inner"])
def test_an_attribute_keeps_its_type(name):
    """Where it is selected as it is; what is computed has a type of the language."""
    found = _found(f"a.{name} AS a, LAST(b.{name}) AS b")

    assert found["a"].to_pylist() == ANY[name].slice(0, 1).to_pylist()
    assert found["b"].to_pylist() == [None]
    assert found.schema.field("a").type == found.schema.field("b").type == ANY[name].type


def test_text_and_numbers_of_rare_forms_become_plain():
    """Who reads complex events need not know of dictionaries."""
    column = pa.array(["x", "y"]).dictionary_encode()
    events = ANY.append_column("word", column).append_column("count", pa.array([1, 2], "u8"))
    pattern = parse_pattern("SELECT a.word, a.count WHERE a.kind = 'A'").pattern

    stream = StreamInput("events", ("n",), "time")
    found = match_tables([(stream, events)], {"P": pattern}).complex_events["P"]

    assert found.schema.field("word").type == pa.string()
    assert found.schema.field("count").type == pa.int64()

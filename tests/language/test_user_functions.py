"""Functions of the user in patterns: one event, by name, as a column that a source computes."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from shedlight.engines.tables import match_tables
from shedlight.errors import InputError, LanguageError
from shedlight.language import (
    DataType,
    UserFunction,
    check,
    dsl,
    parse_expression,
    parse_pattern,
)
from shedlight.language.ast.expression import function_values
from shedlight.language.ast.pattern import expressions
from shedlight.language.check.calls import check_function_names
from shedlight.matching.operators.reorder import StreamInput

LENGTH = UserFunction(pc.utf8_length, returns="bigint")
DOUBLED = UserFunction(lambda x: pc.multiply(x, 2), returns="bigint")
FUNCTIONS = {"doubled": DOUBLED, "size_of": LENGTH}
SCHEMA = {
    "id": DataType.BIGINT,
    "time": DataType.BIGINT,
    "s": DataType.STRING,
    "x": DataType.BIGINT,
}
STREAM = StreamInput("t", ("id",), "time")


def _table(**columns):
    number = len(next(iter(columns.values())))
    own = {"id": list(range(number)), "time": [1_000_000 * i for i in range(number)]}
    return pa.table(own | columns)


def _found(text, table, functions=FUNCTIONS):
    pattern = parse_pattern(text, SCHEMA, functions).pattern
    return match_tables([(STREAM, table)], {"P": pattern}).complex_events["P"].to_pylist()


def test_a_function_is_called_for_one_event_wherever_an_attribute_may_stand():
    """In conditions on one event, across events, and in what is selected; nested, too."""
    table = _table(s=["a", "bcd", "ef", "ghij"], x=[1, 2, 3, 4])
    text = (
        "SELECT DOUBLED(b.x + 1) AS y, doubled(size_of(b.s)) AS z "
        "WHERE SEQ(size_of(a.s) > 1, b.x > 0) AND size_of(a.s) < doubled(b.x) WITHIN 9 s"
    )
    assert [(row["y"], row["z"]) for row in _found(text, table)] == [(8, 4)]
    each = "SELECT EACH *, doubled(x) AS y WHERE SEQ(a.x = 1, size_of(b.s) = 4) WITHIN 9 s"
    with pytest.raises(LanguageError):
        _found(each, table)
    each = "SELECT EACH doubled(x) AS y WHERE SEQ(a.x = 1, size_of(b.s) = 4) WITHIN 9 s"
    assert [row["y"] for row in _found(each, table)] == [2, 8]


def test_whole_events_do_not_have_what_was_computed():
    """It is a column of ours."""
    (row,) = _found("SELECT a WHERE doubled(a.x) = 4", _table(s=["a", "b"], x=[1, 2]))
    assert row["a"] == {"id": 1, "time": 1_000_000, "s": "b", "x": 2}


def test_its_text_is_read_as_what_was_written():
    """With the variable where it was."""
    text = "SELECT a WHERE SEQ(doubled(a.x + 1) > 3, size_of(b.s) = doubled(b.x)) WITHIN 1 s"
    pattern = parse_pattern(text, None, FUNCTIONS).pattern
    assert str(pattern) == text
    assert parse_pattern(str(pattern), None, FUNCTIONS).pattern == pattern
    built = dsl.pattern(
        select=[dsl.event("a")],
        where=dsl.call(UserFunction("cell", returns="string"), dsl.event("a").x) == "x",
    )
    assert str(built) == "SELECT a WHERE cell(a.x) = 'x'"
    names = [value.column for part in expressions(pattern) for value in function_values(part)]
    assert len(set(names)) == len(names) == 3
    assert all(name.startswith("#") and "." not in name for name in names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "doubled(a.x + b.x) > 1",
            "computed for one event by itself, this mentions 'a' and 'b'",
        ),
        ("doubled(a) > 1", "`doubled` takes attributes of one event, got a"),
        ("doubled(1) > a.x", "`doubled` is about no event"),
        ("doubled(a.y) > 1", "unknown attribute 'y'"),
        ("dobled(a.x) > 1", "unknown function 'dobled'"),
        ("doubled(a.x)", "`AND` takes boolean, got bigint"),
        ("doubled(a.x) = 'x'", "compares number with number, got bigint and string"),
    ],
)
def test_a_call_that_is_not_right_is_pointed_at(text, says):
    """A function of two events is none of one event."""
    whole = f"SELECT a WHERE SEQ(a.x = 1, b.x = 2) AND {text} WITHIN 1 s"
    with pytest.raises(LanguageError) as raised:
        parse_pattern(whole, SCHEMA, FUNCTIONS)
    assert says in str(raised.value)
    assert "^" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "function", "says"),
    [
        ("abs", DOUBLED, "the language has a function 'abs' already"),
        ("Sum", DOUBLED, "the language has a function 'Sum' already"),
        ("a b", DOUBLED, "'a b' is not the name of a function"),
        ("case", DOUBLED, "'case' is not the name of a function"),
        ("f", len, "the function 'f' is <built-in function len>; give a UserFunction"),
    ],
)
def test_names_of_functions(name, function, says):
    """Those of the language are taken."""
    with pytest.raises(ValueError, match=says):
        check_function_names({name: function})
    with pytest.raises(ValueError, match="two functions are named 'F'"):
        check_function_names({"f": DOUBLED, "F": LENGTH})
    with pytest.raises(ValueError, match="`returns` is 'map'; it must be a data type"):
        UserFunction(len, returns="map")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cell", r"f\(x\) is a function of Spark \('cell'\), which only Spark can call"),
        (lambda x: x[:1], "the function f gave 1 values for 2 events"),
        (lambda x: ["a"] * len(x), "the function f gave string, which cannot be a column of"),
        (lambda x: x / 0, "the function f failed: ArrowInvalid: divide by zero"),
        (len, "the function f gave <class 'int'>, which cannot be a column of bigint"),
    ],
)
def test_what_a_function_gives_is_checked(call, says):
    """A value for each event, of the type that was stated."""
    functions = {"f": UserFunction(call, returns="bigint")}
    with pytest.raises(InputError, match=says):
        _found("SELECT a WHERE f(a.x) = 1", _table(x=[1, 2]), functions)


def test_it_gets_and_gives_columns_as_the_language_has_them():
    """Whatever integers or text the table has; lists and NumPy arrays do."""
    seen: list[pa.DataType] = []

    def keep(*columns):
        seen.extend(column.type for column in columns)
        return columns[0].to_numpy(zero_copy_only=False) + 0.5

    functions = {"f": UserFunction(keep, returns="double")}
    table = _table(x=pa.array([1, 2], pa.int16()), s=pa.array(["a", None], pa.large_string()))
    rows = _found("SELECT f(a.x, a.s, TRUE, NULL) AS y WHERE a.x > 0", table, functions)
    assert [row["y"] for row in rows] == [1.5, 2.5]
    assert seen == [pa.int64(), pa.string(), pa.bool_(), pa.null()]
    check(parse_pattern("SELECT a WHERE f(a.x) > 1", None, functions).pattern, SCHEMA)
    assert str(parse_expression("f(x) + 1", SCHEMA, functions)) == "f(x) + 1"

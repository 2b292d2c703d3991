"""The data types of expressions, and the messages where there is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import LanguageError
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import (
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
)
from shedlight.language.check.expr_types import DataTypeError, data_type_of
from shedlight.language.functions import FUNCTIONS
from tests.language.expressions import PLAIN, expressions

SCHEMA = {
    "flag": DataType.BOOLEAN,
    "count": DataType.BIGINT,
    "cpu": DataType.DOUBLE,
    "host": DataType.STRING,
    "at": DataType.TIMESTAMP,
    "event": DataType.STRUCT,
    "event.cpu": DataType.DOUBLE,
    "what": DataType.UNKNOWN,
}
FLAG, COUNT, CPU, HOST, AT, EVENT, WHAT = (
    Attribute("", (name,)) for name in ("flag", "count", "cpu", "host", "at", "event", "what")
)
NULL, ONE = Literal(None), Literal(1)


def scope(node: Expression) -> DataType:
    """Look a column up."""
    if isinstance(node, WholeEvent):
        return DataType.STRUCT
    assert isinstance(node, Attribute)
    return SCHEMA[node.column]


def data_type(node: Expression) -> DataType:
    """Find the data type of an expression over the columns above."""
    return data_type_of(node, scope)


def problem(node: Expression) -> DataTypeError:
    """Find what is wrong with an expression over the columns above."""
    with pytest.raises(DataTypeError) as caught:
        data_type(node)
    return caught.value


@pytest.mark.parametrize("of_kind", PLAIN)
@given(data=st.data())
def test_what_is_drawn_has_the_kind_asked_for(of_kind, data):
    """Null fits anywhere, and a bigint where a double is asked for."""
    node = data.draw(expressions(of_kind, SCHEMA))

    allowed = {of_kind, DataType.NULL} | (
        {DataType.BIGINT} if of_kind is DataType.DOUBLE else set()
    )
    assert data_type(node) in allowed


@pytest.mark.parametrize("of_kind", PLAIN)
@given(data=st.data())
def test_of_unknown_columns_everything_is_accepted(of_kind, data):
    """What is right for some schema is right where the schema is not known."""
    node = data.draw(expressions(of_kind, SCHEMA))

    found = data_type_of(node, lambda _: DataType.UNKNOWN)

    assert found in {data_type(node), DataType.UNKNOWN, DataType.DOUBLE}


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (Operator.ADD, COUNT, ONE, DataType.BIGINT),
        (Operator.ADD, COUNT, CPU, DataType.DOUBLE),
        (Operator.DIVIDE, COUNT, ONE, DataType.DOUBLE),
        (Operator.INT_DIVIDE, COUNT, ONE, DataType.BIGINT),
        (Operator.MODULO, CPU, ONE, DataType.DOUBLE),
        (Operator.ADD, NULL, NULL, DataType.BIGINT),
        (Operator.ADD, NULL, CPU, DataType.DOUBLE),
        (Operator.ADD, WHAT, CPU, DataType.DOUBLE),
        (Operator.ADD, WHAT, ONE, DataType.UNKNOWN),
        (Operator.INT_DIVIDE, WHAT, ONE, DataType.BIGINT),
        (Operator.LESS, WHAT, HOST, DataType.BOOLEAN),
        (Operator.LESS, AT, AT, DataType.BOOLEAN),
        (Operator.LESS, COUNT, CPU, DataType.BOOLEAN),
        (Operator.AND, FLAG, NULL, DataType.BOOLEAN),
    ],
)
def test_an_operator_has_a_kind(operator, left, right, expected):
    """A whole number stays one until a double joins in."""
    assert data_type(Binary(operator, left, right)) is expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Call("coalesce", (COUNT, CPU)), DataType.DOUBLE),
        (Call("coalesce", (NULL, NULL)), DataType.NULL),
        (Call("if", (FLAG, NULL, HOST)), DataType.STRING),
        (Call("abs", (NULL,)), DataType.BIGINT),
        (Call("sign", (COUNT,)), DataType.DOUBLE),
        (Call("floor", (CPU,)), DataType.BIGINT),
        (Call("unix_micros", (AT,)), DataType.BIGINT),
        (Case(((FLAG, COUNT),), CPU), DataType.DOUBLE),
        (Case(((FLAG, COUNT),)), DataType.BIGINT),
        (Cast(HOST, DataType.DOUBLE), DataType.DOUBLE),
        (Cast(WHAT, DataType.STRING), DataType.STRING),
        (IsNull(EVENT), DataType.BOOLEAN),
        (IsNull(WholeEvent("e")), DataType.BOOLEAN),
        (In(COUNT, (CPU, NULL)), DataType.BOOLEAN),
        (Like(HOST, r"a\%\\_%"), DataType.BOOLEAN),
        (Unary(Sign.MINUS, CPU), DataType.DOUBLE),
        (Attribute("", ("event", "cpu")), DataType.DOUBLE),
    ],
)
def test_an_expression_has_a_kind(node, expected):
    """Functions give what their signature says, or what their arguments agree on."""
    assert data_type(node) is expected


@pytest.mark.parametrize(
    ("node", "message", "hint"),
    [
        (
            Binary(Operator.GREATER, HOST, ONE),
            "`>` compares number with number, got string and bigint",
            "CAST(... AS bigint)",
        ),
        (
            Binary(Operator.EQUAL, AT, ONE),
            "`=` compares number with number, got timestamp and bigint",
            "unix_micros",
        ),
        (
            Binary(Operator.EQUAL, EVENT, EVENT),
            "`=` compares value with value, got struct and struct",
            "name a field",
        ),
        (
            Binary(Operator.ADD, HOST, HOST),
            "`+` needs a number on both sides, got string and string",
            "concat",
        ),
        (
            Binary(Operator.INT_DIVIDE, CPU, ONE),
            "`DIV` needs a bigint on both sides, got double and bigint",
            "use `/`",
        ),
        (Binary(Operator.AND, COUNT, FLAG), "`AND` takes boolean, got bigint", "as in `x > 0`"),
        (Unary(Sign.NOT, COUNT), "`NOT` takes boolean, got bigint", "as in `x > 0`"),
        (Like(COUNT, "a"), "`LIKE` takes string, got bigint", "CAST(... AS string)"),
        (Like(HOST, "a\\"), r"`LIKE` has a lone backslash in 'a\\'", r"write \\ "),
        (Like(HOST, "\\a"), r"`LIKE` has a lone backslash in '\\a'", r"write \\ "),
        (In(COUNT, ()), "`IN` has nothing to compare with", "at least one"),
        (
            In(COUNT, (ONE, HOST, FLAG)),
            "`IN` needs values of one data type, got bigint, string and boolean",
            "CAST",
        ),
        (Case(()), "`CASE` has no branch", "WHEN"),
        (Case(((COUNT, ONE),)), "`WHEN` takes boolean, got bigint", "as in `x > 0`"),
        (
            Case(((FLAG, HOST),), ONE),
            "`CASE` needs values of one data type, got string and bigint",
            "CAST",
        ),
        (Cast(CPU, DataType.STRING), "cannot cast double to string", "cast it to bigint first"),
        (
            Cast(AT, DataType.BIGINT),
            "cannot cast timestamp to bigint",
            "use unix_micros(...) on",
        ),
        (
            Cast(FLAG, DataType.STRING),
            "cannot cast boolean to string",
            "if(..., 'true', 'false')",
        ),
        (Cast(HOST, DataType.BOOLEAN), "cannot cast string to boolean", "compare it"),
        (Cast(ONE, DataType.TIMESTAMP), "cannot cast bigint to timestamp", "timestamp_micros"),
        (Cast(AT, DataType.BIGINT), "cannot cast timestamp to bigint", "unix_micros"),
        (
            Binary(Operator.LESS, AT, HOST),
            "`<` compares timestamp with timestamp, got timestamp and string",
            "write TIMESTAMP '2026-01-31T23:59:59Z'",
        ),
        (Call("size", (HOST,)), "`size` takes array, got string", ""),
        (
            Call("regexp_like", (HOST, HOST)),
            "`regexp_like` takes a text in quotes here, got host",
            "",
        ),
        (
            Call("regexp_like", (HOST, Literal("(?i)a"))),
            "`regexp_like` cannot use '(?i)a'",
            "flags or look-around",
        ),
        (
            Call("get_json_object", (HOST, Literal("$.*"))),
            "`get_json_object` cannot use '$.*'",
            "without wildcards",
        ),
        (
            Call("to_timestamp", (HOST, Literal("d.M.yyyy"))),
            "`to_timestamp` cannot use 'd.M.yyyy'",
            "it has 'd'",
        ),
        (Cast(EVENT, DataType.STRING), "cannot cast struct to string", "name a field"),
        (Cast(ONE, DataType.STRUCT), "nothing can be cast to struct", "boolean"),
        (Call("lenght", (HOST,)), "unknown function 'lenght'", "did you mean 'length'?"),
        (
            Call("substring", (HOST, ONE)),
            "`substring` takes 3 arguments, got 2",
            "write substring(string, bigint, bigint)",
        ),
        (
            Call("least", (ONE,)),
            "`least` takes at least 2 arguments, got 1",
            "write least(value, value, ...)",
        ),
        (Call("abs", ()), "`abs` takes 1 argument, got 0", "write abs(number)"),
        (Call("lower", (COUNT,)), "`lower` takes string, got bigint", "CAST(... AS string)"),
        (Call("coalesce", (EVENT,)), "`coalesce` takes value, got struct", "name a field"),
        (
            Call("least", (HOST, AT)),
            "`least` needs values of one data type, got string and timestamp",
            "",
        ),
        (Literal(2**63), "9223372036854775808 does not fit the 64 bits of a bigint", "double"),
    ],
)
def test_a_problem_says_what_was_found_and_what_to_do(node, message, hint):
    """The text of the error is both, the message first."""
    found = problem(node)

    assert found.problem == message
    assert hint in found.hint
    assert isinstance(found, LanguageError)
    assert str(found).startswith(message)


def test_a_problem_keeps_the_very_node_that_is_wrong():
    """The parser points at it, and an equal node may stand elsewhere."""
    inner = Binary(Operator.GREATER, HOST, ONE)
    whole = Binary(Operator.AND, FLAG, Unary(Sign.NOT, inner))

    assert problem(whole).node is inner


def test_a_column_that_is_not_there_is_the_problem_of_the_scope():
    """The scope knows what there is."""
    with pytest.raises(KeyError):
        data_type(IsNull(Attribute("", ("cpi",))))


_CONSTANTS = {
    "get_json_object": Literal("$.a"),
    "regexp_like": Literal("a+"),
    "to_timestamp": Literal("yyyy"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_null_and_unknown_arguments(name):
    """Neither is a mistake of the user."""
    count, constant = len(FUNCTIONS[name].parameters), _CONSTANTS.get(name)

    for argument in (NULL, WHAT):
        arguments = (argument,) * (count - 1) + ((constant or argument),)
        assert isinstance(data_type(Call(name, arguments)), DataType)


def test_a_number_out_of_range_is_found_anywhere():
    """Both bounds fit, and what is beyond them does not."""
    assert data_type(Literal(-(2**63))) is DataType.BIGINT
    assert re.match("-9223372036854775809 does not fit", problem(Literal(-(2**63) - 1)).problem)

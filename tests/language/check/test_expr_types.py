"""The kinds of expressions, and the messages where there is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import LanguageError
from shedlight.language.ast.data_type import Kind
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
    Whole,
)
from shedlight.language.check.expr_types import KindError, kind_of
from shedlight.language.functions import FUNCTIONS
from tests.language.expressions import PLAIN, expressions

SCHEMA = {
    "flag": Kind.BOOLEAN,
    "count": Kind.BIGINT,
    "cpu": Kind.DOUBLE,
    "host": Kind.STRING,
    "at": Kind.TIMESTAMP,
    "event": Kind.STRUCT,
    "event.cpu": Kind.DOUBLE,
    "what": Kind.UNKNOWN,
}
FLAG, COUNT, CPU, HOST, AT, EVENT, WHAT = (
    Attribute("", (name,)) for name in ("flag", "count", "cpu", "host", "at", "event", "what")
)
NULL, ONE = Literal(None), Literal(1)


def scope(node: Expression) -> Kind:
    """Look a column up."""
    if isinstance(node, Whole):
        return Kind.STRUCT
    assert isinstance(node, Attribute)
    return SCHEMA[node.column]


def kind(node: Expression) -> Kind:
    """Find the kind of an expression over the columns above."""
    return kind_of(node, scope)


def problem(node: Expression) -> KindError:
    """Find what is wrong with an expression over the columns above."""
    with pytest.raises(KindError) as caught:
        kind(node)
    return caught.value


@pytest.mark.parametrize("of_kind", PLAIN)
@given(data=st.data())
def test_what_is_drawn_has_the_kind_asked_for(of_kind, data):
    """Null fits anywhere, and a bigint where a double is asked for."""
    node = data.draw(expressions(of_kind, SCHEMA))

    allowed = {of_kind, Kind.NULL} | ({Kind.BIGINT} if of_kind is Kind.DOUBLE else set())
    assert kind(node) in allowed


@pytest.mark.parametrize("of_kind", PLAIN)
@given(data=st.data())
def test_of_unknown_columns_everything_is_accepted(of_kind, data):
    """What is right for some schema is right where the schema is not known."""
    node = data.draw(expressions(of_kind, SCHEMA))

    found = kind_of(node, lambda _: Kind.UNKNOWN)

    assert found in {kind(node), Kind.UNKNOWN, Kind.DOUBLE}


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (Operator.ADD, COUNT, ONE, Kind.BIGINT),
        (Operator.ADD, COUNT, CPU, Kind.DOUBLE),
        (Operator.DIVIDE, COUNT, ONE, Kind.DOUBLE),
        (Operator.INT_DIVIDE, COUNT, ONE, Kind.BIGINT),
        (Operator.MODULO, CPU, ONE, Kind.DOUBLE),
        (Operator.ADD, NULL, NULL, Kind.BIGINT),
        (Operator.ADD, NULL, CPU, Kind.DOUBLE),
        (Operator.ADD, WHAT, CPU, Kind.DOUBLE),
        (Operator.ADD, WHAT, ONE, Kind.UNKNOWN),
        (Operator.INT_DIVIDE, WHAT, ONE, Kind.BIGINT),
        (Operator.LESS, WHAT, HOST, Kind.BOOLEAN),
        (Operator.LESS, AT, AT, Kind.BOOLEAN),
        (Operator.LESS, COUNT, CPU, Kind.BOOLEAN),
        (Operator.AND, FLAG, NULL, Kind.BOOLEAN),
    ],
)
def test_an_operator_has_a_kind(operator, left, right, expected):
    """A whole number stays one until a double joins in."""
    assert kind(Binary(operator, left, right)) is expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Call("coalesce", (COUNT, CPU)), Kind.DOUBLE),
        (Call("coalesce", (NULL, NULL)), Kind.NULL),
        (Call("if", (FLAG, NULL, HOST)), Kind.STRING),
        (Call("abs", (NULL,)), Kind.BIGINT),
        (Call("sign", (COUNT,)), Kind.DOUBLE),
        (Call("floor", (CPU,)), Kind.BIGINT),
        (Call("unix_micros", (AT,)), Kind.BIGINT),
        (Case(((FLAG, COUNT),), CPU), Kind.DOUBLE),
        (Case(((FLAG, COUNT),)), Kind.BIGINT),
        (Cast(HOST, Kind.DOUBLE), Kind.DOUBLE),
        (Cast(WHAT, Kind.STRING), Kind.STRING),
        (IsNull(EVENT), Kind.BOOLEAN),
        (IsNull(Whole("e")), Kind.BOOLEAN),
        (In(COUNT, (CPU, NULL)), Kind.BOOLEAN),
        (Like(HOST, r"a\%\\_%"), Kind.BOOLEAN),
        (Unary(Sign.MINUS, CPU), Kind.DOUBLE),
        (Attribute("", ("event", "cpu")), Kind.DOUBLE),
    ],
)
def test_an_expression_has_a_kind(node, expected):
    """Functions give what their signature says, or what their arguments agree on."""
    assert kind(node) is expected


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
            "`IN` needs values of one kind, got bigint, string and boolean",
            "CAST",
        ),
        (Case(()), "`CASE` has no branch", "WHEN"),
        (Case(((COUNT, ONE),)), "`WHEN` takes boolean, got bigint", "as in `x > 0`"),
        (
            Case(((FLAG, HOST),), ONE),
            "`CASE` needs values of one kind, got string and bigint",
            "CAST",
        ),
        (Cast(CPU, Kind.STRING), "cannot cast double to string", "cast it to bigint first"),
        (Cast(AT, Kind.BIGINT), "cannot cast timestamp to bigint", "use unix_micros(...) on"),
        (Cast(FLAG, Kind.STRING), "cannot cast boolean to string", "if(..., 'true', 'false')"),
        (Cast(HOST, Kind.BOOLEAN), "cannot cast string to boolean", "compare it"),
        (Cast(HOST, Kind.TIMESTAMP), "cannot cast string to timestamp", "bigint, double"),
        (Cast(EVENT, Kind.STRING), "cannot cast struct to string", "name a field"),
        (Cast(ONE, Kind.STRUCT), "nothing can be cast to struct", "boolean"),
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
            "`least` needs values of one kind, got string and timestamp",
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
        kind(IsNull(Attribute("", ("cpi",))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_null_and_unknown_arguments(name):
    """Neither is a mistake of the user."""
    count = len(FUNCTIONS[name].parameters)

    for argument in (NULL, WHAT):
        assert isinstance(kind(Call(name, (argument,) * count)), Kind)


def test_a_number_out_of_range_is_found_anywhere():
    """Both bounds fit, and what is beyond them does not."""
    assert kind(Literal(-(2**63))) is Kind.BIGINT
    assert re.match("-9223372036854775809 does not fit", problem(Literal(-(2**63) - 1)).problem)

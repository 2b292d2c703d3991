"""Expressions over columns, by laws and by the cases that are easily got wrong.

That the values are those of Spark is tested in `test_backends_agree.py`.
"""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.eval.column import Column, data_type_of_arrow, to_arrow, to_column
from shedlight.language.eval.evaluate import CALLS, evaluate, is_true
from shedlight.language.functions import FUNCTIONS
from tests.language.expressions import BIGINTS, DOUBLES, PLAIN, TEXTS, by_name, expressions

NAN, INFINITY = float("nan"), float("inf")
SMALLEST, LARGEST = -(2**63), 2**63 - 1
NULL = Literal(None)
SCHEMA = {
    "b": DataType.BOOLEAN,
    "i": DataType.BIGINT,
    "d": DataType.DOUBLE,
    "s": DataType.STRING,
    "at": DataType.TIMESTAMP,
}
B, N, D, S, AT = (Attribute("", (name,)) for name in SCHEMA)


def test_each_function_has_code():
    """And there is no code of another."""
    assert set(CALLS) == set(FUNCTIONS)


_rows = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.sampled_from(BIGINTS),
        "d": st.none() | st.sampled_from([*DOUBLES, NAN, INFINITY, -INFINITY]),
        "s": st.none() | st.sampled_from(TEXTS),
        "at": st.none() | st.sampled_from([0, -1, 1_700_000_000_000_000]),
    }
)
_ARROW = {
    "b": pa.bool_(),
    "i": pa.int64(),
    "d": pa.float64(),
    "s": pa.string(),
    "at": pa.timestamp("us", tz="UTC"),
}


def table(rows):
    """Make columns of rows."""
    return {
        name: to_column(pa.array([row[name] for row in rows], arrow_type))
        for name, arrow_type in _ARROW.items()
    }


def values(node: Expression, **columns: Sequence[object]) -> list[Any]:
    """Compute an expression over columns that are given by their values."""
    found = {name: to_column(pa.array(of, _ARROW[name])) for name, of in columns.items()}
    rows = max(map(len, columns.values()), default=1)
    return list(to_arrow(evaluate(node, rows, by_name(found))).to_pylist())


def value(node: Expression) -> Any:
    """Compute an expression without columns."""
    return values(node)[0]


def seen(column: Column) -> list[object]:
    """List values so that NaN equals NaN and -0.0 equals 0.0."""
    values = to_arrow(column)
    if pa.types.is_date(values.type):  # some are beyond the years that Python has
        values = values.cast(pa.int32())
    shown = values.to_pylist()
    return ["NaN" if isinstance(of, float) and math.isnan(of) else of for of in shown]


def call(function, *arguments):
    """Call a function on literals and expressions."""
    nodes = (of if isinstance(of, Expression) else Literal(of) for of in arguments)
    return Call(function, tuple(nodes))


@pytest.mark.parametrize("data_type", PLAIN)
@given(data=st.data(), rows=st.lists(_rows, max_size=6))
def test_each_row_is_computed_by_itself(data_type, data, rows):
    """All rows at once give what each gives alone, and with the data type that was foretold."""
    node = data.draw(expressions(data_type, SCHEMA, depth=3))
    columns = table(rows)

    whole = evaluate(node, len(rows), by_name(columns))

    single = []
    for row in rows:
        single += seen(evaluate(node, 1, by_name(table([row]))))
    assert seen(whole) == single
    assert whole.data_type is data_type_of(node, by_name(SCHEMA))
    assert len(whole.values) == len(whole.valid) == len(rows)


@given(data=st.data(), rows=st.lists(_rows, min_size=1, max_size=6))
def test_a_condition_is_true_or_false_or_null(data, rows):
    """Of `x`, `NOT x` and `x IS NULL` just one holds."""
    node = data.draw(expressions(DataType.BOOLEAN, SCHEMA, depth=2))
    columns = table(rows)

    parts = (node, Unary(Sign.NOT, node), IsNull(node))
    found = [is_true(evaluate(part, len(rows), by_name(columns))) for part in parts]

    assert (np.sum(found, axis=0) == 1).all()


@given(left=st.sampled_from([*DOUBLES, NAN, INFINITY]), right=st.sampled_from([*DOUBLES, NAN]))
def test_doubles_are_in_total_order(left, right):
    """Just one of less, equal and greater holds, and NaN is the greatest."""
    columns = {"l": to_column(pa.array([left] * 2)), "r": to_column(pa.array([right] * 2))}

    for a, b in (
        (Attribute("", ("l",)), Attribute("", ("r",))),
        (Literal(left), Literal(right)),
    ):
        found = [
            evaluate(Binary(operator, a, b), 2, by_name(columns)).values[0]
            for operator in (Operator.LESS, Operator.EQUAL, Operator.GREATER)
        ]
        assert sum(found) == 1
        assert found[2] or not math.isnan(left) or math.isnan(right)


@given(st.sampled_from(BIGINTS) | st.integers(SMALLEST, LARGEST), st.sampled_from(BIGINTS))
def test_bigint_arithmetic_is_exact_or_null(left, right):
    """As with whole numbers without bounds, as long as the result fits."""
    exact = {
        Operator.ADD: left + right,
        Operator.SUBTRACT: left - right,
        Operator.MULTIPLY: left * right,
    }
    if right:
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        exact |= {Operator.INT_DIVIDE: quotient, Operator.MODULO: left - right * quotient}

    for operator, result in exact.items():
        expected = result if SMALLEST <= result <= LARGEST else None
        node = Binary(operator, N, Literal(right))
        assert values(node, i=[left, left]) == [expected] * 2


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (Operator.DIVIDE, 1, 0, None),
        (Operator.DIVIDE, 1.0, -0.0, None),
        (Operator.DIVIDE, 7, 2, 3.5),
        (Operator.INT_DIVIDE, -7, 2, -3),
        (Operator.INT_DIVIDE, 7, 0, None),
        (Operator.INT_DIVIDE, SMALLEST, -1, None),
        (Operator.MODULO, -7, 2, -1),
        (Operator.MODULO, SMALLEST, -1, 0),
        (Operator.MODULO, -7.5, 2, -1.5),
        (Operator.MODULO, 7.5, 0, None),
        (Operator.ADD, LARGEST, 1, None),
        (Operator.ADD, LARGEST, 1.0, 2.0**63),
        (Operator.ADD, 1e308, 1e308, INFINITY),
        (Operator.MULTIPLY, SMALLEST, -1, None),
        (Operator.EQUAL, LARGEST, 2.0**63, True),
        (Operator.EQUAL, -0.0, 0.0, True),
        (Operator.LESS, "Z", "a", True),
        (Operator.LESS, "\uffff", "\U00010000", True),
        (Operator.LESS, False, True, True),
        (Operator.LESS, None, 1, None),
        (Operator.AND, None, False, False),
        (Operator.AND, None, True, None),
        (Operator.OR, None, True, True),
        (Operator.OR, None, False, None),
    ],
)
def test_an_operator_at_its_edges(operator, left, right, expected):
    """Failures are null, and text is ordered by its bytes in UTF-8."""
    assert value(Binary(operator, Literal(left), Literal(right))) == expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (call("abs", SMALLEST), None),
        (call("abs", -1.5), 1.5),
        (Unary(Sign.MINUS, call("coalesce", SMALLEST)), None),
        (call("floor", -1.5), -2),
        (call("ceil", -1.5), -1),
        (call("floor", 2.0**63), None),
        (call("floor", -(2.0**63)), SMALLEST),
        (call("floor", LARGEST), LARGEST),
        (call("ceil", call("sqrt", -1)), None),
        (call("isnan", call("sqrt", -1)), True),
        (call("isnan", None), False),
        (call("isnan", 1), False),
        (call("sign", -5), -1.0),
        (call("least", None, 2, 1), 1),
        (call("greatest", None, 2, 0.5), 2.0),
        (call("greatest", None, None), None),
        (call("coalesce", None, None, 3), 3),
        (call("nullif", 1, 1.0), None),
        (call("nullif", 1, None), 1),
        (call("if", None, 1, 2), 2),
        (call("length", "a😀"), 2),
        (call("upper", "straße"), "STRASSE"),
        (call("lower", "ΑΣ"), "ας"),
        (call("trim", " \ta "), "\ta"),
        (call("concat", "a", None), None),
        (call("concat", "a", "", "b"), "ab"),
        (call("substring", "hello", 2, 3), "ell"),
        (call("substring", "hello", 0, 2), "he"),
        (call("substring", "hello", -3, 2), "ll"),
        (call("substring", "hello", -7, 3), "h"),
        (call("substring", "hello", 2, -1), ""),
        (call("substring", "a😀b", 2, 1), "😀"),
        (call("substring", "hello", 2, 2**31), None),
        (call("startswith", "abc", "ab"), True),
        (call("endswith", "abc", ""), True),
        (call("contains", "a.c", "."), True),
        (call("contains", "abc", None), None),
        (Case(((NULL, Literal(1)),)), None),
        (Case(((Literal(value=True), Literal(1)),), Literal(0.5)), 1.0),
        (Cast(Literal(2.9), DataType.BIGINT), 2),
        (Cast(Literal(-2.9), DataType.BIGINT), -2),
        (Cast(Literal(1e19), DataType.BIGINT), None),
        (Cast(Literal(7), DataType.BOOLEAN), True),
        (Cast(Literal(value=True), DataType.BIGINT), 1),
        (Cast(Literal(SMALLEST), DataType.STRING), "-9223372036854775808"),
        (Cast(NULL, DataType.STRING), None),
        (In(Literal(1), (NULL, Literal(1))), True),
        (In(Literal(1), (NULL, Literal(2))), None),
        (In(Literal(1), (Literal(2.0),), negated=True), True),
        (In(Literal(1), (NULL,), negated=True), None),
        (In(call("sqrt", -1), (call("sqrt", -2),)), True),
    ],
)
def test_an_expression_at_its_edges(node, expected):
    """One line each for what the documentation promises."""
    assert value(node) == expected


@pytest.mark.parametrize(
    ("text", "bigint", "double"),
    [
        ("12", 12, 12.0),
        (" \t\n\v\f\r-7 ", -7, -7.0),
        ("+5", 5, 5.0),
        ("0" * 30 + "1", 1, 1.0),
        ("-9223372036854775808", SMALLEST, -(2.0**63)),
        ("9223372036854775808", None, 2.0**63),
        ("99999999999999999999999", None, 1e23),
        ("1.5", None, 1.5),
        (".5", None, 0.5),
        ("5.", None, 5.0),
        ("-1E-2", None, -0.01),
        ("1e999", None, INFINITY),
        ("-iNFINITY", None, -INFINITY),
        *(
            (text, None, None)
            for text in ("", ".", "1e", "inf", "+Infinity", "1d", "0x1", "1 2")
        ),
        *((text, None, None) for text in ("--1", "1_0", "٣", "\u00a01", "1\u2028", "e5", "a")),
    ],
)
def test_text_is_read_as_a_number_by_one_grammar(text, bigint, double):
    """Whatever the system."""
    assert value(Cast(Literal(text), DataType.BIGINT)) == bigint
    assert value(Cast(Literal(text), DataType.DOUBLE)) == double


@given(st.sampled_from(BIGINTS) | st.integers(SMALLEST, LARGEST))
def test_a_bigint_comes_back_from_text(number):
    """Casting there and back gives the same."""
    assert value(Cast(Cast(Literal(number), DataType.STRING), DataType.BIGINT)) == number


@given(st.floats())
def test_a_double_is_read_as_python_reads_it(number):
    """Both round to the nearest."""
    found = value(Cast(Literal(repr(number).replace("inf", "Infinity")), DataType.DOUBLE))

    assert found == number or (math.isnan(found) and math.isnan(number))


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("ab", ["ab"]),
        ("a%", ["ab", "a%b", "a\nb", "a", "a😀b"]),
        ("%b", ["ab", "a%b", "a\nb", "a😀b"]),
        ("%😀%", ["a😀b"]),
        ("a_b", ["a%b", "a\nb", "a😀b"]),
        (r"a\%b", ["a%b"]),
        (r"%\\", ["\\"]),
        (r"\_", []),
        ("", [""]),
        ("%", ["ab", "a%b", "a\nb", "a", "a😀b", "\\", ""]),
        ("A%", []),
        (".b", []),
    ],
)
def test_like_matches_whole_texts(form, texts):
    """`_` is one character, `%` any number of them, line ends included."""
    subjects = ["ab", "a%b", "a\nb", "a", "a😀b", "\\", "", None]

    found = values(Like(S, form), s=subjects)

    assert [text for text, matches in zip(subjects, found, strict=True) if matches] == texts
    assert found[-1] is None


def test_functions_of_text_take_columns_everywhere():
    """Where each row has its own part to look for, or its own place."""
    subjects, places = ["abc", "abc", None, "abc"], [2, -1, 1, None]

    assert values(call("substring", S, N, 2), s=subjects, i=places) == ["bc", "c", None, None]
    starts = call("startswith", "abc", call("substring", S, 1, N))
    assert values(starts, s=["abx", "abx", "x", None], i=[2, 3, 1, 1]) == [
        True,
        False,
        False,
        None,
    ]


def test_many_options_cost_no_comparison_each():
    """IN over ten thousand constants, with a column among them."""
    options = (*(Literal(2 * n) for n in range(10_000)), Call("abs", (N,)))

    assert values(In(N, options), i=[4, 5, -5, None]) == [True, True, False, None]


def test_no_rows_are_no_problem():
    """Constants, too, are as long as there are rows."""
    assert values(Binary(Operator.ADD, N, Literal(1)), i=[]) == []
    nothing = evaluate(call("concat", "a", "b"), 0, lambda _: to_column(pa.array([])))
    assert len(nothing.values) == len(nothing.valid) == 0


@pytest.mark.parametrize(
    ("array", "data_type", "expected"),
    [
        (pa.array([1, None], pa.int8()), DataType.BIGINT, [1, None]),
        (pa.array([2**63 - 1, 2**63], pa.uint64()), DataType.BIGINT, [LARGEST, None]),
        (pa.array([0.5, None], pa.float16()), DataType.DOUBLE, [0.5, None]),
        (pa.array([0.1], pa.float32()), DataType.DOUBLE, [float(np.float32(0.1))]),
        (
            pa.array([Decimal("12345678901234567890.123"), None], pa.decimal128(38, 3)),
            DataType.DECIMAL,
            [Decimal("12345678901234567890.123"), None],
        ),
        (
            pa.array([Decimal(10) ** 20, Decimal(7)], pa.decimal128(38, 0)),
            DataType.DECIMAL,
            [None, Decimal(7)],
        ),
        (pa.array([date(1970, 1, 2), None]), DataType.DATE, [date(1970, 1, 2), None]),
        (pa.array([date(1970, 1, 2)], pa.date64()), DataType.DATE, [date(1970, 1, 2)]),
        (pa.array([["a"], None, []]), DataType.STRINGS, [["a"], None, []]),
        (pa.array([[1.5], None], pa.large_list(pa.float32())), DataType.DOUBLES, [[1.5], None]),
        (pa.array([True, None]), DataType.BOOLEAN, [True, None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), DataType.STRING, ["a", None, "a"]),
        (pa.array([5, None]).dictionary_encode(), DataType.BIGINT, [5, None]),
        (pa.array(["a", None], pa.large_string()), DataType.STRING, ["a", None]),
        (pa.array(["a", None], pa.string_view()), DataType.STRING, ["a", None]),
        (pa.chunked_array([["a"], [None, "b"]]), DataType.STRING, ["a", None, "b"]),
        (pa.chunked_array([], pa.int32()), DataType.BIGINT, []),
        (pa.array([1, 2, None, 4])[1:3], DataType.BIGINT, [2, None]),
        (pa.array([None, None]), DataType.NULL, [None, None]),
        (pa.array([{"x": 1}, None]), DataType.STRUCT, [{"x": 1}, None]),
    ],
)
def test_arrow_arrays_are_taken_over(array, data_type, expected):
    """Of any width and encoding."""
    column = to_column(array)

    assert column.data_type is data_type is data_type_of_arrow(array.type)
    assert to_arrow(column).to_pylist() == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([-1, None], pa.timestamp("s")), [-1_000_000, None]),
        (pa.array([2**62], pa.timestamp("s", tz="UTC")), [None]),
        (pa.array([SMALLEST, LARGEST], pa.timestamp("us")), [SMALLEST, LARGEST]),
        (pa.array([5], pa.timestamp("ms", tz="Europe/Berlin")), [5_000]),
        (pa.array([-1, 1_999], pa.timestamp("ns")), [-1, 1]),
        (pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]), [1_000_000]),
    ],
)
def test_time_is_in_microseconds(array, expected):
    """What is finer is rounded down, what is too far away is null."""
    column = to_column(array)

    assert column.data_type is DataType.TIMESTAMP
    shown = zip(column.values.tolist(), column.valid, strict=True)
    assert [of if valid else None for of, valid in shown] == expected
    assert to_arrow(column).type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    "arrow_type",
    [pa.list_(pa.list_(pa.int64())), pa.decimal128(38, 19), pa.binary(), pa.duration("s")],
)
def test_other_arrow_types_are_null_or_not(arrow_type):
    """They are carried as they are."""
    column = to_column(pa.nulls(2, arrow_type))

    assert column.data_type is DataType.OTHER
    assert column.valid.tolist() == [False, False]
    assert to_arrow(column).type == arrow_type


def test_a_struct_is_null_or_not():
    """That is all that can be asked of it."""
    whole = to_column(pa.array([{"x": None}, None]))

    found = evaluate(IsNull(Attribute("", ("r",))), 2, lambda _: whole)

    assert found.values.tolist() == [False, True]

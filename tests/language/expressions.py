"""Strategies for well-typed expressions, for tests of anything that takes expressions.

`expressions(data_type, schema)` draws trees over the columns of a schema, of every operator and
function, with null and extreme literals anywhere. Their text is one that can be parsed.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import (
    COMPARISONS,
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
    negate,
)

Strategy = st.SearchStrategy[Expression]
Found = TypeVar("Found")
Part = Callable[[DataType], Strategy]
"""Gives strategies for the parts of an expression, by data type."""

BIGINTS = (
    *(0, 1, -1, 2, 3, -3, 7, 10, 59, 1000, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 10**18),
    *(2**62, -(2**62), 2**63 - 1, -(2**63), -(2**63) + 1, 3037000500),
)
DOUBLES = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 3.0, 1e300, -1e300, 5e-324, 1e-7),
    *(2.0**53, 2.0**62, 2.0**63, -(2.0**63), -9223372036854777856.0, 9223372036854774784.0),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "ab",
        "abc",
        "b",
        "aXb",
        "a%b",
        "a_b",
        "\\",
        "\\%",
        "it's",
        "$",
        "${x}",
    ),
    *("é", "ß", "ΑΣ", "ΑΣΑ", "İ", "ǆ", "ﬁ", "😀", "a😀b", "\uffff", "\U00010000", "a\nb", "\t"),
    *("0", "12", " -7 ", "+5", "007", "1.5", ".5", "5.", "1e3", "-1E-2", "nan", "NaN", "\t3\n"),
    *(
        "Infinity",
        "-infinity",
        "+Infinity",
        "inf",
        "1d",
        "0x10",
        "1_0",
        "--1",
        "1 2",
        "1\u2028",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e999", "1e-999"),
    *(
        "-9223372036854775809",
        "00000000000000000000012",
        "18446744073709551615",
        "٣",
        "\u00a01",
    ),
)
PLAIN = (
    DataType.BOOLEAN,
    DataType.BIGINT,
    DataType.DOUBLE,
    DataType.DECIMAL,
    DataType.STRING,
    DataType.TIMESTAMP,
    DataType.DATE,
)
TIMES = (
    *(
        "2026-01-01",
        "2024-02-29",
        "2023-02-29",
        "2026-13-01",
        "0000-01-01",
        "0001-01-01",
        "26-01-01",
    ),
    *("2026-01-01T00:00:00Z", "2026-01-01 23:59:59.123456789", " 2026-01-01T10:00+0530\t"),
    *("2026-01-01T00:00:00.5 -03", "1969-12-31T23:59:59.999999Z", "2026-01-01T24:00:00Z"),
    *("2026-01-01T00:00:60Z", "2026-01-01T00Z", "2026-01-01T00:00:00+17:59", "2026-1-1"),
    *("2026-01-01T00:00:00+18:00", "2026-01-01t00:00:00z", "2026-01-01T00:00:00 UTC", "T00:00"),
    *("9999-12-31T23:59:59.999999-17", "2026-04-31T00:00", "+2026-01-01", "2026-01-01Z"),
)
REGEXES = (
    *("a", "^a", "b$", "^$", "[a-c]+", "^[^a]*$", "a.b", r"\d+", r"^\s*-?\d+\s*$", "(a|b){2}"),
    *(r"\w\W", "é|ß", r"[\d.]+", r"^\S+$", ".", "a?b??c", r"\$\{", "^.$", r"[\s\w-]{3,}"),
)
PATHS = ("$.a", "$.a[1]", "$['b c'].d", "$[0]", "$.a.b")
FORMATS = ("yyyy-MM-dd", "yyyy", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "yyyy-MM-dd'T'HH:mm:ssXXX")
JSONS = (
    *(
        '{"a": 1}',
        '{"a": [1, 2.50, {"b": "é"}], "b c": {"d": true}}',
        '["x", null]',
        "[1e10, 2]",
    ),
    *('{"a": null}', '{"a": {"b": 12345678.5}}', '{"a": "it\'s \\"x\\" \\u00e9"}', "{", "[]"),
    *('{"a": 0.0001}', '{"a": {"c": [], "d": {}}}', '{"a": 100000000000000000000}', '"text"'),
)
TEXTS_WITH_TIMES = (*TEXTS, *TIMES, *JSONS)

_FORM_TOKENS = (
    "%",
    "_",
    "\\%",
    "\\_",
    "\\\\",
    "a",
    "b",
    "A",
    "😀",
    "é",
    ".",
    "$",
    "\n",
    "[a]",
    "1",
)
_SOURCES = {
    DataType.BOOLEAN: (DataType.BOOLEAN, DataType.BIGINT),
    DataType.BIGINT: (
        DataType.BIGINT,
        DataType.DOUBLE,
        DataType.BOOLEAN,
        DataType.STRING,
        DataType.DECIMAL,
    ),
    DataType.DOUBLE: (DataType.BIGINT, DataType.STRING, DataType.DECIMAL),
    DataType.STRING: (DataType.STRING, DataType.BIGINT),
    DataType.TIMESTAMP: (DataType.TIMESTAMP, DataType.STRING, DataType.DATE),
    DataType.DATE: (DataType.DATE, DataType.STRING, DataType.TIMESTAMP),
}

_values = {
    DataType.BOOLEAN: st.booleans(),
    DataType.BIGINT: st.sampled_from(BIGINTS) | st.integers(-(2**63), 2**63 - 1),
    DataType.DOUBLE: st.sampled_from(DOUBLES)
    | st.floats(allow_nan=False, allow_infinity=False),
    DataType.DECIMAL: st.none(),
    DataType.STRING: st.sampled_from(TEXTS_WITH_TIMES)
    | st.text("aAbé😀ßΣ%_\\' 0123.-", max_size=6),
    DataType.TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    DataType.DATE: st.dates(),
}


def expressions(data_type: DataType, schema: Schema, depth: int = 4) -> Strategy:
    """Draw expressions that fit where a data type is asked for.

    The data type of what is drawn is the one asked for, or NULL, or bigint for double.
    """
    return _expressions(data_type, tuple(schema.items()), depth)


def by_name(columns: Mapping[str, Found]) -> Callable[[Expression], Found]:
    """Look attributes up by the name of their column, as a scope or a lookup does."""

    def find(node: Expression) -> Found:
        assert isinstance(node, Attribute)
        return columns[node.column]

    return find


def literals(data_type: DataType) -> Strategy:
    """Draw literals of a data type, and NULL now and then."""
    return st.builds(Literal, _values[data_type] | _values[data_type] | st.none())


def attributes(data_type: DataType, schema: Schema) -> Strategy:
    """Draw one of the columns of a data type."""
    names = [name for name, of_type in schema.items() if of_type is data_type]
    return st.sampled_from([Attribute("", tuple(name.split("."))) for name in names])


@cache
def _expressions(
    data_type: DataType, columns: tuple[tuple[str, DataType], ...], depth: int
) -> Strategy:
    schema = dict(columns)
    leaves = literals(data_type)
    if data_type in schema.values():
        leaves = attributes(data_type, schema) | attributes(data_type, schema) | leaves
    if depth == 0:
        return leaves

    def part(of_type: DataType) -> Strategy:
        return _expressions(of_type, columns, depth - 1)

    own = {
        DataType.BOOLEAN: _conditions,
        DataType.BIGINT: _bigints,
        DataType.DOUBLE: _doubles,
        DataType.DECIMAL: lambda _part: [],
        DataType.STRING: _texts,
        DataType.TIMESTAMP: _timestamps,
        DataType.DATE: lambda _part: [],
    }[data_type](part)
    own += _of_arrays(data_type, schema, part)
    if data_type is DataType.BOOLEAN and DataType.STRUCT in schema.values():
        own.append(st.builds(IsNull, attributes(DataType.STRUCT, schema), st.booleans()))
    return st.one_of(leaves, *own, *_of_any_data_type(data_type, part))


def _of_any_data_type(data_type: DataType, part: Part) -> list[Strategy]:
    """Draw what may have any data type."""
    same, condition = part(data_type), part(DataType.BOOLEAN)
    sources = _SOURCES.get(data_type, ())
    branches = st.lists(st.tuples(condition, same), min_size=1, max_size=3).map(tuple)
    return [
        st.builds(Case, branches, same),
        _call("coalesce", st.lists(same, min_size=1, max_size=3)),
        _call("least", st.lists(same, min_size=2, max_size=4)),
        _call("greatest", st.lists(same, min_size=2, max_size=4)),
        _call("nullif", st.tuples(same, same)),
        _call("if", st.tuples(condition, same, same)),
        *(part(of_type).map(lambda of: Cast(of, data_type)) for of_type in sources),
    ]


def _conditions(part: Part) -> list[Strategy]:
    boolean, text = part(DataType.BOOLEAN), part(DataType.STRING)
    return [
        _compared(part),
        _compared(part),
        st.builds(Binary, st.sampled_from([Operator.AND, Operator.OR]), boolean, boolean),
        st.builds(Unary, st.just(Sign.NOT), boolean),
        st.sampled_from(PLAIN)
        .flatmap(part)
        .flatmap(lambda of: st.builds(IsNull, st.just(of), st.booleans())),
        _membership(part),
        st.builds(Like, text, _forms(), st.booleans()),
        *(
            _call(name, st.tuples(text, text))
            for name in ("startswith", "endswith", "contains")
        ),
        _call("isnan", st.tuples(_numbers(part))),
        _call("regexp_like", st.tuples(text, st.sampled_from(REGEXES).map(Literal))),
    ]


def _bigints(part: Part) -> list[Strategy]:
    bigint, number, text = part(DataType.BIGINT), _numbers(part), part(DataType.STRING)
    operators = [
        Operator.ADD,
        Operator.SUBTRACT,
        Operator.MULTIPLY,
        Operator.INT_DIVIDE,
        Operator.MODULO,
    ]
    return [
        st.builds(Binary, st.sampled_from(operators), bigint, bigint),
        st.builds(Binary, st.sampled_from(operators), bigint, bigint),
        bigint.filter(lambda of: of != Literal(-(2**63))).map(negate),
        _call("abs", st.tuples(bigint)),
        _call("floor", st.tuples(number)),
        _call("ceil", st.tuples(number)),
        _call("length", st.tuples(text)),
        _call("unix_micros", st.tuples(part(DataType.TIMESTAMP))),
    ]


def _doubles(part: Part) -> list[Strategy]:
    double, number = part(DataType.DOUBLE), _numbers(part)
    operators = [Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.MODULO]
    return [
        st.builds(Binary, st.sampled_from(operators), double, number),
        st.builds(Binary, st.sampled_from(operators), number, double),
        st.builds(Binary, st.just(Operator.DIVIDE), number, number),
        double.map(negate),
        _call("abs", st.tuples(double)),
        _call("sqrt", st.tuples(number)),
        _call("sign", st.tuples(number)),
    ]


def _texts(part: Part) -> list[Strategy]:
    text, bigint = part(DataType.STRING), part(DataType.BIGINT)
    place = bigint | st.integers(-4, 5).map(Literal)
    return [
        *(_call(name, st.tuples(text)) for name in ("lower", "upper", "trim")),
        _call("get_json_object", st.tuples(text, st.sampled_from(PATHS).map(Literal))),
        _call("concat", st.lists(text, min_size=1, max_size=3)),
        _call("substring", st.tuples(text, place, place)),
    ]


def _timestamps(part: Part) -> list[Strategy]:
    text, bigint = part(DataType.STRING), part(DataType.BIGINT)
    near = bigint.map(lambda of: Binary(Operator.MODULO, of, Literal(10**13)))
    return [
        _call("to_timestamp", st.tuples(text)),
        _call("to_timestamp", st.tuples(text, st.sampled_from(FORMATS).map(Literal))),
        *(_call(f"timestamp_{unit}", st.tuples(near)) for unit in ("micros", "millis")),
    ]


def _of_arrays(data_type: DataType, schema: Schema, part: Part) -> list[Strategy]:
    """Draw what is made of arrays, if there are any."""
    arrays = {of_type for of_type in schema.values() if of_type.element}
    place = st.integers(-1, 3).map(Literal) | part(DataType.BIGINT)
    own = [
        _call("get", st.tuples(attributes(of_type, schema), place))
        for of_type in sorted(arrays, key=str)
        if of_type.element is data_type
    ]
    for of_type in sorted(arrays, key=str):
        array = attributes(of_type, schema)
        if data_type is DataType.BIGINT:
            own.append(_call("size", st.tuples(array)))
        if data_type is DataType.BOOLEAN and of_type.element:
            own.append(_call("array_contains", st.tuples(array, part(of_type.element))))
    return own


def _numbers(part: Part) -> Strategy:
    return part(DataType.BIGINT) | part(DataType.DOUBLE) | part(DataType.DECIMAL)


def _compared(part: Part) -> Strategy:
    operators = st.sampled_from(sorted(COMPARISONS, key=str))
    return _alike(part).flatmap(lambda same: st.builds(Binary, operators, same, same))


def _membership(part: Part) -> Strategy:
    """Draw IN with few options of any form or with many literals, as optimisers tell them."""

    def with_options(data_type: DataType) -> Strategy:
        few = st.lists(part(data_type), min_size=1, max_size=3)
        many = st.lists(literals(data_type), min_size=1, max_size=14)
        return st.builds(In, part(data_type), (few | many).map(tuple), st.booleans())

    return st.sampled_from(PLAIN).flatmap(with_options)


def _alike(part: Part) -> st.SearchStrategy[Strategy]:
    """Draw a strategy whose values can be compared with each other."""
    by_data_type: Mapping[DataType, Strategy] = {
        data_type: part(data_type) for data_type in PLAIN
    }
    return st.sampled_from([*by_data_type.values(), _numbers(part)])


def _forms() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(_FORM_TOKENS), max_size=5).map("".join)


def _call(function: str, arguments: st.SearchStrategy[Iterable[Expression]]) -> Strategy:
    return arguments.map(lambda of: Call(function, tuple(of)))

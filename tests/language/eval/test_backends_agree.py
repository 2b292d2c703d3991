"""The two back ends of the language against each other: Spark SQL and columns.

Hundreds of random expressions are computed over a table of awkward rows by both, and every
value must be the same, to the bit for doubles (but for the sign of zero and the kind of NaN).
"""

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import (
    COMPARISONS,
    Attribute,
    Binary,
    Call,
    Cast,
    Expression,
    In,
    Like,
    Literal,
    Operator,
    walk,
)
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.eval.column import Column, data_type_of_arrow, to_arrow, to_column
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.language.eval.spark_sql import spark_sql
from tests.language.expressions import (
    BIGINTS,
    DOUBLES,
    FORMATS,
    PATHS,
    PLAIN,
    REGEXES,
    TEXTS,
    TEXTS_WITH_TIMES,
    expressions,
)

pytestmark = pytest.mark.spark

ROWS = 300
BATCH = 50
MODES = {
    "ANSI": {"spark.sql.ansi.enabled": "true"},
    "legacy": {"spark.sql.ansi.enabled": "false"},
    "interpreted": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.parser.escapedStringLiterals": "true",
    },
}
"""Ways in which Spark may compute; it compiles by default."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A table, and its columns as both back ends see them."""

    table: pa.Table
    frame: Any

    def scope(self, node: Expression) -> DataType:
        """Find the data type of a column."""
        return data_type_of_arrow(self._array(node).type)

    def lookup(self, node: Expression) -> Column:
        """Find a column."""
        return to_column(self._array(node))

    def _array(self, node: Expression) -> pa.Array:
        assert isinstance(node, Attribute)
        array = self.table[node.path[0]].combine_chunks()
        for name in node.path[1:]:
            array = pc.struct_field(array, name)
        return array


ARROW_TYPES = {
    "i": pa.int64(),
    "j": pa.int64(),
    "small": pa.int32(),
    "d": pa.float64(),
    "e": pa.float64(),
    "single": pa.float32(),
    "money": pa.decimal128(38, 9),
    "s": pa.string(),
    "t": pa.string(),
    "b": pa.bool_(),
    "c": pa.bool_(),
    "at": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "cents": pa.decimal128(10, 2),
    "wide": pa.decimal128(38, 0),
    "tags": pa.list_(pa.string()),
    "counts": pa.list_(pa.int64()),
    "days": pa.list_(pa.date32()),
    "r": pa.struct([("i", pa.int64()), ("s", pa.string()), ("odd `name`", pa.float64())]),
    "nothing at all": pa.int64(),
}
SCHEMA = {
    **{name: data_type_of_arrow(arrow_type) for name, arrow_type in ARROW_TYPES.items()},
    "r.i": DataType.BIGINT,
    "r.s": DataType.STRING,
    "r.odd `name`": DataType.DOUBLE,
}
N, M, D, E, S, T = (Attribute("", (name,)) for name in ("i", "j", "d", "e", "s", "t"))


def awkward(arrow_type: pa.DataType, rng: random.Random) -> object:
    """Draw a value that something may trip over, or null."""
    if pa.types.is_list(arrow_type):
        elements = [awkward(arrow_type.value_type, rng) for _ in range(rng.randrange(4))]
        return rng.choice([None, elements, elements, elements])
    if pa.types.is_struct(arrow_type):
        fields = {field.name: awkward(field.type, rng) for field in arrow_type}
        return rng.choice([None, fields, fields, fields])
    instants = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC))
    choices: dict[pa.DataType, Sequence[object]] = {
        pa.int64(): [*BIGINTS, rng.randint(-9, 9), rng.randint(-9, 9)],
        pa.int32(): [0, 1, -1, 2**31 - 1, -(2**31), rng.randint(-9, 9)],
        pa.float64(): [
            *DOUBLES,
            *[float("nan"), float("inf"), -float("inf"), rng.random()] * 2,
        ],
        pa.float32(): [0.0, -0.0, float("nan"), float("inf"), 0.1, -1.5, 3.4e38],
        pa.decimal128(38, 9): [Decimal("0.1"), Decimal("12345678901234567890.123456789")],
        pa.decimal128(10, 2): [
            Decimal("0.10"),
            Decimal("-99999999.99"),
            Decimal(rng.randint(-3, 3)),
        ],
        pa.decimal128(38, 0): [
            Decimal(10) ** 37,
            Decimal(10) ** 20,
            Decimal(-(2**63)),
            Decimal(7),
        ],
        pa.string(): [*TEXTS_WITH_TIMES],
        pa.bool_(): [True, False],
        pa.timestamp("us", tz="UTC"): instants,
        pa.date32(): [date(1970, 1, 1), date(2024, 2, 29), date(1900, 1, 1)],
    }
    return rng.choice([None, *choices[arrow_type]])


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    """Write awkward rows to a file, so that Spark compiles what it computes from them."""
    rng = random.Random(random.randrange(2**32))
    columns = {
        name: pa.array([awkward(arrow_type, rng) for _ in range(ROWS)], arrow_type)
        for name, arrow_type in ARROW_TYPES.items()
    }
    columns["nothing at all"] = pa.nulls(ROWS, pa.int64())
    table = pa.table({**columns, "row": pa.array(range(ROWS))})
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    return Rows(table, spark.read.parquet(str(path)))


def in_modes(*names):
    """Run a test in several modes of Spark."""

    def marked(test):
        return pytest.mark.usefixtures("mode")(
            pytest.mark.parametrize("mode", names, indirect=True)(test)
        )

    return marked


@pytest.fixture
def mode(request, spark):
    """Set Spark to each way in which it may compute."""
    for name, value in MODES[request.param].items():
        spark.conf.set(name, value)
    yield request.param
    for name in MODES[request.param]:
        spark.conf.unset(name)


def drawn(strategy: st.SearchStrategy[Expression], count: int) -> list[Expression]:
    """Draw so many expressions at once: Spark is quicker with many than with one by one."""
    found: list[Expression] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(expression):
        found.append(expression)

    collect()
    return found


def spark_columns(rows: Rows, batch: Sequence[Expression]) -> list[Column]:
    """Compute expressions by Spark."""
    texts = [f"{spark_sql(node, rows.scope)} AS c{i}" for i, node in enumerate(batch)]
    table = rows.frame.selectExpr(*texts).toArrow()
    return [to_column(table[f"c{i}"]) for i in range(len(batch))]


def differing(ours: Column, theirs: Column) -> np.ndarray:
    """Find the rows in which two columns differ."""
    if ours.data_type is not theirs.data_type:
        return np.arange(ROWS)
    if isinstance(ours.values, np.ndarray):
        with np.errstate(invalid="ignore"):
            same = (ours.values == theirs.values) | (
                (ours.values != ours.values) & (theirs.values != theirs.values)
            )
    else:
        same = np.asarray(pc.equal(ours.values, theirs.values).fill_null(fill_value=False))
    return np.flatnonzero((ours.valid != theirs.valid) | (ours.valid & ~same))


def disagreements(rows: Rows, batch: Sequence[Expression]) -> list[str]:
    """Compute expressions by both back ends and describe where they differ."""
    found = []
    for node, theirs in zip(batch, spark_columns(rows, batch), strict=True):
        ours = evaluate(node, ROWS, rows.lookup)
        different = differing(ours, theirs)
        if data_type_of(node, rows.scope) is not ours.data_type:
            found.append(f"{node}: columns gave {ours.data_type}")
        elif different.size:
            found.append(_described(rows, node, (ours, theirs), int(different[0])))
    return found


def _described(rows: Rows, node: Expression, results: tuple[Column, Column], row: int) -> str:
    used = {str(part): part for part in walk(node) if isinstance(part, Attribute)}
    values = {name: rows.lookup(part).values[row] for name, part in used.items()}
    found = [
        f"{column.data_type} {column.values[row]!r}" if column.valid[row] else "null"
        for column in results
    ]
    lines = [str(node), f"  SQL      {spark_sql(node, rows.scope)}", f"  row      {values}"]
    return "\n".join([*lines, f"  columns  {found[0]}", f"  Spark    {found[1]}"])


def check(rows: Rows, batch: Sequence[Expression]) -> None:
    """Fail with the smallest parts on which the back ends disagree."""
    if not disagreements(rows, batch):
        return
    inner = {str(node): node for whole in batch for node in walk(whole)}
    plain = (node for node in inner.values() if data_type_of(node, rows.scope) in PLAIN)
    nodes = sorted(plain, key=lambda node: len(str(node)))
    for start in range(0, len(nodes), BATCH):
        found = disagreements(rows, nodes[start : start + BATCH])
        if found:
            pytest.fail("\n\n".join(found[:3]))


def check_all(rows: Rows, schema: Schema, count: int, depth: int = 4) -> None:
    """Draw expressions of all kinds and check them, batch by batch."""
    each = count // len(PLAIN)
    drawn_by_type = (drawn(expressions(data_type, schema, depth), each) for data_type in PLAIN)
    found = [node for of_kind in drawn_by_type for node in of_kind]
    for start in range(0, len(found), BATCH):
        check(rows, found[start : start + BATCH])


def with_derived(rows: Rows) -> tuple[Rows, Schema]:
    """Add columns that are expressions themselves."""
    nodes = [
        node
        for data_type in PLAIN
        for node in drawn(expressions(data_type, SCHEMA, depth=2), 8)
        if data_type_of(node, rows.scope) is data_type
    ]
    table, schema = rows.table, {}
    for i, node in enumerate(nodes):
        column = evaluate(node, ROWS, rows.lookup)
        table = table.append_column(f"x{i}", to_arrow(column))
        schema[f"x{i}"] = column.data_type
    texts = [f"{spark_sql(node, rows.scope)} AS x{i}" for i, node in enumerate(nodes)]
    return Rows(table, rows.frame.selectExpr("*", *texts)), schema


@in_modes("ANSI", "legacy")
def test_spark_and_columns_give_the_same_values(rows):
    """The language has one meaning."""
    check_all(rows, SCHEMA, count=150)


@pytest.mark.soak
@in_modes(*MODES)
def test_spark_and_columns_give_the_same_values_for_long(rows):
    """The same, twenty times as much, and in more ways."""
    check_all(rows, SCHEMA, count=3000)


@in_modes("ANSI")
def test_derived_columns_may_be_used_in_expressions(rows):
    """Spark puts one into the other and simplifies; `lower` of `upper` is such a case."""
    derived, schema = with_derived(rows)

    check_all(derived, schema, count=50, depth=2)


@pytest.mark.soak
@in_modes(*MODES)
def test_derived_columns_may_be_used_in_expressions_for_long(rows):
    """The same, with other columns again and again."""
    for _ in range(10):
        derived, schema = with_derived(rows)
        check_all(derived, schema, count=50, depth=2)


@in_modes("legacy")
def test_spark_and_columns_keep_the_same_rows(rows):
    """A filter goes other ways through Spark's optimiser than a selected value."""
    conditions = drawn(expressions(DataType.BOOLEAN, SCHEMA), 20)

    kept = [
        rows.frame.filter(spark_sql(condition, rows.scope, DataType.BOOLEAN)).selectExpr(
            f"{i} AS i", "row"
        )
        for i, condition in enumerate(conditions)
    ]

    found = functools.reduce(type(rows.frame).union, kept).toArrow().to_pylist()
    for i, condition in enumerate(conditions):
        expected = np.flatnonzero(is_true(evaluate(condition, ROWS, rows.lookup)))
        assert [of["row"] for of in found if of["i"] == i] == expected.tolist(), str(condition)


@in_modes("ANSI", "interpreted")
def test_a_text_reaches_spark_as_it_is(spark):
    """No escape, no substitution of variables, whatever the settings."""
    texts = [*TEXTS, "${spark.app.name}", '"', "`", "a''b", "\\n", "\\'", "\0", "%\\_"]

    literals = [spark_sql(Literal(text), lambda _: DataType.NULL) for text in texts]

    assert list(spark.range(1).selectExpr(*literals).first()) == texts


SUBTLE = [
    Binary(Operator.ADD, Binary(Operator.ADD, N, Literal(2**63 - 1)), Literal(2**63 - 1)),
    Binary(Operator.MULTIPLY, Binary(Operator.MULTIPLY, N, Literal(2**62)), Literal(0)),
    Call("lower", (Call("upper", (S,)),)),
    Call("upper", (Call("lower", (S,)),)),
    Call("isnan", (D,)),
    Call("floor", (D,)),
    Call("ceil", (D,)),
    Cast(D, DataType.BIGINT),
    Cast(S, DataType.BIGINT),
    Cast(S, DataType.DOUBLE),
    *(Binary(Operator.INT_DIVIDE, N, Literal(divisor)) for divisor in (0, -1, 1, 7, -7)),
    *(Binary(operator, N, M) for operator in (Operator.INT_DIVIDE, Operator.MODULO)),
    *(
        In(D, (*map(Literal, DOUBLES[:count]), *extra))
        for count in (2, 14)
        for extra in ((), (D,))
    ),
    *(
        In(N, (*map(Literal, BIGINTS), Literal(None)), negated=negated)
        for negated in (True, False)
    ),
    *(Like(S, form) for form in ("%\\\\", "\\\\%", "a_b", "%\\%%", "_", "%a%", "\\_", "a%b")),
    *(Call("substring", (S, Literal(start), Literal(2))) for start in range(-4, 5)),
    *(Binary(operator, D, E) for operator in sorted(COMPARISONS, key=str)),
    *(Binary(operator, S, T) for operator in sorted(COMPARISONS, key=str)),
    *(Call("regexp_like", (S, Literal(regex))) for regex in REGEXES),
    *(Call("get_json_object", (S, Literal(path))) for path in PATHS),
    *(Call("to_timestamp", (S, Literal(form))) for form in FORMATS),
    *(Cast(S, data_type) for data_type in (DataType.TIMESTAMP, DataType.DATE)),
    *(Cast(Attribute("", (name,)), DataType.BIGINT) for name in ("money", "cents", "wide")),
    *(
        Binary(operator, Attribute("", ("money",)), other)
        for operator in sorted(COMPARISONS, key=str)
        for other in (Attribute("", ("cents",)), Attribute("", ("wide",)), N, D, Literal(0.1))
    ),
    In(Attribute("", ("money",)), (Literal(0.1), Literal(7), Literal(None))),
]


@in_modes(*MODES)
def test_what_spark_once_got_wrong_is_the_same(rows):
    """The cases that random expressions have found, and those that they seldom reach."""
    check(rows, SUBTLE)

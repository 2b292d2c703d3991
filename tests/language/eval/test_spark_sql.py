"""The text that Spark gets; that it means the right thing is in `test_backends_agree.py`."""

import pytest

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import (
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Case,
    In,
    IsNull,
    Like,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
)
from shedlight.language.check.expr_types import DataTypeError
from shedlight.language.eval.spark_sql import spark_sql
from tests.language.expressions import by_name

COUNT, CPU, HOST = (Attribute("", (name,)) for name in ("count", "cpu", "host"))
DATA_TYPES = {
    "count": DataType.BIGINT,
    "cpu": DataType.DOUBLE,
    "host": DataType.STRING,
    "e.cpu": DataType.DOUBLE,
}


def text(node):
    """Write an expression over the columns above."""
    return spark_sql(node, by_name(DATA_TYPES))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Binary(Operator.GREATER, CPU, Literal(0.2)), "(CAST(`cpu` AS DOUBLE) > 0.2D)"),
        (
            Binary(Operator.LESS, COUNT, Literal(0.5)),
            "(CAST(CAST(`count` AS BIGINT) AS DOUBLE) < 0.5D)",
        ),
        (
            Binary(Operator.ADD, COUNT, Literal(-1)),
            "(try_add(CAST(`count` AS BIGINT), (-1L)) | 0L)",
        ),
        (Binary(Operator.DIVIDE, CPU, Literal(2.0)), "try_divide(CAST(`cpu` AS DOUBLE), 2.0D)"),
        (Binary(Operator.INT_DIVIDE, COUNT, Literal(60)), "(CAST(`count` AS BIGINT) DIV 60L)"),
        (Unary(Sign.MINUS, CPU), "(- CAST(`cpu` AS DOUBLE))"),
        (Literal(-(2**63)), "(-9223372036854775808L)"),
        (Literal(float("-inf")), "CAST('-inf' AS DOUBLE)"),
        (Literal("it's"), "CAST(X'69742773' AS STRING)"),
        (Literal("back\\slash"), "CAST(X'6261636B5C736C617368' AS STRING)"),
        (
            Binary(Operator.EQUAL, HOST, Literal(None)),
            "(CAST(`host` AS STRING) = CAST(NULL AS STRING))",
        ),
        (
            In(COUNT, (Literal(1), Literal(None))),
            "(CAST(`count` AS BIGINT) IN (1L, CAST(NULL AS BIGINT)))",
        ),
        (Like(HOST, "a%", negated=True), "(CAST(`host` AS STRING) NOT LIKE 'a%')"),
        (
            IsNull(Attribute("", ("e", "cpu")), negated=True),
            "(CAST(`e`.`cpu` AS DOUBLE) IS NOT NULL)",
        ),
        (
            Case(((Literal(value=True), Literal(1)),), Literal(2)),
            "CASE WHEN TRUE THEN 1L ELSE 2L END",
        ),
        (Call("coalesce", (Literal(None), Literal(None))), "NULL"),
    ],
)
def test_an_expression_is_written_with_its_types(node, expected):
    """So that no conversion is left to Spark."""
    assert text(node) == expected


def test_names_are_quoted():
    """Whatever is in them."""
    node = Attribute("E 1", ("a`b", "c.d"))

    assert spark_sql(node, lambda _: DataType.STRUCT) == "`E 1`.`a``b`.`c.d`"
    assert spark_sql(IsNull(WholeEvent("E1")), lambda _: DataType.STRUCT) == "(`E1` IS NULL)"


def test_what_does_not_fit_is_refused():
    """As by `data_type_of`."""
    with pytest.raises(DataTypeError, match="`>` compares number with number"):
        text(Binary(Operator.GREATER, HOST, Literal(1)))


def test_the_data_types_must_be_known():
    """Without them the text could mean something else."""
    with pytest.raises(ValueError, match="data type of cpu must be known"):
        spark_sql(CPU, lambda _: DataType.UNKNOWN)


def test_aggregates_are_not_for_spark():
    """They are of a match, and Spark sees rows."""
    with pytest.raises(ValueError, match=r"COUNT\(A\) is of a match"):
        spark_sql(Aggregate(AggregateFunction.COUNT, "A"), lambda _: DataType.BIGINT)

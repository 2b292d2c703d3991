"""Functions of the user as columns on Spark: of Python on batches, of Spark as they are."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.types import StructType

from shedlight.engines.spark.source.event_time_sql import has_local_times, is_in_utc
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, root_cause
from shedlight.errors import InputError
from shedlight.language import DataType, Expression, Schema
from shedlight.language.ast.expression import Attribute, UserCall, walk
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.eval.spark_sql import quote_name, spark_sql
from shedlight.language.eval.user_calls import compute_call
from shedlight.matching.operators.cep_operator import data_type_in

_ARGUMENT = "#argument"
_ARROW_UDF: Any = getattr(F, "arrow_udf", None)  # which PySpark has from 4.1 on


def with_function_columns(
    frame: DataFrame, schema: Schema, calls: Mapping[str, UserCall]
) -> DataFrame:
    """Add what functions of the user give, each after those that it needs.

    Raises:
        InputError: Spark has no such function, or it does not take such arguments.
    """
    known = dict(schema)
    for name, call in calls.items():
        frame = with_function_column(frame, known, name, call)
        known[name] = call.function.returns
    return frame


def with_function_column(
    frame: DataFrame,
    schema: Schema,
    name: str,
    call: UserCall,
    *,
    as_udf: bool = _ARROW_UDF is not None,
) -> DataFrame:
    """Add what one function gives as a column."""
    _check_times(frame, call)
    arguments = [F.expr(write_derived_sql(schema, argument)) for argument in call.arguments]
    function = call.function
    if isinstance(function.call, str):
        try:
            given = F.call_function(function.call, *arguments)
            return frame.withColumn(name, given.try_cast(function.returns.value))
        except SPARK_ERRORS as error:
            raise InputError(
                f"Spark cannot compute {call}: {root_cause(str(error))}; register the function "
                f"in this session, as in spark.udf.register({function.call!r}, ...)"
            ) from error
    if as_udf:
        return frame.withColumn(name, _udf(call)(*arguments))
    return _computed_by_map(frame, name, call, arguments)


def _check_times(frame: DataFrame, call: UserCall) -> None:
    """Refuse times that Spark would take for local ones: nobody else does."""
    if is_in_utc(frame.sparkSession):
        return
    for node in (node for argument in call.arguments for node in walk(argument)):
        if isinstance(node, Attribute) and has_local_times(frame.schema[node.path[0]].dataType):
            raise InputError(
                f"{call} takes {node.path[0]!r}, a timestamp without a time zone, and the "
                "session's time zone is not UTC; set spark.sql.session.timeZone to UTC, or "
                "give the column a time zone"
            )


def _udf(call: UserCall) -> Any:  # noqa: ANN401  # Spark does not say what it is
    def compute(*columns: pa.Array) -> pa.Array:
        return compute_call(call, columns, len(columns[0]))

    udf = _ARROW_UDF(compute, call.function.returns.value)
    return udf.asNondeterministic()  # else Spark computes it again for each use


def _computed_by_map(
    frame: DataFrame, name: str, call: UserCall, arguments: list[Column]
) -> DataFrame:
    """Compute a column where Spark has no function of Arrow: whole rows go to Python."""
    names = [f"{_ARGUMENT}{number}" for number in range(len(arguments))]
    given = frame.withColumns(dict(zip(names, arguments, strict=True)))
    result = StructType.fromDDL(f"{quote_name(name)} {call.function.returns.value}")

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(argument) for argument in names]
            table = pa.Table.from_batches([batch]).drop_columns(names)
            found = compute_call(call, columns, len(batch))
            yield from table.append_column(name, found).to_batches()

    return given.mapInArrow(compute, StructType([*frame.schema, *cast("StructType", result)]))


def write_derived_sql(schema: Schema, expression: Expression) -> str:
    """Write an expression over columns of known data types as Spark SQL of its own."""

    def scope(node: Expression) -> DataType:
        return data_type_in(schema, node)

    data_type = data_type_of(expression, scope)
    return spark_sql(expression, scope, None if data_type is DataType.NULL else data_type)

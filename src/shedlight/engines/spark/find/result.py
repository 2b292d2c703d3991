"""The columns of what is found: the pattern if several are named, time, id, and the rest."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from shedlight.errors import InputError
from shedlight.matching.output.complex_events import ID, SOURCE, TIME

PATTERN = "pattern"


def result_schema(
    outputs: Mapping[str, pa.Schema], times: pa.DataType, *, is_named: bool
) -> pa.Schema:
    """Give the columns of all patterns together.

    Raises:
        InputError: Two patterns have a column of one name and different types.
    """
    fields = {TIME: pa.field(TIME, times), ID: pa.field(ID, pa.string())}
    if is_named:
        fields = {PATTERN: pa.field(PATTERN, pa.string()), **fields}
    owners: dict[str, str] = {}
    for name, schema in outputs.items():
        for field in schema:
            if field.name in {SOURCE, TIME, ID}:
                continue
            owner = owners.setdefault(field.name, name)
            known = fields.setdefault(field.name, pa.field(field.name, field.type))
            if known.type != field.type:
                raise InputError(
                    f"the patterns {owner} and {name} both select {field.name!r}, one as "
                    f"{_spark_name(known)}, the other as {_spark_name(field)}; give one of "
                    "them another name with AS, or find them apart"
                )
    return pa.schema(list(fields.values()))


def _spark_name(field: pa.Field) -> str:
    return from_arrow_type(field.type, prefer_timestamp_ntz=True).simpleString()


def spark_schema(schema: pa.Schema) -> StructType:
    """Give columns as Spark has them."""
    data_types = (from_arrow_type(field.type, prefer_timestamp_ntz=True) for field in schema)
    return StructType(
        [StructField(*pair) for pair in zip(schema.names, data_types, strict=True)]
    )


def to_result(schema: pa.Schema, pattern: str, found: pa.Table) -> Iterator[pa.RecordBatch]:
    """Give the complex events of a pattern with the columns of the result."""
    columns = [_column(field, pattern, found) for field in schema]
    yield from pa.table(columns, schema).combine_chunks().to_batches()


def _column(field: pa.Field, pattern: str, found: pa.Table) -> pa.ChunkedArray | pa.Array:
    if field.name == PATTERN:
        return pa.repeat(pattern, len(found))
    if field.name not in found.column_names:
        return pa.nulls(len(found), field.type)
    return found[field.name].cast(field.type)

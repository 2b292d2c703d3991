"""Which columns can be carried to Python and back, and as what."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql import types as spark_types

from shedlight.engines.spark.session.pyspark_version import to_arrow_schema
from shedlight.language.eval.spark_sql import quote_name


def arrow_field(field: spark_types.StructField) -> pa.Field | None:
    """Give a column as Python gets it; None if it cannot be carried there and back."""
    if _has_opaque_type(field.dataType):
        return None
    try:
        schema = to_arrow_schema(spark_types.StructType([field]))
    except PySparkException:
        return None
    return pa.field(field.name, schema.field(0).type)


def _has_opaque_type(data_type: spark_types.DataType) -> bool:
    """Say whether a variant or a user-defined type is in it: Arrow has only their form."""
    if isinstance(data_type, spark_types.StructType):
        return any(_has_opaque_type(field.dataType) for field in data_type)
    if isinstance(data_type, spark_types.ArrayType):
        return _has_opaque_type(data_type.elementType)
    if isinstance(data_type, spark_types.MapType):
        return any(map(_has_opaque_type, (data_type.keyType, data_type.valueType)))
    return isinstance(data_type, spark_types.UserDefinedType | spark_types.VariantType)


def with_plain_text(frame: DataFrame) -> DataFrame:
    """Have text without a collation: Python knows of none, and both have to find the same."""
    plain = {field.name: _without_collation(field.dataType) for field in frame.schema}
    changed = {
        field.name: F.col(quote_name(field.name)).cast(plain[field.name])
        for field in frame.schema
        if plain[field.name] != field.dataType
    }
    return frame.withColumns(changed) if changed else frame


def _without_collation(data_type: spark_types.DataType) -> spark_types.DataType:
    match data_type:
        case spark_types.StructType():
            fields = (
                (f.name, _without_collation(f.dataType), f.nullable, f.metadata)
                for f in data_type
            )
            return spark_types.StructType([spark_types.StructField(*one) for one in fields])
        case spark_types.ArrayType():
            inner = _without_collation(data_type.elementType)
            return spark_types.ArrayType(inner, data_type.containsNull)
        case spark_types.MapType():
            key, value = map(_without_collation, (data_type.keyType, data_type.valueType))
            return spark_types.MapType(key, value, data_type.valueContainsNull)
        case spark_types.StringType():
            return spark_types.StringType()
    return data_type

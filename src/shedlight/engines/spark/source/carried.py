"""Which columns can be carried to Python and back, and as what."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types

from shedlight.engines.spark.session.pyspark_version import to_arrow_schema


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

"""Which columns of a DataFrame can be carried to Python and back; no session is needed."""

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

from shedlight.engines.spark.find.events import FrameColumns
from shedlight.engines.spark.source.carried import arrow_field


class Celsius(spark_types.UserDefinedType):
    """A type of the user's own: a double with a meaning."""

    @classmethod
    def sqlType(cls):  # noqa: N802  # so it is called
        """Say as what Spark keeps it."""
        return spark_types.DoubleType()

    @classmethod
    def module(cls):
        """Say where it is."""
        return __name__


@pytest.mark.parametrize(
    "data_type",
    [
        spark_types.VariantType(),
        spark_types.YearMonthIntervalType(),
        spark_types.CalendarIntervalType(),
        Celsius(),
        spark_types.ArrayType(Celsius()),
        spark_types.ArrayType(spark_types.VariantType()),
        spark_types.MapType(spark_types.StringType(), spark_types.VariantType()),
        spark_types.StructType([spark_types.StructField("v", spark_types.VariantType())]),
    ],
    ids=lambda data_type: data_type.simpleString(),
)
def test_a_type_of_which_arrow_has_the_form_only_is_not_carried(data_type):
    """It would come back as something else."""
    assert arrow_field(spark_types.StructField("x", data_type)) is None


def test_a_timestamp_is_carried_in_utc_whatever_the_session():
    """And one without a zone without one."""
    fields = {
        "zoned": spark_types.StructField("zoned", spark_types.TimestampType()),
        "local": spark_types.StructField("local", spark_types.TimestampNTZType()),
    }
    arrow = {name: arrow_field(field) for name, field in fields.items()}

    assert arrow["zoned"] == pa.field("zoned", pa.timestamp("us", tz="UTC"))
    assert arrow["local"] == pa.field("local", pa.timestamp("us"))
    assert set(FrameColumns(fields, arrow).schema) == {"zoned", "local"}

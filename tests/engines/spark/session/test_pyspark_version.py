"""What depends on the version of PySpark; `test_versions.py` has the suite on each of them."""

import zipfile
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from packaging.specifiers import SpecifierSet
from pyspark.sql.types import ArrayType, StructType, TimestampNTZType, TimestampType

from shedlight.engines.spark.session import preflight
from shedlight.engines.spark.session.pyspark_version import (
    NEWEST,
    OLDEST,
    check_pyspark,
    checkpoint_file_manager,
    to_arrow_schema,
)
from shedlight.errors import ShedlightError


@pytest.mark.parametrize("version", ["3.5.9", "3.6.0.dev1", "2.4.8"])
def test_a_pyspark_that_is_too_old_is_refused(version):
    """Rather than a method that it does not have."""
    with pytest.raises(
        ShedlightError,
        match=rf"PySpark {version} is too old; shedlight needs 4\.0 to 4\.3: pip install",
    ):
        check_pyspark(version)


def test_a_pyspark_that_nobody_has_tried_is_a_warning_once():
    """It may well work."""
    with pytest.warns(UserWarning, match=r"PySpark 4\.4\.1 is newer than those that") as told:
        check_pyspark("4.4.1")
    check_pyspark("4.4.1")  # a second warning would be an error here

    assert len(told) == 1


@pytest.mark.parametrize("version", ["4.0.0", "4.1.4", "4.2.1", "4.3.10"])
def test_what_was_tested_is_taken_as_it_is(version):
    """So is the one that is installed here."""
    check_pyspark(version)
    check_pyspark()


def test_the_versions_are_those_that_can_be_installed():
    """What pip takes for the extra is what our tests were run with."""
    wanted = preflight.required_versions()["pyspark"]

    assert wanted == SpecifierSet(f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}")


def test_spark_has_the_class_that_writes_checkpoints():
    """It moved after 4.0; with a wrong name no query starts."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-sql_2.13-*.jar")

    with zipfile.ZipFile(jar) as file:
        assert f"{checkpoint_file_manager().replace('.', '/')}.class" in file.namelist()


def test_timestamps_are_in_utc_in_arrow():
    """On every version, and those without a zone have none."""
    columns = (
        StructType()
        .add("at", TimestampType())
        .add("local", TimestampNTZType())
        .add("several", ArrayType(TimestampType()))
    )

    assert to_arrow_schema(columns).types == [
        pa.timestamp("us", tz="UTC"),
        pa.timestamp("us"),
        pa.list_(pa.timestamp("us", tz="UTC")),
    ]

"""The versions of PySpark that we run on, and all that we do differently on some of them.

Nothing else asks which version it is. PySpark itself is imported by what needs it only: the
checks before a start serve those whose PySpark is broken, too.
"""

import importlib.metadata
import warnings
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING

from packaging.version import Version

from shedlight.errors import ShedlightError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

OLDEST, NEWEST = (4, 0), (4, 3)
"""The first and the last version that it is made for; docs/pyspark.md says what was run."""


def pyspark_version() -> str:
    """Say which PySpark is installed."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:  # it is on the path, but was not installed
        import pyspark  # noqa: PLC0415  # see above

        return pyspark.__version__


def check_pyspark(version: str | None = None) -> None:
    """Refuse a PySpark that lacks what we need; warn once of one that is too new to be known.

    Without a version it is the one that is installed.

    Raises:
        ShedlightError: It is too old.
    """
    version = version or pyspark_version()
    number = Version(version).release[:2]
    if number < OLDEST:
        raise ShedlightError(
            f"PySpark {version} is too old; shedlight needs {_text(OLDEST)} to "
            f"{_text(NEWEST)}: pip install 'pyspark~={_text(NEWEST)}.0'"
        )
    if number > NEWEST:
        _warn_once(
            f"PySpark {version} is newer than those that shedlight is made for, "
            f"{_text(OLDEST)} to {_text(NEWEST)}; if something goes wrong, try again with one "
            f"of them: pip install 'pyspark~={_text(NEWEST)}.0'"
        )


def _text(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))


@cache
def _warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def checkpoint_package(version: str | None = None) -> str:
    """Name the package of the classes by which Spark writes checkpoints."""
    package = "org.apache.spark.sql.execution.streaming"
    if Version(version or pyspark_version()).release[:2] > OLDEST:
        package += ".checkpointing"
    return package


def checkpoint_file_manager(version: str | None = None) -> str:
    """Name the class by which Spark writes checkpoints to local folders, the fastest."""
    return f"{checkpoint_package(version)}.FileSystemBasedCheckpointFileManager"


def to_arrow_schema(columns: "StructType") -> "pa.Schema":
    """Give columns as Arrow has them, timestamps in UTC."""
    from pyspark.sql.pandas import types  # noqa: PLC0415  # see above

    if "timezone" in signature(types.to_arrow_schema).parameters:
        return types.to_arrow_schema(columns, timezone="UTC")
    return types.to_arrow_schema(columns)  # before 4.3 they are in UTC by themselves

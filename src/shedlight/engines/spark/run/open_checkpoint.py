"""The checkpoint of a run, opened: where it is, and kept from other runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from shedlight.engines.spark.session.pyspark_version import checkpoint_file_manager
from shedlight.engines.spark.shed.jvm_callback import supports_jvm_callback
from shedlight.engines.spark.support.checkpoint import LOCK, lock_checkpoint
from shedlight.engines.spark.support.hadoop_path import (
    FILE_MANAGER,
    HadoopPath,
    UnreachableError,
)
from shedlight.engines.spark.support.lease import hold_lease, this_holder
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS
from shedlight.engines.spark.support.storage import StoredPath, stored_path
from shedlight.errors import InputError


@dataclass(frozen=True, slots=True)
class OpenCheckpoint:
    """A checkpoint that a run has."""

    root: StoredPath
    check: Callable[[], None] = lambda: None  # raises if the run has lost it


@contextmanager
def open_checkpoint(
    spark: SparkSession, address: str, *, locked: bool = False
) -> Iterator[OpenCheckpoint]:
    """Keep other runs away from a checkpoint; who has its lock says so.

    Raises:
        InputError: It cannot be reached.
        StateError: Another run has it.
    """
    root = stored_path(address)
    if isinstance(root, Path):
        with nullcontext() if locked else lock_checkpoint(root):
            yield OpenCheckpoint(root)
        return
    _check_address(spark, root)
    java: Any = spark._jvm  # noqa: SLF001
    holder = this_holder(int(java.java.lang.ProcessHandle.current().pid()))
    with _without_local_writer(spark), hold_lease(root / LOCK, holder) as lease:
        yield OpenCheckpoint(root, lease.check)


@contextmanager
def _without_local_writer(spark: SparkSession) -> Iterator[None]:
    """Have Spark write checkpoints as suits their file system, not as is fastest here."""
    before = spark.conf.get(FILE_MANAGER, None)
    if before != checkpoint_file_manager():
        yield
        return
    spark.conf.unset(FILE_MANAGER)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS, OSError):  # the JVM may be gone
            spark.conf.set(FILE_MANAGER, before)


def _check_address(spark: SparkSession, root: HadoopPath) -> None:
    """See that an address can be reached."""
    if not supports_jvm_callback(spark):
        raise InputError(
            f"the checkpoint {root} is in no local folder, and this session cannot reach it: "
            "it needs a driver in this process, so not Spark Connect; name a folder that the "
            "driver and all workers see under the same path"
        )
    try:
        root.exists()
    except OSError as error:
        reason = error.reason if isinstance(error, UnreachableError) else error.strerror
        raise InputError(
            f"the checkpoint {root} cannot be reached: {reason}; put the address "
            "right, start what serves it, or give Spark what the file system needs: --conf "
            "spark.jars.packages=... for its classes, --conf spark.hadoop.fs.... for settings"
        ) from error

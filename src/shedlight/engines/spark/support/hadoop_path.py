"""Files of any file system of Hadoop, reached by the driver through the JVM of its session.

An address is used as a `pathlib.Path` is. A file is written by the class with which Spark
writes its own checkpoints there: it is seen whole or not at all, and what a file system needs
for that is set once, for both.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, BinaryIO, Literal
from urllib.parse import urlsplit

from shedlight.engines.spark.session.pyspark_version import (
    checkpoint_file_manager,
    checkpoint_package,
)
from shedlight.errors import ShedlightError

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting that names the class by which Spark writes checkpoints."""

_ERRORS: dict[str, tuple[type[OSError], int]] = {
    "FileNotFoundException": (FileNotFoundError, errno.ENOENT),
    "FileAlreadyExistsException": (FileExistsError, errno.EEXIST),
    "AccessControlException": (PermissionError, errno.EACCES),
}


class UnreachableError(ShedlightError, ConnectionError):
    """A file system that cannot be reached, or does not do what it should."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address} cannot be reached: {reason}; start what serves it, and the run again: "
            "it goes on where it was"
        )
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class HadoopPath:
    """An address such as hdfs://host:8020/folder.

    Calls need a session with a JVM at hand. They raise the OSError that a local path would, and
    an UnreachableError if the file system cannot be reached.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> "HadoopPath":
        return HadoopPath(f"{self.address.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without what follows its last dot."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> "HadoopPath":
        """The folder that it is in."""
        return HadoopPath(self.address.rpartition("/")[0])

    def exists(self) -> bool:
        """Say whether it is there."""
        with _file_system(self) as (system, path):
            return bool(system.calls.exists(path))

    def is_file(self) -> bool:
        """Say whether it is a file."""
        try:
            return stat.S_ISREG(self.stat().st_mode)
        except FileNotFoundError:
            return False

    def stat(self) -> os.stat_result:
        """Give its size, when it was changed, and whether it is a file."""
        with _file_system(self) as (system, path):
            found = system.calls.getFileStatus(path)
            kind = stat.S_IFREG if found.isFile() else stat.S_IFDIR
            size, milliseconds = int(found.getLen()), int(found.getModificationTime())
        times = (milliseconds // 1000,) * 3
        named = {"st_mtime": milliseconds / 1e3, "st_mtime_ns": milliseconds * 1_000_000}
        return os.stat_result((kind, 0, 0, 1, 0, 0, size, *times), named)

    def glob(self, pattern: str) -> list["HadoopPath"]:
        """List what is in the folder and named so; nothing if it is not there."""
        try:
            with _file_system(self) as (system, path):
                found = system.utilities.stat2Paths(system.calls.listStatus(path))
                addresses = str(system.wrap(found).mkString("\n")).splitlines()
        except FileNotFoundError:
            return []
        names = (address.rpartition("/")[2] for address in addresses)
        return [self / name for name in names if fnmatchcase(name, pattern)]

    def read_bytes(self) -> bytes:
        """Read all of it."""
        with _file_system(self) as (system, path):
            stream = system.calls.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read all of it as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: Literal["rb"]) -> BinaryIO:  # noqa: ARG002  # as a local path
        """Give all of it as an open file."""
        return io.BytesIO(self.read_bytes())

    def write_whole(self, content: bytes, *, replace: bool) -> None:
        """Write a file, which is there whole or not at all.

        Raises:
            FileExistsError: It is there, and not to be replaced.
        """
        with _file_system(self) as (system, path):
            stream = system.manager.createAtomic(path, replace)
            try:
                stream.write(content)
                stream.close()
            except BaseException:
                stream.cancel()
                raise

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:  # noqa: ARG002
        """Make the folder, and those above it, if they are not there."""
        with _file_system(self) as (system, path):
            system.calls.mkdirs(path)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        with _file_system(self) as (system, path):
            removed = system.calls.delete(path, False)  # noqa: FBT003  # it is of Java
        if not removed and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.address)


@dataclass(frozen=True, slots=True)
class _FileSystem:
    """A file system of Hadoop; what is in it is of the JVM."""

    path: Any  # the class of its paths
    calls: Any  # the file system
    manager: Any  # what writes Spark's checkpoints there
    utilities: Any
    wrap: Any  # makes a collection of Scala of an array: to be had in one call


@contextmanager
def _file_system(place: HadoopPath) -> Iterator[tuple[_FileSystem, Any]]:
    """Give the file system of an address, and its path there."""
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415  # it takes a second to import

    session: Any = SparkSession._instantiatedSession  # noqa: SLF001
    if session is None:
        raise UnreachableError(place.address, "there is no Spark session")
    parts = urlsplit(place.address)
    try:
        system = _connect(session, f"{parts.scheme}://{parts.netloc}/")
        yield system, system.path(place.address)
    except Py4JJavaError as error:
        raise _to_os_error(error, place.address) from error
    except Py4JError as error:
        raise UnreachableError(place.address, "Spark's JVM does not answer") from error


@lru_cache(maxsize=8)
def _connect(session: Any, root: str) -> _FileSystem:  # noqa: ANN401  # its JVM is untyped
    jvm = session._jvm  # noqa: SLF001  # there is no other way to it
    path = jvm.org.apache.hadoop.fs.Path
    settings = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    if settings.get(FILE_MANAGER) == checkpoint_file_manager():
        settings.unset(FILE_MANAGER)  # it is for local folders
    calls = path(root).getFileSystem(settings)
    manager = getattr(jvm, f"{checkpoint_package()}.CheckpointFileManager")
    return _FileSystem(
        path,
        calls,
        manager.create(path(root), settings),
        jvm.org.apache.hadoop.fs.FileUtil,
        jvm.scala.Predef.genericWrapArray,
    )


def _to_os_error(error: Any, address: str) -> OSError:  # noqa: ANN401  # Py4J has no types
    thrown = error.java_exception
    name = str(thrown.getClass().getSimpleName())
    if name not in _ERRORS:
        said = f"{name}: {thrown.getMessage()}"
        return UnreachableError(address, said.partition("\n")[0])
    kind, number = _ERRORS[name]
    return kind(number, os.strerror(number), address)

"""Whether new files of a source have its columns.

Spark reads null where a Parquet file lacks a column: no pattern would match any more, and
nobody would know why. So the columns of files are looked up when files appear. It takes about a
millisecond for each, and nothing while there are none.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shedlight.engines.spark.session.paths import local_path
from shedlight.errors import InputError
from shedlight.graph import Application, Source

_EVERY = 1.0
"""How often folders are looked at, in seconds."""
_FIRST = 1_000
"""How many files are looked at that were there before."""


class FileColumns:
    """Looks at the Parquet files of sources that are folders of this machine.

    Args:
        application: With the columns of its sources.
    """

    def __init__(self, application: Application) -> None:
        self._folders = list(_folders(application))
        self._changed: dict[Path, int] = {}
        self._seen: dict[Path, set[str]] = {}
        self._next = 0.0

    def check(self) -> None:
        """Look at files that were not seen yet.

        Raises:
            InputError: One lacks a column.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        for source, folder in self._folders:
            changed = folder.stat().st_mtime_ns if folder.is_dir() else 0
            if changed != self._changed.get(folder):
                self._changed[folder] = changed
                for file in self._new(folder):
                    _check(source, file)

    def _new(self, folder: Path) -> list[Path]:
        before = self._seen.get(folder)
        names = {one.name for one in folder.glob("[!._]*.parquet")}
        self._seen[folder] = names
        new = sorted(names - (before or set()))
        return [folder / name for name in (new if before is not None else new[-_FIRST:])]


def _folders(application: Application) -> Iterator[tuple[Source, Path]]:
    for source in application.sources.values():
        folder = local_path(source.path)
        if source.format == "parquet" and source.schema and folder is not None:
            yield source, folder


def _check(source: Source, file: Path) -> None:
    try:
        names = {name.casefold() for name in pq.read_schema(file).names}
    except (OSError, pa.ArrowException):  # it is gone, or no Parquet: Spark will say so
        return
    for column in source.schema or ():
        if "." not in column and column.casefold() not in names:
            raise InputError(
                f"source {source.name}: the file {file} lacks the column {column!r}; put a "
                "file that has it, null if need be, under another name in its place"
            )

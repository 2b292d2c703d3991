"""Checks that new files of a source have its columns.

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

CHECK_INTERVAL_S = 1.0  # how often folders are looked at
MAX_OLD_FILES = 1_000  # how many files are looked at that were there before


class FileColumns:
    """Checks the Parquet files of sources that are local folders."""

    def __init__(self, application: Application) -> None:
        self._folders = list(_parquet_folders(application))
        self._changed: dict[Path, int] = {}
        self._known_files: dict[Path, set[str]] = {}
        self._next = 0.0

    def check(self) -> None:
        """Check files that are new; one that lacks a column is an error."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + CHECK_INTERVAL_S
        for source, folder in self._folders:
            changed = folder.stat().st_mtime_ns if folder.is_dir() else 0
            if changed != self._changed.get(folder):
                self._changed[folder] = changed
                for file in self._new_files(folder):
                    _check_file(source, file)

    def _new_files(self, folder: Path) -> list[Path]:
        before = self._known_files.get(folder)
        names = {file.name for file in folder.glob("[!._]*.parquet")}
        self._known_files[folder] = names
        new = sorted(names - (before or set()))
        return [folder / name for name in (new if before is not None else new[-MAX_OLD_FILES:])]


def _parquet_folders(application: Application) -> Iterator[tuple[Source, Path]]:
    for source in application.sources.values():
        folder = local_path(source.path)
        if source.format == "parquet" and source.schema and folder is not None:
            yield source, folder


def _check_file(source: Source, file: Path) -> None:
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

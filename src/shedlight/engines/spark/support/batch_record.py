"""What each micro-batch of a node used, on record: a line of JSON for each, never changed.

    record/<n>.jsonl    the micro-batches from number n on, `SEGMENT` of them
    record/<n>.line     micro-batch n alone, elsewhere than in a local folder

The first line of a micro-batch counts: whoever comes later, in a replay too, gets that one.
Lines are appended whole. One that a crash cut off was not used by anybody, and is dropped.
Other file systems cannot append, or not so: there a line is a file at first, which nobody makes
twice, and the lines of a segment are put together when it is full.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOSPC
from functools import lru_cache
from pathlib import Path
from typing import Any

from shedlight.engines.spark.support.hadoop_path import HadoopPath
from shedlight.engines.spark.support.storage import StoredPath, create_file
from shedlight.errors import StateError

SEGMENT = 256  # how many micro-batches are in one file
_BATCH = "batch"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The record of a node, in a folder."""

    folder: StoredPath

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on record."""
        return not self._segments() and not self._lines()

    def find(self, batch: int) -> Row | None:
        """Give what is on record of a micro-batch; None: nothing."""
        places = [self._line(batch)] if isinstance(self.folder, HadoopPath) else []
        rows = map(self._rows, (*places, self._segment(batch)))
        return next((row[batch] for row in rows if batch in row), None)

    def append(self, batch: int, row: Row) -> Row:
        """Put a micro-batch on record; give what counts, which another may have written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({_BATCH: batch, **row}) + "\n"
        path = self._segment(batch)
        if isinstance(path, Path):
            _append_line(path, line.encode())
            return self._rows(path)[batch]
        with suppress(FileExistsError):
            create_file(self._line(batch), line)
        return self._rows(self._line(batch))[batch]

    def missing(self, batch: int) -> StoredPath:
        """Name the file in which a micro-batch should be."""
        return self._segment(batch)

    def rows(self) -> Iterator[Row]:
        """Give what is on record of all micro-batches, in their order."""
        last = -1
        for path in (*self._segments(), *self._lines()):
            rows = self._rows(path)
            new = [batch for batch in sorted(rows) if batch > last]
            yield from (rows[batch] for batch in new)
            last = max([last, *new])

    def prune(self, before: float) -> Row | None:
        """Remove files last written before a time in seconds since 1970, but the latest two.

        Gives the oldest row that is left.
        """
        segments = self._segments()
        left = [
            path
            for number, path in enumerate(segments)
            if number >= len(segments) - 2 or path.stat().st_mtime >= before
        ]
        for path in segments:
            if path not in left:
                path.unlink(missing_ok=True)
        oldest = self._rows(left[0]) if left else {}
        return oldest[min(oldest)] if oldest else None

    def put_together(self) -> None:
        """Make segments of the lines of those that are full; others may read meanwhile."""
        full: dict[StoredPath, list[StoredPath]] = {}
        lines = self._lines()
        for path in lines:
            full.setdefault(self._segment(int(path.stem)), []).append(path)
        full.pop(self._segment(int(lines[-1].stem)) if lines else self.folder, None)
        for segment, members in full.items():
            with suppress(FileExistsError):  # a crash kept the lines
                create_file(segment, b"".join(path.read_bytes() for path in members))
            for path in members:
                path.unlink(missing_ok=True)

    def _segment(self, batch: int) -> StoredPath:
        return self.folder / f"{batch // SEGMENT * SEGMENT:012}.jsonl"

    def _line(self, batch: int) -> StoredPath:
        return self.folder / f"{batch:012}.line"

    def _segments(self) -> list[StoredPath]:
        return sorted(self.folder.glob("[0-9]*.jsonl"))

    def _lines(self) -> list[StoredPath]:
        return sorted(self.folder.glob("[0-9]*.line"))

    def _rows(self, path: StoredPath) -> Mapping[int, Row]:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return {}
        return _read_rows(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _append_line(path: Path, line: bytes) -> None:
    """Add a line to a local file, whole, so that others may do so, too."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        _drop_cut_line(file)
        _write_whole(file, line)
    finally:
        os.close(file)


def _write_whole(file: int, line: bytes) -> None:
    """Write a line, or none of it: where there is no room, a part of it may be written."""
    written = os.write(file, line)
    if written < len(line):
        _drop_cut_line(file)
        raise OSError(ENOSPC, os.strerror(ENOSPC))


def _drop_cut_line(file: int) -> None:
    """Take back the line that a crash or a full disk cut off at the end, if there is one."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        text = os.pread(file, size, 0)
        os.ftruncate(file, text.rfind(b"\n") + 1)


@lru_cache(maxsize=16)
def _read_rows(path: StoredPath, *_version: int) -> Mapping[int, Row]:
    rows: dict[int, Row] = {}
    *lines, _cut_off = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        try:
            row = json.loads(line)
            rows.setdefault(row[_BATCH], row)
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"line {number + 1} of {path} is damaged ({error}); put the file back as it "
                "was, or start with a new checkpoint"
            ) from error
    return rows

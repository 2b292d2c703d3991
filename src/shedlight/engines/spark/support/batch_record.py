"""What each micro-batch of a node used, on record: a line of JSON for each, never changed.

    record/<n>.jsonl    the micro-batches from number n on, `SEGMENT` of them

The first line of a micro-batch counts: whoever comes later, in a replay too, gets that one.
Lines are appended whole. One that a crash cut off was not used by anybody, and is dropped.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from errno import ENOSPC
from functools import lru_cache
from pathlib import Path
from typing import Any

from shedlight.errors import StateError

SEGMENT = 256  # how many micro-batches are in one file
_BATCH = "batch"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The record of a node, in a folder."""

    folder: Path

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on record."""
        return not self._segments()

    def find(self, batch: int) -> Row | None:
        """Give what is on record of a micro-batch; None: nothing."""
        return self._rows(self._segment(batch)).get(batch)

    def append(self, batch: int, row: Row) -> Row:
        """Put a micro-batch on record; give what counts, which another may have written."""
        path = self._segment(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({_BATCH: batch, **row}) + "\n"
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            _drop_cut_line(file)
            _write_whole(file, line.encode())
        finally:
            os.close(file)
        return self._rows(path)[batch]

    def missing(self, batch: int) -> Path:
        """Name the file in which a micro-batch should be."""
        return self._segment(batch)

    def rows(self) -> Iterator[Row]:
        """Give what is on record of all micro-batches, in their order."""
        for path in self._segments():
            rows = self._rows(path)
            yield from (rows[batch] for batch in sorted(rows))

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

    def _segment(self, batch: int) -> Path:
        return self.folder / f"{batch // SEGMENT * SEGMENT:012}.jsonl"

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.jsonl"))

    def _rows(self, path: Path) -> Mapping[int, Row]:
        try:
            stat = path.stat()
        except FileNotFoundError:
            return {}
        return _read_rows(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


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
def _read_rows(path: Path, *_version: int) -> Mapping[int, Row]:
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

"""Reading the log of a run, finished or growing."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shedlight.errors import InputError
from shedlight.runlog.records import (
    LOG_FORMAT,
    DecisionRecord,
    LogFormatError,
    MicroBatchRecord,
    Record,
    RunHeader,
    parse_record,
)

LOG = "log.jsonl"  # what a log is called in a checkpoint

_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 16 << 20  # what is longer is no record of ours
_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Run:
    """A log of a run."""

    records: tuple[Record, ...]  # in the order in which they were written
    skipped: int = 0  # how many lines were no records, such as a last one that is half written
    unknown: int = 0  # how many records were of a type that is not known here

    @property
    def headers(self) -> tuple[RunHeader, ...]:
        """Its starts."""
        return tuple(record for record in self.records if isinstance(record, RunHeader))

    @property
    def batches(self) -> tuple[MicroBatchRecord, ...]:
        """Its micro-batches."""
        return tuple(record for record in self.records if isinstance(record, MicroBatchRecord))

    @property
    def decisions(self) -> tuple[DecisionRecord, ...]:
        """Its decisions."""
        return tuple(record for record in self.records if isinstance(record, DecisionRecord))


class LineParser:
    """Parses the bytes of a log as they come, a record for each whole line.

    It counts what was parsed, skipped (no record), unknown (of a type) and of another format.
    """

    def __init__(self) -> None:
        self.parsed = self.skipped = self.unknown = self.other_format = 0
        self._partial_line = b""
        self._too_long = False

    def feed(self, data: bytes) -> list[Record]:
        """Give the records of the lines that end in this."""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if self._too_long and lines:
            lines, self._too_long = lines[1:], False
        if len(self._partial_line) > _MAX_LINE_BYTES:
            self.skipped += not self._too_long
            self._partial_line, self._too_long = b"", True
        records = [record for record in map(self._parse, lines) if record is not None]
        self.parsed += len(records)
        return records

    def finish(self) -> list[Record]:
        """Give the record of a last line that has no end, if it is one; begin anew."""
        records = [] if self._too_long else self.feed(b"\n")
        self._partial_line, self._too_long = b"", False
        return records

    def problem(self) -> str:
        """Say why what was fed is no log of a run; nothing if it may be one."""
        if self.other_format:
            return (
                f"its records are not of log format {LOG_FORMAT}, the only one that this "
                "version reads; use the version that wrote it, or run again with another log"
            )
        lines = self.skipped + self.unknown
        if self.parsed or not lines:
            return ""
        return (
            f"it is no log of a run: none of its {lines:,} lines is a micro-batch or a "
            "decision; give the file that `shedlight run` wrote, or its checkpoint"
        )

    def _parse(self, line: bytes) -> Record | None:
        if not line.strip():
            return None
        try:
            record = parse_record(line)
        except LogFormatError:
            self.other_format += 1
            return None
        except ValueError:
            self.skipped += 1
            return None
        self.unknown += record is None
        return record


def find_log(path: Path) -> Path:
    """Find the log in a checkpoint; a file is taken to be one.

    Raises:
        InputError: There is none.
    """
    if not path.is_dir():
        return path
    logs = sorted(path.glob("*" + LOG))
    if len(logs) != 1:
        what = "no log in it" if not logs else f"{len(logs)} logs in it"
        raise InputError(f"{path}: there is {what}; give the file that `shedlight run` wrote")
    return logs[0]


def read_run(path: Path) -> Run:
    """Read a log, or that of a checkpoint; lines that are no records are counted.

    Raises:
        InputError: It cannot be read, has nothing in it yet, is no log, or of another format.
    """
    path = find_log(path)
    parser, records = LineParser(), list[Record]()
    try:
        with path.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                records += parser.feed(data)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror or error}; "
            "give the log of a run, or its checkpoint"
        ) from error
    records += parser.finish()
    if problem := parser.problem():
        raise InputError(f"{path}: {problem}")
    if not records:
        raise InputError(
            f"{path}: it is empty: the run has written nothing yet; try again later"
        )
    return Run(tuple(records), parser.skipped, parser.unknown)


class Follower:
    """Reads a log as it grows, also if it is not there yet, is cut off, or replaced."""

    def __init__(self, path: Path) -> None:
        self.parser = LineParser()
        self._path = path
        self._file: BinaryIO | None = None
        self._head = b""

    def read_chunks(self) -> Iterator[list[Record]]:
        """Give what was written since the last call, chunk by chunk: it may be much."""
        if self._file is not None and self._is_cut(self._file):
            yield self.parser.finish()
            self._file.seek(0)
            self._head = b""
        yield from self._read_file()
        if self._is_replaced():
            yield self.parser.finish()
            self.close()
            self._file = self._open()
            yield from self._read_file()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._head = None, b""

    def _read_file(self) -> Iterator[list[Record]]:
        while self._file is not None and (data := self._file.read(_CHUNK_BYTES)):
            self._head += data[: _HEAD_BYTES - len(self._head)]
            yield self.parser.feed(data)

    def _is_cut(self, file: BinaryIO) -> bool:
        """Whether the file is shorter than what was read of it, or begins otherwise."""
        size = os.fstat(file.fileno()).st_size
        return size < file.tell() or os.pread(file.fileno(), len(self._head), 0) != self._head

    def _is_replaced(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:  # not yet, or between two files: stay with the one at hand
            return False
        return self._file is None or not os.path.samestat(there, os.fstat(self._file.fileno()))

    def _open(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except OSError:
            return None

"""Reading the log of a run, finished or growing."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shedlight.errors import InputError
from shedlight.runlog.parsing import record_of
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord, Record, RunHeader

LOG = "log.jsonl"
"""What a log is called in a checkpoint."""

_CHUNK = 1 << 20
_LONGEST = 16 << 20  # bytes of a line; what is longer is no record of ours
_HEAD = 256


@dataclass(frozen=True, slots=True)
class Run:
    """A log of a run.

    Attributes:
        records: In the order in which they were written.
        skipped: How many lines were no records, such as a last one that is half written.
        unknown: How many records were of a kind that is not known here.
    """

    records: tuple[Record, ...]
    skipped: int = 0
    unknown: int = 0

    @property
    def headers(self) -> tuple[RunHeader, ...]:
        """How it began, each time."""
        return tuple(one for one in self.records if isinstance(one, RunHeader))

    @property
    def batches(self) -> tuple[MicroBatchRecord, ...]:
        """Its micro-batches."""
        return tuple(one for one in self.records if isinstance(one, MicroBatchRecord))

    @property
    def decisions(self) -> tuple[DecisionRecord, ...]:
        """Its decisions."""
        return tuple(one for one in self.records if isinstance(one, DecisionRecord))


class Lines:
    """Takes the bytes of a log as they come, and gives the records of whole lines.

    Attributes:
        skipped: How many lines were no records.
        unknown: How many records were of a kind that is not known here.
    """

    def __init__(self) -> None:
        self.skipped, self.unknown = 0, 0
        self._rest = b""
        self._too_long = False

    def take(self, data: bytes) -> list[Record]:
        """Give the records of the lines that end in this."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if self._too_long and whole:
            whole, self._too_long = whole[1:], False
        if len(self._rest) > _LONGEST:
            self.skipped += not self._too_long
            self._rest, self._too_long = b"", True
        found = [self._record(line) for line in whole]
        return [one for one in found if one is not None]

    def end(self) -> list[Record]:
        """Give the record of a last line that has no end, if it is one; begin anew."""
        found = [] if self._too_long else self.take(b"\n")
        self._rest, self._too_long = b"", False
        return found

    def _record(self, line: bytes) -> Record | None:
        if not line.strip():
            return None
        try:
            record = record_of(line.decode("utf-8", "replace"))
        except ValueError:
            self.skipped += 1
            return None
        self.unknown += record is None
        return record


def log_of(path: Path) -> Path:
    """Find the log in a checkpoint; a file is taken to be one.

    Raises:
        InputError: There is none.
    """
    if not path.is_dir():
        return path
    found = sorted(path.glob("*" + LOG))
    if len(found) != 1:
        what = "no log in it" if not found else f"{len(found)} logs in it"
        raise InputError(f"{path}: there is {what}; give the file that `shedlight run` wrote")
    return found[0]


def read_run(path: Path) -> Run:
    """Read a log; lines that are no records are left out and counted.

    Args:
        path: The log, or the checkpoint that it is in.

    Raises:
        InputError: It cannot be read, has nothing in it yet, or is no log.
    """
    path = log_of(path)
    lines, records = Lines(), list[Record]()
    try:
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                records += lines.take(data)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror or error}; "
            "give the log of a run, or its checkpoint"
        ) from error
    records += lines.end()
    if not records:
        raise InputError(f"{path}: {_why_not(lines)}")
    return Run(tuple(records), lines.skipped, lines.unknown)


def _why_not(lines: Lines) -> str:
    if not lines.skipped and not lines.unknown:
        return "it is empty: the run has written nothing yet; try again later"
    return (
        f"it is no log of a run: none of its {lines.skipped + lines.unknown:,} lines is a "
        "micro-batch or a decision; give the file that `shedlight run --log` wrote"
    )


class Follower:
    """Reads a log as it grows, also when it is cut off, or replaced by another.

    Args:
        path: The log; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.lines = Lines()
        self._path = path
        self._file: BinaryIO | None = None
        self._head = b""

    def new(self) -> list[Record]:
        """Give what was written since the last call."""
        return [record for some in self.pieces() for record in some]

    def pieces(self) -> Iterator[list[Record]]:
        """Give what was written since the last call, piece by piece: it may be much."""
        if self._file is not None and self._is_cut(self._file):
            yield self.lines.end()
            self._file.seek(0)
            self._head = b""
        yield from self._grown()
        if self._is_replaced():
            yield self.lines.end()
            self.close()
            self._file = self._opened()
            yield from self._grown()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._head = None, b""

    def _grown(self) -> Iterator[list[Record]]:
        while self._file is not None and (data := self._file.read(_CHUNK)):
            self._head += data[: _HEAD - len(self._head)]
            yield self.lines.take(data)

    def _is_cut(self, file: BinaryIO) -> bool:
        """Whether the file is shorter than what was read of it, or begins otherwise."""
        place = file.tell()
        size = os.fstat(file.fileno()).st_size
        return size < place or os.pread(file.fileno(), len(self._head), 0) != self._head

    def _is_replaced(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:  # not yet, or between two files: stay with the one at hand
            return False
        if self._file is None:
            return True
        here = os.fstat(self._file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except OSError:
            return None


def follow(path: Path, pause: Callable[[], bool]) -> Iterator[Record]:
    """Give the records of a log, and new ones as it grows.

    Args:
        path: The log; it need not be there yet.
        pause: Waits a while for more, and says whether to go on.
    """
    follower = Follower(path)
    try:
        while True:
            yield from follower.new()
            if not pause():
                return
    finally:
        follower.close()

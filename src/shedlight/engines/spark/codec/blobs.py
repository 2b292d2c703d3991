"""Large pieces of an outbox, in files beside it.

What a group finds is written where it is found. Through Spark goes only where it is: a piece
of a few megabytes would be copied eight times on its way through the JVM to the same disk. What
an outbox says of a piece counts as soon as the outbox counts it, and the piece was complete
before; a piece that no outbox speaks of, after a crash, is nobody's and goes with the others of
its age.

This imports next to nothing, for it runs in processes that start often.
"""

import json
import os
import uuid
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np
import pyarrow as pa

from shedlight.errors import StateError

LARGE = 1 << 14
"""From how many bytes on a piece is not carried through Spark."""
_MARK = b"SHEDLIGHT PIECE "


class BlobFile:
    """A file for the large pieces of a group in a micro-batch; there is none if none is large.

    Threads may write to it side by side.

    Args:
        folder: Where it is to be.
        large: From how many bytes on a piece has its place in it.
    """

    def __init__(self, folder: Path, large: int) -> None:
        self._path, self._large = folder / uuid.uuid4().hex, large
        self._file: IO[bytes] | None = None
        self._end, self._lock = 0, Lock()

    def put(self, piece: pa.Buffer) -> bytes:
        """Write a piece if it is large.

        Returns:
            What stands for it in the outbox; if it is small, itself.
        """
        if piece.size < self._large:
            own: bytes = piece.to_pybytes()
            return own
        file, start = self._place(piece.size)
        view, at = memoryview(piece), start
        while view:
            written = os.pwrite(file.fileno(), view, at)
            view, at = view[written:], at + written
        told = {"file": str(self._path), "start": start, "size": piece.size, "sum": _sum(piece)}
        return _MARK + json.dumps(told).encode()

    def _place(self, size: int) -> tuple[IO[bytes], int]:
        """Find a place for a piece that nobody else writes to."""
        with self._lock:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("wb", buffering=0)
            start = self._end
            self._end += size
            return self._file, start

    def close(self) -> None:
        """End it, if it was begun."""
        if self._file is not None:
            self._file.close()


def read_blob(data: bytes) -> bytes | pa.Buffer:
    """Give the piece that something in an outbox stands for.

    Raises:
        StateError: Its file is missing or damaged.
    """
    if not data.startswith(_MARK):
        return data
    told = json.loads(data[len(_MARK) :])
    try:
        with Path(told["file"]).open("rb") as file:
            file.seek(told["start"])
            piece = pa.py_buffer(file.read(told["size"]))
    except OSError as error:
        raise _unusable(told["file"], f"cannot be read ({error.strerror})") from error
    if piece.size != told["size"] or _sum(piece) != told["sum"]:
        raise _unusable(told["file"], "is damaged")
    return piece


def _sum(piece: pa.Buffer) -> int:
    """Add up the words of a piece; one that is changed, or several that are lost, show."""
    octets = np.frombuffer(piece, np.uint8)
    rest = len(octets) % 8
    words = octets[: len(octets) - rest].view(np.uint64)
    return (int(words.sum()) + int(octets[len(octets) - rest :].sum())) % (1 << 64)


def _unusable(path: str, problem: str) -> StateError:
    return StateError(
        f"{path} {problem}; put it back as it was, or start with a new checkpoint"
    )

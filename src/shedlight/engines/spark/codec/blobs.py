"""Blobs: large payloads of an outbox, in files next to it.

What a shard finds is written where it is found. Through Spark goes only a reference to it: a
payload of a few megabytes would be copied eight times on its way through the JVM to the same
disk. A reference counts as soon as the outbox counts it, and the blob was complete before; a
blob that no outbox refers to, after a crash, is nobody's and goes with the others of its age.

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

MIN_BLOB_BYTES = 1 << 14  # from how many bytes on a payload is not carried through Spark
_PREFIX = b"SHEDLIGHT BLOB "


class BlobFile:
    """A file for the blobs of a shard in a micro-batch; there is none if no payload is large.

    A payload of at least `min_bytes` is a blob. Threads may write to it side by side.
    """

    def __init__(self, folder: Path, min_bytes: int) -> None:
        self._path, self._min_bytes = folder / uuid.uuid4().hex, min_bytes
        self._file: IO[bytes] | None = None
        self._end, self._lock = 0, Lock()

    def put(self, payload: pa.Buffer) -> bytes:
        """Write a payload if it is large, and give the reference to it; else give itself."""
        if payload.size < self._min_bytes:
            own: bytes = payload.to_pybytes()
            return own
        file, start = self._reserve(payload.size)
        view, offset = memoryview(payload), start
        while view:
            written = os.pwrite(file.fileno(), view, offset)
            view, offset = view[written:], offset + written
        reference = {
            "file": str(self._path),
            "start": start,
            "size": payload.size,
            "checksum": _checksum(payload),
        }
        return _PREFIX + json.dumps(reference).encode()

    def _reserve(self, size: int) -> tuple[IO[bytes], int]:
        """Find an offset for a blob that nobody else writes to."""
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
    """Give the payload that something in an outbox refers to, or is."""
    if not data.startswith(_PREFIX):
        return data
    reference = json.loads(data[len(_PREFIX) :])
    path, problem = reference["file"], "is damaged"
    try:
        with Path(path).open("rb") as file:
            file.seek(reference["start"])
            payload = pa.py_buffer(file.read(reference["size"]))
        if payload.size == reference["size"] and _checksum(payload) == reference["checksum"]:
            return payload
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    raise StateError(f"{path} {problem}; put it back as it was, or start with a new checkpoint")


def _checksum(payload: pa.Buffer) -> int:
    """Add up the words of a payload; one that is changed, or several that are lost, show."""
    octets = np.frombuffer(payload, np.uint8)
    tail = len(octets) % 8
    words = octets[: len(octets) - tail].view(np.uint64)
    return (int(words.sum()) + int(octets[len(octets) - tail :].sum())) % (1 << 64)

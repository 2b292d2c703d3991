"""What was known of keys in micro-batches, on record: a frame each, of what has changed.

    found/<n>.keys      the frames from number n on, `SEGMENT` of them; the first has all
    found/<n>.frame     frame n alone, elsewhere than in a local folder

Whoever reads a frame reads those before it in its segment. The driver alone writes, and one
frame after the other; one that a crash cut off was not used by anybody, and is dropped.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shedlight.engines.spark.support.storage import StoredPath, create_file
from shedlight.errors import StateError
from shedlight.shedding.found_keys import Found, read_frame, write_frame

SEGMENT = 128  # how many frames refer to one that has all
_HEAD = struct.Struct("<QI")  # how long a frame is, and its checksum
_Version = tuple[int, int, int]  # of a file: a checkpoint may be begun anew
KNOWN: dict[str, "_Known"] = {}
"""What is known of each folder: only its latest frame, for that is asked for again."""


@dataclass(frozen=True, slots=True)
class _Known:
    number: int  # of the frame
    version: _Version  # of the file then
    end: int  # where the frame ends in it
    found: Found


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """What was known of the keys of a node, in a folder."""

    folder: StoredPath

    def append(self, found: Found, last: int) -> int:
        """Write what is known, after a number that was given last; give its number."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number, segment = last + 1, self._segment(last + 1)
        begins = (number - 1) % SEGMENT == 0
        frame = write_frame(found, {} if begins else self.read(last))
        packed = _HEAD.pack(len(frame), zlib.crc32(frame)) + frame
        if not isinstance(segment, Path):
            self._frame(number).unlink(missing_ok=True)  # nobody has used it
            create_file(self._frame(number), packed)
        elif begins:
            create_file(segment, packed)
        else:
            _write_at(segment, self._known(last).end, packed)
        end = 0 if not isinstance(segment, Path) else segment.stat().st_size
        KNOWN[str(self.folder)] = _Known(number, self._version(number), end, found)
        return number

    def read(self, number: int) -> Found:
        """Give what was known by a number; 0: nothing."""
        if not number:
            return {}
        return self._known(number).found

    def _known(self, number: int) -> _Known:
        """Read a frame, and remember it if no later one is remembered."""
        known, version = KNOWN.get(str(self.folder)), self._version(number)
        if known is not None and (known.number, known.version) == (number, version):
            return known
        frames, done = self._frames(number), 0
        found: Found = {}
        end = 0
        if known is not None and known.version == version and known.number < number:
            done = len(frames) - (number - known.number)  # go on from there
            found, end = known.found, known.end
        for frame in frames[done:]:
            found, end = read_frame(frame, found), end + _HEAD.size + len(frame)
        read = _Known(number, version, end, found)
        if known is None or known.number <= number or known.version != version:
            KNOWN[str(self.folder)] = read
        return read

    def prune(self, oldest: int) -> None:
        """Remove what nobody needs to read frames from a number on."""
        first = (max(oldest, 1) - 1) // SEGMENT * SEGMENT + 1
        for file in (*self.folder.glob("[0-9]*.keys"), *self.folder.glob("[0-9]*.frame")):
            if int(file.stem) < first:
                file.unlink(missing_ok=True)

    def _version(self, number: int) -> _Version:
        """Tell what is in a file from what was there before."""
        segment = self._segment(number)
        try:
            if not isinstance(segment, Path):
                return self._frame(number).stat().st_mtime_ns, 0, 0
            stat = segment.stat()
        except FileNotFoundError:
            return 0, 0, 0
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _frames(self, number: int) -> list[bytes]:
        """Read the frames of a segment, up to a number."""
        segment, place = self._segment(number), (number - 1) % SEGMENT
        try:
            if isinstance(segment, Path):
                frames = list(_split(segment.read_bytes()))[: place + 1]
            else:
                paths = [self._frame(n) for n in range(number - place, number + 1)]
                frames = [frame for path in paths for frame in _split(path.read_bytes())]
        except FileNotFoundError:
            frames = []
        if len(frames) <= place:
            raise StateError(
                f"{segment} does not have what was known of keys by number {number}; put the "
                "file back as it was, or start with a new checkpoint"
            )
        return frames

    def _segment(self, number: int) -> StoredPath:
        return self.folder / f"{(number - 1) // SEGMENT * SEGMENT + 1:012}.keys"

    def _frame(self, number: int) -> StoredPath:
        return self.folder / f"{number:012}.frame"


def _split(content: bytes) -> Iterator[bytes]:
    """Give the frames that are whole, up to the first that is not."""
    at = 0
    while at + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, at)
        frame = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(frame) < length or zlib.crc32(frame) != checksum:
            return
        yield frame
        at += _HEAD.size + length


def _write_at(path: Path, place: int, packed: bytes) -> None:
    """Write the last frame of a file."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(file, place)
        left = memoryview(packed)
        while left:
            written = os.pwrite(file, left, place)
            left, place = left[written:], place + written
    finally:
        os.close(file)

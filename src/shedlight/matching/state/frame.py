"""Bytes that know what they are: a mark, a version, a checksum, a JSON header and a body."""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

from shedlight.errors import StateError

_FRONT = struct.Struct("<HII")


def write_frame(
    mark: bytes, version: int, header: Mapping[str, Any], parts: list[bytes]
) -> bytes:
    """Put a header and the parts of a body together."""
    named = {**header, "parts": [len(part) for part in parts]}
    front = json.dumps(named, separators=(",", ":")).encode()
    rest = b"".join([front, *parts])
    return mark + _FRONT.pack(version, len(front), zlib.crc32(rest)) + rest


def read_frame(mark: bytes, version: int, data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Take header and parts apart again.

    Raises:
        StateError: The bytes are damaged, or of another version.
    """
    start = len(mark) + _FRONT.size
    if not data.startswith(mark) or len(data) < start:
        raise damaged()
    found, length, checksum = _FRONT.unpack_from(data, len(mark))
    if found != version:
        raise StateError(
            f"the saved state has version {found}, this Shedlight reads version {version}; "
            "read it with the Shedlight that wrote it, or start without the saved state"
        )
    if zlib.crc32(data[start:]) != checksum:
        raise damaged()
    try:
        header = json.loads(data[start : start + length])
    except ValueError as error:
        raise damaged() from error
    return header, _cut(data[start + length :], header["parts"])


def _cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    places = accumulate(sizes, initial=0)
    return [data[start:end] for start, end in pairwise(places)]


def damaged() -> StateError:
    """Say that bytes cannot be used."""
    return StateError(
        "the saved state is damaged or is no state of Shedlight; "
        "take an older copy of it, or start without it"
    )

"""The form of all saved states: one versioned, checksummed container of named sections.

It begins with a magic word, the version, the length of the table of contents, and a checksum of
these two numbers and all that follows. The table of contents (JSON) names each section and says
what is in its body; the bodies follow, each compressed by itself.
"""

import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from shedlight.errors import StateError

VERSION = 5
_MAGIC = b"SHEDLIGHT-STATE"
_NUMBERS, _CHECKSUM = struct.Struct("<HI"), struct.Struct("<I")
_BEFORE_VERSION_4 = re.compile(rb"SHEDLIGHT(-OPERATOR|-GROUP|[\1-\3]\0)")


@dataclass(frozen=True, slots=True)
class Section:
    """One thing that is saved."""

    kind: str  # what it is: `chain`, `operator`, `pattern`, `events`, `shadow`, `counts`
    operator: str = ""  # the operator that it is of; empty for a chain
    name: str = ""  # for a pattern its fingerprint
    # what is needed to read the body, and all else that is small (JSON)
    facts: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""  # arrays and tables


def write_container(sections: Iterable[Section]) -> bytes:
    """Put sections together."""
    contents, bodies = [], []
    for section in sections:
        bodies.append(pa.compress(section.body, codec="zstd", asbytes=True))
        sizes = len(section.body), len(bodies[-1])
        contents.append([section.kind, section.operator, section.name, section.facts, *sizes])
    table = json.dumps(contents, separators=(",", ":")).encode()
    rest, numbers = b"".join([table, *bodies]), _NUMBERS.pack(VERSION, len(table))
    checksum = _CHECKSUM.pack(zlib.crc32(rest, zlib.crc32(numbers)))
    return b"".join([_MAGIC, numbers, checksum, rest])


def read_container(data: bytes) -> list[Section]:
    """Take sections apart again.

    Raises:
        StateError: The bytes are damaged, or of another version.
    """
    if _BEFORE_VERSION_4.match(data):
        raise _other_version("an earlier")
    start = len(_MAGIC) + _NUMBERS.size + _CHECKSUM.size
    if not data.startswith(_MAGIC) or len(data) < start:
        raise _damaged()
    numbers = data[len(_MAGIC) : start - _CHECKSUM.size]
    version, length = _NUMBERS.unpack(numbers)
    if version != VERSION:
        raise _other_version("an earlier" if version < VERSION else "a later")
    (checksum,) = _CHECKSUM.unpack_from(data, start - _CHECKSUM.size)
    if zlib.crc32(memoryview(data)[start:], zlib.crc32(numbers)) != checksum:
        raise _damaged()
    sections, at = [], start + length
    for kind, operator, name, facts, size, packed in json.loads(data[start:at]):
        body = pa.decompress(data[at : at + packed], size, codec="zstd", asbytes=True)
        sections.append(Section(kind, operator, name, facts, body))
        at += packed
    return sections


def _other_version(which: str) -> StateError:
    return StateError(
        f"the saved state was written by {which} version of Shedlight; "
        "start with a new checkpoint"
    )


def _damaged() -> StateError:
    return StateError(
        "the saved state is damaged or is no state of Shedlight; "
        "take an older copy of it, or start with a new checkpoint"
    )

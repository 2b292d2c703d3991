"""What is known of the keys of an operator: their strata, and which have a partial match.

As bytes it is a frame: what has changed since another, or all. Of bits that differ it has the
gaps between them, in which few bytes are not zero.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shedlight.matching.jit import Array, compiled
from shedlight.shedding.key_bitmap import KeyBitmap, KeyCodes
from shedlight.shedding.stratum_shares import StrataTable

ALL_OPEN = KeyBitmap(np.full(1, -1, np.int64))
"""Where nobody has said yet which keys are open: what may go on with any is kept."""

_LEVEL = 1  # of compression; higher ones take longer than they are worth
_RAW, _WHOLE, _CHANGED = b"r", b"w", b"c"  # how a part is written
_SIZES = struct.Struct("<IQ")  # of the head of a frame, and of a part


@dataclass(frozen=True, slots=True, eq=False)
class FoundKeys:
    """What is known of the keys of an operator."""

    table: StrataTable = field(default_factory=StrataTable)
    open: Mapping[str, KeyBitmap] = field(default_factory=dict)  # by pattern, where it is known

    def opened(self, pattern: str) -> KeyBitmap:
        """Give the keys that have a partial match of a pattern."""
        return self.open.get(pattern, ALL_OPEN)


Found = Mapping[str, FoundKeys]
"""What is known by operator."""

NOTHING = FoundKeys()


def write_frame(found: Found, before: Found) -> bytes:
    """Write what is known as what has changed since before."""
    head, parts = {}, list[bytes]()
    for operator, mine in found.items():
        old = before.get(operator, NOTHING)
        arrays = {"heavy": mine.table.heavy, "codes": mine.table.codes.words}
        arrays |= {f"open {name}": each.words for name, each in mine.open.items()}
        known = {"codes": old.table.codes.words}
        known |= {f"open {name}": each.words for name, each in old.open.items()}
        head[operator] = {
            "classes": mine.table.classes,
            "arrays": list(arrays),
        }
        parts += [
            _difference(words, known.get(name), is_dense=name.startswith("open "))
            for name, words in arrays.items()
        ]
    text = json.dumps(head).encode()
    sizes = b"".join(_SIZES.pack(0, len(part)) for part in parts)
    return _SIZES.pack(len(text), len(parts)) + text + sizes + b"".join(parts)


def read_frame(frame: bytes, before: Found) -> Found:
    """Read what is known from what was before and what has changed."""
    length, number = _SIZES.unpack_from(frame)
    start = _SIZES.size + length
    head = json.loads(frame[_SIZES.size : start])
    sizes = [_SIZES.unpack_from(frame, start + i * _SIZES.size)[1] for i in range(number)]
    at, parts = start + number * _SIZES.size, list[bytes]()
    for size in sizes:
        parts.append(frame[at : at + size])
        at += size
    left = iter(parts)
    return {
        operator: _read_keys(row, left, before.get(operator, NOTHING))
        for operator, row in head.items()
    }


def _read_keys(
    row: Mapping[str, Sequence[str]], parts: Iterator[bytes], old: FoundKeys
) -> FoundKeys:
    known = {"codes": old.table.codes.words}
    known |= {f"open {name}": each.words for name, each in old.open.items()}
    arrays = {name: _changed(next(parts), known.get(name)) for name in row["arrays"]}
    table = StrataTable(
        arrays.pop("heavy"), tuple(row["classes"]), KeyCodes(arrays.pop("codes"))
    )
    opened = {name.removeprefix("open "): KeyBitmap(each) for name, each in arrays.items()}
    return FoundKeys(table, opened)


def _difference(words: Array, old: Array | None, *, is_dense: bool) -> bytes:
    """Write words as what differs from old ones of the same number, or as they are."""
    if old is None or len(old) != len(words):
        content = words.astype("<i8").tobytes()
        return _RAW + content if is_dense else _WHOLE + zlib.compress(content, _LEVEL)
    changed = words ^ old
    places = np.empty(count_bits(changed), np.int64)
    list_bits(changed, places)
    gaps = np.diff(places, prepend=-1).astype("<u4")
    planes = np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 4).T)
    return _CHANGED + zlib.compress(planes.tobytes(), _LEVEL)


def _changed(part: bytes, old: Array | None) -> Array:
    kind, content = part[:1], part[1:]
    if kind != _CHANGED:
        content = content if kind == _RAW else zlib.decompress(content)
        return np.frombuffer(content, "<i8").astype(np.int64)
    if old is None:
        raise ValueError("what is known of keys has changed from what is not there")
    planes = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
    gaps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    words = old.copy()
    flip_bits(words, np.cumsum(gaps.astype(np.int64)) - 1)
    return words


@compiled
def count_bits(words: Array) -> int:
    """Count the bits of words that are set."""
    number = 0
    for i in range(words.shape[0]):
        word = np.uint64(words[i])
        while word:
            word &= word - np.uint64(1)
            number += 1
    return number


@compiled
def list_bits(words: Array, places: Array) -> None:
    """List the bits of words that are set, in order, where there is room for all."""
    at = 0
    for i in range(words.shape[0]):
        word, bit = np.uint64(words[i]), 0
        while word:
            while not word & np.uint64(255):
                word >>= np.uint64(8)
                bit += 8
            if word & np.uint64(1):
                places[at] = i * 64 + bit
                at += 1
            word >>= np.uint64(1)
            bit += 1


@compiled
def flip_bits(words: Array, places: Array) -> None:
    """Turn bits of words over, each once."""
    for place in places:
        words[place >> 6] ^= np.int64(1) << (place & 63)

"""The id of a match: 32 hexadecimal digits of the pattern's name and its events' ids, in order.

Each event of a match is hashed with its position in it, and the hashes are added up.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shedlight.matching.hashing import hash_onto
from shedlight.matching.jit import Array, compiled, jit_inline

DIGITS = 32  # how many digits an id has
_ONES = np.uint64(0x0101010101010101)
_LOW = np.uint64(0x0F0F0F0F0F0F0F0F)


def match_ids(name: str, ends: Array, keys: tuple[Array, Array]) -> pa.Array:
    """Derive the id of each match from its pattern, where its events end, and their hashes."""
    return match_ids_of([name], [len(ends)], ends, keys)


def match_ids_of(
    names: Sequence[str], numbers: Sequence[int], ends: Array, keys: tuple[Array, Array]
) -> pa.Array:
    """Derive the ids of so many matches of each of several patterns, one after the other."""
    digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in names)
    salts = np.frombuffer(digests, "<u4").reshape(len(names), 2)
    starts = np.append(0, ends)[np.append(0, np.cumsum(numbers))]
    sizes = np.diff(starts)  # how many events the matches of each pattern have
    positions = np.empty(len(keys[0]), np.int64)
    _number_positions(ends, positions)
    first, second = (_hashed(*keys, positions, np.repeat(each, sizes)) for each in salts.T)
    digits = np.empty((len(ends), DIGITS // 8), np.uint64)
    _write_ids(first, second, ends, digits)
    offsets = np.arange(len(ends) + 1, dtype=np.int32) * DIGITS
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(digits))


def _hashed(first: Array, second: Array, positions: Array, salts: Array) -> Array:
    """Hash events with their positions."""
    hashes = salts.astype(np.uint64)
    hash_onto(first, hashes)
    hash_onto(second, hashes)
    hash_onto(positions, hashes)
    return hashes


@compiled
def _number_positions(ends: Array, positions: Array) -> None:
    """Number the events of each match."""
    start = 0
    for match in range(ends.shape[0]):
        end = ends[match]
        for i in range(start, end):
            positions[i] = i - start
        start = end


@compiled
def _write_ids(first: Array, second: Array, ends: Array, digits: Array) -> None:
    start = 0
    for match in range(ends.shape[0]):
        end = ends[match]
        one, other = np.uint64(0), np.uint64(0)
        for i in range(start, end):
            one += first[i]
            other += second[i]
        digits[match, 0] = _digits(one >> np.uint64(32))
        digits[match, 1] = _digits(one & np.uint64(0xFFFFFFFF))
        digits[match, 2] = _digits(other >> np.uint64(32))
        digits[match, 3] = _digits(other & np.uint64(0xFFFFFFFF))
        start = end


@jit_inline
def _digits(number: np.uint64) -> np.uint64:
    """Write 32 bits as eight digits, the highest one in the lowest byte."""
    x = np.uint64(0)
    for position in range(4):  # the bytes from the highest on, each in two
        x |= (number >> np.uint64(24 - 8 * position) & np.uint64(0xFF)) << np.uint64(
            16 * position
        )
    return _as_text((x >> np.uint64(4) | x << np.uint64(8)) & _LOW)


@jit_inline
def _as_text(x: np.uint64) -> np.uint64:
    """Write eight numbers below 16, a byte each, as digits."""
    letters = (x + np.uint64(0x0606060606060606)) >> np.uint64(4) & _ONES
    return x + np.uint64(0x3030303030303030) + letters * np.uint64(0x27)


def unhex_ids(texts: Array) -> Array | None:
    """Give the bytes that ids stand for, a row each, as their digits; None if one is no id."""
    digits = np.ascontiguousarray(texts)
    if digits.ctypes.data % 8:
        digits = digits.copy()
    octets = np.empty((len(texts), DIGITS // 8), np.uint32)
    return octets if _read_ids(digits.view(np.uint64), octets) else None


@compiled
def _read_ids(digits: Array, octets: Array) -> bool:
    wrong = np.uint64(0)
    for i in range(digits.shape[0]):
        for position in range(digits.shape[1]):
            text = digits[i, position]
            letters = text >> np.uint64(6) & _ONES
            x = (text & _LOW) + letters * np.uint64(9)
            wrong |= x & ~_LOW | text ^ _as_text(x)
            x = (x << np.uint64(4) | x >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
            x = (x | x >> np.uint64(8)) & np.uint64(0x0000FFFF0000FFFF)
            octets[i, position] = np.uint32((x | x >> np.uint64(16)) & np.uint64(0xFFFFFFFF))
    return wrong == 0

"""Hashes of ids and keys: xxHash64, value by value as Spark SQL's `xxhash64` computes it.

A row of several columns is hashed column by column, the hash so far being the seed of the
next; a null leaves the hash as it is. Keys are identified by two hashes with different seeds,
128 bits together; the hash of one whole number is a permutation, so there the key is exact.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Column
from shedlight.language.eval.decimals import shortest_bytes
from shedlight.matching.jit import Array, compiled, jit_inline

SEED = 42
_OTHER_SEED = 0x5EED1164
_NULL = 0x6E756C6C

_STRIPE = 32
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@jit_inline
def _rotated(x: np.uint64, by: int) -> np.uint64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@jit_inline
def _finished(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@jit_inline
def _round(accumulator: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(accumulator + word * _P2, 31) * _P1


@jit_inline
def hash_number(value: int, seed: np.uint64) -> np.uint64:
    """Hash a whole number."""
    h = seed + _P5 + np.uint64(8)
    h ^= _round(np.uint64(0), np.uint64(value))
    return _finished(_rotated(h, 27) * _P1 + _P4)


@jit_inline
def _word(data: Array, at: int, size: int) -> np.uint64:
    """Read bytes as a little-endian number; places without a sign make it one load."""
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[np.uint64(at) + np.uint64(i)]) << np.uint64(8 * i)
    return word


@jit_inline
def _hash_stripes(data: Array, start: int, end: int, seed: np.uint64) -> np.uint64:
    """Hash the stretches of 32 bytes of a text that has one."""
    a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
    at = start
    while at + 32 <= end:
        a = _round(a, _word(data, at, 8))
        b = _round(b, _word(data, at + 8, 8))
        c = _round(c, _word(data, at + 16, 8))
        d = _round(d, _word(data, at + 24, 8))
        at += 32
    h = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
    for accumulator in (a, b, c, d):
        h = (h ^ _round(np.uint64(0), accumulator)) * _P1 + _P4
    return h


@jit_inline
def _hash_text(data: Array, start: int, end: int, seed: np.uint64) -> np.uint64:
    size = end - start
    h = _hash_stripes(data, start, end, seed) if size >= _STRIPE else seed + _P5
    h += np.uint64(size)
    at = start + size // 32 * 32
    while at + 8 <= end:
        h = _rotated(h ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        h = _rotated(h ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        h = _rotated(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _finished(h)


@compiled
def hash_onto(values: Array, seeds: Array) -> None:
    """Hash whole numbers onto what was hashed before; so plain that several go at once."""
    for i in range(seeds.shape[0]):
        seeds[i] = hash_number(values[i], seeds[i])


@compiled
def hash_with_seed(values: Array, seed: int, hashes: Array) -> None:
    """Hash whole numbers onto the same seed."""
    start = np.uint64(seed)
    for i in range(hashes.shape[0]):
        hashes[i] = hash_number(values[i], start)


@compiled
def _hash_same(value: int, seeds: Array) -> None:
    for i in range(seeds.shape[0]):
        seeds[i] = hash_number(value, seeds[i])


@compiled
def _hash_valid(values: Array, valid: Array, seeds: Array) -> None:
    for i in range(seeds.shape[0]):
        if valid[i]:
            seeds[i] = hash_number(values[i], seeds[i])


@compiled
def _hash_texts(offsets: Array, data: Array, valid: Array, seeds: Array) -> None:
    for i in range(seeds.shape[0]):
        if valid[i]:
            seeds[i] = _hash_text(data, offsets[i], offsets[i + 1], seeds[i])


def text_buffers(texts: pa.Array) -> tuple[Array, Array]:
    """Give the offsets and the bytes of an array of texts, without a copy where possible."""
    wide = texts.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    numbers = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return numbers, np.frombuffer(data or b"", np.uint8)


def hash_rows(columns: Sequence[Column], rows: int, seed: int = SEED) -> Array:
    """Hash rows as Spark SQL's `xxhash64(columns...)` does: whole numbers and texts."""
    hashes = np.empty(rows, np.uint64)
    plain = bool(columns) and _is_plain(columns[0])
    if plain:
        hash_with_seed(_as_integers(columns[0]), seed, hashes)
    else:
        hashes[:] = seed
    for column in columns[int(plain) :]:
        _hash_column(column, hashes)
    return hashes.view(np.int64)


HASHED_AS_BYTES = frozenset({DataType.STRING, DataType.DECIMAL})
"""The data types whose values are hashed byte by byte; others are whole numbers."""


def _is_plain(column: Column) -> bool:
    return column.data_type not in HASHED_AS_BYTES and bool(column.valid.all())


def _hash_column(column: Column, seeds: Array) -> None:
    if column.data_type is DataType.STRING:
        _hash_texts(*text_buffers(column.values), column.valid, seeds)
    elif column.data_type is DataType.DECIMAL:
        _hash_texts(*shortest_bytes(column.values), column.valid, seeds)
    elif _is_plain(column):
        hash_onto(_as_integers(column), seeds)
    else:
        _hash_valid(_as_integers(column), column.valid, seeds)


def hash_keys(columns: Sequence[Column], rows: int) -> tuple[Array, Array]:
    """Give the two hashes that identify a key; null is a key of its own."""
    if len(columns) == 1 and columns[0].data_type not in HASHED_AS_BYTES:
        return hash_rows(columns, rows), np.where(columns[0].valid, 0, _NULL)
    both = tuple(hash_rows(columns, rows, seed) for seed in (SEED, _OTHER_SEED))
    for start in range(0, len(columns), MAX_NULL_FLAGS):
        flagged = columns[start : start + MAX_NULL_FLAGS]
        if all(column.valid.all() for column in flagged):
            for hashes in both:
                _hash_same((1 << len(flagged)) - 1, hashes.view(np.uint64))
        else:
            flags = _null_flags(flagged)
            for hashes in both:
                hash_onto(flags, hashes.view(np.uint64))
    return both[0], both[1]


MAX_NULL_FLAGS = 62  # how many columns one column of null marks is for


def _null_flags(columns: Sequence[Column]) -> Array:
    """Say which columns are not null, in bits, so that (null, 1) is not (1, null)."""
    flags = np.zeros(len(columns[0]), np.int64)
    for bit, column in enumerate(columns):
        flags |= column.valid.astype(np.int64) << bit
    return flags


def _as_integers(column: Column) -> Array:
    """Give the values as whole numbers; equal decimal numbers give equal ones."""
    if column.data_type is not DataType.DOUBLE:
        return np.ascontiguousarray(column.values, np.int64)
    values = np.where(np.isnan(column.values), np.nan, column.values) + 0.0
    return values.view(np.int64)

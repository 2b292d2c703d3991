"""Tables encoded in few bytes, on their way to an outbox.

What is large in complex events is known: whole events, the same ones in several columns; ids of
32 hexadecimal digits; numbers that need a few of their 64 bits; the name of their pattern, in
all rows the same. Each column is encoded in the form that suits it; whole events are rows of
referenced tables, each written once; and the schema says how to decode it. That takes no longer
than to compress it, and leaves much less. A table with anything else in it is compressed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.spark.codec import decode
from shedlight.engines.spark.codec.event_refs import take_sorted
from shedlight.matching.jit import Array
from shedlight.matching.output.match_id import unhex_ids


def encode_table(
    table: pa.Table,
    rows: Mapping[decode.Path, tuple[int, decode.Numbers]] | None = None,
    referenced_tables: Sequence[pa.Table] = (),
) -> pa.Buffer:
    """Encode a table in as few bytes as are quickly found.

    Whole events are given as rows in place of columns or fields: the number of a referenced
    table, and the rows of that, -1 for none. Only rows that are needed are written.
    """
    sink = pa.BufferOutputStream()
    _write_encoded(sink, table, rows or {}, referenced_tables)
    return sink.getvalue()


def _write_encoded(
    sink: pa.NativeFile,
    table: pa.Table,
    rows: Mapping[decode.Path, tuple[int, decode.Numbers]],
    referenced_tables: Sequence[pa.Table],
) -> None:
    needed = [
        _RowNumbers([wanted for number, wanted in rows.values() if number == table_number])
        for table_number in range(len(referenced_tables))
    ]
    forms: list[tuple[str, decode.Path, Any]] = []
    plain: list[decode.Path] = []

    def encode(path: decode.Path, array: pa.Array) -> pa.Array | None:
        if path in rows:
            number, wanted = rows[path]
            absent = wanted < 0
            forms.append((decode.ABSENT if absent.all() else decode.ROW, path, number))
            if absent.all():
                return pa.nulls(len(array))
            return _unsigned(needed[number].renumber(wanted), absent)
        if decode.is_nested(array):
            return None
        form, new = _choose_encoding(array)
        if form is None:
            plain.append(path)
        else:
            forms.append((form[0], path, form[1]))
        return new

    new = decode.transform(table, encode)
    encoding = {"forms": forms, "referenced_tables": len(referenced_tables)}
    text = json.dumps(encoding, separators=(",", ":"))
    new = new.replace_schema_metadata({**(table.schema.metadata or {}), decode.FORMS: text})
    decode.write(sink, new, "lz4" if plain else None)
    for referenced, numbers in zip(referenced_tables, needed, strict=True):
        _write_encoded(sink, take_sorted(referenced, numbers.rows), {}, ())


class _RowNumbers:
    """The rows of a table that are needed, and their numbers among these."""

    def __init__(self, wanted: Sequence[decode.Numbers]) -> None:
        every = np.concatenate([np.zeros(0, np.int64), *wanted])
        every = every[every >= 0]
        self._first = int(every.min()) if len(every) else 0
        span = int(every.max()) - self._first + 1 if len(every) else 0
        if span > _MAX_SPAN_RATIO * len(every):
            self.rows = np.unique(every)
            self._rank: Array | None = None
        else:
            there = np.zeros(span, np.bool_)
            there[every - self._first] = True
            self.rows = np.flatnonzero(there) + self._first
            self._rank = np.cumsum(there, dtype=np.int32) - 1

    def renumber(self, wanted: decode.Numbers) -> Array:
        """Give the numbers of rows; of none, any."""
        if self._rank is None:
            return np.searchsorted(self.rows, wanted)
        return self._rank[np.maximum(wanted - self._first, 0)]


_MAX_SPAN_RATIO = 16
"""So many times as many rows as are needed are looked at, rather than sort those needed."""


def _choose_encoding(array: pa.Array) -> tuple[decode.Form | None, pa.Array]:
    """Find the form that suits a column, and encode it."""
    if not len(array):
        return None, array
    if array.type == pa.int64():
        return _encode_integers(array)
    if array.type == pa.string() and not array.null_count:
        return _encode_texts(array)
    return None, array


def _encode_integers(array: pa.Array) -> tuple[decode.Form | None, pa.Array]:
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or high - low >= 1 << 32:
        return None, array
    values = np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset) - low
    absent = np.asarray(array.is_null()) if array.null_count else None
    return (decode.NARROW, low), _unsigned(values, absent, high - low)


def _unsigned(values: Array, absent: Array | None, most: int | None = None) -> pa.Array:
    """Give numbers of at least 0 in as few bits as the largest needs."""
    top = int(values.max()) if most is None else most
    narrow = np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32
    mask = absent if absent is not None and absent.any() else None
    return pa.array(values.astype(narrow), mask=mask)


def _encode_texts(array: pa.Array) -> tuple[decode.Form | None, pa.Array]:
    """Write texts that are all the same once, and ids as the bytes that they stand for."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    length = int(ends[1] - ends[0])
    if not (np.diff(ends) == length).all():
        return None, array
    size = len(array) * length
    texts = np.frombuffer(data, np.uint8, size, int(ends[0])) if size else np.zeros(0, np.uint8)
    texts = texts.reshape(len(array), length)
    if (texts[-1] == texts[0]).all() and (texts == texts[0]).all():
        return (decode.SAME, array[0].as_py()), pa.nulls(len(array))
    if length != decode.ID_DIGITS:
        return None, array
    octets = unhex_ids(texts)
    if octets is None:
        return None, array
    short = pa.binary(decode.ID_DIGITS // 2)
    new = pa.FixedSizeBinaryArray.from_buffers(short, len(array), [None, pa.py_buffer(octets)])
    return (decode.DIGITS, None), new

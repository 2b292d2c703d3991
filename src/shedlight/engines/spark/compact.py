"""Tables as few bytes on their way to an outbox, and as they were when they are read.

What is large in complex events is known: whole events, the same ones in several places; ids of
32 hexadecimal digits; numbers that need a few of their 64 bits; the name of their pattern, in
all rows the same. Each column is written in the form that suits it, whole events beside it and
each of them once, and the schema says how it is to be read. That takes no longer than to
compress it, and leaves much less. A table with anything else in it is compressed.

This imports next to nothing, for it runs in processes that start often.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]
"""The name of a column, and of a field in it."""
Numbers = npt.NDArray[np.int64]

_FORMS = b"shedlight"
_ROW, _ABSENT, _NARROW, _DIGITS, _SAME = "row", "absent", "narrow", "digits", "same"
_LONG = 32
"""How many hexadecimal digits an id has."""

_Array = npt.NDArray[Any]
_Form = tuple[str, Any]
_Change = Callable[[Path, pa.Array], pa.Array | None]


def plain_bytes(table: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    _write(sink, table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def compact_form(
    table: pa.Table,
    rows: Mapping[Path, tuple[int, Numbers]] | None = None,
    beside: Sequence[pa.Table] = (),
) -> pa.Buffer:
    """Write a table in as few bytes as are quickly found.

    Args:
        table: The table.
        rows: What whole events are in place of columns or fields: the number of a table beside
            it, and the rows of that, -1 for none.
        beside: These tables; only rows that are needed are written.
    """
    sink = pa.BufferOutputStream()
    _write_compact(sink, table, rows or {}, beside)
    return sink.getvalue()


def table_of(data: bytes | pa.Buffer) -> pa.Table:
    """Read a table that was written plain or compact."""
    return _read(pa.BufferReader(data))


def field_at(table: pa.Table, path: Path) -> pa.Array:
    """Give a column or a field in it, null where what it is in is null."""
    array = in_one_piece(table.column(path[0]))
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Give a column in one piece, without a copy if all its rows are in one."""
    some = [chunk for chunk in column.chunks if len(chunk)]
    if len(some) == 1:
        return some[0]
    return pa.concat_arrays(some) if some else pa.array([], column.type)


def _write(sink: pa.NativeFile, table: pa.Table, codec: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)


def _write_compact(
    sink: pa.NativeFile,
    table: pa.Table,
    rows: Mapping[Path, tuple[int, Numbers]],
    beside: Sequence[pa.Table],
) -> None:
    needed = [
        _Needed([places for number, places in rows.values() if number == one])
        for one in range(len(beside))
    ]
    forms: list[tuple[str, Path, Any]] = []
    as_they_were: list[Path] = []

    def written(path: Path, array: pa.Array) -> pa.Array | None:
        if path in rows:
            number, places = rows[path]
            absent = places < 0
            forms.append((_ABSENT if absent.all() else _ROW, path, number))
            if absent.all():
                return pa.nulls(len(array))
            return _unsigned(needed[number].renumbered(places), absent)
        if _has_inside(array):
            return None
        form, new = _suited(array)
        if form is None:
            as_they_were.append(path)
        else:
            forms.append((form[0], path, form[1]))
        return new

    new = _changed(table, written)
    told = json.dumps({"forms": forms, "beside": len(beside)}, separators=(",", ":"))
    new = new.replace_schema_metadata({**(table.schema.metadata or {}), _FORMS: told})
    _write(sink, new, "lz4" if as_they_were else None)
    for one, used in zip(beside, needed, strict=True):
        _write_compact(sink, _taken(one, used.rows), {}, ())


def _taken(table: pa.Table, rows: _Array) -> pa.Table:
    """Take rows in order, from each piece of a table by itself, which is quicker."""
    parts, start = [], 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, (start, start + len(batch)))
        if last > first:
            parts.append(batch.take(pa.array(rows[first:last] - start)))
        start += len(batch)
    return pa.Table.from_batches(parts, table.schema)


def _read(source: pa.NativeFile) -> pa.Table:
    table = pa.ipc.open_stream(source).read_all()
    told = (table.schema.metadata or {}).get(_FORMS)
    if told is None:
        return table
    found = json.loads(told)
    forms = {tuple(path): (form, value) for form, path, value in found["forms"]}
    beside = [_whole(_read(source)) for _ in range(found["beside"])]

    def read(path: Path, array: pa.Array) -> pa.Array | None:
        if path in forms:
            return _restored(forms[path], array, beside)
        return None if _has_inside(array) else array

    rest = {key: value for key, value in table.schema.metadata.items() if key != _FORMS}
    return _changed(table, read).replace_schema_metadata(rest)


def _changed(table: pa.Table, change: _Change) -> pa.Table:
    columns = [
        _rebuilt((field.name,), in_one_piece(column), change)
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.table(columns, pa.schema(_with_types(table.schema, columns)))


def _with_types(fields: Iterable[pa.Field], columns: Sequence[pa.Array]) -> list[pa.Field]:
    both = zip(fields, columns, strict=True)
    return [field.with_type(column.type) for field, column in both]


def _has_inside(array: pa.Array) -> bool:
    kind = array.type
    is_list = pa.types.is_list(kind) and kind.value_field == pa.field("item", kind.value_type)
    return bool(is_list or (pa.types.is_struct(kind) and kind.num_fields))


def _rebuilt(path: Path, array: pa.Array, change: _Change) -> pa.Array:
    """Change a column, or the fields in it where it is to stay what it is."""
    new = change(path, array)
    if new is not None:
        return new
    if pa.types.is_list(array.type):
        return _rebuilt_list(path, array, change)
    fields = list(array.type)
    inner = [_rebuilt((*path, f.name), array.field(i), change) for i, f in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(inner, fields=_with_types(fields, inner), mask=mask)


def _rebuilt_list(path: Path, array: pa.ListArray, change: _Change) -> pa.Array:
    if array.null_count:
        return array
    ends = array.offsets.to_numpy()
    values = array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    inner = _rebuilt((*path, ""), values, change)
    return pa.ListArray.from_arrays(pa.array(ends - ends[0]), inner)


def _whole(table: pa.Table) -> pa.StructArray:
    columns = [in_one_piece(column) for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema))


class _Needed:
    """The rows of a table that are needed, and their numbers among these."""

    def __init__(self, places: Sequence[Numbers]) -> None:
        every = np.concatenate([np.zeros(0, np.int64), *places])
        every = every[every >= 0]
        self._first = int(every.min()) if len(every) else 0
        span = int(every.max()) - self._first + 1 if len(every) else 0
        if span > _SPARSE * len(every):
            self.rows = np.unique(every)
            self._rank: _Array | None = None
        else:
            there = np.zeros(span, np.bool_)
            there[every - self._first] = True
            self.rows = np.flatnonzero(there) + self._first
            self._rank = np.cumsum(there, dtype=np.int32) - 1

    def renumbered(self, places: Numbers) -> _Array:
        """Give the numbers of rows; of none, any."""
        if self._rank is None:
            return np.searchsorted(self.rows, places)
        return self._rank[np.maximum(places - self._first, 0)]


_SPARSE = 16
"""So many times as many rows as are needed are looked at, rather than sort those needed."""


def _suited(array: pa.Array) -> tuple[_Form | None, pa.Array]:
    """Find the form that suits a column."""
    if not len(array):
        return None, array
    if array.type == pa.int64():
        return _narrowed(array)
    if array.type == pa.string() and not array.null_count:
        return _of_one_length(array)
    return None, array


def _narrowed(array: pa.Array) -> tuple[_Form | None, pa.Array]:
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or high - low >= 1 << 32:
        return None, array
    values = np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset) - low
    absent = np.asarray(array.is_null()) if array.null_count else None
    return (_NARROW, low), _unsigned(values, absent, high - low)


def _unsigned(values: _Array, absent: _Array | None, most: int | None = None) -> pa.Array:
    """Give numbers of at least 0 in as few bits as the largest needs."""
    top = int(values.max()) if most is None else most
    kind = np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32
    mask = absent if absent is not None and absent.any() else None
    return pa.array(values.astype(kind), mask=mask)


def _of_one_length(array: pa.Array) -> tuple[_Form | None, pa.Array]:
    """Write texts that are all the same once, and ids as the bytes that they stand for."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    length = int(ends[1] - ends[0])
    if not (np.diff(ends) == length).all():
        return None, array
    size = len(array) * length
    texts = np.frombuffer(data, np.uint8, size, int(ends[0])) if size else np.zeros(0, np.uint8)
    texts = texts.reshape(len(array), length)
    if (texts == texts[0]).all():
        return (_SAME, array[0].as_py()), pa.nulls(len(array))
    if length != _LONG:
        return None, array
    values = np.take(_values(), texts.view(np.uint16))
    if (values < 0).any():
        return None, array
    octets = pa.py_buffer(values.astype(np.uint8))
    short = pa.binary(_LONG // 2)
    new = pa.FixedSizeBinaryArray.from_buffers(short, len(array), [None, octets])
    return (_DIGITS, None), new


@cache
def _values() -> _Array:
    """Give the byte that two hexadecimal digits stand for, -1 for what are none."""
    found = np.full(1 << 16, -1, np.int16)
    found[_digits()] = np.arange(256)
    return found


@cache
def _digits() -> _Array:
    return np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint16)


def _restored(form: _Form, array: pa.Array, beside: Sequence[pa.StructArray]) -> pa.Array:
    kind, value = form
    if kind == _ROW:
        return beside[value].take(array)
    if kind == _ABSENT:
        return pa.nulls(len(array), beside[value].type)
    if kind == _NARROW:
        wide = array.cast(pa.int64())
        return pc.add(wide, pa.scalar(value, pa.int64())) if value else wide
    if kind == _SAME:
        return pa.repeat(pa.scalar(value, pa.string()), len(array))
    if kind == _DIGITS:
        octets = np.frombuffer(array.buffers()[1], np.uint8, len(array) * array.type.byte_width)
        texts = pa.py_buffer(np.take(_digits(), octets))
        offsets = pa.py_buffer(np.arange(len(array) + 1, dtype=np.int32) * _LONG)
        return pa.StringArray.from_buffers(len(array), offsets, texts)
    raise ValueError(f"no form of a column: {kind}")

"""Tables as bytes: written plain, and read whether plain or encoded in few bytes.

The metadata of a schema says in which forms its columns were encoded (`encode.py`).

This imports next to nothing, for it runs in processes that start often.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]  # the name of a column, and of the fields in it
Numbers = npt.NDArray[np.int64]

FORMS = b"shedlight"
ROW, ABSENT, NARROW, DIGITS, SAME = "row", "absent", "narrow", "digits", "same"
ID_DIGITS = 32  # how many hexadecimal digits an id has

Array = npt.NDArray[Any]
Form = tuple[str, Any]
_Change = Callable[[Path, pa.Array], pa.Array | None]


def plain_bytes(table: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    write(sink, table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def decode_table(data: bytes | pa.Buffer) -> pa.Table:
    """Read a table that was written plain or encoded."""
    return _read(pa.BufferReader(data))


def field_at(table: pa.Table, path: Path) -> pa.Array:
    """Give a column or a field in it, null where what it is in is null."""
    array = in_one_chunk(table.column(path[0]))
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def in_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Give a column in one chunk, without a copy if all its rows are in one."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def write(sink: pa.NativeFile, table: pa.Table, codec: str | None = None) -> None:
    """Write a table as an Arrow stream, compressed if a codec is named."""
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)


def _read(source: pa.NativeFile) -> pa.Table:
    table = pa.ipc.open_stream(source).read_all()
    metadata = table.schema.metadata or {}
    if FORMS not in metadata:
        return table
    encoding = json.loads(metadata[FORMS])
    forms = {tuple(path): (form, value) for form, path, value in encoding["forms"]}
    referenced = [_to_struct(_read(source)) for _ in range(encoding["referenced_tables"])]

    def read(path: Path, array: pa.Array) -> pa.Array | None:
        if path in forms:
            return _decode(forms[path], array, referenced)
        return None if is_nested(array) else array

    other = {key: value for key, value in metadata.items() if key != FORMS}
    return transform(table, read).replace_schema_metadata(other)


def transform(table: pa.Table, change: _Change) -> pa.Table:
    """Change columns, and fields in them where the change of what they are in is None."""
    columns = [
        _transform((field.name,), in_one_chunk(column), change)
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.table(columns, pa.schema(_with_types(table.schema, columns)))


def _with_types(fields: Iterable[pa.Field], columns: Sequence[pa.Array]) -> list[pa.Field]:
    both = zip(fields, columns, strict=True)
    return [field.with_type(column.type) for field, column in both]


def is_nested(array: pa.Array) -> bool:
    """Say whether an array is of structs or lists, in which others are."""
    own = array.type
    is_list = pa.types.is_list(own) and own.value_field == pa.field("item", own.value_type)
    return bool(is_list or (pa.types.is_struct(own) and own.num_fields))


def _transform(path: Path, array: pa.Array, change: _Change) -> pa.Array:
    """Change a column, or the fields in it where it is to stay what it is."""
    new = change(path, array)
    if new is not None:
        return new
    if pa.types.is_list(array.type):
        return _transform_list(path, array, change)
    fields = list(array.type)
    inner = [_transform((*path, f.name), array.field(i), change) for i, f in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(inner, fields=_with_types(fields, inner), mask=mask)


def _transform_list(path: Path, array: pa.ListArray, change: _Change) -> pa.Array:
    if array.null_count:
        return array
    ends = array.offsets.to_numpy()
    values = array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    inner = _transform((*path, ""), values, change)
    return pa.ListArray.from_arrays(pa.array(ends - ends[0]), inner)


def _to_struct(table: pa.Table) -> pa.StructArray:
    columns = [in_one_chunk(column) for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema))


@cache
def _hex_digits() -> Array:
    return np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint16)


def _decode(form: Form, array: pa.Array, referenced: Sequence[pa.StructArray]) -> pa.Array:
    """Give a column as it was before it was encoded."""
    name, value = form
    if name == ROW:
        return referenced[value].take(array)
    if name == ABSENT:
        return pa.nulls(len(array), referenced[value].type)
    if name == NARROW:
        wide = array.cast(pa.int64())
        return pc.add(wide, pa.scalar(value, pa.int64())) if value else wide
    if name == SAME:
        return pa.repeat(pa.scalar(value, pa.string()), len(array))
    if name == DIGITS:
        octets = np.frombuffer(array.buffers()[1], np.uint8, len(array) * array.type.byte_width)
        texts = pa.py_buffer(np.take(_hex_digits(), octets))
        offsets = pa.py_buffer(np.arange(len(array) + 1, dtype=np.int32) * ID_DIGITS)
        return pa.StringArray.from_buffers(len(array), offsets, texts)
    raise ValueError(f"no form of a column: {name}")

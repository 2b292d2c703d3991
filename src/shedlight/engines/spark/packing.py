"""Events as packed rows on their way to matching, and what was found on its way back.

A packed row holds the events of one Arrow batch that go to one group, as an Arrow stream. So
values of any kind reach Python as they are, and groups, which cost, get few and large rows.

This is kept apart from matching, and imports next to nothing: Spark runs it in processes of
their own, which start the sooner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

GROUP = "#group"
"""The column of the group that an event goes to."""
PACKED = "group int, operator string, name string, origin int, frontier bigint, events binary"
"""A stream by operator (empty for a source) and name; the frontier counts if events is null."""
FOUND = "operator string, name string, origin int, frontier bigint, events binary"
"""What a group makes of them: complex events, or, without a name, how far an operator is."""

FRONTIERS = "frontiers"
"""The output of rows that say how far an operator (`source`) is (`time`) in a group."""

Batches = Iterable[pa.RecordBatch]

_PACKED = pa.schema(
    {
        "group": pa.int32(),
        "operator": pa.string(),
        "name": pa.string(),
        "origin": pa.int32(),
        "frontier": pa.int64(),
        "events": pa.binary(),
    }
)


def table_bytes(table: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def table_of(data: bytes) -> pa.Table:
    """Read a table that `table_bytes` wrote."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def packer(operator: str, name: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that packs the events of a stream by group."""

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            groups = batch.column(GROUP).to_numpy()
            table = pa.table(batch).drop_columns([GROUP])
            for group in np.unique(groups).tolist():
                mine = groups == group
                chosen = table if mine.all() else table.filter(pa.array(mine))
                row = [group, operator, name, 0, 0, table_bytes(chosen)]
                named = dict(zip(_PACKED.names, row, strict=True))
                yield pa.RecordBatch.from_pylist([named], _PACKED)

    return pack


def unpacker(schema: pa.Schema) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that writes what groups found as rows of an outbox."""

    def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                table = _told(row) if row["events"] is None else _complex_events(row, schema)
                yield from _completed(table, schema).to_batches()

    return unpack


def _told(row: Mapping[str, Any]) -> pa.Table:
    return pa.table(
        {
            "source": [row["operator"]],
            "time": [row["frontier"]],
            "group": [row["origin"]],
            "output": [FRONTIERS],
        }
    )


def _complex_events(row: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    found = table_of(row["events"]).combine_chunks()
    output = f"{row['operator']}.{row['name']}"
    selected = schema.field(output).type
    values = [found[field.name].combine_chunks().cast(field.type) for field in selected]
    columns = {name: found[name] for name in ("source", "time", "id")}
    columns["group"] = pa.repeat(row["origin"], len(found))
    columns[output] = pa.StructArray.from_arrays(values, fields=list(selected))
    columns["output"] = pa.repeat(output, len(found))
    return pa.table(columns)


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)

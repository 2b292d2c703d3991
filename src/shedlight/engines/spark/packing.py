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

from shedlight.automaton.intake import TIME as READY_TIME

GROUP = "#group"
"""The column of the group that an event goes to."""
PACKED = (
    "group int, operator string, name string, origin int, frontier bigint, idle boolean, "
    "events binary"
)
"""A stream by operator (empty for a source) and name; the frontier counts if events is null."""
FOUND = (
    "operator string, name string, origin int, frontier bigint, idle boolean, events binary, "
    "tally string"
)
"""What a group makes of them: complex events, how far an operator is if it is without a name,
or a tally of the group."""

FRONTIERS = "frontiers"
"""The output of rows that say how far an operator (`source`) is (`time`) in a group."""
LATE = "late"
"""The output of late events begins with this."""
IDLE = "idle"
"""What stands in place of an id if the operator holds nobody back."""

Batches = Iterable[pa.RecordBatch]

_PACKED = pa.schema(
    {
        "group": pa.int32(),
        "operator": pa.string(),
        "name": pa.string(),
        "origin": pa.int32(),
        "frontier": pa.int64(),
        "idle": pa.bool_(),
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
                row = [group, operator, name, 0, 0, False, table_bytes(chosen)]
                named = dict(zip(_PACKED.names, row, strict=True))
                yield pa.RecordBatch.from_pylist([named], _PACKED)

    return pack


def unpacker(schema: pa.Schema) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that writes what groups found as rows of an outbox."""

    def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from _completed(_rows_of(row, schema), schema).to_batches()

    return unpack


def _rows_of(row: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    if row["events"] is None:
        return _told(row)
    return _late(row, schema) if row["name"] == LATE else _complex_events(row, schema)


def _told(row: Mapping[str, Any]) -> pa.Table:
    return pa.table(
        {
            "source": [row["operator"]],
            "time": [row["frontier"]],
            "id": [IDLE if row["idle"] else None],
            "group": [row["origin"]],
            "output": [FRONTIERS],
        }
    )


def _complex_events(row: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    found = table_of(row["events"]).combine_chunks()
    output = f"{row['operator']}.{row['name']}"
    columns = {name: found[name] for name in ("source", "time", "id")}
    return _in_struct(row, schema, (output, found), columns)


def late_output(operator: str) -> str:
    """Name the output of the late events of an operator."""
    return f"{LATE} {operator}"


def _late(row: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    found = table_of(row["events"]).combine_chunks()
    columns = {"source": pa.repeat(row["operator"], len(found)), "time": found[READY_TIME]}
    return _in_struct(row, schema, (late_output(row["operator"]), found), columns)


def _in_struct(
    row: Mapping[str, Any],
    schema: pa.Schema,
    which: tuple[str, pa.Table],
    columns: dict[str, pa.Array],
) -> pa.Table:
    """Put what is particular to an output into a struct of its name."""
    output, found = which
    selected = schema.field(output).type
    values = [found[field.name].combine_chunks().cast(field.type) for field in selected]
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

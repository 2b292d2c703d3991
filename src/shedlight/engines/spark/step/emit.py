"""What a shard emits after a micro-batch, as rows of the outbox."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd
import pyarrow as pa

from shedlight.engines.spark.codec.decode import field_at
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.codec.pack import LATE, STEP_OUTPUT_SCHEMA, arrow_columns
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.parallel import each
from shedlight.graph import Stream

MAX_EVENTS = 1 << 16  # how many events a packed row has at most
_MAX_BYTES = 1 << 25
"""How many bytes they have at most, unpacked: who reads them has to hold them."""

Payloads = Iterator[tuple[int, bytes]]
"""The number of events in a payload, and what stands for it in the outbox."""
Put = Callable[[pa.Buffer], bytes]
"""Writes a payload to where it is to be, and gives what stands for it; threads call it."""
Row = tuple[str | None, str, int, int, bool, str | None, int, bytes | None, str | None]
"""Operator, name, origin, watermark, idle, number of events, events, metrics."""


def encode_output(
    chain: ChainRuntime,
    stream: Stream,
    table: pa.Table,
    event_tables: Mapping[str, EventTable],
    put: Put,
) -> Payloads:
    """Encode the complex events of a pattern, with whole events in place of row numbers."""
    paths = chain.event_refs.paths.get(stream, {})
    names = list(dict.fromkeys(paths.values()))
    referenced_tables = [event_tables[name].events for name in names]
    rows = {
        path: (names.index(of), event_tables[of].rows_of(field_at(table, path)))
        for path, of in paths.items()
    }
    size = _events_per_payload(table)

    def encode(start: int) -> tuple[int, bytes]:
        piece = table.slice(start, size)
        end = start + len(piece)
        own = {path: (index, places[start:end]) for path, (index, places) in rows.items()}
        return len(piece), put(encode_table(piece, own, referenced_tables))

    return each(encode, range(0, len(table), size), in_threads=chain.is_single_shard)


def _events_per_payload(table: pa.Table) -> int:
    bytes_each = table.nbytes / max(len(table), 1)
    return max(1, min(MAX_EVENTS, int(_MAX_BYTES / max(bytes_each, 1))))


def output_rows(shard: int, payloads: Mapping[Stream, Payloads]) -> Iterator[Row]:
    """Give the complex events that others read."""
    for stream, of_stream in payloads.items():
        for number, data in of_stream:
            yield (stream.operator, stream.name, shard, 0, False, None, number, data, None)


def late_rows(shard: int, late: Mapping[str, pa.Table], put: Put) -> Iterator[Row]:
    """Give the late events of operators."""
    for name, table in late.items():
        size = _events_per_payload(table)
        for start in range(0, len(table), size):
            events = table.slice(start, size)
            data = put(encode_table(events))
            yield (name, LATE, shard, 0, False, None, len(events), data, None)


def watermark_row(
    shard: int, operator: str, watermark: int, *, idle: bool, steps: str | None
) -> Row:
    """Give the watermark of an operator, with what was kept upstream since the last one."""
    return (operator, "", shard, watermark, idle, steps, 0, None, None)


def metrics_row(shard: int, metrics: str) -> Row:
    """Give the metrics of a shard."""
    return ("", "", shard, 0, False, None, 0, None, metrics)


_DTYPES = {
    field.name: field.type.to_pandas_dtype() for field in arrow_columns(STEP_OUTPUT_SCHEMA)
}


def rows_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Put rows into a frame with the columns of the step's output."""
    return pd.DataFrame(rows, columns=list(_DTYPES), dtype=object).astype(_DTYPES)

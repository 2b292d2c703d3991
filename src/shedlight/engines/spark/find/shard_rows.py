"""Events of a DataFrame on their way to shards, and what shards found on its way out.

Rows go through Spark packed, as those of `shedlight run` do (`codec/pack.py`). It imports next
to nothing, for it runs in processes of its own, which start the sooner.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import decode_table, plain_bytes
from shedlight.engines.spark.codec.pack import conform
from shedlight.engines.spark.support.worker import prepare_worker

PACKED = "shard int, events binary"
"""The events of a shard."""
FOUND = "pattern string, events binary"
"""The complex events of a pattern."""

_PACKED = pa.schema([("shard", pa.int32()), ("events", pa.binary())])
_MAX_ROWS = 1 << 16  # how many rows are taken together
_MAX_BYTES = 1 << 26  # how many bytes, at most about so many

Batches = Iterable[pa.RecordBatch]


def shard_column(group: int) -> str:
    """Name the column of the shard that an event goes to for patterns of one key."""
    return f"#shard{group}"


def gather(batches: Batches) -> Iterator[pa.Table]:
    """Put small batches together: each that is matched or packed has a cost of its own."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _MAX_ROWS or size >= _MAX_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


def packer(groups: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that packs events by shard, once for each key that patterns have."""
    names = [shard_column(group) for group in range(groups)]

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for table in gather(batches):
            events = table.drop_columns(names)
            for name in names:
                yield from _pack(table[name].to_numpy(), events)

    return pack


def _pack(
    shards: np.ndarray[tuple[int], np.dtype[np.int32]], events: pa.Table
) -> Iterator[pa.RecordBatch]:
    order = np.argsort(shards, kind="stable")
    ends = np.flatnonzero(np.diff(shards[order], append=-1)) + 1
    in_order = events if len(ends) == 1 else events.take(pa.array(order))
    start = 0
    for end in ends.tolist():
        packed = plain_bytes(in_order.slice(start, end - start))
        shard = int(shards[order[start]])
        yield pa.RecordBatch.from_arrays(
            [pa.array([shard], pa.int32()), pa.array([packed], pa.binary())], schema=_PACKED
        )
        start = end


def unpack_events(packed: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Put the packed events of a shard together, with the columns that they should have."""
    return pa.concat_tables([conform(decode_table(data), schema) for data in packed])

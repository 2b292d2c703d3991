"""The plan in force as a table of one row, read anew in every micro-batch.

It has a column for each operator that sheds: for each of its patterns, and for each type by its
number, the hash below which an event is kept; null keeps it whatever its hash is. At the end it
says for each type whether any pattern asks for the hash at all; null, if none. As the value of
a subquery it is read once per micro-batch, where the task runs, and the id of the micro-batch
is known there: so a new plan is in force in the next one, without a restart, and a
replay gets the plan of the first time.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.plans import Plans, Table
from shedlight.model.needs import Floats

_LIMITS = pa.list_(pa.int64())
_HASHES = float(1 << 64)
_TOP = np.uint64(1 << 63)

Batches = Iterable[pa.RecordBatch]


def read_plan(spark: SparkSession, folder: Path, operators: Sequence[str]) -> DataFrame:
    """Read the plan in force, micro-batch by micro-batch."""
    where, names = str(folder), tuple(operators)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            plans = Plans(Path(where))
            used = plans.used_by(batch_id())
            tables = plans.tables(used)
            limits = [limits_of(tables[name], used.pressure) for name in names]
            yield pa.RecordBatch.from_arrays(limits, list(names))

    columns = ", ".join(f"`{name}` array<bigint>" for name in names)
    return spark.range(0, 1, 1, 1).mapInArrow(read, columns)


def batch_id() -> int:
    """Say which micro-batch this task is of."""
    context = TaskContext.get()
    found = context.getLocalProperty("streaming.sql.batchId") if context else None
    if found is None:
        raise RuntimeError("this is no task of a streaming query")
    return int(found)


def limits_of(table: Table, pressure: float) -> pa.Array:
    """Find the hashes below which events are kept, as one row: by pattern, then by type.

    After the patterns comes which types are to be hashed.
    """
    shares = table.under(pressure)
    undecided = np.asarray(((shares > 0) & (shares < 1)).any(axis=0))
    hashed = pa.array(np.ones(len(undecided), np.int64), mask=~undecided)
    row = pa.concat_arrays([*map(_thresholds, shares), hashed])
    return pa.ListArray.from_arrays(pa.array([0, len(row)], pa.int32()), row).cast(_LIMITS)


def _thresholds(shares: Floats) -> pa.Array:
    """Find `threshold(share)` for many at once; null keeps everything."""
    hashes = np.clip(shares, 0.0, 1.0) * _HASHES
    everything = shares >= 1
    signed = (np.where(everything, 0.0, hashes).astype(np.uint64) ^ _TOP).view(np.int64)
    return pa.array(signed, pa.int64(), mask=everything)

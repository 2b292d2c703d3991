"""The plan in force as a table of one row, read anew in every micro-batch.

There is one for each operator that sheds. It has numbers for each type by its number: words of
flags, which patterns keep it whatever its hash is; whether any other pattern asks for the hash;
and for each pattern the hash below which it keeps an event. As the value of a subquery it is
read once per micro-batch, and the id of the micro-batch is known where it is read: so a new
plan is in force in the next one, without a restart, and a replay gets the plan of the first
time. It is read as Spark plans the micro-batch (`asking.py`) or, where that is not possible, in
a job of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.shed.jvm_callback import (
    Numbers,
    jvm_computed_array,
    supports_jvm_callback,
)
from shedlight.engines.spark.support.plan_store import WORD, KeepTable, PlanStore, batch_id
from shedlight.language.eval.spark_sql import quote_name
from shedlight.model.arrays import Floats

_LIMITS = pa.list_(pa.int64())
_HASHES, _LOWEST = float(1 << 64), -(1 << 63)
_TOP = np.uint64(1 << 63)

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Batches = Iterable[pa.RecordBatch]


Limits = Mapping[str, DataFrame]
"""For each operator that sheds a table of one row and one column: numbers, as said above."""


def read_plan(spark: SparkSession, folder: Path, operators: Sequence[str]) -> Limits:
    """Read the plan in force, micro-batch by micro-batch."""
    if not supports_jvm_callback(spark):
        return _by_a_job(spark, folder, operators)
    answers = {name: partial(_numbers, str(folder), name) for name in operators}
    return {name: jvm_computed_array(spark, answer) for name, answer in answers.items()}


def _numbers(folder: str, operator: str, batch: int) -> Numbers:
    (found,) = _limits(folder, [operator], batch)
    return np.asarray(found.values)


def _limits(folder: str, operators: Sequence[str], batch: int) -> list[pa.ListArray]:
    plans = PlanStore(Path(folder))
    used = plans.plan_for_batch(batch)
    tables = plans.tables(used)
    return [limits_of(tables[name], used.pressure) for name in operators]


def _by_a_job(spark: SparkSession, folder: Path, operators: Sequence[str]) -> Limits:
    where, names = str(folder), list(operators)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_arrays(_limits(where, names, batch_id()), names)

    columns = ", ".join(f"`{name}` array<bigint>" for name in names)
    row = spark.range(0, 1, 1, 1).mapInArrow(read, columns)
    return {name: row.select(quote_name(name)) for name in names}


def limits_of(table: KeepTable, pressure: float) -> pa.ListArray:
    """Write down what the patterns of an operator keep, as one row, by type within each part.

    First come the flags of the patterns that keep all, then whether hashes are asked for, then
    the hashes below which each pattern keeps an event.
    """
    shares = table.under(pressure)
    everything = shares >= 1
    undecided = ((shares > 0) & ~everything).any(axis=0)
    parts = [*_words(everything), undecided, *np.where(everything, _LOWEST, _below(shares))]
    row = pa.array(np.concatenate(parts).astype(np.int64))
    return pa.ListArray.from_arrays(pa.array([0, len(row)], pa.int32()), row).cast(_LIMITS)


def _words(flags: Flags) -> list[Numbers]:
    """Put the flags of each type together, as many as go into a word."""
    parts = [flags[start : start + WORD] for start in range(0, len(flags), WORD)]
    return [(1 << np.arange(len(part))) @ part for part in parts]


def _below(shares: Floats) -> Numbers:
    """Find `threshold(share)` for many at once, of shares below one."""
    hashes = np.clip(shares, 0.0, 1.0 - 2.0**-53) * _HASHES
    return (hashes.astype(np.uint64) ^ _TOP).view(np.int64)

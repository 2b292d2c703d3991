"""The active plan as a table of one row, read anew in every micro-batch.

There is one for each operator that sheds. It has numbers for each event type by its number:
words of flags, which patterns keep it whatever its hash is; whether any other pattern asks for
the hash; and for each pattern the hash below which it keeps an event. Where patterns keep the
unshed sample there is more: what the plan alone keeps of these, for each of their keys which of
them keep an event if its key is in the sample, and at the end the hash below which the key of
an event is looked at, and the heavy hitters in the sample. As the value of a
subquery it is read once per micro-batch, and the id of the micro-batch is known where it is
read: so a new plan is active in the next one, without a restart, and a replay gets the plan of
the first time. It is read as Spark plans the micro-batch (`jvm_callback.py`) or, where that is
not possible, in a job of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.shed import jvm_callback
from shedlight.engines.spark.support.plan_store import WORD, KeepTable, PlanStore, batch_id
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.language.eval.spark_sql import quote_name
from shedlight.shedding.shedder import threshold, thresholds
from shedlight.shedding.unshed_sample import choose_keys

_LOWEST_HASH = -(1 << 63)

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Batches = Iterable[pa.RecordBatch]
Limits = Mapping[str, DataFrame]
"""For each operator that sheds a table of one row and one column: numbers, as said above."""


@dataclass(frozen=True, slots=True)
class SampledPatterns:
    """The patterns of an operator that keep the unshed sample."""

    share: float  # of the keys
    by_key: tuple[tuple[int, ...], ...]  # the numbers of the patterns of each key

    @property
    def numbers(self) -> list[int]:
        """Their numbers, in order."""
        return sorted(number for key in self.by_key for number in key)


Sampled = Mapping[str, SampledPatterns]  # of operators that have any


def read_plan(
    spark: SparkSession,
    folder: StoredPath,
    operators: Sequence[str],
    sampled: Sampled | None = None,
) -> Limits:
    """Read the active plan, micro-batch by micro-batch."""
    each = {name: (sampled or {}).get(name) for name in operators}
    if not jvm_callback.supports_jvm_callback(spark):
        return _read_by_job(spark, folder, each)
    answers = {
        name: partial(_batch_limits, folder, name, patterns) for name, patterns in each.items()
    }
    return {
        name: jvm_callback.jvm_computed_array(spark, answer) for name, answer in answers.items()
    }


def read_text(spark: SparkSession, answer: Callable[[int], str]) -> DataFrame:
    """Have a text for each micro-batch, by its id: a table of one row and one column."""
    if jvm_callback.supports_jvm_callback(spark):
        return jvm_callback.jvm_computed_text(spark, answer)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [answer(batch_id())]})

    return spark.range(0, 1, 1, 1).mapInArrow(read, "answer string")


def _batch_limits(
    folder: StoredPath, operator: str, sampled: SampledPatterns | None, batch: int
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    plan = plans.plan_for_batch(batch)
    limits = keep_limits(plans.tables(plan)[operator], plan.pressure, sampled)
    if sampled is None:
        return limits
    heavy = np.array(plans.heavy(plan), np.int64)
    heavy = heavy[choose_keys(heavy, sampled.share)]
    return np.concatenate([limits, [threshold(plan.looked_at)], heavy])


def _read_by_job(
    spark: SparkSession, folder: StoredPath, operators: Mapping[str, SampledPatterns | None]
) -> Limits:
    names = list(operators)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            rows = [[_batch_limits(folder, n, operators[n], batch_id())] for n in names]
            yield pa.RecordBatch.from_arrays(list(map(pa.array, rows)), names)

    columns = ", ".join(f"{quote_name(name)} array<bigint>" for name in names)
    row = spark.range(0, 1, 1, 1).mapInArrow(read, columns)
    return {name: row.select(quote_name(name)) for name in names}


def keep_limits(
    table: KeepTable, pressure: float, sampled: SampledPatterns | None = None
) -> jvm_callback.Numbers:
    """Write what the patterns of an operator keep as one row, by event type within each part.

    First come the flags of the patterns that keep all, then whether hashes are asked for, then
    the hashes below which each pattern keeps an event. Patterns that keep the unshed sample
    come a second time, after all others, for what the plan alone keeps; and for each of their
    keys come the flags of those that the plan sheds, and the sample does not.
    """
    shares = table.under(pressure)
    if sampled is not None:
        shares = np.concatenate([shares, shares[sampled.numbers]])
    everything = shares >= 1
    undecided = ((shares > 0) & ~everything).any(axis=0)
    below = np.where(everything, _LOWEST_HASH, thresholds(shares))
    parts = [*_flag_words(everything), undecided, *below]
    for numbers in sampled.by_key if sampled else ():
        spared = (shares >= 0) & ~everything
        spared[[number for number in range(len(shares)) if number not in numbers]] = False
        parts += _flag_words(spared)
    return np.concatenate(parts).astype(np.int64)


def _flag_words(flags: Flags) -> list[jvm_callback.Numbers]:
    """Put the flags of each event type together, as many as go into a word."""
    words = [flags[start : start + WORD] for start in range(0, len(flags), WORD)]
    return [(1 << np.arange(len(word))) @ word for word in words]

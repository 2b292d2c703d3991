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
from shedlight.engines.spark.shed.strata_limits import (
    CellLayout,
    all_limits,
    cell_limits,
    cell_shares,
    found_numbers,
)
from shedlight.engines.spark.support.plan_store import WORD, KeepTable, PlanStore, batch_id
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.graph import Stream
from shedlight.language.eval.spark_sql import quote_name
from shedlight.shedding.found_keys import NOTHING
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


@dataclass(frozen=True, slots=True)
class StratifiedPatterns:
    """The patterns of an operator whose keys are shed in strata; it may travel to a worker."""

    streams: tuple[Stream, ...]
    labels: tuple[str, ...]  # of event types, by number
    relevant: tuple[tuple[bool, ...], ...]  # whether each pattern can take events of a type
    layout: CellLayout


def read_plan(
    spark: SparkSession,
    folder: StoredPath,
    operators: Sequence[str],
    sampled: Sampled | None = None,
    strata: Mapping[str, StratifiedPatterns] | None = None,
) -> Limits:
    """Read the active plan, micro-batch by micro-batch."""
    answers = dict(_answers(folder, operators, sampled or {}, strata or {}))
    if not jvm_callback.supports_jvm_callback(spark):
        return _read_by_job(spark, answers)
    return {
        name: jvm_callback.jvm_computed_array(spark, answer) for name, answer in answers.items()
    }


def found_name(operator: str) -> str:
    """Name what is known of the keys of an operator, next to its limits."""
    return f"keys of {operator}"


_BatchAnswer = Callable[[int], jvm_callback.Numbers]  # by the id of a micro-batch


def _answers(
    folder: StoredPath,
    operators: Iterable[str],
    sampled: Sampled,
    strata: Mapping[str, StratifiedPatterns],
) -> Iterator[tuple[str, _BatchAnswer]]:
    for name in operators:
        if name in strata:
            patterns = strata[name]
            yield (
                name,
                partial(_strata_limits, folder, name, patterns, sampled.get(name)),
            )
            yield found_name(name), partial(_found_numbers, folder, name, patterns)
        else:
            yield name, partial(_batch_limits, folder, name, sampled.get(name))


def _strata_limits(
    folder: StoredPath,
    operator: str,
    patterns: StratifiedPatterns,
    sampled: SampledPatterns | None,
    batch: int,
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    plan = plans.plan_for_batch(batch)
    shares, names = plans.shares(plan), plans.found(plan).get(operator, NOTHING).table.names
    kept = [
        cell_shares(shares.get(stream), names, patterns.labels, relevant)
        for stream, relevant in zip(patterns.streams, patterns.relevant, strict=True)
    ]
    cells = cell_limits(kept, patterns.layout, sampled.by_key if sampled else ())
    heavy = np.array(plans.heavy(plan), np.int64)
    heavy = heavy[choose_keys(heavy, sampled.share)] if sampled else heavy[:0]
    return all_limits(cells, plan.looked_at, plan.history, heavy)


def _found_numbers(
    folder: StoredPath, operator: str, patterns: StratifiedPatterns, batch: int
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    found = plans.found(plans.plan_for_batch(batch)).get(operator, NOTHING)
    return found_numbers(found, [stream.name for stream in patterns.streams])


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


def _read_by_job(spark: SparkSession, answers: Mapping[str, _BatchAnswer]) -> Limits:
    names = list(answers)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            rows = [[answer(batch_id())] for answer in answers.values()]
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

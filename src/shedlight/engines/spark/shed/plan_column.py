"""The active plan as a table of one row, read anew in every micro-batch.

There is one for each operator that sheds: its limits, cell by cell (`cell_limits.py`). Patterns
that keep the unshed sample have a second flag, of what the plan alone keeps; another table has
the heavy hitters of that sample, and one what is known of keys that are shed in strata. As the
value of a subquery such a table is read once per micro-batch, and the id of the micro-batch is
known where it is read: so a new plan is active in the next one, without a restart, and a replay
gets the plan of the first time. It is read as Spark plans the micro-batch (`jvm_callback.py`)
or, where that is not possible, in a job of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.shed import jvm_callback
from shedlight.engines.spark.shed.cell_limits import NEVER, CellLayout, with_head, write_cells
from shedlight.engines.spark.shed.strata_limits import (
    cell_limits,
    cell_shares,
    open_numbers,
    table_numbers,
)
from shedlight.engines.spark.support.plan_store import KeepTable, PlanStore, batch_id
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.graph import Stream
from shedlight.language.eval.spark_sql import quote_name
from shedlight.shedding.found_keys import NOTHING, FoundKeys
from shedlight.shedding.shedder import thresholds
from shedlight.shedding.unshed_sample import choose_keys

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


@dataclass(frozen=True, slots=True)
class ShedPatterns:
    """The patterns of an operator that sheds; it may travel to a worker."""

    streams: tuple[Stream, ...]
    labels: tuple[str, ...]  # of event types, by number
    relevant: tuple[tuple[bool, ...], ...]  # whether each pattern can take events of a type
    layout: CellLayout
    sampled: SampledPatterns | None = None  # None: none keeps the unshed sample

    @property
    def by_strata(self) -> bool:
        """Whether keys are shed in strata."""
        return bool(self.layout.bits)


def read_plan(
    spark: SparkSession, folder: StoredPath, operators: Mapping[str, ShedPatterns]
) -> Limits:
    """Read the active plan, micro-batch by micro-batch."""
    answers = dict(_answers(folder, operators))
    if not jvm_callback.supports_jvm_callback(spark):
        return _read_by_job(spark, answers)
    return {
        name: jvm_callback.jvm_computed_array(spark, answer) for name, answer in answers.items()
    }


def numbers_of(table: DataFrame) -> Column:
    """Give the numbers of a table as a column that is never null: less code is made of it."""
    return F.coalesce(table.scalar(), F.array(F.lit(0).cast("bigint")))


def found_name(operator: str) -> str:
    """Name what says of which strata the keys of an operator are, next to its limits."""
    return f"strata of {operator}"


def open_name(operator: str) -> str:
    """Name what says which keys of an operator are open, next to its limits."""
    return f"open keys of {operator}"


def heavy_name(operator: str) -> str:
    """Name the heavy hitters of the unshed sample of an operator, next to its limits."""
    return f"heavy hitters of {operator}"


_BatchAnswer = Callable[[int], jvm_callback.Numbers]  # by the id of a micro-batch


def _answers(
    folder: StoredPath, operators: Mapping[str, ShedPatterns]
) -> Iterator[tuple[str, _BatchAnswer]]:
    for name, patterns in operators.items():
        limits = _strata_limits if patterns.by_strata else _type_limits
        yield name, partial(limits, folder, name, patterns)
        if patterns.by_strata:
            yield found_name(name), partial(_table_numbers, folder, name)
            yield open_name(name), partial(_open_numbers, folder, name, patterns)
        if patterns.sampled is not None:
            yield heavy_name(name), partial(_heavy_hitters, folder, patterns.sampled)


def _strata_limits(
    folder: StoredPath, operator: str, patterns: ShedPatterns, batch: int
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    plan = plans.plan_for_batch(batch)
    shares, names = plans.shares(plan), plans.found(plan).get(operator, NOTHING).table.names
    kept = [
        cell_shares(shares.get(stream), names, patterns.labels, relevant)
        for stream, relevant in zip(patterns.streams, patterns.relevant, strict=True)
    ]
    by_key = patterns.sampled.by_key if patterns.sampled else ()
    cells = cell_limits(kept, patterns.layout, by_key)
    return with_head(cells, plan.looked_at, plan.history)


def _table_numbers(folder: StoredPath, operator: str, batch: int) -> jvm_callback.Numbers:
    return table_numbers(_found(folder, operator, batch))


def _open_numbers(
    folder: StoredPath, operator: str, patterns: ShedPatterns, batch: int
) -> jvm_callback.Numbers:
    names = [stream.name for stream in patterns.streams]
    return open_numbers(_found(folder, operator, batch), names)


def _found(folder: StoredPath, operator: str, batch: int) -> FoundKeys:
    plans = PlanStore(folder)
    return plans.found(plans.plan_for_batch(batch)).get(operator, NOTHING)


def _heavy_hitters(
    folder: StoredPath, sampled: SampledPatterns, batch: int
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    heavy = np.array(plans.heavy(plans.plan_for_batch(batch)), np.int64)
    return np.asarray(heavy[choose_keys(heavy, sampled.share)])


def read_text(spark: SparkSession, answer: Callable[[int], str]) -> DataFrame:
    """Have a text for each micro-batch, by its id: a table of one row and one column."""
    if jvm_callback.supports_jvm_callback(spark):
        return jvm_callback.jvm_computed_text(spark, answer)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"answer": [answer(batch_id())]})

    return spark.range(0, 1, 1, 1).mapInArrow(read, "answer string")


def _type_limits(
    folder: StoredPath, operator: str, patterns: ShedPatterns, batch: int
) -> jvm_callback.Numbers:
    plans = PlanStore(folder)
    plan = plans.plan_for_batch(batch)
    table = plans.tables(plan)[operator]
    cells = keep_limits(table, plan.pressure, patterns.layout, patterns.sampled)
    return with_head(cells, plan.looked_at)


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
    table: KeepTable,
    pressure: float,
    layout: CellLayout,
    sampled: SampledPatterns | None = None,
) -> jvm_callback.Numbers:
    """Write what the patterns of an operator keep of each event type.

    Patterns that keep the unshed sample come a second time, after all others, for what the plan
    alone keeps.
    """
    shares = table.under(pressure)
    if sampled is not None:
        shares = np.concatenate([shares, shares[sampled.numbers]])
    everything = shares >= 1
    below = np.where(everything, NEVER, thresholds(shares))
    spared = []
    for numbers in sampled.by_key if sampled else ():
        each = (shares >= 0) & ~everything
        each[[number for number in range(len(shares)) if number not in numbers]] = False
        spared.append(each)
    return write_cells(everything, [below], spared, layout)

"""A warm start: Python workers run, and have the kernels, before the first event is read.

Else the first micro-batch would wait for both, with all events in it that had come by then. A
small job does it; the workers that it starts stay, and the queries use them.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from shedlight.engines.kernel_cache import kernel_of, kernels_to_compile, load_kernels
from shedlight.language.ast.pattern import Pattern

Batches = Iterable[pa.RecordBatch]


def warm_up(spark: SparkSession, patterns: Iterable[Pattern], workers: int) -> None:
    """Have so many Python workers load the kernels that patterns need.

    One of them compiles what is not compiled yet, before the others start.
    """
    patterns = tuple(patterns)
    kernels = tuple(dict.fromkeys(map(kernel_of, patterns)))
    for number in (1, workers) if kernels_to_compile(patterns) else (workers,):
        rows = spark.range(0, number, 1, number)
        rows.mapInArrow(partial(_load, kernels), "id bigint").collect()


def _load(kernels: tuple[str, ...], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Load kernels in a worker, and send back what came."""
    load_kernels(kernels)
    yield from batches

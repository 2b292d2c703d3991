"""A warm start: Python workers have the kernels before there are events."""

import sys

import pyarrow as pa
import pytest

from shedlight.engines.kernel_cache import QUEUES, SCAN, kernel_of, load_kernels
from shedlight.engines.spark.run.warm_up import warm_up
from shedlight.language import parse_pattern

PLAIN = parse_pattern("SELECT a.x WHERE SEQ(a.x = 1, b.x = 2) WITHIN 1 s").pattern


@pytest.mark.parametrize("kernels", [(QUEUES,), (SCAN,), (QUEUES, SCAN)])
def test_kernels_are_loaded_by_a_match_of_each(kernels):
    """So that it is known that they work."""
    assert load_kernels(kernels) == len(kernels)


@pytest.mark.spark
def test_workers_have_the_kernels_when_it_is_over(spark, monkeypatch):
    """The next job finds them there, for workers stay."""
    # workers of another environment are others: those of earlier tests may be idle still
    monkeypatch.setitem(spark.sparkContext.environment, "SHEDLIGHT_TEST", "warm up")

    def look(batches):
        for _ in batches:
            has_it = "shedlight.matching.kernel.fifo" in sys.modules
            yield pa.RecordBatch.from_pydict({"has_it": [has_it]})

    assert kernel_of(PLAIN) == QUEUES
    warm_up(spark, [PLAIN], 2)
    rows = spark.range(0, 2, 1, 2).mapInArrow(look, "has_it boolean").collect()
    assert [row.has_it for row in rows] == [True, True]

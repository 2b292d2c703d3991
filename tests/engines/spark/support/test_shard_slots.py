"""Slots of shards: Spark sends the shards of a chain to a partition each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from shedlight.engines.spark.support.shard_slots import partitions_of, shard_slots


@given(st.integers(0, 70), st.integers(1, 24), st.integers(1, 8))
def test_shards_are_shared_evenly(shards, partitions, fewer):
    """No slot is used twice; shards that follow each other are apart, on few cores too."""
    slots = np.array(shard_slots(shards, partitions), np.int64)
    assert len(set(slots)) == len(slots) == shards
    for number in (partitions, fewer):
        expected = np.arange(shards) % number
        assert partitions_of(slots, number).tolist() == expected.tolist()


@pytest.mark.spark
def test_partitions_are_those_of_spark(spark):
    """As its own expression computes them, negative hashes included."""
    sizes = (2, 3, 7)
    rows = spark.range(200).select(
        *(F.expr(f"pmod(hash(CAST(id AS INT)), {n})").alias(f"p{n}") for n in sizes)
    )
    found = np.array(rows.collect())
    for column, size in zip(found.T, sizes, strict=True):
        assert column.tolist() == partitions_of(np.arange(200), size).tolist()

"""Slots of shards: Spark sends the shards of a chain to a partition each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from shedlight.engines.spark.support.shard_slots import partition_of, shard_slots


@given(st.integers(0, 70), st.integers(1, 24))
def test_shards_are_shared_evenly(shards, partitions):
    """No slot is used twice; any shards that follow each other are apart if they can be."""
    slots = shard_slots(shards, partitions)
    assert len(set(slots)) == len(slots) == shards
    assert [partition_of(slot, partitions) for slot in slots] == [
        shard % partitions for shard in range(shards)
    ]


@pytest.mark.spark
def test_partitions_are_those_of_spark(spark):
    """As its own expression computes them, negative hashes included."""
    rows = spark.range(200).select(
        F.col("id").cast("int").alias("n"),
        *(
            F.expr(f"pmod(hash(CAST(id AS INT)), {size})").alias(f"p{size}")
            for size in (2, 3, 7)
        ),
    )
    for n, *found in rows.collect():
        assert found == [partition_of(n, size) for size in (2, 3, 7)]

"""The time of a micro-batch is that of Spark's log, and no part of the code it compiles."""

import time

import pytest

from shedlight.engines.spark.run.batch_time import batch_time

pytestmark = pytest.mark.spark


def _compiled(spark):
    """Count what Spark has compiled so far."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics  # noqa: SLF001
    return metrics.METRIC_COMPILATION_TIME().getCount()


def _await_batch(query, number):
    while (query.lastProgress or {"batchId": -1})["batchId"] < number:
        assert query.isActive
        time.sleep(0.02)


def test_the_time_of_a_micro_batch_is_no_part_of_its_code(spark, tmp_path):
    """All micro-batches but the first run code that is there already."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    timed = rows.select("value", batch_time(spark, tmp_path).alias("began"))
    writer = timed.writeStream.format("memory").queryName("batch_times")
    before = time.time()
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        _await_batch(query, 2)
        compiled = _compiled(spark)
        _await_batch(query, 5)
        assert _compiled(spark) == compiled
    finally:
        query.stop()

    times = [row.began / 1e6 for row in spark.table("batch_times").orderBy("value").collect()]

    assert before - 1 < times[0] < times[1] < times[2] < time.time()

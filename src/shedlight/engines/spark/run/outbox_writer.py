"""How the query of a node is written to its outbox, and the settings that it starts with."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.node_query import NodeQuery
from shedlight.engines.spark.run.outbox_readers import log_numbers
from shedlight.engines.spark.support.checkpoint import check_logs


def outbox_writer(deployment: Deployment, node: str) -> DataStreamWriter:
    """Check the logs of a node, and write its query, which still needs a trigger and start."""
    query, outbox = deployment.paths.query(node), deployment.paths.outbox(node)
    repeated = check_logs(
        query, outbox, logs=log_numbers(deployment.chains[node], deployment.frames)
    )
    if repeated is not None:
        deployment.nodes[node].plans.check(repeated)
    return (
        deployment.nodes[node]
        .frame.writeStream.format("parquet")
        .queryName(f"shedlight node {node}")
        .option("path", str(outbox))
        .option("compression", "none")  # what is packed is small already
        .option("parquet.enable.dictionary", "false")  # and never comes twice
        .option("checkpointLocation", str(query))
    )


_PARTITIONS = "spark.sql.shuffle.partitions"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str(2**31 - 1)


@contextmanager
def with_query_conf(spark: SparkSession, query: NodeQuery) -> Iterator[None]:
    """Have the query of a node, if it is started here, run with the settings that suit it.

    No more partitions than there are shards: each has a state to commit in each micro-batch,
    with or without a shard in it. And where all events are of one small size, Spark need not
    ask after every event how large a batch for Python is by now: the number of events bounds
    it, and asking takes a third of the time from a file to Python.
    """
    wanted = {_PARTITIONS: str(min(int(spark.conf.get(_PARTITIONS) or 1), query.shard_count))}
    if query.is_even:
        wanted[_BATCH_BYTES] = _UNLIMITED
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))

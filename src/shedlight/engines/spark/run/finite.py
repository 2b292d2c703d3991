"""An application over finished sources on Spark, node by node from sources to sinks.

A run that was stopped goes on where it was; one that is complete is not repeated.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.engines.spark.control.micro_batch import MicroBatchReport, read_report
from shedlight.engines.spark.outbox.delivery import deliveries, delivery
from shedlight.engines.spark.run.deployment import Deployment, sink_frames
from shedlight.engines.spark.run.node_query import NodeQuery
from shedlight.engines.spark.session.paths import local_folder
from shedlight.engines.spark.source.schema_check import FileColumns
from shedlight.engines.spark.source.watermark_files import ended
from shedlight.engines.spark.support.checkpoint import check_logs, lock_checkpoint
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.graph import Application, Source
from shedlight.shedding.shares import Shares


def run_on_spark(  # noqa: PLR0913  # two of them are for those who watch
    application: Application,
    spark: SparkSession,
    *,
    checkpoint: str,
    shares: Shares | None = None,
    shards: int = 2,
    deliver: bool = False,
    told: Callable[[MicroBatchReport], None] | None = None,
) -> Mapping[str, DataFrame]:
    """Run an application over all that its sources have.

    Args:
        application: The application.
        spark: The session; its time zone must be UTC.
        checkpoint: A folder that belongs to this run of this application.
        shares: What patterns keep; None: everything.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided.
        deliver: Whether to write to the sinks as the application says.
        told: Is told every micro-batch of a node when the node is through.

    Returns:
        The complex events of each sink.

    Raises:
        InputError: A source cannot be read, or an event has no time or id.
        ApplicationError: A pattern does not fit the columns, or nodes feed each other.
        StateError: The checkpoint is of another application, or damaged.
    """
    folder = local_folder(checkpoint)
    with lock_checkpoint(folder):
        deployment = Deployment(application, spark, folder, shares or {}, shards)
        FileColumns(deployment.application).check()
        _run(deployment, spark, told)
        for name in deliveries(application) if deliver else ():
            _drained(delivery(deployment, name), f"{name} cannot be written")
    return sink_frames(deployment)


def _run(
    deployment: Deployment, spark: SparkSession, told: Callable[[MicroBatchReport], None] | None
) -> None:
    """Run all nodes, each after those that it reads."""
    for node in deployment.nodes:
        for _ in _rounds(deployment, node):
            with with_query_conf(spark, deployment.nodes[node]):
                rounds = _drained(outbox_writer(deployment, node))
            for progress in rounds:
                batch = read_report(node, progress)
                if batch is not None and told is not None:
                    told(batch)


def outbox_writer(deployment: Deployment, node: str) -> DataStreamWriter:
    """Write the query of a node; it wants a trigger and a start.

    Raises:
        StateError: Its checkpoint is damaged.
    """
    query, logs = deployment.query_folder(node), deployment.logs_of(node)
    repeated = check_logs(query, deployment.outbox(node), logs=logs)
    if repeated is not None:
        deployment.plans(node).check(repeated)
    return (
        deployment.nodes[node]
        .frame.writeStream.format("parquet")
        .queryName(f"shedlight node {node}")
        .option("path", str(deployment.outbox(node)))
        .option("compression", "none")  # what is packed is small already
        .option("parquet.enable.dictionary", "false")  # and never comes twice
        .option("checkpointLocation", str(deployment.query_folder(node)))
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
    wanted = {_PARTITIONS: str(min(int(spark.conf.get(_PARTITIONS) or 1), query.shards))}
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


def _drained(writer: DataStreamWriter, what: str = "") -> list[StreamingQueryProgress]:
    """Run a query until there is nothing left to read."""
    try:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    except SPARK_ERRORS as error:
        raise to_user_error(error, what) from error
    return query.recentProgress


def _rounds(deployment: Deployment, node: str) -> Iterator[None]:
    """Have a query run until all is read, and then, if need be, once more with the end.

    What is read in a single micro-batch may have its end in the same one.
    """
    names = deployment.sources_of(node)
    told = deployment.marks(node).folder / "_ended"
    if names and not told.exists():
        sources = [deployment.application.sources[name] for name in names]
        if not all(map(_in_one_batch, sources)):
            yield
        deployment.marks(node).write(map(ended, names))
        told.touch()
    yield


def _in_one_batch(source: Source) -> bool:
    """Say whether a source gives all that it has at once: nothing limits what is read."""
    limits = [name for name in source.options if name.lower().startswith("max")]
    return source.path is not None and not limits and _is_small(Path(source.path))


_SMALL = 16 << 20


def _is_small(path: Path) -> bool:
    """Whether what is there is surely read in one micro-batch."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(one.stat().st_size for one in files if one.is_file()) < _SMALL

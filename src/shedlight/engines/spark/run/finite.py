"""An application over finite sources on Spark, node by node from sources to sinks.

A run that was stopped goes on where it was; one that is complete is not repeated. Nodes read
each other's outboxes, though the application has channels.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.engines.spark.control.micro_batch import MicroBatchReport, read_report
from shedlight.engines.spark.outbox.delivery import delivery_names
from shedlight.engines.spark.outbox.writers import Writer
from shedlight.engines.spark.run.deployment import Deployment, UserStreams
from shedlight.engines.spark.run.divide import deploy
from shedlight.engines.spark.run.open_checkpoint import open_checkpoint
from shedlight.engines.spark.run.outbox_readers import source_names
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.session.paths import local_path
from shedlight.engines.spark.source.schema_check import FileColumns
from shedlight.engines.spark.source.starting_offsets import STARTING_OFFSETS
from shedlight.engines.spark.source.watermark_files import end_of
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.engines.spark.support.storage import create_file
from shedlight.graph import Application, Source
from shedlight.shedding.shares import Shares


def run_on_spark(  # noqa: PLR0913  # as many as there are choices
    application: Application,
    spark: SparkSession,
    *,
    checkpoint: str,
    shares: Shares | None = None,
    shards: int | None = None,
    sources: Mapping[str, DataFrame] | None = None,
    sinks: Mapping[str, Writer] | None = None,
    deliver: bool = False,
    on_micro_batch: Callable[[MicroBatchReport], None] | None = None,
    locked: bool = False,
) -> Mapping[str, DataFrame]:
    """Run an application over all that its sources have.

    Args:
        application: The application.
        spark: The session, in any time zone.
        checkpoint: A folder that belongs to this run of this application, or its address on a
            file system of Hadoop.
        shares: What patterns keep; None: everything.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided; None:
            as `run` of the application says, or as many as the session has cores when the
            checkpoint begins. A checkpoint with another number is divided anew.
        sources: Streaming DataFrames to read in place of what sources of the application say.
        sinks: Functions from a DataFrame to a DataStreamWriter, to write sinks with in place of
            what the application says.
        deliver: Whether to write to the sinks.
        on_micro_batch: Called with every micro-batch of a node when the node is through.
        locked: Whether the caller has the lock of the checkpoint, and keeps it.

    Returns:
        The complex events of each sink.

    Raises:
        InputError: A source cannot be read, or an event has no time or id.
        ApplicationError: A pattern does not fit the columns, or nodes feed each other.
        StateError: The checkpoint is of another application, or damaged.
    """
    application = replace(_from_the_beginning(application), channels=None)
    given = UserStreams(sources or {}, sinks or {})
    shards = application.run.shards if shards is None else shards
    with open_checkpoint(spark, checkpoint, locked=locked) as opened:
        make = partial(
            Deployment, application, spark, opened.root, shares or {}, shards, given=given
        )
        deployment = deploy(spark, CheckpointPaths(opened.root), shards, make)
        FileColumns(deployment.application).check()
        _run_nodes(deployment, spark, on_micro_batch)
        for name in delivery_names(application) if deliver else ():
            writer = deployment.delivery(name).writer()
            run_available_now(writer, f"{name} cannot be written")
    return {name: deployment.events(s.stream) for name, s in application.sinks.items()}


def _from_the_beginning(application: Application) -> Application:
    """Have topics of Kafka read from their first record on, if they do not say where."""
    sources = {
        name: replace(source, options={STARTING_OFFSETS: "earliest", **source.options})
        if source.is_kafka
        and not any(option.lower().startswith("starting") for option in source.options)
        else source
        for name, source in application.sources.items()
    }
    return replace(application, sources=sources)


def _run_nodes(
    deployment: Deployment,
    spark: SparkSession,
    on_micro_batch: Callable[[MicroBatchReport], None] | None,
) -> None:
    """Run all nodes, each after those that it reads."""
    for node in deployment.nodes:
        for _ in _passes(deployment, node):
            with with_query_conf(spark, deployment.nodes[node]):
                progresses = run_available_now(outbox_writer(deployment, node))
            for progress in progresses:
                batch = read_report(node, progress)
                if batch is not None and on_micro_batch is not None:
                    on_micro_batch(batch)


def run_available_now(writer: DataStreamWriter, what: str = "") -> list[StreamingQueryProgress]:
    """Run a query until there is nothing left to read."""
    try:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    except SPARK_ERRORS as error:
        raise to_user_error(error, what) from error
    return query.recentProgress


def _passes(deployment: Deployment, node: str) -> Iterator[None]:
    """Have a query run until all is read, and then, if need be, once more with the end.

    What is read in a single micro-batch may have its end in the same one.
    """
    names = source_names(deployment.chains[node])
    files = deployment.watermark_files(node)
    is_ended = files.folder / "_ended"
    if names and not is_ended.exists():
        sources = [deployment.application.sources[name] for name in names]
        if not all(map(_in_one_batch, sources)):
            yield
        files.write(map(end_of, names))
        create_file(is_ended, "")
    yield


_MAX_BYTES_OF_ONE_BATCH = 16 << 20


def _in_one_batch(source: Source) -> bool:
    """Say whether a source is surely read in one micro-batch: it is small, and has no limit."""
    path = local_path(source.path)  # what is elsewhere, or several, may be of any size
    if path is None or any(name.lower().startswith("max") for name in source.options):
        return False
    files = [path] if path.is_file() else path.rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file())
    return size < _MAX_BYTES_OF_ONE_BATCH

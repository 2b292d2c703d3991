"""Dividing the keys of a checkpoint into another number of shards, before a run goes on.

First what a node has begun is brought to its end with the shards that it was begun with: its
output may be committed already. Then the states are taken out of Spark's state store and
written to files, one for each shard, and the new number is recorded: from then on new shards,
who have no row in Spark's store, begin with what they find there (`step/divided.py`).

Spark fixes the number of partitions of a query when it begins. It is in the log of the last
micro-batch, and each partition has a store of its own; so both are changed, and all stores are
made empty. Until a new micro-batch has begun that may be done again, for a run may be killed
while it is done.
"""

import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.fingerprint import record_sharding, recorded_sharding
from shedlight.engines.spark.run.outbox_readers import source_names
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.run.sharding import Sharding
from shedlight.engines.spark.source.watermark_files import SourceWatermark
from shedlight.engines.spark.step.chain import new_chain_state
from shedlight.engines.spark.step.saved import to_bytes
from shedlight.engines.spark.step.state_files import StateFiles, read_whole
from shedlight.engines.spark.support.atomic_file import write_atomically
from shedlight.engines.spark.support.checkpoint import last_micro_batches
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.kafka_admin import has_jvm
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.errors import StateError

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05


def deploy(
    spark: SparkSession,
    paths: CheckpointPaths,
    shards: int | None,
    make: Callable[[], Deployment],
) -> Deployment:
    """Make the deployment of a run, with its checkpoint divided as is asked for.

    Raises:
        StateError: It cannot be divided now, or is damaged.
    """
    recorded = recorded_sharding(paths.fingerprint)
    deployment = make()
    if recorded is not None and shards not in {None, recorded.shards}:
        reason = _why_undividable(deployment)
        if reason:
            raise StateError(
                f"the checkpoint {paths.root} has {recorded.shards} shards, and {shards} are "
                f"asked for; {reason}: go on with --shards {recorded.shards}, or start with a "
                "new checkpoint"
            )
        divide(spark, deployment, shards)
        deployment = make()
    for node, batch in deployment.sharding.batches.items():
        _empty_stores(spark, deployment, node, batch)
    return deployment


def _why_undividable(deployment: Deployment) -> str:
    """Say why the keys of a checkpoint cannot be divided anew; empty: they can."""
    if deployment.channels or deployment.neighbours:
        return (
            "with `channels` there can be no others, for each shard has a partition of a topic"
        )
    if not isinstance(deployment.paths.root, Path):
        return "there can be others only in a local folder"
    return ""


def divide(spark: SparkSession, deployment: Deployment, shards: int) -> None:
    """Divide the keys of a checkpoint into another number of shards."""
    paths, before = deployment.paths, deployment.sharding
    after = before.divided(deployment.application, shards)
    for node in deployment.nodes:
        finish_begun(spark, deployment, node)
    for node in deployment.nodes:
        states = _states(spark, deployment, node)
        folder = _local(paths.states(node)) / after.folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for shard, state in states.items():
            (folder / str(shard)).write_bytes(state)
        names = source_names(deployment.chains[node])
        # a micro-batch for all shards, so that others hear of the new ones
        deployment.watermark_files(node).write(map(SourceWatermark, names))
    batches = {node: last_micro_batches(paths.query(node))[1] for node in deployment.nodes}
    record_sharding(paths.fingerprint, replace(after, batches=batches))
    for node in deployment.nodes:
        _remove_earlier(_local(paths.states(node)), after)
    _LOG.warning(
        "the checkpoint %s is divided into %d shards; there were %d",
        paths.root,
        shards,
        before.shards,
    )


def _local(path: StoredPath) -> Path:
    """Give a part of a checkpoint that is in a local folder: others are not divided."""
    if not isinstance(path, Path):
        raise TypeError(f"{path} is in no local folder")
    return path


def finish_begun(
    spark: SparkSession, deployment: Deployment, node: str
) -> list[StreamingQueryProgress]:
    """Bring a micro-batch to its end that was begun; give what is to be said of it."""
    query = deployment.paths.query(node)
    begun, done = last_micro_batches(query)
    if begun == done:
        return []
    with with_query_conf(spark, deployment.nodes[node]):
        writer = outbox_writer(deployment, node).trigger(processingTime="1 day")
        running = writer.start()
    try:
        _await(running, lambda: last_micro_batches(query)[1] >= begun)
    finally:
        running.stop()
    begun, done = last_micro_batches(query)
    if begun != done:
        raise StateError(f"{query} has begun a micro-batch more; start again")
    return running.recentProgress


def _await(query: StreamingQuery, is_so: Callable[[], bool]) -> None:
    while not is_so():
        if not query.isActive:
            error = query.exception()
            if error is not None:
                raise to_user_error(error) from error
        time.sleep(_POLL_S)
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(_POLL_S)


def _states(spark: SparkSession, deployment: Deployment, node: str) -> Mapping[int, bytes]:
    """Read the states of all shards of a node as bytes."""
    paths, query = deployment.paths, deployment.nodes[node]
    rows: dict[int, bytes] = {}
    if last_micro_batches(paths.query(node))[1] >= 0:
        stored = spark.read.format("statestore").load(str(paths.query(node)))
        try:
            found = stored.selectExpr("key.slot AS slot", "value.groupState.state AS state")
            rows = {row.slot: bytes(row.state) for row in found.collect()}
        except SPARK_ERRORS as error:
            raise to_user_error(error, "the state cannot be read") from error
    states = {}
    for chain in query.chains:
        empty = to_bytes(chain, new_chain_state(chain))
        for shard in chain.spec.placement.shards:
            row = rows.get(query.slots[shard])
            if row is None and deployment.sharding.before is not None:
                raise StateError(
                    f"the checkpoint {paths.root} is still being divided into "
                    f"{deployment.sharding.shards} shards; go on with as many, and ask for "
                    "others once every node has had a micro-batch"
                )
            files = StateFiles(_local(paths.states(node))).of_shard(shard)
            states[shard] = empty if row is None else read_whole(files, row)
    return states


def _remove_earlier(folder: Path, sharding: Sharding) -> None:
    """Remove states of shards that there are no more: those that go on have them all."""
    for path in folder.iterdir():
        is_shard = path.name.isdigit() and int(path.name) < sharding.first
        if is_shard or (path.name.startswith("before-") and path.name != sharding.folder):
            shutil.rmtree(path, ignore_errors=True)


# Spark's stores


def _empty_stores(spark: SparkSession, deployment: Deployment, node: str, batch: int) -> None:
    """Have a node that was divided after a micro-batch begin with as many stores as it needs.

    Where that cannot be done, it keeps the number of partitions that it began with.
    """
    query = _local(deployment.paths.query(node))
    if batch < 0 or last_micro_batches(query) != (batch, batch):
        return
    noted = _noted(query, batch)
    if has_jvm(spark) and noted["conf"].get(_PROVIDER, "").endswith(_OF_FILES):
        with with_query_conf(spark, deployment.nodes[node]):
            partitions = int(spark.conf.get(_PARTITIONS) or 1)
        _write_stores(spark, query, batch, noted, partitions)


_PARTITIONS = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CODEC = "spark.sql.streaming.stateStore.compression.codec"
_OF_FILES = ".HDFSBackedStateStoreProvider"


def _noted(query: Path, batch: int) -> dict[str, Any]:
    """Read what Spark has noted of its settings with a micro-batch."""
    noted: dict[str, Any] = json.loads(_offsets(query, batch).read_text().split("\n")[1])
    return noted


def _offsets(query: Path, batch: int) -> Path:
    return query / "offsets" / str(batch)


def _write_stores(
    spark: SparkSession, query: Path, batch: int, noted: dict[str, Any], partitions: int
) -> None:
    codec = noted["conf"].get(_CODEC, "lz4")
    stores = query / "state" / "0"
    for partition in range(partitions):
        folder = stores / str(partition)
        folder.mkdir(exist_ok=True)
        _write_empty_store(spark, folder / f"{batch + 1}.snapshot", codec)
    metadata = stores / "_metadata" / "metadata"
    version, described = metadata.read_text().split("\n", 1)
    operator = json.loads(described)
    for store in operator["stateStoreInfo"]:
        store["numPartitions"] = partitions
    _rewrite(metadata, f"{version}\n{json.dumps(operator)}")
    noted["conf"][_PARTITIONS] = str(partitions)
    offsets = _offsets(query, batch)
    version, _, *rest = offsets.read_text().split("\n")
    _rewrite(offsets, "\n".join([version, json.dumps(noted), *rest]))


def _rewrite(file: Path, text: str) -> None:
    """Write a file of Spark's anew; a checksum that a session may keep of it is gone first."""
    for name in (f".{file.name}.crc", f"{file.name}.crc"):
        file.with_name(name).unlink(missing_ok=True)
    write_atomically(file, text)


def _write_empty_store(spark: SparkSession, file: Path, codec: str) -> None:
    """Write the file of a store without rows: the number that ends one, compressed."""
    jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way to it
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    compression = jvm.org.apache.spark.io.CompressionCodec
    made = compression.createCodec(context.sc().conf(), codec)
    stream = jvm.java.io.DataOutputStream(
        made.compressedOutputStream(jvm.java.io.FileOutputStream(str(file)))
    )
    stream.writeInt(-1)
    stream.close()

"""The channels of an application: which nodes have one, its topic, and who writes to it.

A topic has a partition for each shard of its node. Its name has the fingerprint of the
application in it, so that another application, or another version of it, has topics of its own.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.outbox.channel_records import (
    Letterhead,
    channel_records,
    foreign_data,
    read_channel,
)
from shedlight.engines.spark.run.outbox_readers import Chains, read_from_other_nodes
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.kafka_admin import KafkaAdmin, has_jvm, kafka_admin
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.engines.spark.support.storage import replace_file
from shedlight.errors import InputError, StateError
from shedlight.graph import Application, Stream


@dataclass(frozen=True, slots=True, eq=False)
class NodeChannel:
    """The channel of a node."""

    topic: str
    options: Mapping[str, str]  # of Spark's connector
    head: Letterhead  # what its records say
    streams: tuple[Stream, ...]  # what other nodes read
    shards: int  # of the node

    def read(self, spark: SparkSession) -> DataFrame:
        """Read it as an outbox."""
        return read_channel(spark, self.topic, self.options, self.head)

    def records(self, outbox: DataFrame) -> DataFrame:
        """Write what the outbox of the node has for it."""
        return channel_records(outbox, self.streams, self.shards, self.head)


Channels = Mapping[str, NodeChannel]  # of nodes that have one


def channel_of(
    application: Application,
    digest: str,
    node: str,
    sender: str,
    chains: Iterable[OperatorChain],
    streams: tuple[Stream, ...],
) -> NodeChannel:
    """Describe the channel of a node of an application with channels."""
    settings = application.channels
    if settings is None:
        raise ValueError("the application has no channels")
    topic = f"{settings.prefix}.{application.name}.{digest}.{node}"
    shards = max(chain.shards.stop for chain in chains)
    return NodeChannel(topic, settings.options, Letterhead(digest, sender), streams, shards)


def find_channels(
    spark: SparkSession,
    application: Application,
    chains: Chains,
    digest: str,
    paths: CheckpointPaths,
) -> Channels:
    """Find the channels of nodes with these chains, and make topics that are not there.

    Raises:
        StateError: A topic has the records of somebody else.
        InputError: A topic cannot be used.
    """
    settings = application.channels
    crossing = read_from_other_nodes(application)
    if settings is None or not crossing:
        return {}
    if not has_jvm(spark):
        raise InputError(
            "channels: Spark Connect has no JVM at hand, with which topics are made; run "
            "without Spark Connect, or leave out `channels`"
        )
    channels = {}
    for node in filter(chains.__contains__, crossing):
        sender = _sender(paths, node)
        named = sender or uuid.uuid4().hex[:12]
        channel = channel_of(application, digest, node, named, chains[node], crossing[node])
        with kafka_admin(spark, "channels", _lower_names(settings.options)) as admin:
            _prepare_topic(admin, channel, is_new=sender is None)
        channels[node] = channel
    return channels


def _lower_names(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in options.items()}


def keep_senders(channels: Channels, paths: CheckpointPaths) -> None:
    """Write down as who nodes write to their channels, for as long as the checkpoint lives."""
    for node, channel in channels.items():
        paths.sender(node).parent.mkdir(parents=True, exist_ok=True)
        replace_file(paths.sender(node), channel.head.sender)


def _sender(paths: CheckpointPaths, node: str) -> str | None:
    try:
        return paths.sender(node).read_text()
    except FileNotFoundError:
        return None


def _prepare_topic(admin: KafkaAdmin, channel: NodeChannel, *, is_new: bool) -> None:
    """Make the topic of a channel, or see that the one that is there can be used."""
    topic = channel.topic
    if topic not in admin.topics():
        admin.create_topic(topic, channel.shards)
        return
    partitions = admin.partitions([topic])
    if len(partitions[topic]) != channel.shards:
        raise InputError(
            f"channels: the topic {topic} has {len(partitions[topic])} partitions, and the "
            f"checkpoint has {channel.shards} shards, each of which needs one of its own; "
            f"delete the topic, or make it with {channel.shards}"
        )
    if is_new and admin.offsets(partitions, first=False) != admin.offsets(
        partitions, first=True
    ):
        raise StateError(foreign_data(topic))

"""What nodes that run by themselves have to know of each other, by a compacted topic.

A node that is read says as who it writes to its channel, into how many shards its keys are
divided, and which columns its complex events have. Who reads it waits until it does.
"""

import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from shedlight.engines.spark.control.kafka_links import WHAT, channel_options
from shedlight.engines.spark.control.messages import (
    control_topics,
    node_from_text,
    node_to_text,
)
from shedlight.engines.spark.run.channels import NodeChannel, channel_of
from shedlight.engines.spark.run.outbox_readers import read_from_other_nodes
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.kafka_log import TopicReader, TopicWriter, ensure_log
from shedlight.engines.spark.support.placement import OperatorChain, operator_chains
from shedlight.engines.spark.support.storage import replace_file
from shedlight.errors import StateError
from shedlight.graph import Application, Stream
from shedlight.graph.application import parse_stream

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbour:
    """A node that is run elsewhere, as who reads it knows it."""

    channel: NodeChannel
    chains: tuple[OperatorChain, ...]
    outputs: Mapping[Stream, pa.Schema]  # the columns of what others read


def announce_node(
    spark: SparkSession,
    application: Application,
    node: str,
    neighbour: Neighbour,
    shards: int,
) -> None:
    """Tell others what they have to know of a node, and into how many shards it has keys."""
    topics, options = control_topics(application), channel_options(application)
    ensure_log(spark, WHAT, options, topics.nodes, compacted=True)
    head = neighbour.channel.head
    columns = {
        str(stream): base64.b64encode(neighbour.outputs[stream].serialize()).decode()
        for stream in neighbour.channel.streams
    }
    row = {"sender": head.sender, "shards": shards, "outputs": columns}
    writer = TopicWriter(spark, options, topics.nodes)
    try:
        writer.send_and_wait(node, node_to_text(row, head.application))
    finally:
        writer.close()


def wait_for_neighbours(
    spark: SparkSession,
    application: Application,
    digest: str,
    nodes: Iterable[str],
    paths: CheckpointPaths,
) -> dict[str, Neighbour]:
    """Wait until nodes have said what others have to know of them.

    Raises:
        StateError: One of them is of another application, or began anew meanwhile.
    """
    missing, found = set(nodes), {}
    if not missing:
        return {}
    topics, options = control_topics(application), channel_options(application)
    ensure_log(spark, WHAT, options, topics.nodes, compacted=True)
    reader = TopicReader(spark, options, topics.nodes, whole=True)
    try:
        messages, was_said = reader.read_stored(), False
        while True:
            for message in messages:
                if message.key in nodes:
                    row = node_from_text(message.text, digest, topics.nodes)
                    found[message.key] = _neighbour(application, digest, message.key, row)
                    missing.discard(message.key)
            if not missing:
                break
            if not was_said:
                was_said = True
                _LOG.warning("waiting for %s, which must run once", ", ".join(sorted(missing)))
            messages = reader.poll(0.5)
    finally:
        reader.close()
    for name, neighbour in found.items():
        _check_sender(paths, name, neighbour.channel.head.sender)
    return found


def _neighbour(
    application: Application, digest: str, node: str, row: Mapping[str, Any]
) -> Neighbour:
    streams = read_from_other_nodes(application)[node]
    chains = operator_chains(application, node, row["shards"])
    outputs = {
        parse_stream(name): pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
        for name, text in row["outputs"].items()
    }
    channel = channel_of(application, digest, node, row["sender"], chains, streams)
    return Neighbour(channel, chains, outputs)


def _check_sender(paths: CheckpointPaths, node: str, sender: str) -> None:
    known = paths.sender_of(node)
    if known.exists() and known.read_text() != sender:
        raise StateError(
            f"node {node} was begun anew, with a new checkpoint, since {paths.root} was begun; "
            "start this node with a new checkpoint, too"
        )


def keep_neighbours(neighbours: Mapping[str, Neighbour], paths: CheckpointPaths) -> None:
    """Write down as who nodes write that run elsewhere, for as long as the checkpoint lives."""
    for node, neighbour in neighbours.items():
        paths.sender_of(node).parent.mkdir(parents=True, exist_ok=True)
        replace_file(paths.sender_of(node), neighbour.channel.head.sender)

"""Who reads the outbox of a node, and which of Spark's logs says how far they are."""

import time
from collections.abc import Iterable, Iterator, Mapping

from shedlight.engines.spark.support.checkpoint import LogReader, committed_files, last_read
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.graph import Application, OperatorSpec, Stream

Chains = Mapping[str, tuple[OperatorChain, ...]]  # the operator chains of each node
Frames = Mapping[str, tuple[int, ...]]  # the streams that DataFrames of sources read, by number
_POLL_S = 0.1


def external_streams(chains: Iterable[OperatorChain]) -> list[Stream]:
    """List the inputs of a node's query, in its order."""
    return [stream for chain in chains for stream in chain.external]


def source_names(chains: Iterable[OperatorChain]) -> list[str]:
    """List the sources that a node reads."""
    streams = external_streams(chains)
    return list(dict.fromkeys(stream.name for stream in streams if stream.operator is None))


def query_logs(chains: Iterable[OperatorChain], frames: Frames) -> Iterator[tuple[Stream, int]]:
    """Number Spark's logs of what a node reads, in the order of its query, each with its input.

    A source has one log for its events, or one for each stream that its DataFrame reads, and
    one for its watermark files; the events and watermarks of an outbox are in the same files,
    which are logged once.
    """
    numbers: dict[tuple[str, object], int] = {}
    for stream in external_streams(chains):
        if stream.operator is None:
            own = frames.get(stream.name)
            events = [("source", stream)] if own is None else [("frame", n) for n in own]
            logs = [*events, ("watermarks", stream)]
        else:
            logs = [("outbox", stream)] * 2
        for log in logs:
            yield stream, numbers.setdefault(log, len(numbers))


def log_numbers(chains: Iterable[OperatorChain], frames: Frames) -> list[int]:
    """Number Spark's logs of what a node reads, in the order of its query."""
    return [number for _, number in query_logs(chains, frames)]


def operators_reading(application: Application, source: str) -> list[OperatorSpec]:
    """List the operators that read a source."""
    specs = application.operators.values()
    return [spec for spec in specs if Stream(source) in spec.inputs]


def outbox_readers(
    application: Application, chains: Chains, paths: CheckpointPaths, frames: Frames
) -> dict[str, list[LogReader]]:
    """Find the readers of each node's outbox: other nodes, sinks and side outputs."""
    readers: dict[str, list[LogReader]] = {node: [] for node in chains}
    for node, reader in (
        *_node_readers(application, chains, paths, frames),
        *_delivery_readers(application, paths),
    ):
        if node in readers:  # others are run elsewhere
            readers[node].append(reader)
    return readers


def find_unread(
    paths: CheckpointPaths, readers: Mapping[str, Iterable[LogReader]], seconds: float
) -> list[str]:
    """Name the nodes whose outbox has files that some reader has not read.

    Readers have some seconds for what is there now; nodes come after those that they read.
    """
    over, unread = time.monotonic() + seconds, []
    for node, its_readers in readers.items():
        written = max((committed_files(paths.outbox(node)) or {}).values(), default=0.0)
        while min(map(last_read, its_readers), default=written) < written:
            if time.monotonic() >= over:
                unread.append(node)
                break
            time.sleep(_POLL_S)
    return unread


def read_from_other_nodes(application: Application) -> dict[str, tuple[Stream, ...]]:
    """List the patterns of each node that other nodes read; nodes without any are left out."""
    specs = application.operators
    crossing = {
        stream: specs[stream.operator].node
        for spec in specs.values()
        for stream in spec.inputs
        if stream.operator and specs[stream.operator].node != spec.node
    }
    return {
        node: tuple(stream for stream, of in crossing.items() if of == node)
        for node in dict.fromkeys(crossing.values())
    }


def _node_readers(
    application: Application, chains: Chains, paths: CheckpointPaths, frames: Frames
) -> Iterator[tuple[str, LogReader]]:
    if application.channels is not None:
        for node in read_from_other_nodes(application):
            yield node, LogReader(paths.channel(node), 0, 0)
        return
    for node, own in chains.items():
        read: set[Stream] = set()
        for index, (stream, log) in enumerate(query_logs(own, frames)):
            if stream.operator and stream not in read:
                read.add(stream)
                written_by = application.operators[stream.operator].node
                yield written_by, LogReader(paths.query(node), index, log)


def _delivery_readers(
    application: Application, paths: CheckpointPaths
) -> Iterator[tuple[str, LogReader]]:
    for name, sink in application.sinks.items():
        node = application.operators[str(sink.stream.operator)].node
        yield node, LogReader(paths.delivery(name), 0, 0)
    for name, source in application.sources.items():
        if source.late:
            for log, spec in enumerate(operators_reading(application, name)):
                yield spec.node, LogReader(paths.delivery(f"{name}.late"), log, log)

"""Who reads the outbox of a node, and which of Spark's logs says how far they are."""

from collections.abc import Iterable, Iterator, Mapping

from shedlight.engines.spark.support.checkpoint import LogReader
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.graph import Application, OperatorSpec, Stream

Chains = Mapping[str, tuple[OperatorChain, ...]]  # the operator chains of each node


def external_streams(chains: Iterable[OperatorChain]) -> list[Stream]:
    """List the inputs of a node's query, in its order."""
    return [stream for chain in chains for stream in chain.external]


def source_names(chains: Iterable[OperatorChain]) -> list[str]:
    """List the sources that a node reads."""
    streams = external_streams(chains)
    return list(dict.fromkeys(stream.name for stream in streams if stream.operator is None))


def log_numbers(chains: Iterable[OperatorChain]) -> list[int]:
    """Number Spark's logs of what a node reads, in the order of its query.

    A source has one log for its events and one for its watermark files; the events and
    watermarks of an outbox are in the same files, which are logged once.
    """
    logs: list[int] = []
    for stream in external_streams(chains):
        first = logs[-1] + 1 if logs else 0
        logs += [first, first + (stream.operator is None)]
    return logs


def operators_reading(application: Application, source: str) -> list[OperatorSpec]:
    """List the operators that read a source."""
    specs = application.operators.values()
    return [spec for spec in specs if Stream(source) in spec.inputs]


def outbox_readers(
    application: Application, chains: Chains, paths: CheckpointPaths
) -> dict[str, list[LogReader]]:
    """Find the readers of each node's outbox: other nodes, sinks and side outputs."""
    readers: dict[str, list[LogReader]] = {node: [] for node in chains}
    for node, reader in (
        *_node_readers(application, chains, paths),
        *_delivery_readers(application, paths),
    ):
        readers[node].append(reader)
    return readers


def _node_readers(
    application: Application, chains: Chains, paths: CheckpointPaths
) -> Iterator[tuple[str, LogReader]]:
    for node, own in chains.items():
        logs = log_numbers(own)[::2]
        for number, (stream, log) in enumerate(zip(external_streams(own), logs, strict=True)):
            if stream.operator:
                written_by = application.operators[stream.operator].node
                yield written_by, LogReader(paths.query(node), 2 * number, log)


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

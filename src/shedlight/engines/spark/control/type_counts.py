"""How many events of each type arrived at the operators of a node in a micro-batch."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.shed.type_catalog import Catalogs

MAX_TYPES = 50  # how many types of a pattern are logged one by one
_MAX_ALL_TYPES = 500

TypeCounts = Mapping[tuple[str, str], Mapping[str, int] | None]
"""By operator and input, how many events of each label; None: they were not counted by type."""


def count_types(report: MicroBatchReport, catalogs: Catalogs) -> TypeCounts:
    """Count events as the JVM counted them, and as shards did where it does not."""
    counts: dict[tuple[str, str], Mapping[str, int] | None] = dict(_shard_counts(report))
    for (operator, stream), arrived in report.arrived.items():
        catalog = catalogs[operator]
        if arrived.types and catalog.is_numbered:
            counts[operator, stream] = catalog.count_labels(arrived.types)
        else:
            counts.setdefault((operator, stream), None if arrived.number else {})
    return counts


def _shard_counts(report: MicroBatchReport) -> Mapping[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for shard in report.shards:
        for operator, metrics in shard.operators.items():
            for stream, types in metrics.types.items():
                counts[operator, stream].update(types)
    return counts


def arrived_row(report: MicroBatchReport) -> dict[str, dict[str, int]]:
    """Count the events that each operator was sent by each input."""
    row: dict[str, dict[str, int]] = {}
    for (operator, stream), types in _shard_counts(report).items():
        row.setdefault(operator, {})[stream] = types.total()
    for (operator, stream), arrived in report.arrived.items():
        row.setdefault(operator, {})[stream] = arrived.number
    return row


def offered_rows(report: MicroBatchReport, catalogs: Catalogs) -> dict[str, dict[str, Any]]:
    """Count what is relevant to each pattern before shedding, and its most frequent types."""
    by_operator = _count_by_operator(count_types(report, catalogs))
    patterns = {p: labels for c in catalogs.values() for p, labels in c.relevant_labels.items()}
    max_types = min(MAX_TYPES, _MAX_ALL_TYPES // max(1, len(patterns)))
    rows = {}
    for pattern, labels in patterns.items():
        counts = by_operator.get(str(pattern.operator))
        if counts is not None:
            relevant = {label: counts[label] for label in labels}
            frequent = sorted(relevant, key=lambda label: (-relevant[label], label))
            types = {
                label: relevant[label] for label in frequent[:max_types] if relevant[label]
            }
            rows[str(pattern)] = {"offered": sum(relevant.values()), "types": types}
    return rows


def relevant_events(report: MicroBatchReport, catalogs: Catalogs) -> int | None:
    """Count the events from outside that some pattern can take; None: it is not known.

    Two operators that read one stream each know what is relevant to them, and not which of
    these events are the same.
    """
    streams = [stream for _, stream in report.arrived]
    if len(set(streams)) < len(streams):
        return None
    counts = count_types(report, catalogs)
    total = 0
    for operator, stream in report.arrived:
        types = counts[operator, stream]
        if types is None:
            return None
        relevant = {*chain.from_iterable(catalogs[operator].relevant_labels.values())}
        total += sum(count for label, count in types.items() if label in relevant)
    return total


def _count_by_operator(counts: TypeCounts) -> Mapping[str, Counter[str]]:
    """Add up the inputs of each operator; without operators that have an uncounted input."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    uncounted = {operator for (operator, _), types in counts.items() if types is None}
    for (operator, _), types in counts.items():
        if operator not in uncounted and types is not None:
            totals[operator].update(types)
    return totals

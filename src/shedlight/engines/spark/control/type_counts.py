"""What the operators of a node were sent, and what their patterns had a use for, by type."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import Labels, labels_of, uses_of
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.graph import Stream

MOST_TYPES = 50
"""How many types of a pattern are told one by one."""
_MOST_IN_ALL = 500

_Counts = Mapping[tuple[str, str], Mapping[str, int] | None]
"""By operator and input, how many events of each type; None: they were not counted by type."""


@dataclass(frozen=True, slots=True)
class TypeCatalog:
    """What is known of a node's types.

    Attributes:
        labels: The label of each type at each operator, by its number.
        uses: The types that each pattern has a use for.
    """

    labels: Labels
    uses: Mapping[Stream, Sequence[str]]


def type_catalog(chains: Iterable[ChainRuntime]) -> TypeCatalog:
    """Find out what is known of the types of a node."""
    chains = tuple(chains)
    return TypeCatalog(labels_of(chains), uses_of(chains))


def arrived_row(batch: MicroBatchReport) -> dict[str, dict[str, int]]:
    """Say how many events each operator was sent by each input."""
    found: dict[str, dict[str, int]] = {}
    for (operator, stream), types in _in_shards(batch).items():
        found.setdefault(operator, {})[stream] = sum(types.values())
    for (operator, stream), one in batch.arrived.items():
        found.setdefault(operator, {})[stream] = one.number
    return found


def offered_rows(batch: MicroBatchReport, known: TypeCatalog) -> dict[str, dict[str, Any]]:
    """Say of each pattern how many events there were of the types that it uses."""
    by_operator = _by_operator(_counts(batch, known))
    most = min(MOST_TYPES, _MOST_IN_ALL // max(1, len(known.uses)))
    found = {}
    for stream, labels in known.uses.items():
        counts = by_operator.get(str(stream.operator))
        if counts is not None:
            seen = {one: counts.get(one, 0) for one in labels}
            often = sorted(seen, key=lambda one: (-seen[one], one))[:most]
            types = {one: seen[one] for one in often if seen[one]}
            found[str(stream)] = {"offered": sum(seen.values()), "types": types}
    return found


def relevant_events(batch: MicroBatchReport, known: TypeCatalog) -> int | None:
    """Count the events from outside that some pattern has a use for; None: it is not known.

    Two operators that read one stream each know what they use themselves, and not which of
    these events are the same.
    """
    counts = _counts(batch, known)
    streams = [stream for _, stream in batch.arrived]
    if len(set(streams)) < len(streams):
        return None
    used: dict[str, set[str]] = {}
    for stream, labels in known.uses.items():
        used.setdefault(str(stream.operator), set()).update(labels)
    total = 0
    for operator, name in batch.arrived:
        types = counts[operator, name]
        if types is None:
            return None
        total += sum(types.get(label, 0) for label in used.get(operator, ()))
    return total


def _counts(batch: MicroBatchReport, known: TypeCatalog) -> _Counts:
    """Count types as they were counted on the way, and in the shards where they were not."""
    found: dict[tuple[str, str], Mapping[str, int] | None] = dict(_in_shards(batch))
    for (operator, stream), one in batch.arrived.items():
        labels = known.labels.get(operator)
        if one.types and labels is not None:
            here: dict[str, int] = {}
            for number, count in one.types.items():
                here[labels[number]] = here.get(labels[number], 0) + count
            found[operator, stream] = here
        else:
            found.setdefault((operator, stream), None if one.number else {})
    return found


def _in_shards(batch: MicroBatchReport) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], dict[str, int]] = {}
    for shard in batch.shards:
        for operator, metrics in shard.operators.items():
            for stream, types in metrics.types.items():
                here = found.setdefault((operator, stream), {})
                for label, count in types.items():
                    here[label] = here.get(label, 0) + count
    return found


def _by_operator(counts: _Counts) -> dict[str, dict[str, int]]:
    """Add up what the inputs of each operator have; not of one with an unknown input."""
    found: dict[str, dict[str, int]] = {}
    unknown = {operator for (operator, _), types in counts.items() if types is None}
    for (operator, _), types in counts.items():
        if operator not in unknown and types is not None:
            here = found.setdefault(operator, {})
            for label, count in types.items():
                here[label] = here.get(label, 0) + count
    return found

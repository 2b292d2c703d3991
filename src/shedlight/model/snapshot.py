"""A snapshot: what is known of an application's load at one moment.

Rates of the sources by type, what patterns emit, how long they take per event, what is queued.
It is read from JSON, or made in Python from what was observed; both are checked alike, the
numbers when it is made and the names by `check_snapshot`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shedlight.errors import SnapshotError, known_names
from shedlight.graph.application import Application, OperatorSpec, Stream, stream_of
from shedlight.graph.topology import readers
from shedlight.language.ast.pattern import elements
from shedlight.matching.compile.type_labels import OTHER, Vocabulary, build_vocabulary
from shedlight.model.quantity import (
    BUSY,
    COST,
    COUNT,
    FACTOR,
    MOMENT,
    RATE,
    SECONDS,
    Quantity,
    dotted,
)
from shedlight.model.snapshot_file import Sections, read_sections

ByType = Mapping[str, float]
"""A number for each label of a type."""


@dataclass(frozen=True, slots=True)
class MicroBatchCosts:
    """What a micro-batch costs.

    Attributes:
        fixed: Seconds however few events it has: the paper's a.
        reading: Seconds per event that arrives, kept or not: b_in.
    """

    fixed: float
    reading: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """What is known of an application's load at one moment.

    Attributes:
        rates: Events per second of each type, for each source. For a pattern: how its complex
            events are spread over the types of those who read it.
        output_rates: Complex events per second of a pattern, as measured.
        processing_time: Mean seconds per event of a pattern, for all types or for each.
        second_moment: Mean of the squared seconds per event, likewise.
        backlog: Busy seconds that are queued at a node.
        micro_batch: What a micro-batch costs at a node.
        transport: Seconds per event that any pattern keeps, at a node.
        calibration: Matches of a pattern as measured over those modelled.
        events_per_window: How many events of its types a window of a pattern has.
        file: Where it was read from, for messages.
    """

    rates: Mapping[Stream, ByType]
    output_rates: Mapping[Stream, float] = field(default_factory=dict)
    processing_time: Mapping[Stream, float | ByType] = field(default_factory=dict)
    second_moment: Mapping[Stream, float | ByType] = field(default_factory=dict)
    backlog: Mapping[str, float] = field(default_factory=dict)
    micro_batch: Mapping[str, MicroBatchCosts] = field(default_factory=dict)
    transport: Mapping[str, float] = field(default_factory=dict)
    calibration: Mapping[Stream, float] = field(default_factory=dict)
    events_per_window: Mapping[Stream, float] = field(default_factory=dict)
    file: str = "the snapshot"

    def __post_init__(self) -> None:
        for quantity, value, keys in _numbers(self):
            quantity.require(value, self.file, dotted(*keys))

    def error(self, problem: str) -> SnapshotError:
        """Make an error that names the file."""
        return SnapshotError(f"{self.file}: {problem}")


_Number = tuple[Quantity, float, tuple[str, ...]]


def _numbers(snapshot: Snapshot) -> Iterator[_Number]:
    """List all numbers: what they mean, what they are, and where."""
    plain: tuple[tuple[str, Quantity, Mapping[Stream, object] | Mapping[str, object]], ...] = (
        ("rates", RATE, snapshot.rates),
        ("output_rates", RATE, snapshot.output_rates),
        ("processing_time", SECONDS, snapshot.processing_time),
        ("second_moment", MOMENT, snapshot.second_moment),
        ("backlog", BUSY, snapshot.backlog),
        ("transport", COST, snapshot.transport),
        ("calibration", FACTOR, snapshot.calibration),
        ("events_per_window", COUNT, snapshot.events_per_window),
    )
    for section, quantity, values in plain:
        for key, value in values.items():
            if isinstance(value, Mapping):
                for label, inner in value.items():
                    yield quantity, inner, (section, str(key), label)
            elif isinstance(value, float | int):
                yield quantity, value, (section, str(key))
    for node, costs in snapshot.micro_batch.items():
        yield COST, costs.fixed, ("micro_batch", node, "a")
        yield COST, costs.reading, ("micro_batch", node, "b_in")


def read_snapshot(path: Path, application: Application) -> Snapshot:
    """Read a snapshot of an application from JSON.

    Raises:
        SnapshotError: It cannot be used; the message has the first thing that is wrong and
            the place in the file.
    """
    snapshot = snapshot_of(read_sections(path), str(path))
    check_snapshot(snapshot, application)
    return snapshot


def sections_of(snapshot: Snapshot) -> dict[str, Any]:
    """Write a snapshot as the sections of a file."""
    by_stream = {
        name: {str(stream): value for stream, value in getattr(snapshot, name).items()}
        for name in OF_STREAMS
    }
    batches = {
        node: {"a": one.fixed, "b_in": one.reading}
        for node, one in snapshot.micro_batch.items()
    }
    return {
        **by_stream,
        "backlog": dict(snapshot.backlog),
        "transport": dict(snapshot.transport),
        "micro_batch": batches,
    }


def snapshot_of(sections: Sections, file: str) -> Snapshot:
    """Make a snapshot of sections; a key without a dot is a source, where there can be one."""
    by_stream = {
        name: {stream_of(key): value for key, value in sections.get(name, {}).items()}
        for name in OF_STREAMS
    }
    batches = {
        node: MicroBatchCosts(costs["a"], costs["b_in"])
        for node, costs in sections.get("micro_batch", {}).items()
    }
    return Snapshot(
        **by_stream,
        backlog=sections.get("backlog", {}),
        transport=sections.get("transport", {}),
        micro_batch=batches,
        file=file,
    )


OF_STREAMS = (
    "rates",
    "output_rates",
    "processing_time",
    "second_moment",
    "calibration",
    "events_per_window",
)
"""The fields of a snapshot that have a value for each stream."""

_OF_NODES = ("backlog", "micro_batch", "transport")


def check_snapshot(
    snapshot: Snapshot,
    application: Application,
    vocabularies: Mapping[str, Vocabulary] | None = None,
) -> None:
    """See that a snapshot is one of an application.

    Args:
        snapshot: The snapshot.
        application: An application that was checked.
        vocabularies: The words of each operator, if they are known already.

    Raises:
        SnapshotError: It names something that is not there, or lacks the rates of a source.
    """
    _check_names(snapshot, application)
    _check_sources(snapshot, application)
    words = vocabularies or operator_vocabularies(application)
    for stream, rates in snapshot.rates.items():
        known = [words[spec.name] for spec in readers(application, stream)]
        _check_labels(snapshot, ("rates", str(stream)), rates, known)
    for section in ("processing_time", "second_moment"):
        for stream, times in getattr(snapshot, section).items():
            if isinstance(times, Mapping):
                own = [words[str(stream.operator)]]
                _check_labels(snapshot, (section, str(stream)), times, own)


def _check_sources(snapshot: Snapshot, application: Application) -> None:
    """See that nothing is missing that is needed."""
    for name in application.sources:
        stream = Stream(name)
        if stream not in snapshot.rates and readers(application, stream):
            place = dotted("rates", name)
            example = f"such as {_example(application, stream)}"
            hint = f"add {place} with events per second by type, {example}"
            raise snapshot.error(f"rates has nothing for the source {name!r}; {hint}")
    for stream in snapshot.second_moment:
        if stream not in snapshot.processing_time:
            place = dotted("second_moment", str(stream))
            wanted = dotted("processing_time", str(stream))
            raise snapshot.error(f"{place} is of no use without {wanted}; add that too")


def operator_vocabularies(application: Application) -> Mapping[str, Vocabulary]:
    """Collect the words of each operator."""
    return {name: vocabulary_of(spec) for name, spec in application.operators.items()}


def vocabulary_of(spec: OperatorSpec) -> Vocabulary:
    """Collect the words of an operator's patterns."""
    patterns = spec.patterns.values()
    return build_vocabulary(each for one in patterns for each in elements(one.where))


def _check_names(snapshot: Snapshot, application: Application) -> None:
    patterns = {str(one): None for one in application.streams if one.operator is not None}
    for stream in snapshot.rates:
        if stream.operator is None:
            _check_name(snapshot, "rates", "source", str(stream), application.sources)
        else:
            _check_name(snapshot, "rates", "pattern", str(stream), patterns)
    for section in OF_STREAMS[1:]:
        for key in map(str, getattr(snapshot, section)):
            _check_name(snapshot, section, "pattern", key, patterns)
    for section in _OF_NODES:
        for key in getattr(snapshot, section):
            _check_name(snapshot, section, "node", key, application.nodes)


def _check_name(
    snapshot: Snapshot, section: str, what: str, name: str, known: Collection[str]
) -> None:
    if name not in known:
        hint = known_names(name, known)
        raise snapshot.error(f"{section} names the unknown {what} {name[:60]!r}; {hint}")


def _check_labels(
    snapshot: Snapshot,
    place: tuple[str, ...],
    labels: Mapping[str, object],
    vocabularies: list[Vocabulary],
) -> None:
    """See that each label is one of somebody who reads the stream."""
    for label in labels if vocabularies else ():
        if all(one.parse(label) is None for one in vocabularies):
            words = [word for one in vocabularies for word in one.words]
            hint = known_names(label, [*words, OTHER])
            raise snapshot.error(f"{dotted(*place)} has the unknown type {label!r}; {hint}")


def _example(application: Application, source: Stream) -> str:
    """Show what rates look like, with a type of the source's first reader."""
    spec = readers(application, source)[0]
    label = next(iter(vocabulary_of(spec).words), OTHER)
    return f'{{"{label}": 10}}'

"""A snapshot: what is known of an application's load at one moment.

Rates of the sources by type, what patterns emit, how long they take per event, what is queued.
It is read from JSON (`snapshot_file.py`), or made in Python from what was observed. Both are
checked alike: the numbers when it is made, the names by `check_snapshot`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import BeforeValidator, ConfigDict, Discriminator, PlainSerializer, PlainValidator
from pydantic_core import ArgsKwargs, ErrorDetails

from shedlight.errors import SnapshotError, known_names
from shedlight.graph.application import Application, Stream, parse_stream
from shedlight.graph.strata import find_stratified
from shedlight.graph.topology import readers
from shedlight.matching.compile.type_labels import OTHER, Vocabulary
from shedlight.model.model import SheddingWay
from shedlight.model.quantity import (
    BusySeconds,
    BytesPerEvent,
    CalibrationFactor,
    CostSeconds,
    EventsPerSecond,
    SecondsPerEvent,
    SquaredSeconds,
    describe_value,
    format_keys,
)
from shedlight.model.type_index import operator_vocabularies, operator_vocabulary

STREAM_SECTIONS = (
    "rates",
    "output_rates",
    "processing_time",
    "second_moment",
    "calibration",
    "event_bytes",
)
"""The sections of a snapshot that have a value for each stream."""
NODE_SECTIONS = ("backlog", "micro_batch", "transport")
"""The sections that have a value for each node."""
_STRATA = "strata"  # the section that has a value for each operator

ByType = Mapping[str, float]  # a number for each label of a type


@dataclass(frozen=True, slots=True)
class MicroBatchCosts:
    """What a micro-batch costs.

    Attributes:
        fixed: Seconds however few events it has: the paper's a.
        reading: Seconds per event that arrives, kept or not: b_in.
    """

    fixed: float
    reading: float


@pydantic.dataclasses.dataclass(
    frozen=True, slots=True, config=ConfigDict(extra="forbid"), eq=False
)
class StratumRates:
    """What is known of a stratum of the keys of an operator.

    Attributes:
        rates: Events per second of each type that arrive at the operator.
        calibration: What its patterns yield of this stratum, by name; as of all keys, of those
            that are not in it.
        way: How it is shed; None: a heavy hitter by types and events, all others by key.
    """

    rates: Mapping[str, EventsPerSecond]
    calibration: Mapping[str, CalibrationFactor] = field(default_factory=dict)
    way: Annotated[
        SheddingWay | None, PlainSerializer(lambda way: way.value if way else None)
    ] = None


class _CostsInFile(pydantic.BaseModel):
    """The costs of a micro-batch by their keys in a file."""

    model_config = ConfigDict(extra="forbid")
    a: CostSeconds
    b_in: CostSeconds


def _costs_by_key(costs: MicroBatchCosts) -> dict[str, float]:
    return {"a": costs.fixed, "b_in": costs.reading}


def _read_costs(value: object) -> MicroBatchCosts:
    by_key = _costs_by_key(value) if isinstance(value, MicroBatchCosts) else value
    costs = _CostsInFile.model_validate(by_key)
    return MicroBatchCosts(costs.a, costs.b_in)


def _with_text_keys(value: object) -> object:
    """Write streams as in a file: keys are in the paths of errors."""
    if isinstance(value, Mapping):
        return {str(key): inner for key, inner in value.items()}
    return value


def _number_or_by_type(value: object) -> str:
    return "by type" if isinstance(value, Mapping) else "number"


_T = TypeVar("_T")
_Stream = Annotated[Stream, PlainValidator(parse_stream), PlainSerializer(str)]
ByStream = Annotated[Mapping[_Stream, _T], BeforeValidator(_with_text_keys)]
"""A value for each stream; in a file by its name, a source or operator.pattern."""
NumberOrByType = Annotated[
    Annotated[_T, pydantic.Tag("number")]
    | Annotated[Mapping[str, _T], pydantic.Tag("by type")],
    Discriminator(_number_or_by_type),
]
"""A number for all types, or one for each label."""
BatchCosts = Annotated[
    MicroBatchCosts, PlainValidator(_read_costs), PlainSerializer(_costs_by_key)
]


@pydantic.dataclasses.dataclass(
    frozen=True, slots=True, kw_only=True, eq=False, config=ConfigDict(extra="forbid")
)
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
        event_bytes: Bytes of a complex event of a pattern on its way to other nodes.
        strata: What is known of the strata of keys, by operator and by the name of the stratum.
            The rest of the keys may be left out.
        file: Where it was read from, for messages.
    """

    rates: ByStream[Mapping[str, EventsPerSecond]]
    output_rates: ByStream[EventsPerSecond] = field(default_factory=dict)
    processing_time: ByStream[NumberOrByType[SecondsPerEvent]] = field(default_factory=dict)
    second_moment: ByStream[NumberOrByType[SquaredSeconds]] = field(default_factory=dict)
    backlog: Mapping[str, BusySeconds] = field(default_factory=dict)
    micro_batch: Mapping[str, BatchCosts] = field(default_factory=dict)
    transport: Mapping[str, CostSeconds] = field(default_factory=dict)
    calibration: ByStream[CalibrationFactor] = field(default_factory=dict)
    event_bytes: ByStream[BytesPerEvent] = field(default_factory=dict)
    strata: Mapping[str, Mapping[str, StratumRates]] = field(default_factory=dict)
    file: str = "the snapshot"

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _explain(
        cls, given: ArgsKwargs, make: pydantic.ModelWrapValidatorHandler["Snapshot"]
    ) -> "Snapshot":
        """Say what is wrong as for a user, in a SnapshotError."""
        try:
            return make(given)
        except pydantic.ValidationError as error:
            # a key that is not known, or is missing, explains what else is wrong
            order = dict.fromkeys(_UNKNOWN, 0) | {"missing": 1}
            details = error.errors(include_url=False)
            first = min(details, key=lambda detail: order.get(detail["type"], 2))
            file = (given.kwargs or {}).get("file", "the snapshot")
            raise SnapshotError(f"{file}: {_problem(first)}") from error

    def error(self, problem: str) -> SnapshotError:
        """Make an error that names the file."""
        return SnapshotError(f"{self.file}: {problem}")


def _problem(detail: ErrorDetails) -> str:
    """Say where something is wrong, what is there and what to write."""
    keys = [str(key) for key in detail["loc"]]
    if keys[0] in {"processing_time", "second_moment"}:
        del keys[2:3]  # number or by type
    *outer, last = keys
    around = format_keys(*outer) or "the snapshot"
    if detail["type"] in _UNKNOWN:
        known = _known_keys(outer)
        return f"{around} has no {last[:60]!r}; {known_names(last, known)}"
    if detail["type"] == "missing":
        return f"{around} lacks {last!r}; write {object_form(*outer)}"
    if detail["type"] in {"dict_type", "model_type"}:
        found = describe_value(detail["input"])
        return f"{format_keys(*keys)} is {found}, not an object; write {object_form(*keys)}"
    return f"{format_keys(*keys)} {detail['msg']}"


_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def _known_keys(outer: Sequence[str]) -> Collection[str]:
    """List the keys of an object at a path."""
    if not outer:
        return (*STREAM_SECTIONS, *NODE_SECTIONS, _STRATA)
    if outer[0] == _STRATA:
        return [each.name for each in fields(StratumRates)]
    return _CostsInFile.model_fields


def object_form(*keys: str) -> str:
    """Show what the object at a path of keys looks like; without keys, the whole snapshot."""
    match keys:
        case ():
            return '{"rates": {"s1": {"type=0": 10}}}, events per second by source and type'
        case ("strata", *_):
            return '{"operator": {"stratum": {"rates": {"type=0": 10}}}}'
        case ("rates", _):
            return '{"type=0": ...} with events per second by type'
        case (_, _):
            return '{"a": seconds, "b_in": seconds}'
        case ("rates",):
            return '{"source": ...}'
        case (section, *_):
            return '{"node": ...}' if section in NODE_SECTIONS else '{"operator.pattern": ...}'
    raise ValueError(f"no object has the keys {keys}")


_SNAPSHOT = pydantic.TypeAdapter(Snapshot)


def snapshot_sections(snapshot: Snapshot) -> dict[str, Any]:
    """Write a snapshot as the sections of a file; `Snapshot(**sections)` reads them."""
    return dict(_SNAPSHOT.dump_python(snapshot, exclude={"file"}))


def check_snapshot(
    snapshot: Snapshot,
    application: Application,
    vocabularies: Mapping[str, Vocabulary] | None = None,
) -> None:
    """See that a snapshot is one of an application, whose vocabularies may be known already.

    Raises:
        SnapshotError: It names something that is not there, or lacks the rates of a source.
    """
    _check_names(snapshot, application)
    _check_sources(snapshot, application)
    known = vocabularies or operator_vocabularies(application)
    for stream, rates in snapshot.rates.items():
        read_by = [known[spec.name] for spec in readers(application, stream)]
        _check_labels(snapshot, "rates", stream, rates, read_by)
    for section in ("processing_time", "second_moment"):
        for stream, times in getattr(snapshot, section).items():
            if isinstance(times, Mapping):
                own = [known[str(stream.operator)]]
                _check_labels(snapshot, section, stream, times, own)
    for operator, strata in snapshot.strata.items():
        for name, stratum in strata.items():
            stream = Stream(name, operator)
            _check_labels(snapshot, _STRATA, stream, stratum.rates, [known[operator]])


def _check_names(snapshot: Snapshot, application: Application) -> None:
    patterns = {str(s) for s in application.streams if s.operator is not None}
    for section in STREAM_SECTIONS:
        for stream in getattr(snapshot, section):
            if section == "rates" and stream.operator is None:
                _check_name(snapshot, section, "source", stream.name, application.sources)
            else:
                _check_name(snapshot, section, "pattern", str(stream), patterns)
    for section in NODE_SECTIONS:
        for node in getattr(snapshot, section):
            _check_name(snapshot, section, "node", node, application.nodes)
    _check_strata(snapshot, application)


def _check_strata(snapshot: Snapshot, application: Application) -> None:
    stratified = find_stratified(application) if snapshot.strata else {}
    for operator, strata in snapshot.strata.items():
        _check_name(snapshot, _STRATA, "operator", operator, application.operators)
        if operator not in stratified:
            problem = f"{format_keys(_STRATA, operator)} is of an operator without strata"
            hint = "its patterns must have one key, a bound, and no protected closure"
            raise snapshot.error(f"{problem}; {hint}")
        names = application.operators[operator].patterns
        for stratum in strata.values():
            for name in stratum.calibration:
                _check_name(snapshot, _STRATA, "pattern", name, names)


def _check_name(
    snapshot: Snapshot, section: str, what: str, name: str, known: Collection[str]
) -> None:
    if name not in known:
        hint = known_names(name, known)
        raise snapshot.error(f"{section} names the unknown {what} {name[:60]!r}; {hint}")


def _check_sources(snapshot: Snapshot, application: Application) -> None:
    """See that nothing is missing that is needed."""
    for name in application.sources:
        specs = readers(application, Stream(name))
        if Stream(name) not in snapshot.rates and specs:
            label = next(iter(operator_vocabulary(specs[0]).words), OTHER)
            example = f'such as {{"{label}": 10}}'
            hint = f"add {format_keys('rates', name)} with events per second by type, {example}"
            raise snapshot.error(f"rates has nothing for the source {name!r}; {hint}")
    for stream in snapshot.second_moment:
        if stream not in snapshot.processing_time:
            path = format_keys("second_moment", str(stream))
            missing = format_keys("processing_time", str(stream))
            raise snapshot.error(f"{path} is of no use without {missing}; add that too")


def _check_labels(
    snapshot: Snapshot,
    section: str,
    stream: Stream,
    labels: Mapping[str, object],
    vocabularies: list[Vocabulary],
) -> None:
    """See that each label is one of somebody who reads the stream."""
    for label in labels if vocabularies else ():
        if all(vocabulary.parse(label) is None for vocabulary in vocabularies):
            words = [word for vocabulary in vocabularies for word in vocabulary.words]
            path, hint = format_keys(section, str(stream)), known_names(label, [*words, OTHER])
            raise snapshot.error(f"{path} has the unknown type {label!r}; {hint}")

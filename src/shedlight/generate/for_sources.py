"""Generated events for the sources of an application.

A generated stream has one attribute that tells types apart, and keys. It can stand for a source
if that is all that the patterns which read it ask for. A type of the stream is then one of the
constants that they compare the attribute with.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from shedlight.errors import InputError
from shedlight.generate import streams
from shedlight.generate.borg_like import BorgLike, make_borg_like
from shedlight.generate.projection import project_columns
from shedlight.generate.specs import RateStep, StreamSpec
from shedlight.graph import Application, Source, Stream, readers
from shedlight.graph.application import OperatorSpec, TimeUnit
from shedlight.language.ast.pattern import WindowUnit
from shedlight.model.type_index import operator_vocabulary

_OWN = frozenset({"source", "time", "id"})
"""Columns that every event has, or that only complex events have."""
_KEYS = 1_000
_IDS = 10**12  # how far apart the ids of two sources begin
_PER_MINUTE = 7.8  # events of all clusters of a borg-like stream before it is compressed
_CLUSTERS = 8
_CALM = 0.5  # the first half of a step has so much of the mean rate, the second the rest


class StreamProfile(Enum):
    """What generated events are like."""

    BALANCED = "balanced"
    SKEWED = "skewed"
    BURSTY = "bursty"
    DRIFTING = "drifting"
    SPARSE = "sparse"
    STEP = "step"
    BORG_LIKE = "borg-like"


@dataclass(frozen=True, slots=True)
class SourceDemand:
    """What the patterns that read a source ask of its events."""

    attribute: str  # what they compare with constants
    # the constants, and one other value if a pattern asks for others
    values: tuple[int | str, ...]
    keys: frozenset[str]  # what they partition by
    window: float  # the shortest window, in seconds


def source_demands(application: Application) -> Mapping[str, SourceDemand]:
    """Find out what to generate for each source.

    Raises:
        InputError: A pattern asks for something that generated events do not have.
    """
    _, read = project_columns(application)
    return {
        name: _source_demand(application, name, read[Stream(name)].names)
        for name in application.sources
    }


def with_generated_sources(application: Application) -> Application:
    """Let the sources have the columns of generated events, and select no others."""
    application, _ = project_columns(application)
    sources = {
        name: Source(
            name=name,
            format=source.format,
            path=source.path,
            time="time",
            time_unit=TimeUnit.MICROSECONDS,
            id=("id",),
        )
        for name, source in application.sources.items()
    }
    return replace(application, sources=sources)


def sparse_rate(demands: Mapping[str, SourceDemand]) -> float:
    """Give the rate of a sparse stream: a handful of events in the shortest window."""
    return 4.0 / min(demand.window for demand in demands.values())


def make_sources(
    demands: Mapping[str, SourceDemand],
    profile: StreamProfile,
    *,
    rate: float,
    duration: float,
    seed: int,
) -> dict[str, pa.Table]:
    """Draw the events of all sources, each at the same rate per second on average."""
    tables = {}
    for number, (name, demand) in enumerate(demands.items()):
        first_id, values = number * _IDS, demand.values
        if profile is StreamProfile.BORG_LIKE:
            spec = _borg_like(number, len(demands), rate=rate, duration=duration, seed=seed)
            table = make_borg_like(spec, first_id)
            types = table["key"].to_numpy() % len(values)
        else:
            stream = _spec(profile, len(values), rate, duration, seed * 1_000 + number)
            stream = replace(stream, keys=_KEYS if demand.keys else 0)
            table = streams.make_stream(stream, first_id)
            types = table["type"].to_numpy()
        columns = {"time": table["time"], "id": table["id"]}
        columns[demand.attribute] = pa.array(values).take(pa.array(types))
        for key in sorted(demand.keys):
            columns[key] = table["key"]
        tables[name] = pa.table(columns)
    return tables


def _spec(
    profile: StreamProfile, types: int, rate: float, duration: float, seed: int
) -> StreamSpec:
    if profile is StreamProfile.STEP:
        shares = (1 / types,) * types
        calm = RateStep(at=0.0, rate=_CALM * rate, shares=shares)
        rush = RateStep(at=duration / 2, rate=(2 - _CALM) * rate, shares=shares)
        return streams.stepped([calm, rush], duration=duration, seed=seed)
    make = {
        StreamProfile.SKEWED: streams.skewed,
        StreamProfile.BURSTY: streams.bursty,
        StreamProfile.DRIFTING: streams.drifting,
    }.get(profile, streams.balanced)
    spec: StreamSpec = make(rate=rate, duration=duration, seed=seed, types=types)
    return spec


def _borg_like(
    number: int, sources: int, *, rate: float, duration: float, seed: int
) -> BorgLike:
    """Choose some clusters for a source; together they are one world, as far as they go."""
    clusters = tuple(range(1 + number % _CLUSTERS, _CLUSTERS + 1, min(sources, _CLUSTERS)))
    compression = rate / (_PER_MINUTE / 60 * len(clusters) / _CLUSTERS)
    return BorgLike(
        clusters=clusters,
        seed=seed + number // _CLUSTERS,
        days=duration * compression / 86_400,
        compression=compression,
    )


def _source_demand(application: Application, source: str, read: Iterable[str]) -> SourceDemand:
    specs = readers(application, Stream(source))
    constants: dict[str, dict[int | str, None]] = {}
    others = False
    for spec in specs:
        alphabet = operator_vocabulary(spec).alphabet
        if alphabet.open:
            raise _cannot_generate(source, f"{spec.name} asks for {str(alphabet.open[0])!r}")
        others |= any(test.negated for test in alphabet.tests)
        for closed in alphabet.closed:
            if str(closed.column) != "source":
                values = constants.setdefault(str(closed.column), {})
                values.update(dict.fromkeys(closed.values))
    patterns = [pattern for spec in specs for pattern in spec.patterns.values()]
    keys = {key.path[0] for pattern in patterns for key in pattern.partition_by}
    if len(constants) > 1:
        raise _cannot_generate(source, f"patterns ask for {' and '.join(sorted(constants))}")
    attribute = next(iter(constants), "type")
    missing = sorted({*read} - {attribute} - keys - _OWN)
    if missing:
        raise _cannot_generate(source, f"patterns read {missing[0]!r}")
    compared = tuple(constants.get(attribute, {0: None}))
    if others:
        compared += (_other_value(compared),)
    window = _shortest_window(specs)
    return SourceDemand(attribute, compared, frozenset(keys - {attribute}), window)


def _other_value(values: tuple[int | str, ...]) -> int | str:
    numbers = [value for value in values if isinstance(value, int)]
    return max(numbers) + 1 if numbers else "other"


def _shortest_window(specs: Iterable[OperatorSpec]) -> float:
    windows = (pattern.within for spec in specs for pattern in spec.patterns.values())
    lengths = [w.length / 1e6 for w in windows if w and w.unit is WindowUnit.TIME]
    return min(lengths, default=10.0)


def _cannot_generate(source: str, why: str) -> InputError:
    return InputError(
        f"events of source {source!r} cannot be generated: {why}, and a generated event has "
        f"one attribute that is compared with constants, and keys; give --input {source}=FILE"
    )

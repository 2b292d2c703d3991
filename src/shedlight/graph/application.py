"""An application as a value: sources, operators on nodes, sinks.

    sources --events--> operators (patterns) --complex events--> operators ... --> sinks

It is the same value whether it was read from a file (`loader.py`) or made in Python. What holds
for one part of it is checked when that part is made; what holds between parts (references,
cycles, data types of columns) is checked by `check_application` in `check.py`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar
from zoneinfo import available_timezones

from shedlight.graph.channels import Channels
from shedlight.graph.kafka import KAFKA, RecordValue, record_id, record_schema
from shedlight.graph.run_settings import RunSettings
from shedlight.language import Expression, Pattern, Schema
from shedlight.matching.output.timed_out import timed_out_name

PERCENTILES = range(50, 100)
"""The percentiles of latency that a bound may be of."""
EXAMPLE_ZONE = "Europe/Berlin"
DATAFRAME = "dataframe"
"""The format of what is not read or written by us: a DataFrame or a writer, given in Python."""
UNSHED_SAMPLE = 0.01
"""The share of keys that is never shed, if the application does not say otherwise."""
MAX_JUMP = 86_400_000_000
"""How far after its arrival the time of an event may be, in microseconds: a day, since a wrong
time zone is less than that."""


class TimeUnit(Enum):
    """What the numbers in a time column count; a timestamp needs none."""

    NANOSECONDS = "ns"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    SECONDS = "s"

    def __str__(self) -> str:
        return self.value


class ShedBy(Enum):
    """What is kept or shed as one: each event, or all events of a key."""

    EVENT = "event"
    KEY = "key"

    def __str__(self) -> str:
        return self.value


class Stream(NamedTuple):
    """The events of a source, or the complex events of a pattern.

    Attributes:
        name: Of the source or the pattern.
        operator: The operator that has the pattern; None for a source.

    Example:
        >>> print(Stream("s1"), Stream("Q11", "w1"))
        s1 w1.Q11
    """

    name: str
    operator: str | None = None

    def __str__(self) -> str:
        return self.name if self.operator is None else f"{self.operator}.{self.name}"


def parse_stream(text: str) -> Stream:
    """Read what a stream is written as: a source, or operator.pattern.

    Example:
        >>> parse_stream(" w1.Q11 ") == Stream("Q11", "w1")
        True
    """
    operator, dot, name = text.strip().partition(".")
    return Stream(name.strip(), operator.strip()) if dot else Stream(operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutput:
    """Where something goes that is neither matched nor lost.

    Attributes:
        format: A format of Spark, such as parquet or kafka.
        path: Where to write files, if the format has files.
        options: What else the format needs, as Spark takes it.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where events come from.

    Attributes:
        name: Unique among the sources.
        format: A format of Spark, such as parquet or kafka; by default a DataFrame that is
            given to `Live`.
        path: Where the files are, if the format has files.
        options: What else the format needs, as Spark takes it.
        time: The column with the time of an event: a timestamp, a date, text in ISO-8601, or a
            number.
        time_unit: What that column counts if it has numbers.
        time_zone: The time zone of timestamps and of text that have none; None: UTC.
        id: The columns that identify an event; of a record of Kafka by default its topic,
            partition and offset.
        value: How the values of Kafka's records are written; their fields are columns then.
        columns: Derived columns; each may use those of the source and those before it.
        schema: The columns of the source without the derived ones; None: read them from the
            data.
        lateness: How far behind the latest an event may be, in microseconds.
        max_jump: How far ahead of the clock the time of an event may be, in microseconds; one
            that is beyond is late, and moves no watermark.
        idle: After how long without events it holds back no operator, in microseconds; None:
            the engine decides.
        arrival: The column that says when an event arrived, a timestamp or microseconds; None:
            the engine knows.
        late: Where late events go; None: they are counted.
        malformed: Where records go that cannot be parsed or have no time or id; None: they are
            an error.
    """

    name: str
    format: str = DATAFRAME
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    time: str
    time_unit: TimeUnit = TimeUnit.MICROSECONDS
    time_zone: str | None = None
    id: tuple[str, ...] = ()
    value: RecordValue | None = None
    columns: Mapping[str, Expression] = field(default_factory=dict)
    schema: Schema | None = None
    lateness: int = 0
    max_jump: int = MAX_JUMP
    idle: int | None = None
    arrival: str | None = None
    late: SideOutput | None = None
    malformed: SideOutput | None = None

    def __post_init__(self) -> None:
        if self.value is not None:
            if not self.is_kafka:
                raise ValueError(f"source {self.name!r} has a value, but is not of Kafka")
            object.__setattr__(self, "schema", record_schema(self.value))
        if not self.id and self.is_kafka:
            object.__setattr__(self, "id", record_id(self.value))
        if not self.id:
            raise ValueError(f"source {self.name!r} needs at least one id column")
        if self.time_zone is not None and self.time_zone not in available_timezones():
            raise ValueError(
                f"unknown time zone {self.time_zone!r}; name one such as {EXAMPLE_ZONE}"
            )
        _check_times(self)

    @property
    def is_kafka(self) -> bool:
        """Whether it reads topics of Kafka."""
        return self.format.lower() == KAFKA

    @property
    def side_outputs(self) -> Mapping[str, SideOutput]:
        """The side outputs that it has, by the name of the setting."""
        outputs = {"late": self.late, "malformed": self.malformed}
        return {name: output for name, output in outputs.items() if output is not None}


def _check_times(source: Source) -> None:
    if source.lateness < 0:
        raise ValueError(f"lateness cannot be negative, got {source.lateness}")
    for name, time in (("max_jump", source.max_jump), ("idle", source.idle)):
        if time is not None and time <= 0:
            raise ValueError(f"{name} must be longer than zero, got {time}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where operators run.

    Attributes:
        name: Unique among the nodes.
        bound: The time that an event may spend here, in seconds; None: it never sheds.
        percentile: Of which percentile of these times the bound is, from 50 to 99; None: of
            their mean.
    """

    name: str
    bound: float | None = None
    percentile: int | None = None

    def __post_init__(self) -> None:
        if self.bound is not None and not 0 < self.bound < math.inf:
            raise ValueError(f"bound must be longer than zero, got {self.bound}")
        if self.percentile is not None and self.percentile not in PERCENTILES:
            raise ValueError(
                f"percentile must be a whole number from 50 to 99, got {self.percentile}; "
                "leave it out for a bound of the mean"
            )
        if self.percentile is not None and self.bound is None:
            raise ValueError(f"percentile {self.percentile} has no bound; give one in seconds")


def bound_kind(percentile: int | None) -> str:
    """Say of what a bound is; it stands behind the bound's seconds.

    Example:
        >>> bound_kind(None), bound_kind(95)
        ('on average', 'at p95')
    """
    return "on average" if percentile is None else f"at p{percentile}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSpec:
    """Patterns over the same inputs.

    Attributes:
        name: Unique among the operators.
        node: Where it runs.
        inputs: What it reads, in order of declaration.
        patterns: What it looks for; a pattern's name is unique in the application.
        never_shed: Types that are always kept, by label; a label stands for all types of which
            its words hold.
        shed_by: What is shed as one; None: by key where a pattern has one, else by event.
    """

    name: str
    node: str
    inputs: tuple[Stream, ...]
    patterns: Mapping[str, Pattern]
    never_shed: tuple[str, ...] = ()
    shed_by: ShedBy | None = None

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError(f"operator {self.name!r} needs at least one input")
        if not self.patterns:
            raise ValueError(f"operator {self.name!r} needs at least one pattern")

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """The complex events of its patterns."""
        return tuple(Stream(name, self.name) for name in self.patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where the complex events of a pattern go, or what timed out of it.

    Attributes:
        name: Unique among the sinks.
        input: The pattern.
        timed_out: Whether it takes the partial matches whose window closed without a match,
            instead of the matches. Plans do not count them: then its weight must be 0.
        weight: What one complex event here is worth against those of other sinks.
        min_rate: The least complex events per second that a plan may leave.
        min_share: The least share of its complex events without shedding that a plan may leave.
        format: A format of Spark, such as parquet or kafka; by default a writer that is given
            to `Live`.
        path: Where to write files, if the format has files.
        options: What else the format needs, as Spark takes it.
    """

    name: str
    input: Stream
    timed_out: bool = False
    weight: float = 1.0
    min_rate: float = 0.0
    min_share: float = 0.0
    format: str = DATAFRAME
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"weight must be a number from 0 on, got {self.weight}")
        if not 0 <= self.min_rate < math.inf:
            raise ValueError(f"min_rate must be a number from 0 on, got {self.min_rate}")
        if not 0 <= self.min_share <= 1:
            raise ValueError(f"min_share must be from 0 to 1, got {self.min_share}")
        if self.timed_out and (self.weight or self.min_rate or self.min_share):
            raise ValueError(
                f"sink {self.name!r} takes what timed out, which plans do not count; "
                "give it weight=0, and no min_rate or min_share"
            )

    @property
    def stream(self) -> Stream:
        """What it is given: the complex events of its input, or what timed out of it."""
        if not self.timed_out:
            return self.input
        return Stream(timed_out_name(self.input.name), self.input.operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Sources, operators on nodes, and sinks, each by name in order of declaration.

    Attributes:
        name: What it is called.
        sources: Where events come from.
        nodes: Where operators run.
        operators: What it looks for.
        sinks: Where complex events go.
        unshed_sample: The share of keys that is never shed, to estimate what is lost by; 0:
            there is no estimate.
        run: How it asks to be run on Spark.
        channels: How complex events get from node to node; None: through folders.
    """

    name: str
    sources: Mapping[str, Source]
    nodes: Mapping[str, Node]
    operators: Mapping[str, OperatorSpec]
    sinks: Mapping[str, Sink]
    unshed_sample: float = UNSHED_SAMPLE
    run: RunSettings = field(default_factory=RunSettings)
    channels: Channels | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.unshed_sample < 1:
            raise ValueError(
                f"unshed_sample must be from 0 to below 1, got {self.unshed_sample}"
            )
        for parts in (self.sources, self.nodes, self.operators, self.sinks):
            for name, part in parts.items():
                if part.name != name:
                    raise ValueError(f"{part.name!r} is filed under the name {name!r}")

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All sources and all patterns."""
        sources = tuple(map(Stream, self.sources))
        return sources + tuple(s for spec in self.operators.values() for s in spec.outputs)

    @property
    def timed_out(self) -> frozenset[Stream]:
        """The patterns of which a sink takes what timed out."""
        return frozenset(sink.input for sink in self.sinks.values() if sink.timed_out)

    def pattern(self, stream: Stream) -> Pattern:
        """Find the pattern behind a stream that is no source."""
        if stream.operator is None:
            raise ValueError(f"{stream} is a source, not a pattern")
        return self.operators[stream.operator].patterns[stream.name]


_Part = TypeVar("_Part", Source, Node, OperatorSpec, Sink)


def build_application(
    name: str,
    sources: Iterable[Source],
    nodes: Iterable[Node],
    operators: Iterable[OperatorSpec],
    sinks: Iterable[Sink],
) -> Application:
    """Put an application together; `check_application` says whether it holds together.

    Raises:
        ValueError: Two parts of one sort have the same name.
    """
    return Application(
        name=name,
        sources=_by_name(sources),
        nodes=_by_name(nodes),
        operators=_by_name(operators),
        sinks=_by_name(sinks),
    )


def _by_name(parts: Iterable[_Part]) -> dict[str, _Part]:
    by_name: dict[str, _Part] = {}
    for part in parts:
        if part.name in by_name:
            raise ValueError(f"two of the same name: {part.name!r}")
        by_name[part.name] = part
    return by_name

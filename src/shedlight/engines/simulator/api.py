"""Policies that a simulation asks, and its record of intervals and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from shedlight.control.observation import Observation
from shedlight.graph.application import Stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.operators.step import ReadyBatch
from shedlight.model.arrays import Floats
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True)
class StratumCounts:
    """What was counted of a stratum of the keys of an operator."""

    arrivals: Mapping[str, int]  # events of each type
    kept: Mapping[str, Mapping[str, int]]  # events of each type that each pattern kept
    outputs: Mapping[str, int]  # complex events of each pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What was counted between two control instants.

    Attributes:
        start: When it began, in seconds from the first event.
        length: How long it was.
        arrivals: Events of each type that became ready at each operator from each of its
            inputs, by label.
        kept: Events of each type that each pattern kept.
        spent: Seconds that each pattern took, and the sum of their squares.
        outputs: Complex events of each pattern, and what timed out where a sink takes it.
        busy: Seconds of work that each node took on.
        backlog: Seconds of work that were queued at each node at the end.
        processed: Events at each node that some pattern kept.
        latency: The sum of the times that these spent there, in seconds; what is not
            processing of it is queueing.
        unknown: Types that the shares did not know, by pattern.
        shed: Relevant events at each node that no pattern kept.
        not_admitted: Events at each node that were not admitted, for too much was queued, and
            that their shares would have kept: shed for all patterns that are not exempt.
        processing: The part of the latency that was processing: of an event by itself, or of
            its micro-batch.
        reading: Seconds that each node took to read the events of micro-batches.
        pressure: The factor by which each node of micro-batches lowered its shares in the last.
        observations: What was observed of micro-batches, at most once; None: nodes have none,
            so intervals are observed.
        strata: What was counted of strata of keys, by operator and name; empty if nobody
            sheds in strata.
        key_histories: The histories of a sample of keys so far, by operator, likewise.
        event_bytes: Bytes of a complex event of each pattern that other nodes read.
        links: Bytes that were sent over each link of limited capacity.
    """

    start: float
    length: float
    arrivals: Mapping[str, Mapping[Stream, Mapping[str, int]]]
    kept: Mapping[Stream, Mapping[str, int]]
    spent: Mapping[Stream, tuple[float, float]]
    outputs: Mapping[Stream, int]
    busy: Mapping[str, float]
    backlog: Mapping[str, float]
    processed: Mapping[str, int]
    latency: Mapping[str, float]
    unknown: Mapping[Stream, tuple[str, ...]]
    shed: Mapping[str, int] = field(default_factory=dict)
    not_admitted: Mapping[str, int] = field(default_factory=dict)
    processing: Mapping[str, float] = field(default_factory=dict)
    reading: Mapping[str, float] = field(default_factory=dict)
    pressure: Mapping[str, float] = field(default_factory=dict)
    observations: tuple[Observation, ...] | None = None
    strata: Mapping[str, Mapping[str, StratumCounts]] = field(default_factory=dict)
    key_histories: Mapping[str, KeyHistory] = field(default_factory=dict)
    event_bytes: Mapping[Stream, float] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the events that arrived at an operator; one of these of each.

    Attributes:
        arrived: All of them.
        processed: Some pattern kept it.
        shed: Some pattern can take it, and none kept it.
        unused: No pattern can take it.
        late: It came behind the watermark of its input.
        duplicates: It came again.
        expired: It waited for another input until the end, and was never ready.
    """

    arrived: int
    processed: int
    shed: int
    unused: int
    late: int
    duplicates: int
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedEvents:
    """Events that were processed, in the order in which they were ready.

    Attributes:
        node: Where.
        operator: By which operator.
        time: The timestamp of each, in microseconds.
        arrival: When it arrived, in seconds.
        queueing: How long it waited until its processing began, in seconds.
        processing: How long that took, in seconds.
        exempt: Whether it was admitted however much was queued, for a protected closure or a
            type that is never shed, where events are admitted one by one.
    """

    node: str
    operator: str
    time: Array
    arrival: Floats
    queueing: Floats
    processing: Floats
    exempt: Array


class Policy(Protocol):
    """Decides, at the end of each interval, what patterns keep in the next."""

    def decide(self, interval: Interval) -> Shares | None:
        """Give new shares; None: the old ones stay."""


class Chooser(Protocol):
    """Says which events a pattern keeps, where a share of each type does not say enough."""

    def choose(
        self, matcher: Matcher, ready: ReadyBatch, offered: Array, hashes: Array
    ) -> Array:
        """Say which events are kept, of those that the pattern can take."""

    def learn(self, hashes: Array, brought: Floats) -> None:
        """Learn what events brought, by the hashes of their ids: parts of complex events."""


@runtime_checkable
class Choosing(Policy, Protocol):
    """A policy that chooses event by event."""

    @property
    def choosers(self) -> Mapping[Stream, Chooser]:
        """Who chooses for a pattern, whatever its shares are."""


@runtime_checkable
class Stratifying(Policy, Protocol):
    """A policy that may shed keys in strata."""

    @property
    def sheds_in_strata(self) -> bool:
        """Whether it is to know of the strata of keys."""

"""What a simulation is told, and what it tells of each interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from shedlight.graph.application import Stream
from shedlight.shedding.shares import Shares


class ServiceKind(Enum):
    """How the processing time of an event varies."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How long processing takes.

    Attributes:
        seconds: The mean for an event that a pattern keeps, by pattern; nothing, for one that
            is not in it.
        kind: How it varies.
    """

    seconds: Mapping[Stream, float]
    kind: ServiceKind = ServiceKind.EXPONENTIAL

    def __post_init__(self) -> None:
        for stream, seconds in self.seconds.items():
            if not 0 <= seconds < float("inf"):
                raise ValueError(f"{stream} cannot take {seconds} s for an event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What happened between two control instants.

    Attributes:
        start: When it began, in seconds from the first event.
        length: How long it was.
        arrivals: Events of each type that became ready at each operator from each of its
            inputs, by label.
        kept: Events of each type that each pattern kept.
        spent: Seconds that each pattern took, and the sum of their squares.
        outputs: Complex events of each pattern.
        busy: Seconds of work that each node took on.
        backlog: Seconds of work that were queued at each node at the end.
        processed: Events at each node that some pattern kept.
        latency: The sum of the times that these spent there, in seconds.
        unknown: Types that the shares did not know, by pattern.
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


class Policy(Protocol):
    """Decides, at the end of each interval, what patterns keep in the next."""

    def decide(self, interval: Interval) -> Shares | None:
        """Give new shares; None: the old ones stay."""

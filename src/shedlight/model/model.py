"""The application model: what flows where, as numbers.

Which types arrive at an operator and how fast, what each pattern needs of them and how long it
takes, where its matches go. `build.py` makes it from an application and a snapshot; a benchmark
may make it from arrays. `rates.py` predicts with it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from shedlight.graph.application import Stream
from shedlight.language.ast.pattern import Pattern
from shedlight.model.arrays import Flags, Floats, Ints
from shedlight.model.selectivity.demand import MatchDemand

Keep = Mapping[Stream, Floats]
"""The share that a pattern keeps of each of its uses; a pattern that is not in it keeps all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PatternModel:
    """What the planner knows of a pattern."""

    stream: Stream  # its name: operator and pattern
    demand: MatchDemand  # what it needs of the types of its operator
    # mean processing time of an event of each use; empty if it is not known
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    # mean of the squared processing time of each use; empty if it is not known
    moments: Floats = field(default_factory=lambda: np.zeros(0))
    emits: float = 1.0  # complex events per match
    calibration: float = 1.0  # matches measured over matches modelled
    measured: float | None = None  # complex events per second as measured, if they were
    # what it is shed by if it is shed by key (attributes as text); empty: by event
    key: str = ""
    # the patterns that are whole for the same keys or not at all: they have one share
    group: str = ""
    # the watchers without a key for which it must be whole, itself among them if it is one
    switches: tuple[Stream, ...] = ()
    watches: bool = False  # whether it is a watcher: it has a protected closure
    members: tuple[Stream, ...] = ()  # of a watcher: the patterns upstream that must be whole
    # for each use, whether it must never be shed; empty: none
    protected: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    pattern: Pattern | None = None  # its text, if it has one
    accepts: tuple[Ints, ...] = ()  # the types that each element of the text accepts, by number
    # bytes of a complex event on the links of its node; 0: no other node reads it
    event_bytes: float = 0.0

    @property
    def is_switched(self) -> bool:
        """Whether it watches something, and is on or off as a whole."""
        return self.stream in self.switches

    @property
    def is_timed(self) -> bool:
        """Whether its processing time is known."""
        return len(self.seconds) > 0

    @property
    def matches_per_event(self) -> float:
        """How many matches an event completes at most: with REUSE it may be several."""
        return max(1.0, self.calibration)

    @property
    def yields(self) -> float:
        """Complex events per match of the model."""
        return self.emits * self.calibration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorModel:
    """What the planner knows of an operator."""

    name: str  # its name
    node: str  # where it runs
    types: tuple[str, ...]  # the labels of the types that arrive
    # what arrives per second of each type from each source, by name
    sources: Mapping[str, Floats]
    # how the complex events of each pattern upstream are spread over the types: what share of
    # them is of each type; they may sum to less than 1
    feeds: Mapping[Stream, Floats]
    patterns: tuple[PatternModel, ...]  # its patterns, in order of declaration
    # events per second from sources that are relevant to no pattern here
    unused: Mapping[str, float] = field(default_factory=dict)
    # events per second that it can process if nothing is shed: one over the mean processing
    # time of an event. It emits no more than that for each pattern and complex event of a
    # match.
    capacity: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeModel:
    """What the planner knows of a node."""

    name: str  # its name
    bound: float | None = None  # the time that an event may spend there; None: no limit
    percentile: int | None = None  # of which percentile the bound is; None: of the mean
    backlog: float = 0.0  # busy seconds that are queued
    fixed: float = 0.0  # seconds that a micro-batch takes however few events it has
    reading: float = 0.0  # seconds per event that arrives, kept or not
    transport: float = 0.0  # seconds per event that any pattern of an operator keeps
    # how many times its limit is planned, where plans turned out to keep less than they say
    boost: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """What the planner knows of a link: all that other nodes read of a node goes over it."""

    name: str  # its name
    node: str  # the node that it leads away from
    capacity: float  # bytes per second


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkModel:
    """What the planner knows of a sink."""

    name: str  # its name
    stream: Stream  # the pattern it takes from
    weight: float = 1.0  # what a complex event is worth here
    min_rate: float = 0.0  # complex events per second that it must get
    min_share: float = 0.0  # the share of what would come without shedding that it must get


class SheddingWay(Enum):
    """How a stratum of keys is shed."""

    WHOLE_KEYS = "whole keys"  # by a hash of the key
    EVENTS = "types and events"  # by a hash of the event, as without a key
    OPENERS = "openers only"  # what can only open a partial match, by a hash of the event


@dataclass(frozen=True, slots=True, eq=False)
class OperatorStrata:
    """The strata of the keys of an operator."""

    names: tuple[str, ...]  # their names; keys that are in no other are the rest
    split: Floats  # the share of each type that is of each stratum: a row per stratum
    ways: tuple[SheddingWay, ...]  # how each is shed
    # what the patterns yield of each stratum; of a pattern that is not in it, the same of all
    calibration: Mapping[Stream, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """What the planner knows of an application at one moment.

    Attributes:
        nodes: The nodes by name.
        operators: The operators by name, each after all that feed it.
        sinks: The sinks by name.
        strata: The strata of operators whose keys are not all alike, by name.
        links: The links of limited capacity.
    """

    nodes: Mapping[str, NodeModel]
    operators: Mapping[str, OperatorModel]
    sinks: Mapping[str, SinkModel]
    strata: Mapping[str, OperatorStrata] = field(default_factory=dict)
    links: tuple[LinkModel, ...] = ()
    _by_node: dict[str, list[OperatorModel]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        for operator in self.operators.values():
            self._by_node.setdefault(operator.node, []).append(operator)

    @property
    def patterns(self) -> Mapping[Stream, PatternModel]:
        """All patterns, in the order of their operators."""
        return {
            pattern.stream: pattern
            for operator in self.operators.values()
            for pattern in operator.patterns
        }

    def operators_on(self, node: str) -> tuple[OperatorModel, ...]:
        """List the operators of a node."""
        return tuple(self._by_node.get(node, ()))

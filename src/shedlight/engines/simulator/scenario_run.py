"""A scenario simulated under a shedder: what came of it, as rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType
from typing import Protocol

from shedlight.control.controller import ControlSettings, Decision
from shedlight.engines.simulator import Interval, Policy, ServedEvents, Simulation, simulate
from shedlight.engines.simulator.api import Chooser, Choosing
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.latency_file import LatencyCollector, LatencySummary
from shedlight.engines.simulator.policies import ControllerPolicy, Factors, RandomPolicy
from shedlight.engines.simulator.scenario import Scenario
from shedlight.engines.simulator.shedders import Shedder
from shedlight.graph import Application, Stream
from shedlight.model.latency import Target
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import Shares


class Shedding(Policy, Protocol):
    """A policy that keeps limits and puts pressure on nodes."""

    @property
    def factors(self) -> list[Factors]:
        """The pressure after each interval."""

    def limit(self, node: str) -> float:
        """Give the limit of a node as far as it is known, in busy seconds per second."""


LOOKS = 5
"""How often a node looks at its queue between two decisions."""


def _controlled(
    application: Application, target: Target, *, local: bool = False
) -> ControllerPolicy:
    settings = ControlSettings(plan_settings=PlanSettings(target=target, local=local))
    return ControllerPolicy(application, settings, LOOKS)


_POLICIES: Mapping[Shedder, Callable[[Application, Target], Shedding]] = MappingProxyType(
    {
        Shedder.GLOBAL: _controlled,
        Shedder.LOCAL: lambda application, target: _controlled(application, target, local=True),
        Shedder.RANDOM: lambda application, target: RandomPolicy(application, target, LOOKS),
        Shedder.UTILITY: lambda application, target: UtilityPolicy(application, target, LOOKS),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node in an interval, in seconds and busy seconds per second.

    Attributes:
        start: When the interval began, from the first event on.
        length: How long it was.
        node: Its name.
        bound: Its bound; None if it has none.
        limit: What the bound allows, as far as it was known; None if there is no bound.
        busy: The work that it took on.
        backlog: The work that was queued at the end.
        pressure: The factor on its shares after the interval.
        processed: Events that some pattern kept.
        shed: Events that some pattern has a use for, and none kept.
        latency: The mean time that processed events spent there; None if there were none.
        queueing: The part of that before processing began.
    """

    start: float
    length: float
    node: str
    bound: float | None
    limit: float | None
    busy: float
    backlog: float
    pressure: float
    processed: int
    shed: int
    latency: float | None
    queueing: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    """A sink in an interval: how many results it got."""

    start: float
    length: float
    sink: str
    results: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScenarioResult:
    """What came of a scenario.

    Attributes:
        shedder: Who decided.
        simulation: What happened.
        nodes: By interval and node.
        sinks: By interval and sink.
        latency: What events spent at each node.
        decisions: What the controller decided; empty if there is none.
    """

    shedder: Shedder
    simulation: Simulation
    nodes: tuple[NodeRow, ...]
    sinks: tuple[SinkRow, ...]
    latency: Mapping[str, LatencySummary]
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class _Recorded:
    """A policy whose limits are written down, and that tells of each interval."""

    policy: Shedding | None
    limits: Mapping[str, float]
    told: Callable[[], None]
    history: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def choosers(self) -> Mapping[Stream, Chooser]:
        return self.policy.choosers if isinstance(self.policy, Choosing) else {}

    def decide(self, interval: Interval) -> Shares | None:
        shares = self.policy.decide(interval) if self.policy else None
        limits = {name: self.policy.limit(name) for name in self.limits} if self.policy else {}
        self.history.append({**self.limits, **limits})
        self.told()
        return shares


def run_scenario(  # noqa: PLR0913  # what a simulation is of, and who is told
    scenario: Scenario,
    shedder: Shedder,
    *,
    target: Target,
    interval: float,
    limits: Mapping[str, float],
    watch: Callable[[ServedEvents], None] | None = None,
    told: Callable[[], None] = lambda: None,
) -> ScenarioResult:
    """Simulate a scenario under a shedder.

    Args:
        scenario: What to simulate.
        shedder: Who decides.
        target: How bounds are kept.
        interval: From one decision to the next, in seconds.
        limits: Of each node with a bound, as long as nobody decides.
        watch: Is told how long events waited and took.
        told: Is called after each interval.
    """
    make = _POLICIES.get(shedder)
    policy = make(scenario.application, target) if make else None
    recorded = _Recorded(policy, limits, told)
    latencies = LatencyCollector()

    def watched(served: ServedEvents) -> None:
        latencies.add(served)
        if watch is not None:
            watch(served)

    done = simulate(
        scenario.application,
        scenario.tables,
        scenario.service,
        interval=interval / LOOKS,
        policy=recorded,
        seed=scenario.seed,
        pace=scenario.pace,
        watch=watched,
    )
    return ScenarioResult(
        shedder=shedder,
        simulation=done,
        nodes=tuple(
            _node_rows(
                scenario.application,
                done.intervals,
                recorded.history,
                policy.factors if policy else [],
            )
        ),
        sinks=tuple(_sink_rows(scenario.application, done)),
        latency=latencies.by_node(),
        decisions=tuple(policy.log) if isinstance(policy, ControllerPolicy) else (),
    )


def _node_rows(
    application: Application,
    intervals: Sequence[Interval],
    limits: Sequence[Mapping[str, float]],
    factors: Sequence[Factors],
) -> Iterator[NodeRow]:
    """Put rows together; in the last interval what is queued is worked off, undecided."""
    first, last = intervals[0].start, limits[-1] if limits else {}
    for one, limit, factor in zip_longest(intervals, limits, factors):
        for name, node in application.nodes.items():
            busy, number = one.busy.get(name, 0.0), one.processed.get(name, 0)
            spent = one.latency.get(name, 0.0)
            yield NodeRow(
                start=one.start - first,
                length=one.length,
                node=name,
                bound=node.bound,
                limit=(limit or last).get(name),
                busy=busy / one.length if one.length else 0.0,
                backlog=one.backlog.get(name, 0.0),
                pressure=(factor or {}).get(name, 1.0),
                processed=number,
                shed=one.shed.get(name, 0),
                latency=spent / number if number else None,
                queueing=(spent - busy) / number if number else None,
            )


def _sink_rows(application: Application, done: Simulation) -> Iterator[SinkRow]:
    first = done.intervals[0].start
    for one in done.intervals:
        for name, sink in application.sinks.items():
            yield SinkRow(
                start=one.start - first,
                length=one.length,
                sink=name,
                results=one.outputs.get(sink.takes, 0),
            )

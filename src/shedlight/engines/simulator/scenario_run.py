"""A scenario simulated under a shedder, and its outcome as rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from shedlight.control.controller import ControlSettings, Decision
from shedlight.control.strata import StrataSettings
from shedlight.engines.simulator import Interval, ServedEvents, Simulation, simulate
from shedlight.engines.simulator.api import Chooser, Choosing, Stratifying
from shedlight.engines.simulator.latency_file import LatencyCollector, LatencySummary
from shedlight.engines.simulator.policies import ControllerPolicy, Factors, PressurePolicy
from shedlight.engines.simulator.scenario import Scenario
from shedlight.engines.simulator.shedders import Shedder, make_policy
from shedlight.graph import Application, Stream
from shedlight.model.latency import Target
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import Shares

CHECKS_PER_DECISION = 5  # how often a node looks at its backlog between two decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node in an interval, in seconds and busy seconds per second."""

    start: float  # when the interval began, from the first event on
    length: float  # how long it was
    node: str  # its name
    bound: float | None  # its bound; None if it has none
    percentile: int | None  # of which percentile that is; None: of the mean
    # what the bound allows, as far as it was known; None if there is no bound
    limit: float | None
    busy: float  # the work that it took on
    backlog: float  # the work that was queued at the end
    pressure: float  # the factor on its shares after the interval, but for admitted patterns
    processed: int  # events that some pattern kept
    shed: int  # relevant events that no pattern kept
    not_admitted: int  # events that were not admitted, for too much was queued
    # the mean time that processed events spent there; None if there were none
    latency: float | None
    queueing: float | None  # the part of that before processing began


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    """A sink in an interval: how many results it got."""

    start: float
    length: float
    sink: str
    results: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScenarioResult:
    """The outcome of a scenario under a shedder."""

    shedder: Shedder  # who decided
    simulation: Simulation  # what happened
    nodes: tuple[NodeRow, ...]  # by interval and node
    sinks: tuple[SinkRow, ...]  # by interval and sink
    latency: Mapping[str, LatencySummary]  # what events spent at each node
    decisions: tuple[Decision, ...]  # of the controller; empty if there is none


@dataclass(slots=True)
class _RecordingPolicy:
    """A policy whose limits are recorded after each interval, which is then reported."""

    policy: PressurePolicy | None
    limits: Mapping[str, float]
    on_interval: Callable[[], None]
    history: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def choosers(self) -> Mapping[Stream, Chooser]:
        return self.policy.choosers if isinstance(self.policy, Choosing) else {}

    @property
    def sheds_in_strata(self) -> bool:
        return isinstance(self.policy, Stratifying) and self.policy.sheds_in_strata

    def decide(self, interval: Interval) -> Shares | None:
        shares = self.policy.decide(interval) if self.policy else None
        limits = {name: self.policy.limit(name) for name in self.limits} if self.policy else {}
        self.history.append({**self.limits, **limits})
        self.on_interval()
        return shares


def run_scenario(  # noqa: PLR0913  # what a simulation is of, and its callbacks
    scenario: Scenario,
    shedder: Shedder,
    *,
    target: Target,
    interval: float,
    limits: Mapping[str, float],
    on_served: Callable[[ServedEvents], None] | None = None,
    on_interval: Callable[[], None] = lambda: None,
    with_outputs: bool = False,
    unshed_sample: float = 0.0,
    with_strata: bool = False,
) -> ScenarioResult:
    """Simulate a scenario under a shedder, which decides once an interval (in seconds).

    The limits are those of each node with a bound, as long as nobody decides. With strata, keys
    are shed in them.
    """
    settings = ControlSettings(
        plan_settings=PlanSettings(target=target), strata=StrataSettings(enabled=with_strata)
    )
    checks = CHECKS_PER_DECISION
    if scenario.costs is not None:  # a node looks at what waits before each micro-batch
        checks = 1
        settings = replace(settings, policy=replace(settings.policy, persistence=1))
    policy = make_policy(
        shedder, scenario.application, settings, checks, planned=scenario.planned
    )
    recording = _RecordingPolicy(policy, limits, on_interval)
    latencies = LatencyCollector(scenario.application.nodes)

    def collect(served: ServedEvents) -> None:
        latencies.add(served)
        if on_served is not None:
            on_served(served)

    done = simulate(
        scenario.application,
        scenario.tables,
        scenario.service,
        interval=interval / checks,
        policy=recording,
        seed=scenario.seed,
        pace=scenario.pace,
        squeeze=scenario.squeeze,
        on_served=collect,
        with_outputs=with_outputs,
        with_admission=policy is not None,
        unshed_sample=unshed_sample,
        costs=scenario.costs,
    )
    factors = policy.factors if policy else []
    rows = _node_rows(scenario.application, done.intervals, recording.history, factors)
    return ScenarioResult(
        shedder=shedder,
        simulation=done,
        nodes=tuple(rows),
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
    for interval, limit, factor in zip_longest(intervals, limits, factors):
        for name, node in application.nodes.items():
            busy, number = interval.busy.get(name, 0.0), interval.processed.get(name, 0)
            spent, reading = interval.latency.get(name, 0.0), interval.reading.get(name, 0.0)
            queueing = spent - interval.processing.get(name, 0.0)
            pressure = interval.pressure or factor or {}
            known = (limit or last).get(name)
            yield NodeRow(
                start=interval.start - first,
                length=interval.length,
                node=name,
                bound=node.bound,
                percentile=node.percentile,
                limit=None if known is None else known + _per_second(reading, interval),
                busy=_per_second(busy + reading, interval),
                backlog=interval.backlog.get(name, 0.0),
                pressure=pressure.get(name, 1.0),
                processed=number,
                shed=interval.shed.get(name, 0),
                not_admitted=interval.not_admitted.get(name, 0),
                latency=spent / number if number else None,
                queueing=queueing / number if number else None,
            )


def _per_second(seconds: float, interval: Interval) -> float:
    return seconds / interval.length if interval.length else 0.0


def _sink_rows(application: Application, done: Simulation) -> Iterator[SinkRow]:
    first = done.intervals[0].start
    for interval in done.intervals:
        for name, sink in application.sinks.items():
            yield SinkRow(
                start=interval.start - first,
                length=interval.length,
                sink=name,
                results=interval.outputs.get(sink.stream, 0),
            )

"""Scenarios: an application, the events that it gets, and the load that they make.

A load of 2 asks the busiest node that has a bound for two seconds of work per second. It is
reached by the rate at which events are generated, or by how fast those of a file are fed. These
keep their times, so that windows hold what they hold in the file, or are squeezed. What reaches
a node behind others may not grow in step with that, so it is tried, and corrected.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa

from shedlight.control.observation import snapshot_of
from shedlight.engines.simulator import Service, Simulation, simulate
from shedlight.engines.simulator.observation import (
    ReadSpan,
    join_intervals,
    observation_of,
    observe_micro_batches,
)
from shedlight.engines.tables import EVENT_TIME, prepare_source
from shedlight.errors import InputError
from shedlight.generate.for_sources import (
    StreamProfile,
    make_sources,
    source_demands,
    sparse_rate,
    with_generated_sources,
)
from shedlight.generate.streams import scale_rate
from shedlight.graph import Application
from shedlight.language.ast.pattern import Pattern, Window, WindowUnit
from shedlight.model.build import build_model
from shedlight.model.latency import Target, check_feasible, node_limit
from shedlight.model.load import node_load
from shedlight.model.rates import predict
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs

MAX_EVENTS = 50_000_000

_MAX_TRIES = 12
_TOLERANCE = 0.01  # how far from the given load is near enough, relatively
_LONG = 8
"""A borg-like stream is drawn so many times as long as needed, and its start fed faster."""
_PILOT = 100.0, 60.0
"""Events per second and seconds of the events that processing times are measured on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario:
    """An application, its events and their load."""

    application: Application  # the application
    tables: Mapping[str, pa.Table]  # the events of its sources
    service: Service  # how long processing takes
    duration: float  # how long events come, in seconds of virtual time
    pace: float = 1.0  # how many times as fast they come as their times say
    squeeze: bool = True  # whether that brings their times together, and not only arrivals
    seed: int = 0  # of events and processing times
    # what micro-batches cost at nodes, besides processing; None: events are taken one by one
    costs: Mapping[str, Costs] | None = None

    @property
    def planned(self) -> Application:
        """The application as plans are made for it: its windows as long as they take here."""
        return (
            self.application if self.squeeze else shorten_windows(self.application, self.pace)
        )

    @property
    def events(self) -> int:
        """How many events there are."""
        return sum(map(len, self.tables.values()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unshed:
    """The outcome of a scenario without shedding, however long that takes."""

    demand: Mapping[str, float]  # busy seconds per second that arrive at each node with a bound
    sinks: Mapping[str, int]  # results at each sink
    simulation: Simulation  # all of it


def run_unshed(scenario: Scenario, *, with_outputs: bool = False) -> Unshed:
    """Simulate a scenario without shedding."""
    done = simulate(
        scenario.application,
        scenario.tables,
        scenario.service,
        interval=scenario.duration + 1,
        seed=scenario.seed,
        pace=scenario.pace,
        squeeze=scenario.squeeze,
        with_outputs=with_outputs,
        with_admission=False,
        costs=scenario.costs,
    )
    demand = {
        name: sum(i.busy.get(name, 0.0) + i.reading.get(name, 0.0) for i in done.intervals)
        / scenario.duration
        for name, node in scenario.application.nodes.items()
        if node.bound is not None
    }
    return Unshed(
        demand=demand,
        sinks={name: len(table) for name, table in done.sinks.items()},
        simulation=done,
    )


def generate_pilot(
    application: Application, profile: StreamProfile, seed: int
) -> Mapping[str, pa.Table]:
    """Generate some events to measure processing times on."""
    rate, duration = _PILOT
    demands = source_demands(application)
    return make_sources(demands, profile, rate=rate, duration=duration, seed=seed)


def generate_scenario(  # noqa: PLR0913  # what events are generated from
    application: Application,
    service: Service,
    profile: StreamProfile,
    *,
    load: float,
    duration: float,
    seed: int,
    costs: Mapping[str, Costs] | None = None,
) -> tuple[Scenario, Unshed]:
    """Generate events that make a load.

    A sparse stream has its rate by definition, so there processing times are scaled instead.
    """
    demands = source_demands(application)
    application = with_generated_sources(application)
    is_sparse = profile is StreamProfile.SPARSE
    mean = sum(service.seconds.values())
    mean += max((each.reading + each.carrying for each in (costs or {}).values()), default=0.0)
    start = sparse_rate(demands) if is_sparse else load / (mean or 1.0)

    @cache
    def long_tables() -> Mapping[str, pa.Table]:
        return make_sources(demands, profile, rate=start, duration=_LONG * duration, seed=seed)

    def at(size: float) -> Scenario:
        rate = start if is_sparse else start * size
        is_uneven = profile is StreamProfile.BORG_LIKE
        _check_size(rate * duration * len(demands) * (_LONG if is_uneven else 1))
        if is_uneven:
            tables = {n: _speed_up(table, size, duration) for n, table in long_tables().items()}
        else:
            tables = make_sources(demands, profile, rate=rate, duration=duration, seed=seed)
        return Scenario(
            application=application,
            tables=tables,
            service=_scale_service(service, size) if is_sparse else service,
            duration=duration,
            seed=seed,
            costs=costs,
        )

    return _reach_load(at, load)


def _check_size(events: float) -> None:
    if events > MAX_EVENTS:
        raise InputError(
            f"that load for that time is {events:,.0f} events, and {MAX_EVENTS:,} is the "
            "most; shorten --duration, or give longer times by --processing-time"
        )


def _speed_up(events: pa.Table, pace: float, duration: float) -> pa.Table:
    """Feed events faster, and take those until a time."""
    faster = scale_rate(events, pace)
    return faster.slice(0, int(np.searchsorted(faster["time"].to_numpy(), duration * 1e6)))


def replay_scenario(  # noqa: PLR0913  # what makes a scenario
    application: Application,
    tables: Mapping[str, pa.Table],
    service: Service,
    *,
    load: float | None,
    duration: float | None,
    seed: int,
    squeeze: bool = False,
    costs: Mapping[str, Costs] | None = None,
) -> tuple[Scenario, Unshed]:
    """Feed events of files, as fast as makes a load; without one, as their times say.

    Unless they are squeezed, windows hold what they hold in the files.
    """
    times = {
        name: prepare_source(source, tables[name])[1][EVENT_TIME].to_numpy()
        for name, source in application.sources.items()
    }
    first = min((t.min() for t in times.values() if len(t)), default=0)
    last = max((t.max() for t in times.values() if len(t)), default=0)
    if first == last:
        raise InputError("the sources have no two events at different times; give others")

    def at(pace: float) -> Scenario:
        seconds = (last - first) / 1e6 / pace
        end = seconds if duration is None else min(duration, seconds)
        limit = first + end * 1e6 * pace
        kept = {n: tables[n].filter(pa.array(t <= limit)) for n, t in times.items()}
        return Scenario(
            application=application,
            tables=kept,
            service=service,
            duration=end,
            pace=pace,
            squeeze=squeeze,
            seed=seed,
            costs=costs,
        )

    if load is None:
        scenario = at(1.0)
        return scenario, run_unshed(scenario)
    return _reach_load(at, load)


def check_bounds(scenario: Scenario, unshed: Unshed, target: Target) -> Mapping[str, float]:
    """Give the limit of each node with a bound, in busy seconds per second.

    Raises:
        PlanError: A bound cannot be kept whatever is shed.
    """
    application = scenario.planned
    joined = join_intervals(unshed.simulation.intervals)
    observation = observation_of(joined)
    if scenario.costs is not None:
        spans = {
            name: ReadSpan(scenario.duration, 0.0, scenario.costs.get(name, DEFAULT_COSTS))
            for name in joined.reading
        }
        node_of = {name: spec.node for name, spec in application.operators.items()}
        observation = observe_micro_batches(joined, spans, node_of)
    model = build_model(application, snapshot_of(replace(observation, backlog={}), application))
    rates = predict(model)
    limits = {}
    for node in model.nodes.values():
        limit = node_limit(model, node, replace(target, aim=1.0))
        if limit is not None:
            check_feasible(limit, limit.arrivals.at(rates.outputs)[1])
            limits[node.name] = node_load(model, limit, rates).busy_limit
    return limits


def shorten_windows(application: Application, factor: float) -> Application:
    """Make all windows of time so many times shorter."""

    def shorten(pattern: Pattern) -> Pattern:
        within = pattern.within
        if within is None or within.unit is not WindowUnit.TIME:
            return pattern
        return replace(pattern, within=Window(max(1, round(within.length / factor))))

    operators = {
        name: replace(spec, patterns={n: shorten(p) for n, p in spec.patterns.items()})
        for name, spec in application.operators.items()
    }
    return replace(application, operators=operators)


def _reach_load(at: Callable[[float], Scenario], load: float) -> tuple[Scenario, Unshed]:
    """Try sizes until the busiest node has the load; more size is more work."""
    size, low, high, tries = 1.0, 0.0, math.inf, 0
    while True:
        scenario = at(size)
        unshed = run_unshed(scenario)
        most = max(unshed.demand.values(), default=0.0)
        if not most:
            raise InputError(
                "no node with a bound has anything to do, so there is no load to speak of; "
                "give the patterns there a --processing-time, and events that they can use"
            )
        tries += 1
        if abs(most / load - 1) <= _TOLERANCE or tries == _MAX_TRIES:
            return scenario, unshed
        low, high = (size, high) if most < load else (low, size)
        size *= load / most
        if not low < size < high:
            size = (low + high) / 2


def _scale_service(service: Service, factor: float) -> Service:
    seconds = {stream: factor * mean for stream, mean in service.seconds.items()}
    return replace(service, seconds=seconds)

"""An application in virtual time: between control instants, operator by operator.

Events queue at a node and its server takes them one by one; what an event takes is the sum of
what the patterns take that keep it, and nothing if none does. A complex event arrives
downstream when the event that completed it leaves. Matching is that of every other engine.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator.api import (
    Chooser,
    Choosing,
    Counts,
    Interval,
    Policy,
    ServedEvents,
    Service,
)
from shedlight.engines.simulator.interval import IntervalBuilder, served_of
from shedlight.engines.simulator.prepare import PreparedRun, prepare_run
from shedlight.engines.simulator.queueing import served
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Application, Stream, operator_order
from shedlight.graph.topology import longest_windows
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.output.complex_events import ID, TIME
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import Shares

_OF_SERVICE = 0x5EBC1CE
"""Keeps processing times apart from streams that were generated with the same seed."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What came of a simulation.

    Attributes:
        intervals: What happened, interval by interval.
        sinks: The complex events that reached each sink, without what is selected.
        shares: The shares that were in force in each interval.
        counts: What became of the events at each operator.
    """

    intervals: tuple[Interval, ...]
    sinks: Mapping[str, pa.Table]
    shares: tuple[Shares, ...]
    counts: Mapping[str, Counts]


OnServed = Callable[[ServedEvents], None]
"""Is told of events that were processed, batch by batch."""


def simulate(  # noqa: PLR0913  # what a simulation is of
    application: Application,
    tables: Mapping[str, pa.Table],
    service: Service,
    *,
    interval: float = 1.0,
    shares: Shares | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    pace: float = 1.0,
    watch: OnServed | None = None,
) -> Simulation:
    """Simulate an application over the events of its sources.

    Args:
        application: The application.
        tables: The events of each source.
        service: How long processing takes.
        interval: From one control instant to the next, in seconds.
        shares: What patterns keep at first; None: everything.
        policy: Decides what they keep later; None: the same all the time.
        seed: Of the processing times.
        pace: How many times as fast events come as their times say.
        watch: Is told how long each event that was processed waited and took.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ValueError: The interval or the pace is not above zero.
    """
    if not (interval > 0 and pace > 0):
        raise ValueError(f"an interval and a pace must be above zero, got {interval}, {pace}")
    run = _Run(prepare_run(application, tables, pace), service, seed)
    run.watch = watch
    run.let_choose(policy.choosers if isinstance(policy, Choosing) else {})
    intervals, history = [], []
    now: Shares = shares or {}
    for start, end, is_last in run.instants(interval):
        done = run.advance(start, end, now, is_last=is_last)
        intervals.append(done)
        history.append(now)
        if policy is not None and not is_last:
            now = policy.decide(done) or now
    return Simulation(tuple(intervals), run.sinks(), tuple(history), run.counts())


class _Run:
    """A simulation under way."""

    def __init__(self, given: PreparedRun, service: Service, seed: int) -> None:
        self.application, self._sources = given.application, given.sources
        self.watch: OnServed | None = None
        self._service = (service, np.random.default_rng([seed, _OF_SERVICE]))
        self._times = {
            name: table[EVENT_TIME].to_numpy() for name, (_, table) in self._sources.items()
        }
        self._free = dict.fromkeys(self.application.nodes, 0.0)
        self._found: dict[str, list[pa.Table]] = {name: [] for name in self.application.sinks}
        self._stations: dict[str, Server] = {}
        self._depth: dict[str, int] = {}
        for spec in operator_order(self.application):
            inputs = [self._input(stream) for stream in spec.inputs]
            windows = longest_windows(self.application)
            station = Server(spec, inputs, windows, self.application.timed_out)
            station.unique = given.unique.issuperset(spec.inputs)
            self._stations[spec.name] = station
            fed = [self._depth[s.operator] for s in spec.inputs if s.operator]
            self._depth[spec.name] = 1 + max(fed, default=0)

    def let_choose(self, choosers: Mapping[Stream, Chooser]) -> None:
        """Let others choose what some patterns keep."""
        for station in self._stations.values():
            mine = [stream for stream in station.spec.outputs if stream in choosers]
            station.choosers = {stream: choosers[stream] for stream in mine}

    def _input(self, stream: Stream) -> tuple[StreamInput, pa.Schema]:
        if stream.operator is None:
            one, table = self._sources[stream.name]
            return one, table.schema
        schema = self._stations[stream.operator].schema(stream.name)
        return StreamInput(str(stream), (ID,), TIME), schema

    def instants(self, interval: float) -> Iterator[tuple[float, float, bool]]:
        """Go from control instant to control instant, until everything has arrived."""
        times = self._times.values()
        first = min((t[0] for t in times if len(t)), default=0) / 1e6
        last = max((t[-1] for t in times if len(t)), default=0) / 1e6
        number = max(1, int(np.floor((last - first) / interval)) + 1)
        self._free = dict.fromkeys(self._free, first)
        for i in range(number):
            yield first + i * interval, first + (i + 1) * interval, False
        yield first + number * interval, float("inf"), True

    def advance(self, start: float, end: float, shares: Shares, *, is_last: bool) -> Interval:
        """Simulate until the next control instant."""
        told = IntervalBuilder(start, end)
        for depth in sorted(set(self._depth.values())):
            for node in self.application.nodes:
                here = [
                    station
                    for name, station in self._stations.items()
                    if self._depth[name] == depth and station.spec.node == node
                ]
                if here:
                    self._serve(node, here, shares, (told, is_last))
        return told.interval(self._free)

    def _serve(
        self, node: str, here: list[Server], shares: Shares, now: tuple[IntervalBuilder, bool]
    ) -> None:
        told, is_last = now
        batches = [
            station.take(
                self._arriving(station, told.end, told.start),
                frozenset(range(len(station.spec.inputs))) if is_last else frozenset(),
                shares,
                self._service,
            )
            for station in here
        ]
        departures = self._departures(node, batches)
        for station, batch, leave in zip(here, batches, departures, strict=True):
            told.note(node, station, batch, leave)
            if self.watch is not None:
                self.watch(served_of(node, station, batch, leave))
            for stream, (table, at) in station.match(batch, leave).items():
                told.outputs[stream] = len(table)
                self._send(stream, table, at)
            for stream, table in station.ended.items():
                told.outputs[stream] = len(table)
                self._deliver(stream, table)

    def _arriving(self, station: Server, end: float, start: float) -> dict[int, pa.Table]:
        tables = {}
        for number, stream in enumerate(station.spec.inputs):
            if stream.operator is None:
                table, times = self._sources[stream.name][1], self._times[stream.name]
                instants = [round(start * 1e6), round(min(end * 1e6, 2**62))]
                low, high = np.searchsorted(times, instants)
                if high > low:
                    tables[number] = table.slice(low, high - low)
            else:
                parts = station.channels[stream].until(end)
                if parts:
                    tables[number] = pa.concat_tables(parts).combine_chunks()
        return tables

    def _departures(self, node: str, batches: list[ServiceBatch]) -> list[Floats]:
        """Serve the events of all operators of a node in the order of their arrival."""
        arrivals = np.concatenate([batch.arrivals for batch in batches])
        service = np.concatenate([batch.service for batch in batches])
        if (arrivals[1:] >= arrivals[:-1]).all():
            leave, self._free[node] = served(arrivals, service, self._free[node])
        else:
            order = np.argsort(arrivals, kind="stable")
            leave = np.empty(len(arrivals))
            leave[order], self._free[node] = served(
                arrivals[order], service[order], self._free[node]
            )
        ends = np.cumsum([len(batch.arrivals) for batch in batches])[:-1]
        return np.split(leave, ends)

    def _send(self, stream: Stream, table: pa.Table, at: Floats) -> None:
        """Let complex events go where they are read."""
        if not len(table):
            return
        for station in self._stations.values():
            if stream in station.channels:
                station.channels[stream].waiting.append((table, at))
        self._deliver(stream, table)

    def _deliver(self, stream: Stream, table: pa.Table) -> None:
        """Give complex events, or what timed out, to the sinks that take it."""
        for sink in self.application.sinks.values():
            if sink.takes == stream and len(table):
                self._found[sink.name].append(table)

    def sinks(self) -> Mapping[str, pa.Table]:
        """Give all that reached the sinks."""
        return {
            name: pa.concat_tables(parts) if parts else pa.table({})
            for name, parts in self._found.items()
        }

    def counts(self) -> Mapping[str, Counts]:
        """Say what became of the events at each operator."""
        return {name: station.counts() for name, station in self._stations.items()}

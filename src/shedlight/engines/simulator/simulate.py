"""An application in virtual time: between control instants, operator by operator.

Events queue at a node and its server takes them one by one; what an event takes is the sum of
what the patterns take that keep it, and nothing if none does. Where a node has a bound by
percentile, events are admitted one by one too. A complex event arrives
downstream when the event that completed it leaves. Matching is that of every other engine.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator.admission import find_admissions, serve_admitted
from shedlight.engines.simulator.api import (
    Chooser,
    Choosing,
    Counts,
    Interval,
    Policy,
    ServedEvents,
)
from shedlight.engines.simulator.closure_state import AppliedThreshold, ClosureState
from shedlight.engines.simulator.interval import IntervalBuilder, served_events
from shedlight.engines.simulator.prepare import PreparedRun, prepare_run
from shedlight.engines.simulator.sample import SampleResults
from shedlight.engines.simulator.sampled_keys import SampledKeys
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.engines.simulator.service import Service, ServiceTimes
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Application, Stream, operator_order
from shedlight.graph.closures import find_closures
from shedlight.graph.sampled import find_sampled_sinks
from shedlight.graph.topology import longest_windows
from shedlight.matching.compile.matcher import BEGAN
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.output.complex_events import EVENTS, ID, TIME
from shedlight.model.arrays import Floats
from shedlight.shedding.estimate import SinkEstimate
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The outcome of a simulation.

    Attributes:
        intervals: What happened, interval by interval.
        sinks: The complex events that reached each sink, without what is selected.
        shares: The active shares of each interval.
        counts: What became of the events at each operator.
        thresholds: For which keys the patterns of protected closures were whole.
        outputs: All complex events of each pattern, and what timed out, with the ids of their
            events; empty if nobody asked.
        estimates: What the unshed sample says of each sink; empty without one.
        masked: The complex events that the shares leave of the sample's keys; empty if nobody
            asked.
    """

    intervals: tuple[Interval, ...]
    sinks: Mapping[str, pa.Table]
    shares: tuple[Shares, ...]
    counts: Mapping[str, Counts]
    thresholds: tuple[AppliedThreshold, ...] = ()
    outputs: Mapping[Stream, pa.Table] = field(default_factory=dict)
    estimates: Mapping[str, SinkEstimate] = field(default_factory=dict)
    masked: Mapping[Stream, pa.Table] = field(default_factory=dict)


OnServed = Callable[[ServedEvents], None]
"""Called with the events that were processed, batch by batch."""


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
    on_served: OnServed | None = None,
    with_outputs: bool = False,
    with_admission: bool = True,
    unshed_sample: float = 0.0,
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
        on_served: Called with the events that were processed, how long they waited and took.
        with_outputs: Whether to give the complex events of all patterns.
        with_admission: Whether nodes with a bound by percentile shed the events that would
            take longer.
        unshed_sample: The share of keys that is never shed, to estimate what is lost by; where
            a shedder chooses events one by one, there is no sample.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ValueError: The interval or the pace is not above zero.
    """
    if not (interval > 0 and pace > 0):
        raise ValueError(f"an interval and a pace must be above zero, got {interval}, {pace}")
    prepared, times = prepare_run(application, tables, pace), ServiceTimes(service, seed)
    choosers = policy.choosers if isinstance(policy, Choosing) else {}
    run = _Run(
        prepared,
        times,
        on_served,
        with_outputs=with_outputs,
        with_admission=with_admission,
        unshed_sample=0.0 if choosers else unshed_sample,
    )
    run.set_choosers(choosers)
    intervals, history = [], []
    active: Shares = shares or {}
    for builder in run.intervals(interval):
        done = run.advance(builder, active)
        intervals.append(done)
        history.append(active)
        if policy is not None and not builder.is_last:
            active = policy.decide(done) or active
    return Simulation(
        tuple(intervals),
        run.sinks(),
        tuple(history),
        run.counts(),
        tuple(run.closure_state.thresholds),
        _joined(run.outputs),
        run.estimates(seed),
        _joined(run.masked),
    )


class _Run:
    """A simulation under way."""

    def __init__(
        self,
        prepared: PreparedRun,
        service_times: ServiceTimes,
        on_served: OnServed | None,
        *,
        with_outputs: bool,
        with_admission: bool,
        unshed_sample: float,
    ) -> None:
        self.application, self._sources = prepared.application, prepared.sources
        self._service_times, self._on_served = service_times, on_served
        self._times = {
            name: table[EVENT_TIME].to_numpy() for name, (_, table) in self._sources.items()
        }
        self._free = dict.fromkeys(self.application.nodes, 0.0)
        self._results: dict[str, list[pa.Table]] = {n: [] for n in self.application.sinks}
        self._servers: dict[str, Server] = {}
        self._depth: dict[str, int] = {}
        # of all complex events, and of those that shadows found
        self.outputs: dict[Stream, list[pa.Table]] = {}
        self.masked: dict[Stream, list[pa.Table]] = {}
        self._with_outputs = with_outputs
        closures = find_closures(self.application)
        self.closure_state = ClosureState(self.application, closures)
        self._admissions = find_admissions(self.application, closures) if with_admission else {}
        keys = SampledKeys(find_sampled_sinks(self.application, closures), unshed_sample)
        self._sample_results = SampleResults(self.application, keys)
        windows = longest_windows(self.application)
        for spec in operator_order(self.application):
            self._servers[spec.name] = Server(
                spec,
                [self._input(stream) for stream in spec.inputs],
                windows,
                self.application.timed_out,
                self.closure_state,
                self._admissions.get(spec.node),
                sampled=keys,
                unique=prepared.unique.issuperset(spec.inputs),
                lists_events=with_outputs,
            )
            upstream = [self._depth[s.operator] for s in spec.inputs if s.operator]
            self._depth[spec.name] = 1 + max(upstream, default=0)

    def set_choosers(self, choosers: Mapping[Stream, Chooser]) -> None:
        """Let choosers say what some patterns keep."""
        for server in self._servers.values():
            mine = [stream for stream in server.spec.outputs if stream in choosers]
            server.decider.choosers = {stream: choosers[stream] for stream in mine}

    def _input(self, stream: Stream) -> tuple[StreamInput, pa.Schema]:
        if stream.operator is None:
            source, table = self._sources[stream.name]
            return source, table.schema
        schema = self._servers[stream.operator].schema(stream.name)
        return StreamInput(str(stream), (ID,), TIME), schema

    def intervals(self, length: float) -> Iterator[IntervalBuilder]:
        """Go from control instant to control instant, until everything has arrived."""
        times = self._times.values()
        first = min((t[0] for t in times if len(t)), default=0) / 1e6
        last = max((t[-1] for t in times if len(t)), default=0) / 1e6
        number = max(1, int(np.floor((last - first) / length)) + 1)
        self._free = dict.fromkeys(self._free, first)
        for i in range(number):
            yield IntervalBuilder(first + i * length, first + (i + 1) * length)
        yield IntervalBuilder(first + number * length, np.inf)

    def advance(self, builder: IntervalBuilder, shares: Shares) -> Interval:
        """Simulate until the next control instant."""
        for depth in sorted(set(self._depth.values())):
            for node in self.application.nodes:
                servers = [
                    server
                    for name, server in self._servers.items()
                    if self._depth[name] == depth and server.spec.node == node
                ]
                if servers:
                    self._serve(node, servers, shares, builder)
        return builder.build(self._free)

    def _serve(
        self, node: str, servers: list[Server], shares: Shares, builder: IntervalBuilder
    ) -> None:
        batches = [
            server.admit(
                self._arriving(server, builder.start, builder.end),
                frozenset(range(len(server.spec.inputs))) if builder.is_last else frozenset(),
                shares,
                self._service_times,
            )
            for server in servers
        ]
        departures, admitted = self._departures(node, batches)
        for server, asked, leave, admits in zip(
            servers, batches, departures, admitted, strict=True
        ):
            batch = server.shed_others(asked, admits)
            server.count(batch)
            builder.add(node, server, batch, leave)
            if self._on_served is not None:
                self._on_served(served_events(node, server, batch, leave))
            for stream, (table, at) in server.match(batch, leave).items():
                builder.outputs[stream] = len(table)
                self._send(stream, table, at)
            for stream, table in server.timed_out.items():
                builder.outputs[stream] = len(table)
                self._deliver(stream, table)
            self._shadow(server, batch, shares, builder.end)

    def _shadow(self, server: Server, batch: ServiceBatch, shares: Shares, end: float) -> None:
        """Match the sample's events of a batch again, with the mask of the shares."""
        if server.shadow is None:
            return
        tables, recorder = server.shadow.step(batch.ready, end, shares, batch.admitted)
        for name, table in tables.items():
            stream = Stream(name, server.spec.name)
            sent = (table, server.departures(table))
            if self._with_outputs:
                self.masked.setdefault(stream, []).append(table)
            for reader in self._servers.values():
                if reader.shadow is not None and stream in reader.shadow.channels:
                    reader.shadow.channels[stream].in_transit.append(sent)
            self._sample_results.add(
                stream, server.recorded[name], recorder.results(name, table)
            )

    def _arriving(self, server: Server, start: float, end: float) -> dict[int, pa.Table]:
        """Give what arrives at a server in an interval, by the number of the input."""
        tables = {}
        for number, stream in enumerate(server.spec.inputs):
            if stream.operator is None:
                table, times = self._sources[stream.name][1], self._times[stream.name]
                instants = [round(start * 1e6), round(min(end * 1e6, 2**62))]
                low, high = np.searchsorted(times, instants)
                if high > low:
                    tables[number] = table.slice(low, high - low)
            else:
                arrived = server.channels[stream].until(end)
                if arrived:
                    tables[number] = pa.concat_tables(arrived).combine_chunks()
        return tables

    def _departures(
        self, node: str, batches: list[ServiceBatch]
    ) -> tuple[list[Floats], list[Array]]:
        """Serve the events of all operators of a node in the order of their arrival.

        Say when each leaves, and whether it was admitted.
        """
        arrivals = np.concatenate([batch.arrivals for batch in batches])
        leave, admitted = np.empty(len(arrivals)), np.ones(len(arrivals), np.bool_)
        is_sorted = (arrivals[1:] >= arrivals[:-1]).all()
        order = slice(None) if is_sorted else np.argsort(arrivals, kind="stable")
        admission, free = self._admissions.get(node), self._free[node]
        if admission is None:
            service = np.concatenate([batch.service for batch in batches])
            leave[order], free = serve_in_order(arrivals[order], service[order], free)
        else:
            asked = [b.requests.columns(admission.percentile) for b in batches if b.requests]
            certain, others, expected, asks = (
                np.concatenate(each)[order] for each in zip(*asked, strict=True)
            )
            columns = (certain, others, expected, asks)
            leave[order], admitted[order], free = serve_admitted(
                arrivals[order], columns, admission.bound, free
            )
        self._free[node] = free
        ends = np.cumsum([len(batch.arrivals) for batch in batches])[:-1]
        return np.split(leave, ends), np.split(admitted, ends)

    def _send(self, stream: Stream, table: pa.Table, at: Floats) -> None:
        """Send complex events to the operators and sinks that read them."""
        if not len(table):
            return
        without = table.drop_columns([EVENTS]) if EVENTS in table.column_names else table
        for server in self._servers.values():
            if stream in server.channels:
                server.channels[stream].in_transit.append((without, at))
        self._deliver(stream, table)

    def _deliver(self, stream: Stream, table: pa.Table) -> None:
        """Give complex events, or what timed out, to the sinks that take it."""
        if BEGAN in table.column_names:
            table = table.drop_columns([BEGAN])
        if self._with_outputs and len(table):
            self.outputs.setdefault(stream, []).append(table)
        for sink in self.application.sinks.values():
            if sink.stream == stream and len(table):
                self._results[sink.name].append(table)

    def sinks(self) -> Mapping[str, pa.Table]:
        """Give all that reached the sinks."""
        return {
            name: pa.concat_tables(tables) if tables else pa.table({})
            for name, tables in self._results.items()
        }

    def estimates(self, seed: int) -> Mapping[str, SinkEstimate]:
        """Say what the sample says of each sink."""
        times = [t for t in self._times.values() if len(t)]
        first, last = (min(t[0] for t in times), max(t[-1] for t in times)) if times else (0, 0)
        return self._sample_results.estimates(float(last - first) / 1e6, seed)

    def counts(self) -> Mapping[str, Counts]:
        """Say what became of the events at each operator."""
        return {name: server.counts() for name, server in self._servers.items()}


def _joined(tables: Mapping[Stream, list[pa.Table]]) -> Mapping[Stream, pa.Table]:
    return {stream: pa.concat_tables(each) for stream, each in tables.items()}


def serve_in_order(arrivals: Floats, service: Floats, free: float) -> tuple[Floats, float]:
    """Say when each event leaves a server, and when the server is free again, in seconds.

    Events are served one by one, first come, first served: Lindley's recursion.
    """
    departures = np.empty(len(arrivals))
    return departures, float(_serve(arrivals, service, float(free), departures))


@compiled
def _serve(arrivals: Floats, service: Floats, free: float, departures: Floats) -> float:
    for i in range(arrivals.shape[0]):
        free = max(free, arrivals[i]) + service[i]
        departures[i] = free
    return free

"""A simulation under way: servers, what is on its way between them, and what reached sinks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator.admission import find_admissions
from shedlight.engines.simulator.api import Chooser, Counts, Interval, ServedEvents
from shedlight.engines.simulator.closure_state import ClosureState
from shedlight.engines.simulator.interval import IntervalBuilder
from shedlight.engines.simulator.links import Links
from shedlight.engines.simulator.prepare import PreparedRun
from shedlight.engines.simulator.sample import SampleResults
from shedlight.engines.simulator.sampled_keys import SampledKeys
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.engines.simulator.service import ServiceTimes
from shedlight.engines.simulator.strata import StrataTracker
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Stream, operator_order
from shedlight.graph.closures import find_closures
from shedlight.graph.sampled import find_sampled_sinks
from shedlight.graph.topology import longest_windows
from shedlight.matching.compile.matcher import BEGAN
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.output.complex_events import EVENTS, ID, TIME
from shedlight.model.arrays import Floats
from shedlight.shedding.estimate import SinkEstimate
from shedlight.shedding.shares import Shares

OnServed = Callable[[ServedEvents], None]
"""Called with the events that were processed, batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """What is asked of a simulation besides its outcome."""

    on_served: OnServed | None = None  # called with the events that were processed
    with_outputs: bool = False  # whether to give the complex events of all patterns
    with_admission: bool = True  # whether nodes with a bound by percentile admit single events
    with_pressure: bool = True  # whether nodes of micro-batches lower shares to keep bounds
    unshed_sample: float = 0.0  # the share of keys that is never shed
    with_strata: bool = False  # whether strata of keys are found and counted


class SimulationRun(ABC):
    """A simulation under way; how a node serves its events, those say that derive from it."""

    def __init__(
        self,
        prepared: PreparedRun,
        service_times: ServiceTimes,
        options: SimulationOptions,
    ) -> None:
        self.application, self._sources = prepared.application, prepared.sources
        self._service_times, self._options = service_times, options
        self._times = {  # when their events arrive, in microseconds
            name: prepared.pace.arrivals(table[EVENT_TIME].to_numpy())
            for name, (_, table) in self._sources.items()
        }
        self._free = dict.fromkeys(self.application.nodes, 0.0)
        self._results: dict[str, list[pa.Table]] = {n: [] for n in self.application.sinks}
        self._servers: dict[str, Server] = {}
        self._depth: dict[str, int] = {}
        # of all complex events, and of those that shadows found
        self.outputs: dict[Stream, list[pa.Table]] = {}
        self.masked: dict[Stream, list[pa.Table]] = {}
        closures = find_closures(self.application)
        self.closure_state = ClosureState(self.application, closures)
        self._admissions = find_admissions(self.application, closures)
        if not options.with_admission:
            self._admissions = {}
        sampled_sinks = find_sampled_sinks(self.application, closures)
        keys = SampledKeys(sampled_sinks, options.unshed_sample)
        self._sample_results = SampleResults(self.application, keys)
        self._strata = StrataTracker(self.application) if options.with_strata else None
        self._links = Links(self.application)
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
                pace=prepared.pace,
                unique=prepared.unique.issuperset(spec.inputs),
                lists_events=options.with_outputs,
            )
            if self._strata is not None:
                self._servers[spec.name].records_keys = spec.name in self._strata.operators
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

    @abstractmethod
    def advance(self, builder: IntervalBuilder, shares: Shares) -> Interval:
        """Simulate until the next control instant."""

    def _count_strata(self, server: Server, batch: ServiceBatch) -> None:
        """Count what came of the strata of keys in a batch."""
        if self._strata is not None:
            self._strata.count(server, batch)

    def _complete(self, interval: Interval) -> Interval:
        """Add what was counted of links and strata to the record of an interval."""
        sizes, loads = self._links.take_bytes()
        interval = replace(interval, event_bytes=sizes, links=loads)
        if self._strata is None:
            return interval
        histories = self._strata.histories
        counted = replace(interval, strata=self._strata.take(), key_histories=histories)
        for name, server in self._servers.items():
            server.set_strata(self._strata.table(name))
        return counted

    def _shadow(self, server: Server, batch: ServiceBatch, shares: Shares, end: float) -> None:
        """Match the sample's events of a batch again, with the mask of the shares."""
        if server.shadow is None:
            return
        tables, recorder = server.shadow.step(batch.ready, end, shares, batch.admitted)
        for name, table in tables.items():
            stream = Stream(name, server.spec.name)
            sent = (table, server.departures(table))
            if self._options.with_outputs:
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

    def _send(self, stream: Stream, table: pa.Table, at: Floats) -> None:
        """Send complex events to the operators and sinks that read them."""
        if not len(table):
            return
        self._send_to(self._servers.values(), stream, table, at)
        self._deliver(stream, table)

    def _send_to(
        self,
        servers: Iterable[Server],
        stream: Stream,
        table: pa.Table,
        at: Floats,
        *,
        inside: bool = False,
    ) -> None:
        """Send complex events to operators that read them; not inside a node: by links."""
        without = table.drop_columns([EVENTS]) if EVENTS in table.column_names else table
        for server in servers:
            is_limited = self._links.takes(stream, server.spec.node)
            if stream in server.channels and not is_limited:
                server.channels[stream].in_transit.append((without, at))
        if not inside:
            self._links.send(stream, without, at)

    def _carry(self) -> None:
        """Let links of limited capacity bring what was sent over them."""
        for (_, node), (stream, table, at) in self._links.carry():
            for server in self._servers.values():
                if server.spec.node == node and stream in server.channels:
                    server.channels[stream].in_transit.append((table, at))

    def _deliver(self, stream: Stream, table: pa.Table) -> None:
        """Give complex events, or what timed out, to the sinks that take it."""
        if BEGAN in table.column_names:
            table = table.drop_columns([BEGAN])
        if self._options.with_outputs and len(table):
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

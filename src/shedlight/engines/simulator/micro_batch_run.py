"""Nodes that work as on Spark: a micro-batch reads all that has arrived, and ends as a whole.

A node is one query. When a micro-batch has ended and events wait, the next one begins; else it
begins with the next event. It takes

    fixed + reading x events + carrying x kept + what patterns take for the events they keep

and all its events leave at its end. Operators of a node that read each other share it: a
complex event is matched further in the micro-batch that found it. A plan is used by the
micro-batches that begin after it was made, and pressure lowers it so far that the next one
keeps the bound, as `control/pressure.py` has it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shedlight.control.observation import Observation
from shedlight.control.pressure import batch_pressure
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.interval import IntervalBuilder, count_labels, served_events
from shedlight.engines.simulator.observation import (
    ReadSpan,
    join_intervals,
    observe_micro_batches,
)
from shedlight.engines.simulator.prepare import PreparedRun
from shedlight.engines.simulator.run import SimulationOptions, SimulationRun
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.engines.simulator.service import ServiceTimes
from shedlight.graph import Node, Stream
from shedlight.matching.operators.classify import gather
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs
from shedlight.shedding.shares import Shares


@dataclass(slots=True, eq=False)
class _Node:
    """A node, and how far it is."""

    spec: Node  # what the application says of it
    costs: Costs  # what a micro-batch costs
    servers: list[Server]  # its operators, each behind those that it reads
    unread: dict[str, int]  # the first event of each source that it has not read
    read_until: float  # when the last micro-batch began: it read what had arrived
    observed_until: float  # the same, of the last one that was observed
    # how many events of each type each pattern was offered in the last micro-batch
    offered: dict[Stream, dict[str, int]] = field(default_factory=dict)
    events: int = 0  # how many events that one read
    pressure: float = 1.0  # the factor by which it lowered its shares


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """What an operator did in a micro-batch."""

    server: Server
    batch: ServiceBatch
    found: Mapping[Stream, pa.Table]


class MicroBatchRun(SimulationRun):
    """A simulation of nodes with micro-batches: the one that begins first is run first."""

    def __init__(
        self,
        prepared: PreparedRun,
        service_times: ServiceTimes,
        options: SimulationOptions,
        costs: Mapping[str, Costs],
    ) -> None:
        super().__init__(prepared, service_times, options)
        first = min((times[0] for times in self._times.values() if len(times)), default=0) / 1e6
        self._nodes: dict[str, _Node] = {}
        for name, spec in self.application.nodes.items():
            servers = [each for each in self._servers.values() if each.spec.node == name]
            sources = {s.name for each in servers for s in each.spec.inputs if not s.operator}
            if servers:
                unread, usual = dict.fromkeys(sources, 0), costs.get(name, DEFAULT_COSTS)
                self._nodes[name] = _Node(spec, usual, servers, unread, first, first)
        self._unobserved: list[Interval] = []

    def advance(self, builder: IntervalBuilder, shares: Shares) -> Interval:
        """Run the micro-batches that begin until the next control instant."""
        for name, node in self._nodes.items():
            builder.expect(name, node.servers)
        while True:
            start, name = min((self._next_start(name), name) for name in self._nodes)
            if start >= builder.end:
                break
            self._run_batch(name, start, shares, builder)
        if builder.is_last:
            self._end_inputs(shares, builder)
        interval = self._complete(builder.build(self._free))
        self._unobserved.append(interval)
        return replace(
            interval,
            pressure={name: node.pressure for name, node in self._nodes.items()},
            observations=() if builder.is_last else tuple(self._observe()),
        )

    def _next_start(self, name: str) -> float:
        """Say when the next micro-batch of a node begins; infinity: nothing waits or comes."""
        node, arrivals = self._nodes[name], [np.inf]
        for source, row in node.unread.items():
            arrivals += (self._times[source][row : row + 1] / 1e6).tolist()
        for server in node.servers:
            for channel in server.channels.values():
                arrivals += [float(at[0]) for _, at in channel.in_transit]
        return max(self._free[name], min(arrivals))

    def _end_inputs(self, shares: Shares, builder: IntervalBuilder) -> None:
        """End all inputs, operator by operator: what waits for a watermark is ready."""
        for server in self._servers.values():
            sent = [at[-1] for ch in server.channels.values() for _, at in ch.in_transit]
            start = float(max([self._free[server.spec.node], *sent]))
            self._run_batch(server.spec.node, start, shares, builder, ended=server)

    def _run_batch(
        self,
        name: str,
        start: float,
        shares: Shares,
        builder: IntervalBuilder,
        ended: Server | None = None,
    ) -> None:
        """Run a micro-batch of a node, or of one operator whose inputs end with it."""
        node, done = self._nodes[name], list[_Matched]()
        tables = self._read_sources(node, start)
        events = sum(map(len, tables.values())) + self._count_sent(name, start)
        node.pressure = self._pressure(node, events, shares)
        lowered = _lower_shares(node, shares)
        for server in node.servers if ended is None else [ended]:
            arrivals = self._arrivals_of(server, tables, start)
            done.append(self._match(server, arrivals, lowered, start, is_end=ended is not None))
        spent = sum(float(each.batch.service.sum()) for each in done)
        seconds = node.costs.fixed + node.costs.reading * events + spent
        self._free[name] = start + seconds
        node.read_until, node.events = start, events
        builder.add_reading(name, node.costs.reading * events)
        for each in done:
            self._finish(each, lowered, start, seconds, builder)
        self._carry()

    def _read_sources(self, node: _Node, start: float) -> dict[str, pa.Table]:
        """Read what has arrived from sources."""
        tables = {}
        for source, first in node.unread.items():
            end = int(np.searchsorted(self._times[source], round(start * 1e6), side="right"))
            tables[source] = self._sources[source][1].slice(first, end - first)
            node.unread[source] = end
        return tables

    def _count_sent(self, node: str, start: float) -> int:
        """Count the complex events that have arrived from other nodes; each is read once."""
        numbers = {
            stream: sum(
                int(np.searchsorted(at, start, "right")) for _, at in channel.in_transit
            )
            for server in self._nodes[node].servers
            for stream, channel in server.channels.items()
            if self.application.operators[str(stream.operator)].node != node
        }
        return sum(numbers.values())

    def _arrivals_of(
        self, server: Server, read: Mapping[str, pa.Table], start: float
    ) -> dict[int, pa.Table]:
        tables = {}
        for number, stream in enumerate(server.spec.inputs):
            if stream.operator is None:
                if len(read[stream.name]):
                    tables[number] = read[stream.name]
            elif arrived := server.channels[stream].until(np.nextafter(start, np.inf)):
                tables[number] = pa.concat_tables(arrived).combine_chunks()
        return tables

    def _match(
        self,
        server: Server,
        arrivals: Mapping[int, pa.Table],
        shares: Shares,
        start: float,
        *,
        is_end: bool,
    ) -> _Matched:
        """Match what an operator gets; operators of its node have the results at once."""
        node = self._nodes[server.spec.node]
        ended = frozenset(range(len(server.spec.inputs))) if is_end else frozenset[int]()
        asked = server.admit(arrivals, ended, shares, self._service_times)
        batch = replace(asked, service=asked.service + node.costs.carrying * asked.kept)
        server.count(batch)
        for stream in server.spec.outputs:
            by_type = server.decider.relevant(batch.ready)[stream.name]
            numbers = batch.ready.numbers[gather(by_type, batch.ready.numbers)]
            node.offered[stream] = count_labels(server.decider.labels(batch.ready), numbers)
        found = {}
        leave = np.full(len(batch.arrivals), start)
        for stream, (table, _) in server.match(batch, leave).items():
            found[stream] = table
            self._transmit(stream, table, start, server.spec.node, inside=True)
        return _Matched(server, batch, found)

    def _finish(
        self,
        done: _Matched,
        shares: Shares,
        start: float,
        seconds: float,
        builder: IntervalBuilder,
    ) -> None:
        """Send on what an operator found, and count what became of its events."""
        server, batch, node = done.server, done.batch, done.server.spec.node
        leave = np.full(len(batch.arrivals), start + seconds)
        processing = np.full(len(batch.arrivals), seconds)
        builder.add(node, server, batch, leave, processing)
        if self._options.on_served is not None:
            self._options.on_served(served_events(node, server, batch, leave, processing))
        for stream, table in done.found.items():
            builder.add_output(stream, len(table))
            self._transmit(stream, table, start + seconds, node, inside=False)
            self._deliver(stream, table)
        for stream, table in server.timed_out.items():
            builder.add_output(stream, len(table))
            self._deliver(stream, table)
        self._count_strata(server, batch)
        self._shadow(server, batch, shares, float(np.nextafter(start, np.inf)))

    def _transmit(
        self, stream: Stream, table: pa.Table, at: float, node: str, *, inside: bool
    ) -> None:
        """Send complex events to the operators of their node that read them, or to others."""
        if not len(table):
            return
        readers = [s for s in self._servers.values() if (s.spec.node == node) is inside]
        self._send_to(readers, stream, table, np.full(len(table), at), inside=inside)

    def _pressure(self, node: _Node, events: int, shares: Shares) -> float:
        """Give the greatest factor with which the next micro-batch keeps the bound."""
        if not self._options.with_pressure or not node.events:
            return 1.0
        return batch_pressure(
            events,
            self._planned_work(node, shares) / node.events,
            fixed=node.costs.fixed,
            reading=node.costs.reading,
            bound=node.spec.bound,
            percentile=node.spec.percentile,
        )

    def _planned_work(self, node: _Node, shares: Shares) -> float:
        """Say what the last micro-batch would have taken for its events by these shares."""
        work, carried = 0.0, dict[tuple[str | None, str], float]()
        for stream, by_type in node.offered.items():
            mine, (seconds, _) = shares.get(stream), self._service_times.expected(stream)
            for label, number in by_type.items():
                kept = number * (mine.shares.get(label, mine.mean) if mine else 1.0)
                work += seconds * kept
                place = stream.operator, label
                carried[place] = max(kept, carried.get(place, 0.0))
        return work + node.costs.carrying * sum(carried.values())

    def _observe(self) -> Iterator[Observation]:
        """Observe all nodes, once each node with a bound has had a micro-batch."""
        bounded = [node for node in self._nodes.values() if node.spec.bound is not None]
        if not all(node.read_until > node.observed_until for node in bounded):
            return
        spans = {}
        for name, node in self._nodes.items():
            waiting = max(0.0, self._free[name] - node.read_until)
            span = node.read_until - node.observed_until
            spans[name] = ReadSpan(span, waiting, node.costs)
            node.observed_until = node.read_until
        node_of = {name: server.spec.node for name, server in self._servers.items()}
        yield observe_micro_batches(join_intervals(self._unobserved), spans, node_of)
        self._unobserved = []


def _lower_shares(node: _Node, shares: Shares) -> Shares:
    """Lower the shares of the patterns of a node by its pressure."""
    mine = {stream for server in node.servers for stream in server.spec.outputs}
    return {
        stream: kept.lower_by(node.pressure) if stream in mine else kept
        for stream, kept in shares.items()
    }

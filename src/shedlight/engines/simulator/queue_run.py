"""Nodes with a queue: the server of a node takes events one by one, as they came."""

import numpy as np

from shedlight.engines.simulator.admission import serve_admitted
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.fifo_server import serve_in_order
from shedlight.engines.simulator.interval import IntervalBuilder, served_events
from shedlight.engines.simulator.run import SimulationRun
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import Shares


class QueueRun(SimulationRun):
    """A simulation of nodes with queues: between control instants, operator by operator."""

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
        return self._complete(builder.build(self._free))

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
            if self._options.on_served is not None:
                self._options.on_served(served_events(node, server, batch, leave))
            for stream, (table, at) in server.match(batch, leave).items():
                builder.add_output(stream, len(table))
                self._send(stream, table, at)
            for stream, table in server.timed_out.items():
                builder.add_output(stream, len(table))
                self._deliver(stream, table)
            self._count_strata(server, batch)
            self._shadow(server, batch, shares, builder.end)
        self._carry()

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

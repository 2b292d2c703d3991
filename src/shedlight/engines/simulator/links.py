"""Links of limited capacity in virtual time: complex events wait for those before them."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator.fifo_server import serve_in_order
from shedlight.graph import Application, Stream
from shedlight.graph.channels import Edge, link_name
from shedlight.model.arrays import Floats

Sent = tuple[Stream, pa.Table, Floats]
"""Complex events of a pattern, and when each arrives, in seconds."""


class Links:
    """The links of an application, and what is on its way over them.

    Everything that other nodes read of a node goes over each of its links, in the order in
    which it was found.
    """

    def __init__(self, application: Application) -> None:
        channels, specs = application.channels, application.operators
        self._capacity: Mapping[Edge, float] = {} if channels is None else channels.links
        self._node_of = {name: spec.node for name, spec in specs.items()}
        self._sent = {
            stream
            for spec in specs.values()
            for stream in spec.inputs
            if stream.operator and self._node_of[stream.operator] != spec.node
        }
        self._free = dict.fromkeys(self._capacity, 0.0)
        self._waiting: dict[Edge, list[Sent]] = {edge: [] for edge in self._capacity}
        self.events: Counter[Stream] = Counter()  # that other nodes read
        self.bytes: Counter[Stream] = Counter()  # how many these had

    def takes(self, stream: Stream, node: str) -> Edge | None:
        """Say over which link of limited capacity a node gets a stream, if there is one."""
        edge = self._node_of[str(stream.operator)], node
        return edge if edge in self._capacity else None

    def send(self, stream: Stream, table: pa.Table, at: Floats) -> None:
        """Give complex events to the links of their node, which carry them when asked to."""
        if stream in self._sent:
            self.events[stream] += len(table)
            self.bytes[stream] += table.nbytes
            for edge in self._capacity:
                if edge[0] == self._node_of[str(stream.operator)]:
                    self._waiting[edge].append((stream, table, at))

    def carry(self) -> Iterator[tuple[Edge, Sent]]:
        """Carry what was sent, as fast as each link can; say when it is there."""
        for edge, waiting in self._waiting.items():
            self._waiting[edge] = []
            if not waiting:
                continue
            at = np.concatenate([each for _, _, each in waiting])
            seconds = np.concatenate(
                [
                    np.full(len(table), table.nbytes / len(table) / self._capacity[edge])
                    for _, table, _ in waiting
                ]
            )
            order = np.argsort(at, kind="stable")
            there = np.empty(len(at))
            there[order], self._free[edge] = serve_in_order(
                at[order], seconds[order], self._free[edge]
            )
            ends = np.cumsum([len(table) for _, table, _ in waiting])[:-1]
            for (stream, table, _), arrivals in zip(
                waiting, np.split(there, ends), strict=True
            ):
                yield edge, (stream, table, arrivals)

    def take_bytes(self) -> tuple[dict[Stream, float], dict[str, float]]:
        """Give the bytes of a complex event, and those for each link, since the last time."""
        sizes = {s: self.bytes[s] / number for s, number in self.events.items() if number}
        loads = {
            link_name(edge): float(
                sum(
                    n
                    for s, n in self.bytes.items()
                    if self._node_of[str(s.operator)] == edge[0]
                )
            )
            for edge in self._capacity
        }
        self.events, self.bytes = Counter(), Counter()
        return sizes, loads

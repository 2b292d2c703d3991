"""An application in virtual time: between control instants, operator by operator.

Events queue at a node and its server takes them one by one; what an event takes is the sum of
what the patterns take that keep it, and nothing if none does. A complex event arrives
downstream when the event that completed it leaves. Matching is that of every other engine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.automaton.intake import Input
from shedlight.automaton.operator import schema_of
from shedlight.automaton.pools import Array
from shedlight.automaton.selection import ID, TIME
from shedlight.engines.application import prepared_source
from shedlight.engines.finished import AT
from shedlight.engines.simulator.queueing import served
from shedlight.engines.simulator.station import Batch, Station
from shedlight.engines.simulator.values import Interval, Policy, Service
from shedlight.graph import Application, Stream, operator_order, with_schemas
from shedlight.language.pattern import Span
from shedlight.model.needs import Floats
from shedlight.shedding.shares import Shares

_OF_SERVICE = 0x5EBC1CE
"""Keeps processing times apart from streams that were generated with the same seed."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What came of a simulation.

    Attributes:
        intervals: What happened, interval by interval.
        sinks: The complex events that reached each sink.
        shares: The shares that were in force in each interval.
        late: Events that came too late at each operator, and duplicates.
    """

    intervals: tuple[Interval, ...]
    sinks: Mapping[str, pa.Table]
    shares: tuple[Shares, ...]
    late: Mapping[str, int]


def simulate(  # noqa: PLR0913  # what a simulation is of
    application: Application,
    tables: Mapping[str, pa.Table],
    service: Service,
    *,
    interval: float = 1.0,
    shares: Shares | None = None,
    policy: Policy | None = None,
    seed: int = 0,
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

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ValueError: The interval is not longer than zero.
    """
    if not interval > 0:
        raise ValueError(f"an interval must be longer than zero, got {interval}")
    run = _Run(application, tables, service, seed)
    intervals, history = [], []
    now: Shares = shares or {}
    for start, end, is_last in run.instants(interval):
        done = run.advance(start, end, now, is_last=is_last)
        intervals.append(done)
        history.append(now)
        if policy is not None:
            now = policy.decide(done) or now
    return Simulation(tuple(intervals), run.sinks(), tuple(history), run.late())


class _Run:
    """A simulation under way."""

    def __init__(
        self,
        application: Application,
        tables: Mapping[str, pa.Table],
        service: Service,
        seed: int,
    ) -> None:
        schemas = {name: schema_of(table.schema) for name, table in tables.items()}
        self.application = with_schemas(application, schemas)
        self._service = (service, np.random.default_rng([seed, _OF_SERVICE]))
        self._sources = {
            name: _in_order(*prepared_source(source, tables[name]))
            for name, source in self.application.sources.items()
        }
        self._free = dict.fromkeys(self.application.nodes, 0.0)
        self._found: dict[str, list[pa.Table]] = {name: [] for name in application.sinks}
        self._stations: dict[str, Station] = {}
        self._depth: dict[str, int] = {}
        for spec in operator_order(self.application):
            inputs = [self._input(stream) for stream in spec.inputs]
            self._stations[spec.name] = Station(spec, inputs, self._windows())
            fed = [self._depth[s.operator] for s in spec.inputs if s.operator]
            self._depth[spec.name] = 1 + max(fed, default=0)

    def _input(self, stream: Stream) -> tuple[Input, pa.Schema]:
        if stream.operator is None:
            one, table = self._sources[stream.name]
            return one, table.schema
        schema = self._stations[stream.operator].schema(stream.name)
        return Input(str(stream), (ID,), TIME), schema

    def _windows(self) -> Mapping[str, int]:
        """Find the longest window of all patterns of each key."""
        longest: dict[str, int] = {}
        for spec in self.application.operators.values():
            for pattern in spec.patterns.values():
                if pattern.within and pattern.within.span is Span.TIME:
                    key = ", ".join(map(str, pattern.partition_by))
                    longest[key] = max(longest.get(key, 1), pattern.within.length)
        return longest

    def instants(self, interval: float) -> Iterator[tuple[float, float, bool]]:
        """Go from control instant to control instant, until everything has arrived."""
        times = [table[AT].to_numpy() for _, table in self._sources.values()]
        first = min((t[0] for t in times if len(t)), default=0) / 1e6
        last = max((t[-1] for t in times if len(t)), default=0) / 1e6
        number = max(1, int(np.floor((last - first) / interval)) + 1)
        self._free = dict.fromkeys(self._free, first)
        for i in range(number):
            yield first + i * interval, first + (i + 1) * interval, False
        yield first + number * interval, float("inf"), True

    def advance(self, start: float, end: float, shares: Shares, *, is_last: bool) -> Interval:
        """Simulate until the next control instant."""
        told = _Told(start, end)
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
        self, node: str, here: list[Station], shares: Shares, now: tuple["_Told", bool]
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
            for stream, (table, at) in station.match(batch, leave).items():
                told.outputs[stream] = len(table)
                self._send(stream, table, at)

    def _arriving(self, station: Station, end: float, start: float) -> dict[int, pa.Table]:
        tables = {}
        for number, stream in enumerate(station.spec.inputs):
            if stream.operator is None:
                table = self._sources[stream.name][1]
                times = table[AT].to_numpy()
                low, high = np.searchsorted(times, [start * 1e6, min(end * 1e6, 2**62)])
                if high > low:
                    tables[number] = table.slice(low, high - low)
            else:
                parts = station.channels[stream].until(end)
                if parts:
                    tables[number] = pa.concat_tables(parts)
        return tables

    def _departures(self, node: str, batches: list[Batch]) -> list[Floats]:
        """Serve the events of all operators of a node in the order of their arrival."""
        arrivals = np.concatenate([batch.arrivals for batch in batches])
        service = np.concatenate([batch.service for batch in batches])
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
        for sink in self.application.sinks.values():
            if sink.input == stream:
                self._found[sink.name].append(table)

    def sinks(self) -> Mapping[str, pa.Table]:
        """Give all that reached the sinks."""
        return {
            name: pa.concat_tables(parts) if parts else pa.table({})
            for name, parts in self._found.items()
        }

    def late(self) -> Mapping[str, int]:
        """Count what was not matched because it came too late or came again."""
        return {
            name: sum(station.state.waiting.late) + sum(station.state.waiting.duplicates)
            for name, station in self._stations.items()
        }


class _Told:
    """What is gathered of one interval."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end
        self.arrivals: dict[str, dict[Stream, dict[str, int]]] = {}
        self.spent: dict[Stream, tuple[float, float]] = {}
        self.kept: dict[Stream, dict[str, int]] = {}
        self.outputs: dict[Stream, int] = {}
        self.busy: dict[str, float] = {}
        self.processed: dict[str, int] = {}
        self.latency: dict[str, float] = {}
        self.unknown: dict[Stream, tuple[str, ...]] = {}

    def note(self, node: str, station: Station, batch: Batch, leave: Floats) -> None:
        """Note what was decided about a batch."""
        ready = batch.ready
        labels = [ready.types.label(i) for i in range(len(ready.types.signatures))]
        self.arrivals[station.spec.name] = {
            stream: _counted(labels, ready.numbers[ready.inputs == number])
            for number, stream in enumerate(station.spec.inputs)
        }
        self.spent |= batch.spent
        for stream in station.spec.outputs:
            self.kept[stream] = _counted(labels, ready.numbers[batch.masks[stream.name]])
        some = np.zeros(len(ready.time), np.bool_)
        for mask in batch.masks.values():
            some |= mask
        self.busy[node] = self.busy.get(node, 0.0) + float(batch.service.sum())
        self.processed[node] = self.processed.get(node, 0) + int(some.sum())
        spent = float((leave - batch.arrivals)[some].sum())
        self.latency[node] = self.latency.get(node, 0.0) + spent
        self.unknown |= {stream: names for stream, names in batch.unknown.items() if names}

    def interval(self, free: Mapping[str, float]) -> Interval:
        """Put it together."""
        end = self.end if np.isfinite(self.end) else max([self.start, *free.values()])
        return Interval(
            start=self.start,
            length=end - self.start,
            arrivals=self.arrivals,
            kept=self.kept,
            spent=self.spent,
            outputs=self.outputs,
            busy=self.busy,
            backlog={name: max(0.0, at - end) for name, at in free.items()},
            processed=self.processed,
            latency=self.latency,
            unknown=self.unknown,
        )


def _in_order(one: Input, table: pa.Table) -> tuple[Input, pa.Table]:
    """Let events arrive at the time that they bear."""
    times = table[AT].to_numpy()
    if (np.diff(times) < 0).any():
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return one, table


def _counted(labels: list[str], numbers: Array) -> dict[str, int]:
    counts = np.bincount(numbers, minlength=len(labels)).tolist()
    return {label: n for label, n in zip(labels, counts, strict=True) if n}

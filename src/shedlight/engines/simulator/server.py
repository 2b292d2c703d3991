"""An operator in a simulation: what arrives, what is kept, how long that takes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.simulator.api import Chooser, Counts, Service, ServiceKind
from shedlight.graph.application import OperatorSpec, Stream
from shedlight.graph.topology import key_name
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import (
    Operator,
    OperatorState,
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.classify import EventTypes, looked_up
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.output.complex_events import EVENTS, ID, TIME
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.model.arrays import Floats, dot
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.shedder import event_hashes, kept_events, key_hashes

_SECOND = 1e6


@dataclass(slots=True, eq=False)
class Channel:
    """Complex events on their way to a station, and when those before them arrived.

    Attributes:
        waiting: Tables of complex events with the seconds at which each arrives.
        times: The timestamps of the complex events that the station has been given.
        arrivals: When each of them arrived.
    """

    waiting: list[tuple[pa.Table, Floats]] = field(default_factory=list)
    times: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    arrivals: Floats = field(default_factory=lambda: np.zeros(0))

    def until(self, end: float) -> list[pa.Table]:
        """Take out what arrives before a time."""
        taken, left = [], []
        for table, arrivals in self.waiting:
            number = int(np.searchsorted(arrivals, end))
            if number:
                taken.append(table.slice(0, number))
                self.times = np.concatenate(
                    [self.times, table[TIME].slice(0, number).to_numpy()]
                )
                self.arrivals = np.concatenate([self.arrivals, arrivals[:number]])
            if number < len(table):
                left.append((table.slice(number), arrivals[number:]))
        self.waiting = left
        return taken

    def arrived(self, times: Array) -> Floats:
        """Say when the complex events of these timestamps arrived, and forget those before."""
        if not len(times):
            return np.zeros(0)
        places = np.searchsorted(self.times, times, side="right") - 1
        arrivals = self.arrivals[np.maximum(places, 0)]
        first = int(places.min())
        self.times, self.arrivals = self.times[max(first, 0) :], self.arrivals[max(first, 0) :]
        return arrivals


@dataclass(frozen=True, slots=True, eq=False)
class ServiceBatch:
    """Events that are ready at a station, and what was decided about them.

    Attributes:
        ready: The events.
        arrivals: When each arrived, in seconds.
        service: How long each takes, in seconds.
        spent: Seconds that each pattern takes, and the sum of their squares.
        masks: Which of them each pattern keeps.
        kept: Which of them some pattern keeps.
        used: How many of them some pattern has a use for.
        unknown: Types that the shares did not know, by pattern.
    """

    ready: ReadyBatch
    arrivals: Floats
    service: Floats
    spent: Mapping[Stream, tuple[float, float]]
    masks: Mapping[str, Array]
    kept: Array
    used: int
    unknown: Mapping[Stream, tuple[str, ...]]


class Server:
    """An operator at work in virtual time.

    Args:
        spec: What the application says of it.
        inputs: Its inputs with the schema of each.
        windows: The longest window of all patterns of each key, in microseconds.
        timed_out: The patterns of which a sink takes what timed out.

    Attributes:
        ended: What timed out of them in the last batch.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        inputs: list[tuple[StreamInput, pa.Schema]],
        windows: Mapping[str, int],
        timed_out: Collection[Stream] = (),
    ) -> None:
        self.spec = spec
        asked = {stream.name for stream in spec.outputs if stream in timed_out}
        self.operator: Operator = build_operator(inputs, spec.patterns, timed_out=asked)
        self.ended: Mapping[Stream, pa.Table] = {}
        self.state: OperatorState = new_operator_state(self.operator)
        self.channels = {stream: Channel() for stream in spec.inputs if stream.operator}
        self.choosers: Mapping[Stream, Chooser] = {}
        self.unique = False
        self.arrived = self.processed = self.shed = self.unused = 0
        self._windows = windows
        self._uses: dict[str, Array] = {}
        self._labels: list[str] = []
        self._departed: tuple[Array, Floats] = (np.zeros(0, np.int64), np.zeros(0))

    def schema(self, name: str) -> pa.Schema:
        """Give the columns of the complex events of a pattern."""
        state = new_operator_state(self.operator)
        state, ready, _ = ingest(self.operator, state, {}, frozenset())
        _, found = match_batch(self.operator, state, ready, {}, self.spec.patterns)
        return found[name].schema

    def counts(self) -> Counts:
        """Say what became of the events so far."""
        return Counts(
            arrived=self.arrived,
            processed=self.processed,
            shed=self.shed,
            unused=self.unused,
            late=sum(self.state.waiting.late),
            duplicates=sum(self.state.waiting.duplicates),
            expired=len(self.state.waiting.buffer),
        )

    def take(
        self,
        tables: Mapping[int, pa.Table],
        ended: frozenset[int],
        shares: Shares,
        service: tuple[Service, np.random.Generator],
    ) -> ServiceBatch:
        """Take in what arrived, and decide about what is ready by that."""
        self.state, ready, _ = ingest(
            self.operator, self.state, tables, ended, unique=self.unique
        )
        hashes: dict[str, Array] = {}
        masks, unknown, spent = {}, {}, {}
        size = len(ready.time)
        work, kept_by_any, used = np.zeros(size), np.zeros(size, np.bool_), 0
        uses = self._used_types(ready)
        if size:
            used = int(
                np.count_nonzero(looked_up(np.any(list(uses.values()), 0), ready.numbers))
            )
        times, rng = service
        for stream in self.spec.outputs:
            mine = shares.get(stream)
            mask = looked_up(uses[stream.name], ready.numbers)
            if stream in self.choosers:
                mask = self._chosen(ready, stream, mask, hashes)
            elif mine is not None:
                kept = kept_events(
                    mine, ready.types, ready.numbers, self._hashes(ready, stream, mine, hashes)
                )
                mask &= kept.mask
                unknown[stream] = kept.unknown
            masks[stream.name] = mask
            kept_by_any |= mask
            spent[stream] = _spend(times, stream, mask, work, rng)
        self._count(tables, size, used, int(np.count_nonzero(kept_by_any)))
        arrivals = self._arrived(ready)
        return ServiceBatch(ready, arrivals, work, spent, masks, kept_by_any, used, unknown)

    def _count(
        self, tables: Mapping[int, pa.Table], ready: int, used: int, processed: int
    ) -> None:
        self.arrived += sum(map(len, tables.values()))
        self.processed += processed
        self.shed += used - processed
        self.unused += ready - used

    def _used_types(self, ready: ReadyBatch) -> Mapping[str, Array]:
        """Say which types each pattern has any use for."""
        number = len(ready.types.signatures)
        if not self._uses or len(next(iter(self._uses.values()))) != number:
            self._uses = {one.name: _uses(one, ready.types) for one in self.operator.matchers}
        return self._uses

    def labels(self, ready: ReadyBatch) -> list[str]:
        """Name the types so far."""
        for number in range(len(self._labels), len(ready.types.signatures)):
            self._labels.append(ready.types.label(number))
        return self._labels

    def _chosen(
        self, ready: ReadyBatch, stream: Stream, offered: Array, known: dict[str, Array]
    ) -> Array:
        hashes = self._hashes(ready, stream, PatternShares({}), known)
        matcher = next(one for one in self.operator.matchers if one.name == stream.name)
        return self.choosers[stream].choose(matcher, ready, offered, hashes)

    def _hashes(
        self, ready: ReadyBatch, stream: Stream, shares: PatternShares, known: dict[str, Array]
    ) -> Array:
        key = self.spec.patterns[stream.name].partition_by if shares.by_key else ()
        name = key_name(key)
        if name not in known:
            if key:
                known[name] = key_hashes(ready.table, key, ready.time, self._windows[name])
            else:
                known[name] = event_hashes(ready.table, self.operator.ids)
        return known[name]

    def _arrived(self, ready: ReadyBatch) -> Floats:
        arrivals = ready.time / _SECOND
        for number, stream in enumerate(self.spec.inputs):
            if stream in self.channels:
                mine = ready.inputs == number
                arrivals[mine] = self.channels[stream].arrived(ready.time[mine])
        return arrivals

    def match(
        self, batch: ServiceBatch, departures: Floats
    ) -> dict[Stream, tuple[pa.Table, Floats]]:
        """Match what is ready; give complex events with the times at which they leave."""
        chosen = {stream.name for stream in self.choosers}
        unlisted = self.spec.patterns.keys() - chosen
        self.state, found = match_batch(
            self.operator, self.state, batch.ready, batch.masks, unlisted
        )
        self._departed = (
            np.concatenate([self._departed[0][-1:], batch.ready.time]),
            np.concatenate([self._departed[1][-1:], departures]),
        )
        self.ended = {
            Stream(timed_out_name(one.name), self.spec.name): found[timed_out_name(one.name)]
            for one in self.operator.matchers
            if one.timed_out
        }
        times, leave = self._departed
        leave = np.maximum.accumulate(leave) if len(leave) else leave
        results = {}
        for stream, chooser in self.choosers.items():
            chooser.learn(*_brought(found[stream.name][EVENTS], self.operator.ids))
        for stream in self.spec.outputs:
            table = found[stream.name]
            table = table.drop_columns([EVENTS]) if stream in self.choosers else table
            at = np.searchsorted(times, table[TIME].to_numpy(), side="right") - 1
            results[stream] = (table, leave[np.maximum(at, 0)] if len(leave) else np.zeros(0))
        return results


def _uses(matcher: Matcher, types: EventTypes) -> Array:
    """Say which types a pattern has any use for."""
    within = matcher.pattern.within
    if within is not None and within.span is WindowUnit.EVENTS:
        return np.ones(len(types.signatures), np.bool_)
    return np.array([bool(matcher.symbol(one)) for one in types.signatures], np.bool_)


def _brought(events: pa.ChunkedArray, ids: Sequence[str]) -> tuple[Array, Floats]:
    """Hash the ids of the events of complex events, with the part of one that each brought."""
    sizes = pc.list_value_length(events).to_numpy()
    values = pc.list_flatten(events)
    columns = pc.struct_field if len(ids) > 1 else lambda one, _: one
    table = pa.table({name: columns(values, i) for i, name in enumerate(ids)})
    return event_hashes(table, ids), np.repeat(1 / sizes, sizes)


def _spend(
    service: Service, stream: Stream, mask: Array, work: Floats, rng: np.random.Generator
) -> tuple[float, float]:
    """Add the times of the events that a pattern keeps; give their sum and that of squares."""
    if not service.seconds.get(stream, 0.0):
        return 0.0, 0.0
    places = np.flatnonzero(mask)
    seconds = _drawn(service, stream, len(places), rng)
    work[places] += seconds
    return float(seconds.sum()), dot(seconds, seconds)


def _drawn(service: Service, stream: Stream, number: int, rng: np.random.Generator) -> Floats:
    mean = service.seconds[stream]
    if service.kind is ServiceKind.EXPONENTIAL:
        return rng.exponential(mean, number)
    if service.kind is ServiceKind.MEASURED:
        samples = np.array(service.samples[stream])
        return rng.choice(samples * (mean / samples.mean()), number)
    return np.full(number, mean)


__all__ = ["ID", "Channel", "Server", "ServiceBatch"]

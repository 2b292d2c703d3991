"""An operator in a simulation: what arrives, what is kept, how long that takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.automaton.intake import Input
from shedlight.automaton.matching import Ready
from shedlight.automaton.operator import (
    Operator,
    OperatorState,
    build_operator,
    match_ready,
    new_operator_state,
    take_in,
)
from shedlight.automaton.pools import Array
from shedlight.automaton.selection import EVENTS, ID, TIME
from shedlight.engines.simulator.values import Service, ServiceKind
from shedlight.graph.application import OperatorSpec, Stream
from shedlight.language.pattern import Span
from shedlight.model.needs import Floats, dot
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
class Batch:
    """Events that are ready at a station, and what was decided about them.

    Attributes:
        ready: The events.
        arrivals: When each arrived, in seconds.
        service: How long each takes, in seconds.
        spent: Seconds that each pattern takes, and the sum of their squares.
        masks: Which of them each pattern keeps.
        unknown: Types that the shares did not know, by pattern.
    """

    ready: Ready
    arrivals: Floats
    service: Floats
    spent: Mapping[Stream, tuple[float, float]]
    masks: Mapping[str, Array]
    unknown: Mapping[Stream, tuple[str, ...]]


class Station:
    """An operator at work in virtual time.

    Args:
        spec: What the application says of it.
        inputs: Its inputs with the schema of each.
        windows: The longest window of all patterns of each key, in microseconds.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        inputs: list[tuple[Input, pa.Schema]],
        windows: Mapping[str, int],
    ) -> None:
        self.spec = spec
        self.operator: Operator = build_operator(inputs, spec.patterns)
        self.state: OperatorState = new_operator_state(self.operator)
        self.channels = {stream: Channel() for stream in spec.inputs if stream.operator}
        self._windows = windows
        self._departed: tuple[Array, Floats] = (np.zeros(0, np.int64), np.zeros(0))

    def schema(self, name: str) -> pa.Schema:
        """Give the columns of the complex events of a pattern."""
        state = new_operator_state(self.operator)
        state, ready, _ = take_in(self.operator, state, {}, frozenset())
        _, found = match_ready(self.operator, state, ready, {})
        return found[name].drop_columns([EVENTS]).schema

    def take(
        self,
        tables: Mapping[int, pa.Table],
        ended: frozenset[int],
        shares: Shares,
        service: tuple[Service, np.random.Generator],
    ) -> Batch:
        """Take in what arrived, and decide about what is ready by that."""
        self.state, ready, _ = take_in(self.operator, self.state, tables, ended)
        hashes: dict[str, Array] = {}
        masks, unknown, spent = {}, {}, {}
        work = np.zeros(len(ready.time))
        times, rng = service
        for stream in self.spec.outputs:
            mine = shares.get(stream)
            mask = _used(self.operator, stream.name, ready)
            if mine is not None:
                kept = kept_events(
                    mine, ready.types, ready.numbers, self._hashes(ready, stream, mine, hashes)
                )
                mask &= kept.mask
                unknown[stream] = kept.unknown
            masks[stream.name] = mask
            seconds = _drawn(times, stream, int(mask.sum()), rng)
            spent[stream] = (float(seconds.sum()), dot(seconds, seconds))
            work[mask] += seconds
        return Batch(ready, self._arrived(ready), work, spent, masks, unknown)

    def _hashes(
        self, ready: Ready, stream: Stream, shares: PatternShares, known: dict[str, Array]
    ) -> Array:
        key = self.spec.patterns[stream.name].partition_by if shares.by_key else ()
        name = ", ".join(map(str, key))
        if name not in known:
            if key:
                known[name] = key_hashes(ready.table, key, ready.time, self._windows[name])
            else:
                known[name] = event_hashes(ready.table, self.operator.ids)
        return known[name]

    def _arrived(self, ready: Ready) -> Floats:
        arrivals = ready.time / _SECOND
        for number, stream in enumerate(self.spec.inputs):
            if stream in self.channels:
                mine = ready.inputs == number
                arrivals[mine] = self.channels[stream].arrived(ready.time[mine])
        return arrivals

    def match(self, batch: Batch, departures: Floats) -> dict[Stream, tuple[pa.Table, Floats]]:
        """Match what is ready; give complex events with the times at which they leave."""
        self.state, found = match_ready(self.operator, self.state, batch.ready, batch.masks)
        self._departed = (
            np.concatenate([self._departed[0][-1:], batch.ready.time]),
            np.concatenate([self._departed[1][-1:], departures]),
        )
        times, leave = self._departed
        leave = np.maximum.accumulate(leave) if len(leave) else leave
        results = {}
        for stream in self.spec.outputs:
            table = found[stream.name].drop_columns([EVENTS])
            at = np.searchsorted(times, table[TIME].to_numpy(), side="right") - 1
            results[stream] = (table, leave[np.maximum(at, 0)] if len(leave) else np.zeros(0))
        return results


def _used(operator: Operator, name: str, ready: Ready) -> Array:
    """Say which events a pattern has any use for."""
    matcher = next(one for one in operator.matchers if one.name == name)
    uses = [bool(matcher.symbol(signature)) for signature in ready.types.signatures]
    within = matcher.pattern.within
    if within is not None and within.span is Span.EVENTS:
        uses = [True] * len(uses)
    return np.array(uses, np.bool_)[ready.numbers]


def _drawn(service: Service, stream: Stream, number: int, rng: np.random.Generator) -> Floats:
    mean = service.seconds.get(stream, 0.0)
    if service.kind is ServiceKind.EXPONENTIAL and mean:
        return rng.exponential(mean, number)
    return np.full(number, mean)


__all__ = ["ID", "Batch", "Channel", "Station"]

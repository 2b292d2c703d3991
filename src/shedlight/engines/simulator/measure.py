"""How long the matcher takes for an event here and now, pattern by pattern.

Events are given to it one by one, as a node with a queue takes them, so each is timed by
itself. An engine that takes many at once, as Spark does, needs far less for each of them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

import pyarrow as pa

from shedlight.engines.simulator.prepare import prepare_run
from shedlight.graph import Application, Stream, operator_order
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.kernel.match_state import MatchState, new_state
from shedlight.matching.operators.cep_operator import (
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import ReadyBatch, match
from shedlight.matching.output.complex_events import ID, TIME, complex_events

Clock = Callable[[], float]

SAMPLE = 5_000  # how many events of each source the patterns are given, one by one
BATCH = 50_000  # how many they are given at once
_TIMED, _WARM = 300, 20  # how many events of a pattern are timed, after how many that are not
_BATCHES = 3  # how many times a batch is timed, of which the median counts


def measure_service_times(
    application: Application,
    tables: Mapping[str, pa.Table],
    patterns: Collection[Stream],
    clock: Clock = time.perf_counter,
) -> Mapping[Stream, tuple[float, ...]]:
    """Measure how many seconds patterns take for single events; none where none is relevant."""
    return {
        stream: tuple(_time_events(offer, clock))
        for stream, offer in _offers(application, tables, SAMPLE)
        if stream in patterns
    }


def measure_batch_times(
    application: Application,
    tables: Mapping[str, pa.Table],
    patterns: Collection[Stream],
    clock: Clock = time.perf_counter,
) -> Mapping[Stream, float]:
    """Measure how many seconds patterns take for an event where they are given many at once.

    A pattern to which none is relevant is left out.
    """
    return {
        stream: _time_batch(offer, clock)
        for stream, offer in _offers(application, tables, BATCH)
        if stream in patterns and len(offer.rows)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """A pattern, and the events that it is given."""

    matcher: Matcher
    ready: ReadyBatch
    rows: list[int]  # those that it can take
    ids: tuple[str, ...]

    def match(self, state: MatchState, events: ReadyBatch) -> MatchState:
        """Match some of the events, and make complex events of what is found."""
        state, matches = match(self.matcher, state, events)
        complex_events(self.matcher, matches, self.ids, with_event_ids=False)
        return state


def _offers(
    application: Application, tables: Mapping[str, pa.Table], number: int
) -> Iterator[tuple[Stream, _Offer]]:
    """Give all patterns, with what they are given of so many events of each source."""
    sample = {name: table.slice(0, number) for name, table in tables.items()}
    prepared = prepare_run(application, sample)
    streams = {Stream(name): source for name, source in prepared.sources.items()}
    for spec in operator_order(prepared.application):
        inputs = [streams[stream] for stream in spec.inputs]
        operator = build_operator([(s, t.schema) for s, t in inputs], spec.patterns)
        arrivals = {i: table for i, (_, table) in enumerate(inputs)}
        state, ready, _ = ingest(
            operator, new_operator_state(operator), arrivals, frozenset(arrivals)
        )
        for matcher in operator.matchers:
            relevant = [bool(matcher.symbol(each)) for each in ready.types.signatures]
            rows = [i for i, n in enumerate(ready.numbers.tolist()) if relevant[n]]
            yield Stream(matcher.name, spec.name), _Offer(matcher, ready, rows, operator.ids)
        _, results = match_batch(operator, state, ready, {}, spec.patterns)
        for stream in spec.outputs:
            streams[stream] = (StreamInput(str(stream), (ID,), TIME), results[stream.name])


def _time_events(offer: _Offer, clock: Clock) -> Iterator[float]:
    """Time the first events that a pattern can take, one by one."""
    state, ready = new_state(offer.matcher), offer.ready
    for count, row in enumerate(offer.rows[: _WARM + _TIMED]):
        event = ready.between(row, row + 1, int(ready.time[row]))
        began = clock()
        state = offer.match(state, event)
        seconds = clock() - began
        if count >= min(_WARM, len(offer.rows) - 1):
            yield seconds


def _time_batch(offer: _Offer, clock: Clock) -> float:
    """Time all events at once; give what one takes that the pattern can take."""
    offer.match(new_state(offer.matcher), offer.ready)  # kernels are loaded
    seconds = []
    for _ in range(_BATCHES):
        began = clock()
        offer.match(new_state(offer.matcher), offer.ready)
        seconds.append(clock() - began)
    return median(seconds) / len(offer.rows)

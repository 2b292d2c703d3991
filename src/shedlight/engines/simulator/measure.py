"""How long the matcher takes for an event here and now, pattern by pattern.

Events are given to it one by one, as a node in a simulation takes them, so each is timed by
itself. An engine that takes many at once needs far less for each of them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping

import pyarrow as pa

from shedlight.engines.simulator.prepare import prepare_run
from shedlight.graph import Application, Stream, operator_order
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.kernel.match_state import new_state
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

SAMPLE = 5_000  # how many events of each source the patterns are given
_TIMED, _WARM = 300, 20  # how many events of a pattern are timed, after how many that are not


def measure_service_times(
    application: Application,
    tables: Mapping[str, pa.Table],
    patterns: Collection[Stream],
    clock: Clock = time.perf_counter,
) -> Mapping[Stream, tuple[float, ...]]:
    """Measure how many seconds patterns take for single events; none where none is relevant."""
    sample = {name: table.slice(0, SAMPLE) for name, table in tables.items()}
    prepared = prepare_run(application, sample)
    streams = {Stream(name): source for name, source in prepared.sources.items()}
    seconds: dict[Stream, tuple[float, ...]] = {}
    for spec in operator_order(prepared.application):
        inputs = [streams[stream] for stream in spec.inputs]
        operator = build_operator([(s, t.schema) for s, t in inputs], spec.patterns)
        arrivals = {i: table for i, (_, table) in enumerate(inputs)}
        state, ready, _ = ingest(
            operator, new_operator_state(operator), arrivals, frozenset(arrivals)
        )
        for matcher in operator.matchers:
            stream = Stream(matcher.name, spec.name)
            if stream in patterns:
                seconds[stream] = tuple(_timed(matcher, ready, operator.ids, clock))
        _, results = match_batch(operator, state, ready, {}, spec.patterns)
        for stream in spec.outputs:
            streams[stream] = (StreamInput(str(stream), (ID,), TIME), results[stream.name])
    return seconds


def _timed(
    matcher: Matcher, ready: ReadyBatch, ids: tuple[str, ...], clock: Clock
) -> Iterator[float]:
    """Time the first events that a pattern can take, one by one."""
    is_relevant = [bool(matcher.symbol(signature)) for signature in ready.types.signatures]
    rows = [i for i, number in enumerate(ready.numbers.tolist()) if is_relevant[number]]
    state = new_state(matcher)
    for count, row in enumerate(rows[: _WARM + _TIMED]):
        event = ready.between(row, row + 1, int(ready.time[row]))
        began = clock()
        state, matches = match(matcher, state, event)
        complex_events(matcher, matches, ids, with_event_ids=False)
        seconds = clock() - began
        if count >= min(_WARM, len(rows) - 1):
            yield seconds

"""The metrics of a shard in a micro-batch, which travel to the driver as JSON."""

import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from shedlight.engines.spark.step.sample_counts import SampleMetrics
from shedlight.engines.spark.step.strata_counts import StrataBatch, StrataMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.type_labels import OTHER
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.operators.cep_operator import CepOperator, Masks, OperatorState
from shedlight.matching.operators.classify import count_numbers
from shedlight.matching.operators.step import ReadyBatch, count_partial_matches
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.shadow import KeyRecorder

METRICS = "metrics"  # the name under which Spark observes the metrics of all shards


@dataclass(frozen=True, slots=True)
class PatternMetrics:
    """The metrics of a pattern."""

    kept: Mapping[str, int]  # relevant events that it kept, by the label of their type
    seconds: float  # how long matching took
    found: int  # how many complex events it found
    partial_matches: int  # how many partial matches there are
    evicted: int  # how many of them the cap has evicted since the beginning
    dropped: int  # how many assignments were beyond the cap since the beginning
    cancelled: int = 0  # how many partial matches were cancelled in this micro-batch


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """The metrics of an operator."""

    ready: int  # how many events were ready
    reorder_buffer: int  # how many wait in the reorder buffer
    late: int  # how many were late since the beginning
    duplicates: int  # how many came twice since the beginning
    patterns: Mapping[str, PatternMetrics]  # the metrics of each pattern
    # how many were ready of each type, before any was shed, from each input whose events are
    # not counted before they come here
    types: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    strata: StrataMetrics | None = None  # of its keys, if they are shed in strata


@dataclass(frozen=True, slots=True)
class ShardMetrics:
    """The metrics of a shard."""

    shard: int  # its number
    seconds: float  # how long all of the step took
    state: int  # how many bytes the state has
    operators: Mapping[str, OperatorMetrics] = field(default_factory=dict)
    # when the events had arrived that were kept of each stream from outside
    kept: Mapping[str, ArrivalSketch] = field(default_factory=dict)
    parallelism_ratio: float = 1.0  # wall seconds over the seconds of all its operators
    # what it counted of the unshed sample, by pattern
    samples: Mapping[str, SampleMetrics] = field(default_factory=dict)
    # the bytes of the complex events of each pattern that other nodes read by channels
    sent: Mapping[str, int] = field(default_factory=dict)


METRICS_JSON = TypeAdapter(ShardMetrics)  # writes and reads them


class MetricsCounter:
    """Counts at an operator while it matches."""

    def __init__(
        self,
        spec: OperatorSpec,
        operator: CepOperator,
        before: OperatorState,
        uncounted: Container[Stream] = (),
    ) -> None:
        self._cancelled = [count_partial_matches(state).cancelled for state in before.states]
        self._ready = 0
        self._types: dict[str, Counter[str]] = defaultdict(Counter)
        self._uncounted = [(n, str(s)) for n, s in enumerate(spec.inputs) if s in uncounted]
        self._strata: StrataBatch | None = None
        self._kept: dict[str, Counter[str]] = {name: Counter() for name in spec.patterns}
        self._seconds = dict.fromkeys(spec.patterns, 0.0)
        self._found = dict.fromkeys(spec.patterns, 0)
        self._matchers, self._dispatch = operator.matchers, operator.dispatch
        self._pattern_start = 0.0

    def starts(self, ready: ReadyBatch, masks: Masks, emitted: Array | None = None) -> None:
        """Count what is ready, and start the clock; what was not emitted is not there."""
        self._ready += len(ready.time)
        signatures, numbers = ready.types.signatures, ready.numbers
        for number, name in self._uncounted:
            mine = ready.inputs == number
            mine = mine if emitted is None else mine & emitted
            counts = count_numbers(numbers, len(signatures), mine)
            _add_counts(self._types[name], ready, counts)
        all_counts = count_numbers(numbers, len(signatures))
        for number in np.flatnonzero(all_counts).tolist():
            label, count = ready.types.label(number), int(all_counts[number])
            for pattern in self._dispatch.uses(signatures[number]).patterns.tolist():
                name = self._matchers[pattern].name
                if name not in masks:
                    self._kept[name][label] += count
        for matcher in self._matchers:
            if matcher.name in masks:
                counts = count_numbers(numbers, len(signatures), masks[matcher.name])
                _add_counts(self._kept[matcher.name], ready, counts, matcher)
        self._pattern_start = time.perf_counter()

    def count_strata(
        self, found: FoundKeys | None, ready: ReadyBatch, masks: Masks, emitted: Array | None
    ) -> KeyRecorder | None:
        """Count strata of keys, too; give what records the keys of results for that."""
        if found is None:
            return None
        self._strata = StrataBatch(found.table, self._matchers, ready, masks, emitted)
        return KeyRecorder()

    def is_done(self, matcher: Matcher, state: MatchState, found: pa.Table) -> None:  # noqa: ARG002
        """Take down how long a pattern took and how many matches it found."""
        now = time.perf_counter()
        self._seconds[matcher.name] += now - self._pattern_start
        self._found[matcher.name] += len(found)
        self._pattern_start = now

    def is_matched_again(self, matcher: Matcher, state: MatchState, found: pa.Table) -> None:  # noqa: ARG002
        """Add how long a pattern took for the unshed sample."""
        now = time.perf_counter()
        self._seconds[matcher.name] += now - self._pattern_start
        self._pattern_start = now

    def metrics(
        self,
        state: OperatorState,
        keys: Mapping[str, Array] | None = None,
        opened: Mapping[str, str] | None = None,
    ) -> OperatorMetrics:
        """Give what was counted, with the keys of results and of partial matches by pattern."""
        patterns = {}
        each = zip(self._matchers, state.states, self._cancelled, strict=True)
        for matcher, match_state, cancelled_before in each:
            counts, name = count_partial_matches(match_state), matcher.name
            patterns[name] = PatternMetrics(
                self._kept[name],
                self._seconds[name],
                self._found[name],
                counts.open,
                counts.evicted,
                counts.dropped,
                counts.cancelled - cancelled_before,
            )
        buffer = state.reorder_buffer
        late, duplicates = sum(buffer.late), sum(buffer.duplicates)
        strata = None
        if self._strata is not None:
            numbers = [number for number, _ in self._uncounted]
            strata = self._strata.metrics(keys or {}, numbers, opened or {})
        return OperatorMetrics(
            self._ready, len(buffer.buffer), late, duplicates, patterns, self._types, strata
        )


def _add_counts(
    by_label: Counter[str], ready: ReadyBatch, counts: Array, matcher: Matcher | None = None
) -> None:
    """Add counts by number to those by label, of the types that a pattern can take."""
    for number in np.flatnonzero(counts).tolist():
        if matcher is None or matcher.symbol(ready.types.signatures[number]):
            by_label[ready.types.label(number) or ("" if matcher else OTHER)] += int(
                counts[number]
            )


def of_pattern(
    shards: Iterable[ShardMetrics], operator: str, pattern: str
) -> list[PatternMetrics]:
    """List what the shards counted of a pattern."""
    return [
        shard.operators[operator].patterns[pattern]
        for shard in shards
        if operator in shard.operators
    ]

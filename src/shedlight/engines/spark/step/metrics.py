"""The metrics of a shard in a micro-batch, which travel to the driver as JSON."""

import json
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.type_labels import OTHER
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.operators.cep_operator import Masks, Operator, OperatorState
from shedlight.matching.operators.classify import count_numbers
from shedlight.matching.operators.step import ReadyBatch, count_partial_matches

METRICS = "metrics"
"""The name under which Spark observes the metrics of all shards."""


@dataclass(frozen=True, slots=True)
class PatternMetrics:
    """The metrics of a pattern.

    Attributes:
        kept: Relevant events that it kept, by the label of their type.
        seconds: How long matching took.
        found: How many complex events it found.
        partial_matches: How many partial matches there are.
        evicted: How many of them the cap has evicted since the beginning.
        dropped: How many assignments were beyond the cap since the beginning.
    """

    kept: Mapping[str, int]
    seconds: float
    found: int
    partial_matches: int
    evicted: int
    dropped: int


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """The metrics of an operator.

    Attributes:
        ready: How many events were ready.
        reorder_buffer: How many wait in the reorder buffer.
        late: How many were late since the beginning.
        duplicates: How many came twice since the beginning.
        patterns: The metrics of each pattern.
        types: How many were ready of each type, before any was shed, from each input whose
            events are not counted before they come here.
    """

    ready: int
    reorder_buffer: int
    late: int
    duplicates: int
    patterns: Mapping[str, PatternMetrics]
    types: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardMetrics:
    """The metrics of a shard.

    Attributes:
        shard: Its number.
        seconds: How long all of the step took.
        state: How many bytes the state has.
        operators: The metrics of each operator.
        kept: When the events had arrived that were kept of each stream from outside.
        parallelism_ratio: Wall seconds over the seconds of all its operators; less than 1 if
            some ran in parallel.
    """

    shard: int
    seconds: float
    state: int
    operators: Mapping[str, OperatorMetrics] = field(default_factory=dict)
    kept: Mapping[str, ArrivalSketch] = field(default_factory=dict)
    parallelism_ratio: float = 1.0

    def encoded(self) -> str:
        """Write it as text."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decoded(text: str) -> ShardMetrics:
    """Read what `ShardMetrics.encoded` wrote."""
    found: dict[str, Any] = json.loads(text)
    operators = {
        name: OperatorMetrics(
            **{
                **one,
                "patterns": {key: PatternMetrics(**of) for key, of in one["patterns"].items()},
            }
        )
        for name, one in found["operators"].items()
    }
    kept = {
        name: ArrivalSketch(one["number"], one["mean"], tuple(one["points"]))
        for name, one in found["kept"].items()
    }
    numbers = (found["shard"], found["seconds"], found["state"])
    return ShardMetrics(*numbers, operators, kept, found["parallelism_ratio"])


class MetricsCounter:
    """Counts at an operator while it matches."""

    def __init__(
        self, spec: OperatorSpec, operator: Operator, uncounted: Container[Stream] = ()
    ) -> None:
        self._ready = 0
        self._types: dict[str, dict[str, int]] = {}
        self._uncounted = [
            (number, str(stream))
            for number, stream in enumerate(spec.inputs)
            if stream in uncounted
        ]
        self._kept: dict[str, dict[str, int]] = {name: {} for name in spec.patterns}
        self._seconds = dict.fromkeys(spec.patterns, 0.0)
        self._found = dict.fromkeys(spec.patterns, 0)
        self._matchers = operator.matchers
        self._since = 0.0

    def starts(self, ready: ReadyBatch, masks: Masks) -> None:
        """Count what is ready, and start the clock."""
        self._ready += len(ready.time)
        signatures, numbers = ready.types.signatures, ready.numbers
        for number, name in self._uncounted:
            counts = count_numbers(numbers, len(signatures), ready.inputs == number)
            _add(self._types.setdefault(name, {}), ready, counts)
        every = count_numbers(numbers, len(signatures))
        for matcher in self._matchers:
            mask, counts = masks.get(matcher.name), every
            if mask is not None:
                counts = count_numbers(numbers, len(signatures), mask)
            kept = self._kept[matcher.name]
            for number in np.flatnonzero(counts).tolist():
                if matcher.symbol(signatures[number]):
                    label = ready.types.label(number)
                    kept[label] = kept.get(label, 0) + int(counts[number])
        self._since = time.perf_counter()

    def is_done(self, matcher: Matcher, state: MatchState, found: pa.Table) -> None:  # noqa: ARG002
        """Take down how long a pattern took and what it found."""
        now = time.perf_counter()
        self._seconds[matcher.name] += now - self._since
        self._found[matcher.name] += len(found)
        self._since = now

    def metrics(self, state: OperatorState) -> OperatorMetrics:
        """Give what was counted."""
        patterns = {}
        for matcher, one in zip(self._matchers, state.states, strict=True):
            counts, name = count_partial_matches(one), matcher.name
            patterns[name] = PatternMetrics(
                self._kept[name],
                self._seconds[name],
                self._found[name],
                counts.open,
                counts.evicted,
                counts.dropped,
            )
        reorder_buffer = state.reorder_buffer
        return OperatorMetrics(
            self._ready,
            len(reorder_buffer.buffer),
            sum(reorder_buffer.late),
            sum(reorder_buffer.duplicates),
            patterns,
            self._types,
        )


def _add(by_label: dict[str, int], ready: ReadyBatch, counts: Array) -> None:
    for number in np.flatnonzero(counts).tolist():
        label = ready.types.label(number) or OTHER
        by_label[label] = by_label.get(label, 0) + int(counts[number])


def of_pattern(
    shards: Iterable[ShardMetrics], operator: str, pattern: str
) -> list[PatternMetrics]:
    """List what the shards counted of a pattern."""
    return [
        shard.operators[operator].patterns[pattern]
        for shard in shards
        if operator in shard.operators
    ]

"""The sample's keys matched a second time, with the plan's mask, next to the matching proper.

A shadow has a state of its own and the same operator, of which it runs the patterns that keep
the sample. It goes batch by batch with the matching proper: it gets the sample's events of
those that are ready there, the complex events of the shadows upstream, and the same watermark.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    Masks,
    MatchStep,
    OperatorState,
    ingest,
    match_batch,
)
from shedlight.matching.operators.step import ReadyBatch, match
from shedlight.matching.output.complex_events import ID
from shedlight.matching.output.matches import Matches
from shedlight.shedding.estimate import KeyedResults


@dataclass(frozen=True, slots=True)
class KeyRecorder:
    """Matches as always, and records the key of each complex event."""

    keys: dict[str, Array] = field(default_factory=dict)  # their hashes, by pattern

    def steps(self, operator: CepOperator) -> Mapping[str, MatchStep]:
        """Give what matches the patterns of an operator."""
        return {matcher.name: self._match for matcher in operator.matchers}

    def results(self, name: str, table: pa.Table) -> KeyedResults:
        """Give the complex events of a pattern with their keys."""
        return KeyedResults(table[ID], self.keys[name])

    def _match(
        self, matcher: Matcher, state: MatchState, ready: ReadyBatch, kept: Array | None
    ) -> tuple[MatchState, list[Matches]]:
        state, matches = match(matcher, state, ready, kept)
        keys = matches.key
        if matcher.pattern.each:  # a complex event for each event of a match
            keys = np.repeat(keys, np.diff(matches.ends, prepend=0))
        self.keys[matcher.name] = keys
        return state, [matches]


def shadow_operator(operator: CepOperator, patterns: Collection[str]) -> CepOperator:
    """Give an operator with some of its patterns; event types stay what they are."""
    chosen = tuple(each for each in operator.matchers if each.name in patterns)
    return replace(operator, matchers=chosen)


def sampled_events(
    ready: ReadyBatch, chosen: Array, sources: Collection[int]
) -> dict[int, pa.Table]:
    """Give the chosen ones of the events that are ready, of inputs that are sources."""
    tables = {}
    for number in sources:
        positions = np.flatnonzero(chosen & (ready.inputs == number))
        if len(positions):
            tables[number] = ready.table.table.take(pa.array(ready.table.rows(positions)))
    return tables


def match_shadow(
    operator: CepOperator,
    state: OperatorState,
    arrivals: Mapping[int, pa.Table],
    watermark: int,
    decide: Callable[[ReadyBatch], Masks],
) -> tuple[OperatorState, Mapping[str, pa.Table], KeyRecorder]:
    """Match the sample's events with the plan's mask, as far as the matching proper is.

    Arrivals are those of `sampled_events` and complex events of shadows upstream; the mask is
    decided for what is ready of them.
    """
    marks = [watermark] * len(operator.inputs)
    state, ready, _ = ingest(operator, state, arrivals, watermarks=marks)
    recorder = KeyRecorder()
    names = [matcher.name for matcher in operator.matchers]
    state, tables = match_batch(
        operator, state, ready, decide(ready), names, steps=recorder.steps(operator)
    )
    return state, tables, recorder

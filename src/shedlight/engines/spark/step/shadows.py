"""Shadows in a shard: the sample's keys matched again by the plan alone.

A shadow has partial matches of its own and sees the same batches as the matching proper. As
long as the plan would have shed nothing of the sample's keys it would find what is found
anyway: so it begins with the first event that the plan would have shed, from the partial
matches that these keys have then.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.spark.step.keep_flags import KeepMasks
from shedlight.engines.spark.step.sample_counts import PatternSample, ResultCounts, covered_time
from shedlight.engines.spark.support.sample_spec import BY_PLAN, EMITTED, FOUND, SampleSpec
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, cancel, open_keys
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    Masks,
    MatchStep,
    OperatorState,
    match_batch,
)
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.output.complex_events import ID
from shedlight.shedding.estimate import KeyedResults, count_results
from shedlight.shedding.shadow import KeyRecorder, shadow_operator

Samples = Mapping[Stream, PatternSample]
OnPatternDone = Callable[[Matcher, MatchState, pa.Table], None]


def choose_events(
    sample: SampleSpec, spec: OperatorSpec, ready: ReadyBatch, heavy: Array
) -> dict[str, Array]:
    """Say which events are of the sample, by pattern that keeps it."""
    chosen: dict[str, Array] = {}
    for key, numbers in sample.numbers_by_key(spec).items():
        mask = sample.choose(ready.keys[key][0], heavy)
        chosen |= {spec.outputs[number].name: mask for number in numbers}
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class SampledBatch:
    """A batch of an operator, as shadows see it."""

    sample: SampleSpec
    spec: OperatorSpec
    operator: CepOperator
    before: OperatorState  # before the batch was matched
    since: int  # the watermark before it
    ready: ReadyBatch
    masks: KeepMasks
    chosen: Masks  # which events are of the sample, by pattern that keeps it
    heavy: Array  # the hashes of heavy hitters
    recorder: KeyRecorder = field(default_factory=KeyRecorder)

    @property
    def steps(self) -> Mapping[str, MatchStep]:
        """What matches the patterns that keep the sample: it records the keys of results."""
        if not self.chosen:
            return {}
        return self.recorder.steps(shadow_operator(self.operator, self.chosen))

    def finish(
        self,
        samples: Samples,
        outputs: Mapping[str, pa.Table],
        without_event_ids: Container[str],
        on_pattern_done: OnPatternDone,
    ) -> tuple[Samples, Mapping[str, pa.Table]]:
        """Match the sample again once the batch is matched, and count its results.

        Gives what is held of the sample then, and complex events as they are sent on.
        """
        if not self.chosen:
            return samples, outputs
        held, found = self._match(samples, without_event_ids, on_pattern_done)
        sent = dict(outputs)
        for name in self.chosen:
            stream, table = Stream(name, self.spec.name), outputs[name]
            masked, keyed = found.get(name, (None, None))
            if stream in self.sample.sunk:
                results = self.recorder.results(name, table)
                held[stream] = self._count(held.get(stream, PatternSample()), results, keyed)
            if stream in self.sample.marked:
                sent[name] = self._mark(table, self.recorder.keys[name], masked)
        return held, sent

    def _match(
        self, samples: Samples, without_event_ids: Container[str], on_done: OnPatternDone
    ) -> tuple[dict[Stream, PatternSample], Mapping[str, tuple[pa.Table, KeyedResults]]]:
        """Match again; give the shadows after it and what they found, by pattern.

        What a pattern without a shadow would have found is not in it.
        """
        shadows = self._shadows(samples)
        if not shadows:
            return dict(samples), {}
        masks = {name: self._mask(name) for name in shadows}
        positions = np.flatnonzero(np.any(list(masks.values()), axis=0))
        operator, recorder = shadow_operator(self.operator, shadows), KeyRecorder()
        state, tables = match_batch(
            operator,
            replace(self.before, states=tuple(shadows.values())),
            self.ready.select(positions),
            {name: mask[positions] for name, mask in masks.items()},
            without_event_ids,
            on_pattern_done=on_done,
            steps=recorder.steps(operator),
        )
        after = dict(samples)
        for name, shadow in zip(shadows, state.states, strict=True):
            stream = Stream(name, self.spec.name)
            after[stream] = replace(after.get(stream, PatternSample()), shadow=shadow)
        found = {name: (table, recorder.results(name, table)) for name, table in tables.items()}
        return after, found

    def _shadows(self, samples: Samples) -> dict[str, MatchState]:
        """Give the shadows of patterns that have one, or have one from now on."""
        shadows = {}
        for matcher, state in zip(self.operator.matchers, self.before.states, strict=True):
            held = samples.get(Stream(matcher.name, self.spec.name))
            if held is not None and held.shadow is not None:
                shadows[matcher.name] = held.shadow
            elif matcher.name in self.chosen and self._is_shed(matcher.name):
                shadows[matcher.name] = self._begin(matcher, state)
        return shadows

    def _mask(self, name: str) -> Array:
        mask = self.masks.by_plan.get(name)
        return self.chosen[name] if mask is None else self.chosen[name] & mask

    def _is_shed(self, name: str) -> bool:
        """Say whether the plan alone would have shed an event of the sample, or one is new."""
        kept, chosen = self.masks.kept.get(name), self.chosen[name]
        if kept is None and name not in self.masks.by_plan:
            return False
        mine = chosen if kept is None else chosen & kept
        return not np.array_equal(mine, self._mask(name))

    def _begin(self, matcher: Matcher, state: MatchState) -> MatchState:
        """Begin a shadow with the partial matches of the sample's keys."""
        keys = open_keys(state)
        chosen = self.sample.choose(np.ascontiguousarray(keys[:, 0]), self.heavy)
        return state if chosen.all() else cancel(matcher, state, keys[~chosen])

    def _count(
        self, held: PatternSample, results: KeyedResults, masked: KeyedResults | None
    ) -> PatternSample:
        """Count results of a pattern: all that it found, and what its shadow did."""
        chosen = self.sample.choose(results.keys, self.heavy)
        unshed = KeyedResults(results.ids.filter(pa.array(chosen)), results.keys[chosen])
        heavy = int(np.isin(results.keys, self.heavy).sum()) if len(self.heavy) else 0
        counts = count_results(unshed, unshed if masked is None else masked)
        return held.count(ResultCounts(*covered_time(self.ready, self.since), counts, heavy))

    def _mark(self, table: pa.Table, keys: Array, masked: pa.Table | None) -> pa.Table:
        """Say of complex events how they were found, and add what only a shadow found."""
        found = np.full(len(table), EMITTED | BY_PLAN, np.int8)
        if masked is None:
            return table.append_column(FOUND, pa.array(found))
        ids, others = table[ID].combine_chunks(), masked[ID].combine_chunks()
        only = np.asarray(pc.invert(pc.is_in(ids, value_set=others)))
        found[only & self.sample.choose(keys, self.heavy)] = EMITTED
        new = masked.filter(pc.invert(pc.is_in(others, value_set=ids)))
        added = new.append_column(FOUND, pa.array(np.full(len(new), BY_PLAN, np.int8)))
        return pa.concat_tables([table.append_column(FOUND, pa.array(found)), added])

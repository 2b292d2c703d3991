"""The unshed sample in a simulation: which keys are kept, their shadow, what that says."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator.channel import Channel
from shedlight.engines.simulator.decide import Decider
from shedlight.engines.simulator.sampled_keys import SampledKeys
from shedlight.graph import Application, Stream
from shedlight.graph.application import OperatorSpec
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import open_keys
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    Masks,
    OperatorState,
    new_operator_state,
)
from shedlight.matching.operators.classify import gather
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.estimate import (
    KeyedResults,
    SampleCounts,
    SinkEstimate,
    add_counts,
    count_results,
    estimate_sink,
)
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shadow import (
    KeyRecorder,
    match_shadow,
    sampled_events,
)
from shedlight.shedding.shares import Shares
from shedlight.shedding.stratum_shares import StrataTable
from shedlight.shedding.unshed_sample import choose_keys


class Shadow:
    """An operator's patterns matched again with the plan's mask, for the sample's keys.

    Args:
        spec: What the application says of the operator.
        operator: The same, compiled.
        decider: Decides for its patterns as if there was no sample.
        keys: The sample.
    """

    def __init__(
        self, spec: OperatorSpec, operator: CepOperator, decider: Decider, keys: SampledKeys
    ) -> None:
        self.channels = {s: Channel() for s in spec.inputs if s in keys.groups}
        self._spec, self._operator, self.decider, self._keys = spec, operator, decider, keys
        self._state = new_operator_state(operator)

    def set_strata(self, table: StrataTable) -> None:
        """Shed keys by these strata from now on."""
        self.decider.table = table
        self.decider.open_keys = find_open_keys(self._operator, self._state)

    def step(
        self, ready: ReadyBatch, end: float, shares: Shares, admitted: Array | None
    ) -> tuple[Mapping[str, pa.Table], KeyRecorder]:
        """Match what is ready by the matching proper, and what shadows sent before a time.

        Where events were admitted one by one, an event is admitted if that of its time was.
        """
        chosen = np.zeros(len(ready.time), np.bool_)
        for matcher in self._operator.matchers:
            chosen |= self._chosen(matcher, ready)
        numbers = {stream: number for number, stream in enumerate(self._spec.inputs)}
        sources = [n for stream, n in numbers.items() if stream.operator is None]
        arrivals = sampled_events(ready, chosen, sources)
        for stream, channel in self.channels.items():
            if arrived := channel.until(end):
                arrivals[numbers[stream]] = pa.concat_tables(arrived)

        def decide(shadowed: ReadyBatch) -> Masks:
            masks = self.decider.decide(shadowed, ready.watermark, shares).masks
            enters = np.ones(len(shadowed.time), np.bool_)
            if admitted is not None and len(admitted):
                rows = np.searchsorted(ready.time, shadowed.time, side="right") - 1
                never = gather(self.decider.never_shed(shadowed), shadowed.numbers)
                enters = admitted[np.maximum(rows, 0)] | never
            return {
                matcher.name: masks[matcher.name] & enters & self._chosen(matcher, shadowed)
                for matcher in self._operator.matchers
            }

        self._state, tables, recorder = match_shadow(
            self._operator, self._state, arrivals, ready.watermark, decide
        )
        return tables, recorder

    def _chosen(self, matcher: Matcher, ready: ReadyBatch) -> Array:
        keys = ready.keys[matcher.pattern.partition_by][0]
        return self._keys.choose(Stream(matcher.name, self._spec.name), keys)


def find_open_keys(operator: CepOperator, state: OperatorState) -> Mapping[str, KeyBitmap]:
    """Find the keys that have a partial match, by pattern."""
    states = zip(operator.matchers, state.states, strict=True)
    return {matcher.name: KeyBitmap.of(open_keys(each)[:, 0]) for matcher, each in states}


class SampleResults:
    """What came of the sample's keys at the sinks, without the plan's mask and with it."""

    def __init__(self, application: Application, keys: SampledKeys) -> None:
        self._keys = keys
        self._sinks = {name: application.sinks[name].stream for name in keys.sinks.patterns}
        self._counts: dict[Stream, list[SampleCounts]] = {s: [] for s in self._sinks.values()}
        self._all: dict[Stream, list[Array]] = {s: [] for s in self._sinks.values()}

    def add(self, stream: Stream, results: KeyedResults, masked: KeyedResults) -> None:
        """Add the complex events of a pattern in a batch: all of them, and the shadow's."""
        if stream not in self._counts:
            return
        chosen = choose_keys(results.keys, self._keys.share)
        unshed = KeyedResults(results.ids.filter(pa.array(chosen)), results.keys[chosen])
        self._counts[stream].append(count_results(unshed, masked))
        self._all[stream].append(results.keys)

    def estimates(self, seconds: float, seed: int) -> Mapping[str, SinkEstimate]:
        """Say what the sample says of each sink after so many seconds."""
        if not self._keys.share:
            return {}
        unknown = {
            name: SinkEstimate(unknown=problem)
            for name, problem in self._keys.sinks.unknown.items()
        }
        return {name: self._estimate(name, seconds, seed) for name in self._sinks} | unknown

    def _estimate(self, sink: str, seconds: float, seed: int) -> SinkEstimate:
        work, stream = self._keys.work(sink), self._sinks[sink]
        heavy = work.heavy_hitters()
        counts = add_counts(self._counts[stream]).without(heavy)
        got = np.concatenate([np.zeros(0, np.int64), *self._all[stream]])
        return replace(
            estimate_sink(counts, self._keys.share, seconds, seed),
            heavy_hitters=len(heavy),
            heavy_work=work.share_of(heavy),
            heavy_results=int(np.isin(got, heavy).sum()),
        )

"""An operator as a server in virtual time: what arrives, what it keeps, when that leaves."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.simulator.admission import Admission, PatternWork, Requests
from shedlight.engines.simulator.api import Counts
from shedlight.engines.simulator.channel import Channel
from shedlight.engines.simulator.closure_state import ClosureState
from shedlight.engines.simulator.decide import Decided, Decider
from shedlight.engines.simulator.prepare import Pace
from shedlight.engines.simulator.sample import Shadow, find_open_keys
from shedlight.engines.simulator.sampled_keys import SampledKeys
from shedlight.engines.simulator.service import ServiceTimes
from shedlight.graph.application import OperatorSpec, Stream
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.classify import gather
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.output.complex_events import EVENTS, TIME
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.model.arrays import Floats
from shedlight.shedding.estimate import KeyedResults
from shedlight.shedding.guard import has_evicted
from shedlight.shedding.shadow import KeyRecorder, shadow_operator
from shedlight.shedding.shares import Shares
from shedlight.shedding.shedder import event_hashes
from shedlight.shedding.stratum_shares import StrataTable

_SECOND = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class ServiceBatch:
    """Events that are ready at a server, and what was decided about them."""

    ready: ReadyBatch  # the events
    arrivals: Floats  # when each arrived, in seconds
    service: Floats  # how long each takes, in seconds
    # seconds that each pattern takes, and the sum of their squares
    spent: Mapping[Stream, tuple[float, float]]
    decided: Decided  # which of them each pattern keeps
    kept: Array  # which of them some pattern keeps
    relevant: int  # how many of them some pattern can take
    requests: Requests | None = None  # what they ask for, where they are admitted one by one
    not_admitted: int = 0  # how many of them were not
    admitted: Array | None = None  # whether each was; None: all were


class Server:
    """An operator at work in virtual time.

    Windows are the longest of all patterns of each key, in microseconds; of the patterns in
    `timed_out` a sink takes what timed out; without an admission all events are admitted; where
    events are unique, none comes twice. Events of sources arrive by the pace. The sampled keys
    are all kept, and matched again by the shadow.
    """

    def __init__(  # noqa: PLR0913  # what an operator is, and what a simulation asks of it
        self,
        spec: OperatorSpec,
        inputs: list[tuple[StreamInput, pa.Schema]],
        windows: Mapping[str, int],
        timed_out: Collection[Stream],
        closure_state: ClosureState,
        admission: Admission | None,
        *,
        sampled: SampledKeys,
        pace: Pace,
        unique: bool = False,
        lists_events: bool = False,
    ) -> None:
        self.spec, self.admission, self._pace = spec, admission, pace
        reported = {stream.name for stream in spec.outputs if stream in timed_out}
        self.operator: CepOperator = build_operator(inputs, spec.patterns, timed_out=reported)
        self.timed_out: Mapping[Stream, pa.Table] = {}  # in the last batch
        self.state: OperatorState = new_operator_state(self.operator)
        self.channels = {stream: Channel() for stream in spec.inputs if stream.operator}
        self._guarded = {s.name for s in spec.outputs if s in closure_state.guards}
        self.decider = Decider(spec, self.operator, windows, closure_state, sampled)
        self._closure_state = closure_state
        names = [stream.name for stream in spec.outputs if stream in sampled.groups]
        self._sampled = shadow_operator(self.operator, names)
        # in the last batch, of patterns that keep the sample
        self.recorded: Mapping[str, KeyedResults] = {}
        self.records_keys = False  # whether to record the keys of all complex events
        self.result_keys: Mapping[str, Array] = {}  # in the last batch, by pattern
        decider = Decider(spec, self._sampled, windows, closure_state)
        self.shadow = Shadow(spec, self._sampled, decider, sampled) if names else None
        self._arrived = self._processed = self._shed = self._unused = 0
        self._unique, self._lists_events = unique, lists_events
        self._departed: tuple[Array, Floats] = (np.zeros(0, np.int64), np.zeros(0))

    def set_strata(self, table: StrataTable) -> None:
        """Shed keys by these strata from now on."""
        self.decider.table = table
        self.decider.open_keys = find_open_keys(self.operator, self.state)
        if self.shadow is not None:
            self.shadow.set_strata(table)

    def schema(self, name: str) -> pa.Schema:
        """Give the columns of the complex events of a pattern."""
        state = new_operator_state(self.operator)
        state, ready, _ = ingest(self.operator, state, {}, frozenset())
        _, matches = match_batch(
            self.operator, state, ready, {}, self.spec.patterns, with_began=self._guarded
        )
        return matches[name].schema

    def counts(self) -> Counts:
        """Say what became of the events so far."""
        return Counts(
            arrived=self._arrived,
            processed=self._processed,
            shed=self._shed,
            unused=self._unused,
            late=sum(self.state.reorder_buffer.late),
            duplicates=sum(self.state.reorder_buffer.duplicates),
            expired=len(self.state.reorder_buffer.buffer),
        )

    def admit(
        self,
        tables: Mapping[int, pa.Table],
        ended: frozenset[int],
        shares: Shares,
        service_times: ServiceTimes,
    ) -> ServiceBatch:
        """Admit what arrived, by the number of the input, and decide about what is ready."""
        since = self.state.reorder_buffer.watermark
        self.state, ready, _ = ingest(
            self.operator, self.state, tables, ended, unique=self._unique
        )
        decided, spent = self.decider.decide(ready, since, shares), {}
        size = len(ready.time)
        work, kept_by_any, relevant = np.zeros(size), np.zeros(size, np.bool_), 0
        if size:
            by_any = np.any(list(self.decider.relevant(ready).values()), 0)
            relevant = int(np.count_nonzero(gather(by_any, ready.numbers)))
        requests = self._requests(ready, decided, service_times) if self.admission else None
        for stream in self.spec.outputs if requests is None else ():
            mask = decided.masks[stream.name]
            kept_by_any |= mask
            spent[stream] = service_times.spend(stream, mask, work)
            if stream.name in decided.again:
                again = service_times.spend(stream, decided.again[stream.name], work)
                spent[stream] = (spent[stream][0] + again[0], spent[stream][1] + again[1])
        self._arrived += sum(map(len, tables.values()))
        arrivals = self._arrival_times(ready)
        return ServiceBatch(
            ready, arrivals, work, spent, decided, kept_by_any, relevant, requests
        )

    def _requests(
        self, ready: ReadyBatch, decided: Decided, service_times: ServiceTimes
    ) -> Requests:
        """Say what the events of a batch ask for, pattern by pattern."""
        requests = Requests(len(ready.time))
        for stream in self.spec.outputs:
            rows = np.flatnonzero(decided.masks[stream.name])
            exempt = gather(self.decider.never_shed(ready), ready.numbers[rows])
            if self.admission and stream in self.admission.exempt:
                exempt = np.ones(len(rows), np.bool_)
            seconds = service_times.draw(stream, len(rows))
            if (
                stream.name in decided.again
            ):  # the sample is kept, and what waits is matched twice
                exempt = exempt | decided.sampled[stream.name][rows]
                again = decided.again[stream.name]
                seconds[again[rows]] += service_times.draw(stream, int(again.sum()))
                requests.asks |= again
            work = PatternWork(rows, seconds, exempt, *service_times.expected(stream))
            requests.add(stream, work)
        return requests

    def shed_others(self, batch: ServiceBatch, admitted: Array) -> ServiceBatch:
        """Shed what was not admitted, for all patterns that are not exempt."""
        if batch.requests is None:
            return batch
        masks, spent = dict(batch.decided.masks), {}
        for stream, work in batch.requests.by_pattern.items():
            masks[stream.name], spent[stream] = work.admit(admitted)
        return replace(
            batch,
            service=batch.requests.service(admitted),
            spent=spent,
            decided=replace(batch.decided, masks=masks),
            kept=np.any(list(masks.values()), 0),
            not_admitted=int(np.count_nonzero(~admitted)),
            admitted=admitted,
        )

    def count(self, batch: ServiceBatch) -> None:
        """Count what became of the events of a batch."""
        processed = int(np.count_nonzero(batch.kept))
        self._processed += processed
        self._shed += batch.relevant - processed
        self._unused += len(batch.ready.time) - batch.relevant

    def _arrival_times(self, ready: ReadyBatch) -> Floats:
        arrivals = self._pace.arrivals(ready.time) / _SECOND
        for number, stream in enumerate(self.spec.inputs):
            if stream in self.channels:
                mine = ready.inputs == number
                arrivals[mine] = self.channels[stream].arrived(ready.time[mine])
        return arrivals

    def match(
        self, batch: ServiceBatch, departures: Floats
    ) -> dict[Stream, tuple[pa.Table, Floats]]:
        """Match what is ready; give complex events with the times at which they leave."""
        before = self.state.states
        listed = self.spec.outputs if self._lists_events else self.decider.choosers
        without_event_ids = self.spec.patterns.keys() - {stream.name for stream in listed}
        recorder = KeyRecorder()
        self.state, matches = match_batch(
            self.operator,
            self.state,
            batch.ready,
            batch.decided.masks,
            without_event_ids,
            steps={
                **{name: guard.match for name, guard in batch.decided.guards.items()},
                **recorder.steps(self.operator if self.records_keys else self._sampled),
            },
            with_began=self._guarded,
        )
        for matcher, old, new in zip(
            self.operator.matchers, before, self.state.states, strict=True
        ):
            if matcher.name in batch.decided.guards and has_evicted(old, new):
                self._closure_state.record_eviction(
                    Stream(matcher.name, self.spec.name), batch.ready
                )
        self._departed = (
            np.concatenate([self._departed[0][-1:], batch.ready.time]),
            np.concatenate([self._departed[1][-1:], departures]),
        )
        names = [timed_out_name(m.name) for m in self.operator.matchers if m.timed_out]
        self.timed_out = {Stream(name, self.spec.name): matches[name] for name in names}
        sampled = [matcher.name for matcher in self._sampled.matchers]
        self.result_keys = recorder.keys
        self.recorded = {name: recorder.results(name, matches[name]) for name in sampled}
        results = {}
        for stream, chooser in self.decider.choosers.items():
            chooser.learn(*_brought(matches[stream.name][EVENTS], self.operator.ids))
        for stream in self.spec.outputs:
            table = matches[stream.name]
            results[stream] = (table, self.departures(table))
        return results

    def departures(self, table: pa.Table) -> Floats:
        """Say when complex events of the last batch leave: with the event of their time."""
        times, leave = self._departed
        if not len(leave):
            return np.zeros(0)
        rows = np.searchsorted(times, table[TIME].to_numpy(), side="right") - 1
        return np.asarray(np.maximum.accumulate(leave)[np.maximum(rows, 0)])


def _brought(events: pa.ChunkedArray, ids: Sequence[str]) -> tuple[Array, Floats]:
    """Hash the ids of the events of complex events, with the part of one that each brought."""
    sizes = pc.list_value_length(events).to_numpy()
    values = pc.list_flatten(events)
    columns = pc.struct_field if len(ids) > 1 else lambda column, _: column
    table = pa.table({name: columns(values, i) for i, name in enumerate(ids)})
    return event_hashes(table, ids), np.repeat(1 / sizes, sizes)

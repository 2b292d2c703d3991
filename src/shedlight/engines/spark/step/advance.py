"""One micro-batch of a shard: what arrived goes through the operators of its chain.

Events of sources carry the watermark of their stream themselves. Complex events from another
node do not, for they come from several shards in no common order: there, each shard sends its
watermark (a `WatermarkUpdate`), and that of the stream is the lowest of them. A shard or a
source that is idle holds nobody back until it sends something again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import field_at
from shedlight.engines.spark.codec.event_refs import ROW, EventTable
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.engines.spark.step.completeness import (
    Ranges,
    add_steps,
    begin_batch,
    end_batch,
)
from shedlight.engines.spark.step.keep_flags import (
    HashPlan,
    KeepMasks,
    keep_masks,
    narrow,
    since_begun,
    with_guards,
)
from shedlight.engines.spark.step.metrics import MetricsCounter, OperatorMetrics
from shedlight.engines.spark.step.parallel import run_all
from shedlight.engines.spark.step.parts import (
    WatermarkUpdate,
    furthest_announced,
    take_parts,
)
from shedlight.engines.spark.step.sample_counts import (
    PatternSample,
    SampleMetrics,
    sample_metrics,
)
from shedlight.engines.spark.step.shadows import SampledBatch, Samples, choose_events
from shedlight.engines.spark.step.strata_counts import open_texts
from shedlight.engines.spark.support.batch_plan import BatchPlan
from shedlight.engines.spark.support.placement import is_passthrough
from shedlight.graph import OperatorSpec, Stream
from shedlight.language.eval.column import to_column
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    Masks,
    OperatorState,
    ingest,
    match_batch,
)
from shedlight.matching.operators.reorder import INPUT, NEVER
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.permuted import is_sorted
from shedlight.shedding.found_keys import NOTHING, FoundKeys
from shedlight.shedding.guard import ClosureGuard, covered, has_evicted
from shedlight.shedding.thresholds import BEGINNING, END


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a shard made of a micro-batch."""

    # the complex events of each pattern, and timed-out partial matches if asked for
    outputs: Mapping[Stream, pa.Table]
    late: Mapping[str, pa.Table]  # the late events at each operator
    metrics: Mapping[str, OperatorMetrics]  # what was counted at each operator
    idle: frozenset[str]  # the operators all of whose inputs are idle
    parallelism_ratio: float = 1.0  # wall seconds over the seconds of all operators
    # the events that row numbers in outputs refer to
    event_tables: Mapping[str, EventTable] = field(default_factory=dict)
    # what was kept upstream of each operator since its last watermark; without what was whole
    steps: Mapping[str, str] = field(default_factory=dict)
    # what was counted of the unshed sample, by pattern whose results a sink gets
    samples: Mapping[str, SampleMetrics] = field(default_factory=dict)


OnOutput = Callable[[Stream, pa.Table, Mapping[str, EventTable]], None]
"""Called with a stream, its complex events, and the events that row numbers refer to."""


def advance(
    chain: ChainRuntime,
    state: ChainState,
    arrivals: Mapping[Stream, pa.Table],
    updates: Iterable[WatermarkUpdate],
    plan: BatchPlan | None = None,
    on_output: OnOutput | None = None,
) -> tuple[ChainState, StepResult]:
    """Admit what arrived at a shard, in any order, and match what is ready.

    Updates are the watermarks of external streams, the new events included. The plan is that of
    the micro-batch; None: patterns keep what they kept at first. `on_output` is called with the
    complex events of a pattern as soon as they are there, while other operators run.
    """
    progresses, updates = take_parts(state.progresses, updates)
    watermarks, idle = _update_watermarks(state, arrivals, updates)
    completeness = state.completeness
    for update in updates:
        if update.steps is not None:
            completeness = add_steps(completeness, update.steps)
    announced = {**watermarks, **furthest_announced(progresses)}
    ranges = _ranges(chain, state, announced) if chain.spec.context.guards else {}
    before = operator_watermarks(chain, state)
    begun = begin_batch(completeness, chain.spec, plan, ranges, before)
    execution = _BatchExecution(
        chain,
        {stream: _sort_by_time(chain, stream, table) for stream, table in arrivals.items()},
        *stream_watermarks(chain.spec.origins, watermarks, idle),
        plan,
        replace(state, completeness=begun),
    )
    specs = chain.spec.placement.operators
    states = list(state.operators)

    def run(index: int) -> None:
        states[index] = execution.run(specs[index], chain.operators[index], states[index])
        if on_output is not None:
            for stream in [
                s for s in list(execution.outputs) if s.operator == specs[index].name
            ]:
                on_output(stream, execution.outputs[stream], execution.event_tables)

    parallelism_ratio = run_all(specs, run, in_threads=chain.is_single_shard)
    tables = execution.event_tables
    result = StepResult(
        execution.outputs,
        execution.late,
        execution.metrics,
        frozenset(execution.idle_operators),
        parallelism_ratio,
        tables,
        execution.steps,
        execution.sample_metrics(),
    )
    samples = execution.samples
    kept = {
        name: one.keep(_referenced_rows(chain, states, samples, name))
        for name, one in tables.items()
    }
    completeness = execution.completeness
    if chain.spec.context.guards:
        own = {
            spec.name: s.reorder_buffer.watermark for spec, s in zip(specs, states, strict=True)
        }
        completeness = end_batch(completeness, chain.spec, own)
    new = ChainState(tuple(states), watermarks, idle, kept, completeness, samples, progresses)
    return new, result


def _ranges(
    chain: ChainRuntime, state: ChainState, watermarks: Mapping[tuple[str, int], int]
) -> Ranges:
    """Say from which time to which new complex events of other nodes are."""
    before, _ = stream_watermarks(chain.spec.origins, state.watermarks, state.idle)
    return {
        stream: (
            BEGINNING if before[stream] == NEVER else before[stream],
            1
            + max(
                (w for (name, _), w in watermarks.items() if name == str(stream)), default=NEVER
            ),
        )  # shards that were divided anew may still have said something
        for stream in chain.spec.origins
        if stream.operator
    }


def _referenced_rows(
    chain: ChainRuntime, states: Iterable[OperatorState], samples: Samples, name: str
) -> Array:
    """List the rows of an operator's event table that states refer to; some of them twice."""
    rows = [np.zeros(0, np.int64)]
    for spec, state in zip(chain.spec.placement.operators, states, strict=True):
        paths = [path for path, of in chain.event_refs.read_by(spec).items() if of == name]
        held = (samples[stream].shadow for stream in spec.outputs if stream in samples)
        matching = [*state.states, *(shadow for shadow in held if shadow is not None)]
        for table in (state.reorder_buffer.buffer, *(one.store for one in matching)):
            there = [path for path in paths if len(table) and path[0] in table.column_names]
            rows += [field_at(table, path).drop_null().to_numpy() for path in there]
    return np.concatenate(rows)


def _update_watermarks(
    state: ChainState, arrivals: Mapping[Stream, pa.Table], updates: Iterable[WatermarkUpdate]
) -> tuple[dict[tuple[str, int], int], frozenset[tuple[str, int]]]:
    """Give the watermark of each origin, and the idle ones; one with events is not idle."""
    watermarks, idle = dict(state.watermarks), set(state.idle)
    for update in updates:
        origin = (str(update.stream), update.origin)
        watermarks[origin] = max(watermarks.get(origin, NEVER), update.watermark)
        (idle.add if update.idle else idle.discard)(origin)
    active = {str(stream) for stream, table in arrivals.items() if len(table)}
    return watermarks, frozenset(origin for origin in idle if origin[0] not in active)


def stream_watermarks(
    origins: Mapping[Stream, Sequence[int]],
    watermarks: Mapping[tuple[str, int], int],
    idle: frozenset[tuple[str, int]],
) -> tuple[dict[Stream, int], set[Stream]]:
    """Give the watermark of each external stream, and the idle streams."""
    of_streams, idle_streams = {}, set()
    for stream, numbers in origins.items():
        keys = [(str(stream), number) for number in numbers]
        active = [watermarks.get(key, NEVER) for key in keys if key not in idle]
        of_streams[stream] = (
            min(active) if active else max(watermarks.get(key, NEVER) for key in keys)
        )
        if not active:
            idle_streams.add(stream)
    return of_streams, idle_streams


def operator_watermarks(chain: ChainRuntime, state: ChainState) -> Mapping[str, int]:
    """Give the watermark of each operator: all its complex events before that time are out."""
    names = (spec.name for spec in chain.spec.placement.operators)
    return dict(
        zip(names, (one.reorder_buffer.watermark for one in state.operators), strict=True)
    )


def _sort_by_time(chain: ChainRuntime, stream: Stream, table: pa.Table) -> pa.Table:
    """Sort events by time, unless they are sorted already."""
    name = chain.spec.inputs[stream][0].time
    times = to_column(table[name])  # where it is null, the reorder buffer rejects it
    return table if is_sorted(times.values) else table.sort_by(name)


class _BatchExecution:
    """The way of a micro-batch through the operators of a shard.

    It is mutable, and threads share it: each operator writes its own entries, and reads those
    of operators that ran before it.
    """

    def __init__(
        self,
        chain: ChainRuntime,
        tables: dict[Stream, pa.Table],
        watermarks: dict[Stream, int],
        idle: set[Stream],
        plan: BatchPlan | None,
        state: ChainState,
    ) -> None:
        self.event_tables, self.completeness = dict(state.event_tables), state.completeness
        self.samples: dict[Stream, PatternSample] = dict(state.samples)
        self._heavy = np.array([] if plan is None else plan.heavy, np.int64)
        self._chain, self._tables, self._watermarks = chain, tables, watermarks
        self._idle, self._plan = idle, plan
        self._lock = Lock()  # of `completeness`, which is replaced as a whole
        spec = chain.spec
        self._uncounted = {
            *spec.placement.outputs,
            *(s for s in spec.placement.external if is_passthrough(spec, s)),
        }
        self.outputs: dict[Stream, pa.Table] = {}
        self.late: dict[str, pa.Table] = {}
        self.metrics: dict[str, OperatorMetrics] = {}
        self.idle_operators: set[str] = set()
        self.steps: dict[str, str] = {}

    def run(
        self, spec: OperatorSpec, operator: CepOperator, state: OperatorState
    ) -> OperatorState:
        """Run one operator with what arrived, and with the watermarks of its inputs."""
        tables = self._tables
        arrivals = {
            number: tables[stream]
            for number, stream in enumerate(spec.inputs)
            if stream in tables and len(tables[stream])
        }
        if spec.name in self.event_tables:
            arrivals = self._add_row_numbers(spec.name, arrivals)
        without_event_ids = {stream.name for stream in spec.outputs}
        without_event_ids -= {stream.name for stream in self._chain.spec.context.with_event_ids}
        ended = self._ended(spec, state)
        context = self._chain.spec.context
        unique = context.comes_once(spec)
        counter = MetricsCounter(spec, operator, state, self._uncounted)
        watermarks = [self._watermarks[stream] for stream in spec.inputs]
        since, before = state.reorder_buffer.watermark, state.states
        state, ready, late = ingest(operator, state, arrivals, ended, watermarks, unique=unique)
        masks, chosen = self._masks(spec, operator, ready)
        guards = self._guards(spec, ready, since)
        kept = with_guards(operator, ready, masks.kept, guards)
        counter.starts(ready, kept, masks.emitted)
        recorder = counter.count_strata(self._found(spec), ready, kept, masks.emitted)
        sampled = SampledBatch(
            context.sample, spec, operator, state, since, ready, masks, chosen, self._heavy
        )
        state, outputs = match_batch(
            operator,
            state,
            ready,
            kept,
            without_event_ids,
            on_pattern_done=counter.is_done,
            steps={
                **{name: guard.match for name, guard in guards.items()},
                **({} if recorder is None else recorder.steps(operator)),
                **sampled.steps,
            },
            with_began=guards,
        )
        self._report(spec, since, before, state)
        held, outputs = sampled.finish(
            self._own_samples(spec), outputs, without_event_ids, counter.is_matched_again
        )
        self.samples.update(held)
        self.outputs.update((Stream(n, spec.name), table) for n, table in outputs.items())
        for stream in spec.outputs:
            tables[stream] = self.outputs[stream]
            self._watermarks[stream] = state.reorder_buffer.watermark
        self.late[spec.name] = self._whole_events(spec.name, late)
        found_keys = {} if recorder is None else {**recorder.keys, **sampled.recorder.keys}
        self.metrics[spec.name] = counter.metrics(
            state, found_keys, self._open_keys(spec, operator, state)
        )
        return state

    def _found(self, spec: OperatorSpec) -> FoundKeys | None:
        """Give what is known of the keys of an operator; None: they are not shed in strata."""
        return None if self._plan is None else self._plan.found.get(spec.name)

    def _open_keys(
        self, spec: OperatorSpec, operator: CepOperator, state: OperatorState
    ) -> Mapping[str, str]:
        """Write which keys are open, where the plan asks for it."""
        if self._found(spec) is None or self._plan is None:
            return {}
        shards = len(self._chain.spec.placement.shards)
        return open_texts(spec, operator, state, self._plan.opened, shards)

    def _masks(
        self, spec: OperatorSpec, operator: CepOperator, ready: ReadyBatch
    ) -> tuple[KeepMasks, Masks]:
        """Say which events each pattern gets to see, and which are of the unshed sample."""
        chain = self._chain.spec
        shares = chain.context.shares if self._plan is None else self._plan.shares
        chosen = choose_events(chain.context.sample, spec, ready, self._heavy)
        begun = since_begun(chain, spec, ready)
        plan = HashPlan(shares, self._found(spec) or NOTHING)
        masks = keep_masks(chain, spec, operator, ready, plan, chosen)
        chosen = {n: mask & begun[n] if n in begun else mask for n, mask in chosen.items()}
        return narrow(masks, begun), chosen

    def _own_samples(self, spec: OperatorSpec) -> Samples:
        return {
            stream: self.samples[stream] for stream in spec.outputs if stream in self.samples
        }

    def sample_metrics(self) -> dict[str, SampleMetrics]:
        """Say what was counted of the unshed sample."""
        sunk = self._chain.spec.context.sample.sunk
        counted = {stream: held for stream, held in self.samples.items() if stream in sunk}
        return sample_metrics(counted, self._heavy)

    def _guards(
        self, spec: OperatorSpec, ready: ReadyBatch, since: int
    ) -> dict[str, ClosureGuard]:
        """Give the guards of patterns, after what is decided here is in their histories."""
        chain = self._chain.spec
        guarded = [stream for stream in spec.outputs if stream in chain.context.guards]
        for stream in guarded:
            if self._plan is not None and stream in self._plan.shares:
                self._lower(stream, *covered(ready, since), self._plan.whole[stream])
        return {s.name: self.completeness.guard(chain, s, since) for s in guarded}

    def _lower(self, stream: Stream, start: int, end: int, share: float) -> None:
        with self._lock:
            self.completeness = self.completeness.lower(stream, start, end, share)

    def _report(
        self,
        spec: OperatorSpec,
        since: int,
        before: Sequence[MatchState],
        state: OperatorState,
    ) -> None:
        """Say what was kept between two watermarks; where partial matches went, nothing was."""
        context, watermark = self._chain.spec.context, state.reorder_buffer.watermark
        for stream, old, new in zip(spec.outputs, before, state.states, strict=True):
            if stream in context.guards and has_evicted(old, new):
                window = context.guards[stream].window
                end = END if window is None else watermark + window + 1
                self._lower(stream, since, end, 0.0)
        upstream = context.guarded_upstream.get(spec.name, ())
        text = self.completeness.steps_text(upstream, since, watermark)
        if text is not None:
            self.steps[spec.name] = text

    def _add_row_numbers(
        self, name: str, arrivals: Mapping[int, pa.Table]
    ) -> dict[int, pa.Table]:
        """Put events into the event table of an operator, and add their row numbers."""
        columns = self._chain.event_refs.columns[name]
        whole = {
            number: _with_all_columns(table, columns) for number, table in arrivals.items()
        }
        self.event_tables[name], rows = self.event_tables[name].with_events(whole)
        return {
            number: table.append_column(ROW, rows[number]) for number, table in arrivals.items()
        }

    def _whole_events(self, name: str, events: pa.Table) -> pa.Table:
        """Give events with all their columns."""
        if name not in self.event_tables:
            return events
        table = self.event_tables[name]
        rows = table.rows_of(field_at(events, (ROW,)))
        # even to take nothing would copy what is in several chunks
        whole = table.events.take(pa.array(rows)) if len(rows) else table.events.slice(0, 0)
        return whole.append_column(INPUT, events[INPUT])

    def _ended(self, spec: OperatorSpec, state: OperatorState) -> frozenset[int]:
        """Find the inputs that hold nobody back; if all are idle, the furthest leads."""
        idle = {number for number, stream in enumerate(spec.inputs) if stream in self._idle}
        if len(idle) < len(spec.inputs):
            return frozenset(idle)
        self.idle_operators.add(spec.name)
        self._idle.update(spec.outputs)
        watermarks = [
            max(admitted.watermark, self._watermarks[stream])
            for admitted, stream in zip(state.reorder_buffer.dedup, spec.inputs, strict=True)
        ]
        return frozenset(idle - {watermarks.index(max(watermarks))})


def _with_all_columns(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Give a table the columns of all inputs of an operator, null where it has none."""
    arrays = [
        table[column.name].cast(column.type)
        if column.name in table.column_names
        else pa.nulls(len(table), column.type)
        for column in columns
    ]
    return pa.table(arrays, columns)

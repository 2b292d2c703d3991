"""One micro-batch of a shard: what arrived goes through the operators of its chain.

Events of sources carry the watermark of their stream themselves. Complex events from another
node do not, for they come from several shards in no common order: there, each shard sends its
watermark (a `WatermarkUpdate`), and that of the stream is the lowest of them. A shard or a
source that is idle holds nobody back until it sends something again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import field_at
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.codec.event_refs import ROW, EventTable
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.engines.spark.step.keep_flags import flag_column, flag_names, keep_masks
from shedlight.engines.spark.step.metrics import MetricsCounter, OperatorMetrics
from shedlight.engines.spark.step.parallel import each, run_all
from shedlight.engines.spark.support.placement import is_passthrough
from shedlight.graph import OperatorSpec, Stream
from shedlight.language.eval.column import column_of
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import (
    Operator,
    OperatorState,
    ingest,
    match_batch,
)
from shedlight.matching.operators.reorder import INPUT, NEVER
from shedlight.matching.permuted import is_sorted
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True)
class WatermarkUpdate:
    """How far a shard is with a stream, in microseconds, and whether it holds nobody back."""

    stream: Stream
    origin: int
    watermark: int
    idle: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What came of a micro-batch in a shard.

    Attributes:
        found: The complex events of each pattern, and what timed out where it is asked for.
        late: The late events at each operator.
        metrics: What was counted at each operator.
        idle: The operators all of whose inputs are idle.
        parallelism_ratio: What part of the seconds of all operators passed on the clock.
        shelves: The events to which numbers in complex events refer.
    """

    found: Mapping[Stream, pa.Table]
    late: Mapping[str, pa.Table]
    metrics: Mapping[str, OperatorMetrics]
    idle: frozenset[str]
    parallelism_ratio: float = 1.0
    shelves: Mapping[str, EventTable] = field(default_factory=dict)


Leaves = Callable[[Stream, pa.Table, Mapping[str, EventTable]], None]
"""Is told a stream, its complex events, and the events to which numbers in them refer."""


def advance(
    chain: ChainRuntime,
    state: ChainState,
    arrivals: Mapping[Stream, pa.Table],
    marks: Iterable[WatermarkUpdate],
    shares: Shares | None = None,
    leaves: Leaves | None = None,
) -> tuple[ChainState, StepResult]:
    """Take in what arrived at a shard, and match what is ready.

    Args:
        chain: The operators.
        state: Where the shard stands; not changed.
        arrivals: New events of external streams, in any order.
        marks: How far origins are with these streams, the new events included.
        shares: What patterns keep now, where that is not decided yet; None: as at first.
        leaves: Is told of the complex events of each pattern as soon as they are there, while
            other operators may still be at work.
    """
    told, idle = _with_marks(state, arrivals, marks)
    tables = {stream: _by_time(chain, stream, table) for stream, table in arrivals.items()}
    course = _Course(
        chain,
        tables,
        *_watermarks(chain, told, idle),
        chain.spec.shares if shares is None else shares,
        state.shelves,
    )
    specs = chain.spec.placement.operators
    states = list(state.operators)

    def run(place: int) -> None:
        states[place] = course.run(specs[place], chain.operators[place], states[place])
        if leaves is not None:
            for stream in course.found_by(specs[place]):
                leaves(stream, course.found[stream], course.shelves)

    parallelism_ratio = run_all(specs, run, in_threads=chain.is_alone)
    own = frozenset(str(spec.name) for spec in specs)
    silent = frozenset(name for name in own if name in course.silent)
    shelves = course.shelves
    done = StepResult(
        course.found, course.late, course.metrics, silent, parallelism_ratio, shelves
    )
    kept = {name: one.kept(_referred(chain, states, name)) for name, one in shelves.items()}
    return ChainState(tuple(states), told, idle, kept), done


def _referred(chain: ChainRuntime, states: Iterable[OperatorState], name: str) -> Array:
    """List the numbers of an operator's events that states have; some may be there twice."""
    found = [np.zeros(0, np.int64)]
    for spec, state in zip(chain.spec.placement.operators, states, strict=True):
        paths = [path for path, of in chain.event_refs.read_by(spec).items() if of == name]
        for table in (state.reorder_buffer.buffer, *(one.store for one in state.states)):
            there = [path for path in paths if len(table) and path[0] in table.column_names]
            found += [field_at(table, path).drop_null().to_numpy() for path in there]
    return np.concatenate(found)


def encode_output(
    chain: ChainRuntime,
    stream: Stream,
    table: pa.Table,
    shelves: Mapping[str, EventTable],
    most: int,
    put: Callable[[pa.Buffer], bytes],
) -> Iterator[tuple[int, bytes]]:
    """Pack the complex events of a pattern, with whole events.

    Args:
        chain: The operators.
        stream: The pattern.
        table: Its complex events.
        shelves: The events to which numbers in them refer.
        most: How many there are in a piece at most.
        put: Puts a piece where it is to be, and says what stands for it; threads call it.

    Returns:
        The number of complex events in a piece, and what stands for it.
    """
    paths = chain.event_refs.paths.get(stream, {})
    names = list(dict.fromkeys(paths.values()))
    beside = [shelves[name].events for name in names]
    rows = {
        path: (names.index(of), shelves[of].places(field_at(table, path)))
        for path, of in paths.items()
    }

    def packed(start: int) -> tuple[int, bytes]:
        piece = table.slice(start, most)
        end = start + len(piece)
        own = {path: (number, places[start:end]) for path, (number, places) in rows.items()}
        return len(piece), put(encode_table(piece, own, beside))

    return each(packed, range(0, len(table), most), in_threads=chain.is_alone)


def _with_marks(
    state: ChainState, arrivals: Mapping[Stream, pa.Table], marks: Iterable[WatermarkUpdate]
) -> tuple[dict[tuple[str, int], int], frozenset[tuple[str, int]]]:
    """Take in how far origins are, and which of them are idle; one with events is not."""
    told, idle = dict(state.marks), set(state.idle)
    for mark in marks:
        place = (str(mark.stream), mark.origin)
        told[place] = max(told.get(place, NEVER), mark.watermark)
        (idle.add if mark.idle else idle.discard)(place)
    heard = {str(stream) for stream, table in arrivals.items() if len(table)}
    return told, frozenset(place for place in idle if place[0] not in heard)


def _watermarks(
    chain: ChainRuntime,
    told: Mapping[tuple[str, int], int],
    idle: frozenset[tuple[str, int]],
) -> tuple[dict[Stream, int], set[Stream]]:
    """Say how far external streams are, and which of them are idle."""
    watermarks, silent = {}, set()
    for stream, origins in chain.spec.origins.items():
        places = [(str(stream), origin) for origin in origins]
        awake = [told.get(place, NEVER) for place in places if place not in idle]
        watermarks[stream] = min(awake) if awake else max(told.get(p, NEVER) for p in places)
        if not awake:
            silent.add(stream)
    return watermarks, silent


def watermarks_of(chain: ChainRuntime, state: ChainState) -> Mapping[str, int]:
    """Say how far each operator is: all its complex events before that time are out."""
    names = (spec.name for spec in chain.spec.placement.operators)
    return dict(
        zip(names, (one.reorder_buffer.watermark for one in state.operators), strict=True)
    )


def _by_time(chain: ChainRuntime, stream: Stream, table: pa.Table) -> pa.Table:
    """Sort events by time, unless they are sorted already."""
    name = chain.spec.inputs[stream][0].time
    times = column_of(table[name])  # where it is null, the intake refuses it
    return table if is_sorted(times.values) else table.sort_by(name)


class _Course:
    """The way of a micro-batch through the operators of a shard."""

    def __init__(
        self,
        chain: ChainRuntime,
        tables: dict[Stream, pa.Table],
        watermarks: dict[Stream, int],
        idle: set[Stream],
        shares: Shares,
        shelves: Mapping[str, EventTable],
    ) -> None:
        self.shelves = dict(shelves)
        self._chain, self._tables, self._watermarks = chain, tables, watermarks
        self._idle, self._shares = idle, shares
        spec = chain.spec
        self._uncounted = {
            *spec.placement.outputs,
            *(s for s in spec.placement.external if is_passthrough(spec, s)),
        }
        self.found: dict[Stream, pa.Table] = {}
        self.late: dict[str, pa.Table] = {}
        self.metrics: dict[str, OperatorMetrics] = {}
        self.silent: set[str] = set()

    def run(
        self, spec: OperatorSpec, operator: Operator, state: OperatorState
    ) -> OperatorState:
        """Run one operator with what arrived, and with how far its inputs are told to be."""
        tables = self._tables
        arrivals = {
            number: tables[stream]
            for number, stream in enumerate(spec.inputs)
            if stream in tables and len(tables[stream])
        }
        if spec.name in self.shelves:
            arrivals = self._numbered(spec.name, arrivals)
        arrivals = {
            number: _own_columns(operator, spec, table) for number, table in arrivals.items()
        }
        without_event_ids = {stream.name for stream in spec.outputs}
        without_event_ids -= {one.name for one in self._chain.spec.with_event_ids}
        ended = self._ended(spec, state)
        unique = all(stream.operator for stream in spec.inputs)  # nothing is emitted twice
        counting = MetricsCounter(spec, operator, self._uncounted)
        told = [self._watermarks[stream] for stream in spec.inputs]
        state, ready, late = ingest(operator, state, arrivals, ended, told, unique=unique)
        masks = keep_masks(self._chain.spec, spec, operator, ready, self._shares)
        counting.starts(ready, masks)
        state, found = match_batch(
            operator, state, ready, masks, without_event_ids, counting.is_done
        )
        self.found.update((Stream(name, spec.name), table) for name, table in found.items())
        for stream in spec.outputs:
            tables[stream] = self.found[stream]
            self._watermarks[stream] = state.reorder_buffer.watermark
        self.late[spec.name] = self._whole(spec.name, late)
        self.metrics[spec.name] = counting.metrics(state)
        return state

    def found_by(self, spec: OperatorSpec) -> list[Stream]:
        """List what an operator found: its patterns, and what timed out if it was asked for."""
        return [one for one in list(self.found) if one.operator == spec.name]

    def _numbered(self, name: str, arrivals: Mapping[int, pa.Table]) -> dict[int, pa.Table]:
        """Put events on the shelf of an operator, and give them their numbers."""
        columns = self._chain.event_refs.columns[name]
        whole = {number: _completed(table, columns) for number, table in arrivals.items()}
        self.shelves[name], numbers = self.shelves[name].with_events(whole)
        return {
            number: table.append_column(ROW, numbers[number])
            for number, table in arrivals.items()
        }

    def _whole(self, name: str, events: pa.Table) -> pa.Table:
        """Give events with all their columns."""
        if name not in self.shelves:
            return events
        shelf = self.shelves[name]
        rows = shelf.places(field_at(events, (ROW,)))
        # even to take nothing would copy what is in several pieces
        whole = shelf.events.take(pa.array(rows)) if len(rows) else shelf.events.slice(0, 0)
        return whole.append_column(INPUT, events[INPUT])

    def _ended(self, spec: OperatorSpec, state: OperatorState) -> frozenset[int]:
        """Find the inputs that hold nobody back; if all are idle, the furthest leads."""
        idle = {number for number, one in enumerate(spec.inputs) if one in self._idle}
        if len(idle) < len(spec.inputs):
            return frozenset(idle)
        self.silent.add(spec.name)
        self._idle.update(spec.outputs)
        seen = state.reorder_buffer.dedup
        far = [
            max(one.watermark, self._watermarks[stream])
            for one, stream in zip(seen, spec.inputs, strict=True)
        ]
        return frozenset(idle - {far.index(max(far))})


def _own_columns(operator: Operator, spec: OperatorSpec, table: pa.Table) -> pa.Table:
    """Take the columns that an operator knows, and its own keep flags among those."""
    flags = {flag_column(spec.name, name): name for name in flag_names(len(operator.matchers))}
    names = [flags.get(name, name) for name in table.column_names]
    table = table.rename_columns(names)
    return table.select([name for name in names if name in operator.schema.names])


def _completed(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Give a table the columns of all inputs of an operator, null where it has none."""
    arrays = [
        table[one.name].cast(one.type)
        if one.name in table.column_names
        else pa.nulls(len(table), one.type)
        for one in columns
    ]
    return pa.table(arrays, columns)

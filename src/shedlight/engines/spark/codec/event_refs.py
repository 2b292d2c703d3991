"""Event references: whole events in complex events as their numbers in an event table.

A pattern that selects whole events makes complex events that are mostly copies, and one above
it copies them again. Within a shard a whole event is its number in an event table, and it is
copied once, when it leaves the shard. That can be where no operator of the chain looks into it,
and the chain has one shard for good.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import Path
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.graph import OperatorSpec, Stream
from shedlight.language.ast.expression import Aggregate, Attribute, WholeEvent, walk
from shedlight.language.ast.pattern import Item, Pattern, expressions, selected_items
from shedlight.matching.compile.matcher import BEGAN
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator, build_operator
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.output.timed_out import timed_out_name

ROW = "#row"  # the column with the number of an event


@dataclass(frozen=True, slots=True, eq=False)
class EventRefs:
    """Which whole events are given by number in a chain."""

    # the columns of the events of each operator that gives its events so
    columns: Mapping[str, pa.Schema] = field(default_factory=dict)
    # where numbers stand in the complex events of a pattern, and of which operator
    paths: Mapping[Stream, Mapping[Path, str]] = field(default_factory=dict)

    def read_by(self, spec: OperatorSpec) -> Mapping[Path, str]:
        """Say where numbers stand in what an operator reads."""
        read = [self.paths.get(stream, {}) for stream in spec.inputs]
        paths = {path: of for of_stream in read for path, of in of_stream.items()}
        return paths | ({(ROW,): spec.name} if spec.name in self.columns else {})


def find_event_refs(
    placement: OperatorChain,
    whole: Mapping[str, pa.Schema],
    schemas: Mapping[Stream, pa.Schema],
) -> EventRefs:
    """Find which whole events can be given by number.

    `whole` has all columns of the events of each operator, `schemas` those of all streams.
    """
    made = set(placement.outputs)
    readers = [spec for spec in placement.operators if made & set(spec.inputs)]
    if readers and placement.key:  # shards may be divided anew, and numbers are of one shard
        return EventRefs()
    if any(map(_looks_into_events, readers)):
        return EventRefs()
    columns = {}
    for spec in placement.operators:
        others = (other for other in placement.operators if other.name != spec.name)
        if spec not in readers and _gives_references(spec, others):
            columns[spec.name] = whole[spec.name]
    refs = EventRefs(columns, _paths(placement, columns))
    is_clear = all(_is_clear(spec, refs, schemas) for spec in readers)
    return refs if is_clear else EventRefs()


def _looks_into_events(spec: OperatorSpec) -> bool:
    """Say whether an operator gives columns of whole events, or computes with these."""
    return any(
        pattern.each or not all(map(_is_plain, selected_items(pattern)))
        for pattern in spec.patterns.values()
    )


def _is_plain(item: Item) -> bool:
    within = list(walk(item.expression))[1:]
    return not any(isinstance(node, WholeEvent) for node in within)


def _gives_references(spec: OperatorSpec, others: Iterable[OperatorSpec]) -> bool:
    """Say whether an operator gives whole events into which no other looks."""
    patterns = spec.patterns.values()
    names = {item.name for pattern in patterns for item in _wholes(pattern)}
    looked_at = {name for other in others for path in _paths_of(other) for name in path}
    return bool(names) and not names & looked_at and not _looks_into_events(spec)


def _wholes(pattern: Pattern) -> list[Item]:
    return [item for item in selected_items(pattern) if isinstance(item.expression, WholeEvent)]


def _paths_of(spec: OperatorSpec) -> set[Path]:
    """List what the patterns of an operator look at in events."""
    return {
        node.path
        for pattern in spec.patterns.values()
        for expression in expressions(pattern)
        for node in walk(expression)
        if isinstance(node, Attribute | Aggregate)
    }


def _paths(
    placement: OperatorChain, columns: Mapping[str, pa.Schema]
) -> Mapping[Stream, Mapping[Path, str]]:
    every: dict[Stream, Mapping[Path, str]] = {}
    for spec in placement.operators:
        inner: Mapping[Path, str] = {(): spec.name}
        if spec.name not in columns:
            inner = {p: of for read in spec.inputs for p, of in every.get(read, {}).items()}
        for name, pattern in spec.patterns.items():
            names = [item.name for item in _wholes(pattern)]
            paths = {(item, *path): of for item in names for path, of in inner.items()}
            every[Stream(name, spec.name)] = paths
            every[Stream(timed_out_name(name), spec.name)] = paths
    return every


def _is_clear(spec: OperatorSpec, refs: EventRefs, schemas: Mapping[Stream, pa.Schema]) -> bool:
    """Say whether columns with numbers are of one input each."""
    numbers = {path[0] for path in refs.read_by(spec)}
    named = Counter(name for stream in spec.inputs for name in set(schemas[stream].names))
    return all(named[name] == 1 for name in numbers)


def with_event_refs(
    spec: OperatorSpec, inputs: Sequence[tuple[StreamInput, pa.Schema]], timed_out: set[str]
) -> CepOperator:
    """Build an operator that refers to events by row number, with the columns it looks at."""
    looked_at = {path[0] for path in _paths_of(spec) if path}
    looked_at |= {BEGAN, *(name for stream_input, _ in inputs for name in stream_input.ids)}
    row = pa.field(ROW, pa.int64())
    narrowed = [
        (
            stream_input,
            pa.schema([*(f for f in schema if f.name in {*looked_at, stream_input.time}), row]),
        )
        for stream_input, schema in inputs
    ]
    patterns = {name: _with_row_numbers(pattern) for name, pattern in spec.patterns.items()}
    return build_operator(narrowed, patterns, timed_out=timed_out)


def _with_row_numbers(pattern: Pattern) -> Pattern:
    items = (
        Item(Attribute(item.expression.variable, (ROW,)), item.name)
        if isinstance(item.expression, WholeEvent)
        else item
        for item in selected_items(pattern)
    )
    return replace(pattern, select=tuple(items))


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Events of a shard that complex events refer to by number, each once."""

    events: pa.Table  # those of earlier micro-batches, and after them those of this one
    # the numbers of the earlier ones, which rise
    old: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    start: int = 0  # the number of the first one of this micro-batch; the others follow

    def rows_of(self, numbers: pa.Array) -> Array:
        """Find the rows of events; -1 for null."""
        if numbers.null_count == len(numbers):
            return np.full(len(numbers), -1, np.int64)
        known = numbers.fill_null(self.start).to_numpy()
        rows = known - self.start + len(self.old)
        early = known < self.start
        if early.any():
            rows[early] = np.searchsorted(self.old, known[early])
        if numbers.null_count:
            rows[np.asarray(numbers.is_null())] = -1
        return np.asarray(rows)

    def with_events(
        self, arrivals: Mapping[int, pa.Table]
    ) -> tuple["EventTable", Mapping[int, pa.Array]]:
        """Add the events of a micro-batch, and say what their numbers are."""
        numbers, start = {}, self.start + len(self.events) - len(self.old)
        for key, table in arrivals.items():
            numbers[key] = pa.array(np.arange(start, start + len(table)))
            start += len(table)
        tables = [table for table in (self.events, *arrivals.values()) if len(table)]
        events = pa.concat_tables(tables) if tables else self.events
        return EventTable(events, self.old, self.start), numbers

    def keep(self, numbers: Array) -> "EventTable":
        """Keep events for later micro-batches."""
        old = np.unique(numbers)
        events = take_sorted(self.events, self.rows_of(pa.array(old)))
        return EventTable(events, old, self.start + len(self.events) - len(self.old))


def take_sorted(table: pa.Table, rows: Array) -> pa.Table:
    """Take rows in rising order, from each chunk of a table by itself; else all were copied."""
    taken, start = [], 0
    for batch in table.to_batches():
        first, last = np.searchsorted(rows, (start, start + len(batch)))
        if last > first:
            taken.append(batch.take(pa.array(rows[first:last] - start)))
        start += len(batch)
    return pa.Table.from_batches(taken, table.schema)

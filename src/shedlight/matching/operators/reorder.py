"""From arrivals to ready events: order, lateness and duplicates (design rules 1 and 10).

Each input is in order but for its declared lateness: its watermark is the largest timestamp
seen less that. An event that arrives behind the watermark of its input is late. An event whose
id was seen before on the same input is a duplicate; an id is remembered until the watermark has
left its event behind by the longest window, or, if the timestamp is part of the id, until a
duplicate of it would be late. All others wait until the watermark of the operator,
the smallest of its inputs', is beyond them, and come out in order of timestamp, input and id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.errors import InputError
from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import column_of, data_type_of_arrow
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array, compiled
from shedlight.matching.permuted import PermutedTable, is_sorted, is_strictly_sorted

NEVER = -(1 << 62)
"""A time before all others: the watermark of an input that has said nothing yet."""
FOREVER = 1 << 62
"""A time after all others: the watermark at the end of an input."""

TIME, INPUT = "#time", "#input"
"""Columns that are added to those of the events: microseconds, and the number of the input."""


@dataclass(frozen=True, slots=True)
class StreamInput:
    """Where events come from.

    Attributes:
        name: What the input is called, for messages.
        ids: The columns that identify an event.
        time: The column of the timestamp.
        lateness: How far behind the largest timestamp an event may be, in microseconds.
        dated: Whether the timestamp is part of the id, so that duplicates have the same.
    """

    name: str
    ids: tuple[str, ...]
    time: str
    lateness: int = 0
    dated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DedupState:
    """The ids of one input that are remembered: two hashes each, and the event's timestamp."""

    watermark: int = NEVER
    ids: Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    times: Array = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class ReorderBuffer:
    """What an operator's intake remembers.

    Attributes:
        buffer: Events that are not ready yet.
        seen: Per input, its watermark and the ids that are remembered.
        watermark: How far events have been given out.
        late: How many late events there were, per input.
        duplicates: How many duplicates there were, per input.
    """

    buffer: pa.Table
    seen: tuple[DedupState, ...]
    watermark: int
    late: tuple[int, ...]
    duplicates: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AdmitResult:
    """What became of a batch of arrivals: ready events in order, and the late ones."""

    ready: PermutedTable
    late: pa.Table


def new_waiting(schema: pa.Schema, inputs: int) -> ReorderBuffer:
    """Make the intake before any event."""
    full = schema.append(pa.field(TIME, pa.int64())).append(pa.field(INPUT, pa.int32()))
    return ReorderBuffer(
        full.empty_table(), (DedupState(),) * inputs, NEVER, (0,) * inputs, (0,) * inputs
    )


def admit_arrivals(
    waiting: ReorderBuffer,
    inputs: Sequence[StreamInput],
    arrivals: Mapping[int, pa.Table],
    remember: int | None,
    ended: frozenset[int] = frozenset(),
    told: Sequence[int] | None = None,
) -> tuple[ReorderBuffer, AdmitResult]:
    """Take in arrivals and give out what is ready.

    Args:
        waiting: The intake so far.
        inputs: The inputs of the operator.
        arrivals: New events by the number of their input, in the order of their arrival.
        remember: How long ids are remembered, in microseconds; None: it is known that none
            comes twice.
        ended: Inputs that will not say anything more, or hold nobody back for now.
        told: How far each input is said to be with these arrivals; None: they say it alone.

    Raises:
        InputError: A null or missing timestamp or id.
    """
    seen, late, duplicates = list(waiting.seen), list(waiting.late), list(waiting.duplicates)
    fresh, left_behind = [waiting.buffer], []
    for number, table in arrivals.items():
        one = inputs[number]
        times = _times(one, table)
        if remember is None:
            seen[number], fate = _in_time(seen[number], times, one.lateness)
        elif one.dated and _are_new(seen[number], times):
            last = int(np.searchsorted(times, times[-1] - one.lateness))
            newest = np.stack(_ids(one, table, last), axis=1)
            seen[number], fate = _in_time(seen[number], times, one.lateness)
            seen[number] = _remembering(seen[number], newest, times[last:])
        else:
            ids = _ids(one, table)
            length = 0 if one.dated else remember
            seen[number], fate = _judged(seen[number], times, ids, one.lateness, length)
        fate[times < waiting.watermark] = _LATE
        full = _as(waiting.buffer.schema, _with_order(table, times, number))
        fresh.append(chosen_rows(full, fate == _FINE))
        left_behind.append(chosen_rows(full, fate == _LATE))
        late[number] += len(left_behind[-1])
        duplicates[number] += len(full) - len(fresh[-1]) - len(left_behind[-1])
    seen = _further(seen, told) if told is not None else seen
    watermarks = (FOREVER if i in ended else one.watermark for i, one in enumerate(seen))
    watermark = max(waiting.watermark, min(watermarks))
    buffer = _joined(fresh, waiting.buffer.schema)
    is_ready = buffer[TIME].to_numpy() < watermark
    ready = chosen_rows(buffer, is_ready)
    new = ReorderBuffer(
        chosen_rows(buffer, ~is_ready), tuple(seen), watermark, tuple(late), tuple(duplicates)
    )
    late_ones = _joined(left_behind, buffer.schema)
    return new, AdmitResult(PermutedTable(ready, order_of(ready, inputs)), late_ones)


def _further(seen: Sequence[DedupState], told: Sequence[int]) -> list[DedupState]:
    """Move inputs ahead to where they are said to be."""
    return [
        replace(one, watermark=watermark) if watermark > one.watermark else one
        for one, watermark in zip(seen, told, strict=True)
    ]


def chosen_rows(table: pa.Table, chosen: Array) -> pa.Table:
    """Give some rows of a table; where they are a stretch of it, without a copy."""
    number = int(np.count_nonzero(chosen))
    first = int(np.argmax(chosen)) if number else 0
    if chosen[first : first + number].all():
        return table.slice(first, number)
    return table.filter(pa.array(chosen))


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Put tables one after the other, in one piece."""
    some = [table for table in tables if len(table)]
    if not some:
        return schema.empty_table()
    whole = some[0] if len(some) == 1 else pa.concat_tables(some)
    is_whole = all(column.num_chunks <= 1 for column in whole.columns)
    return whole if is_whole else whole.combine_chunks()


def _as(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Give a table the columns of a schema, in its order."""
    if table.column_names != schema.names:
        table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


_FINE, _LATE, _DUPLICATE = range(3)


def order_of(table: pa.Table, inputs: Sequence[StreamInput]) -> Array | None:
    """Find the order by timestamp, input and id; None if the events are in order already."""
    times, numbers = table[TIME].to_numpy(), table[INPUT].to_numpy()
    if is_strictly_sorted(times):
        return None
    order = _by_time_and_input(times, numbers)
    times, numbers = times[order], numbers[order]
    same = (times[1:] == times[:-1]) & (numbers[1:] == numbers[:-1])
    tied = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    for number in np.unique(numbers[tied]):
        places = np.flatnonzero(tied & (numbers == number))
        rows = order[places]
        keys = table.select([TIME, *inputs[number].ids]).take(pa.array(rows))
        names = [(name, "ascending") for name in keys.column_names]
        order[places] = rows[pc.sort_indices(keys, names).to_numpy()]
    return None if (order == np.arange(len(order))).all() else order


def _by_time_and_input(times: Array, numbers: Array) -> Array:
    later = times[1:] > times[:-1]
    if (later | ((times[1:] == times[:-1]) & (numbers[1:] >= numbers[:-1]))).all():
        return np.arange(len(times))
    return np.lexsort((numbers, times))


def _with_order(table: pa.Table, times: Array, number: int) -> pa.Table:
    numbers = pa.array(np.full(len(table), number, np.int32))
    return table.append_column(TIME, pa.array(times)).append_column(INPUT, numbers)


def _times(one: StreamInput, table: pa.Table) -> Array:
    column = column_of(table[one.time])
    if column.data_type not in {DataType.TIMESTAMP, DataType.BIGINT}:
        raise InputError(
            f"{one.name}: the time column {one.time!r} has {column.data_type}; a timestamp or "
            "whole microseconds are needed"
        )
    refuse_nulls(one.name, one.time, column.valid)
    if len(column.values) and (column.values.min() <= NEVER or column.values.max() >= FOREVER):
        raise InputError(f"{one.name}: a value of {one.time!r} is too far away to be a time")
    return np.ascontiguousarray(column.values)


def _ids(one: StreamInput, table: pa.Table, start: int = 0) -> tuple[Array, Array]:
    """Hash ids, from a row on; all are looked at."""
    for name in one.ids:
        column, kind = table[name], data_type_of_arrow(table[name].type)
        if kind not in {DataType.BIGINT, DataType.STRING, DataType.TIMESTAMP, DataType.BOOLEAN}:
            raise InputError(
                f"{one.name}: the id column {name!r} has {kind}; ids are whole numbers, "
                "text, true or false, or timestamps"
            )
        if column.null_count or not pa.types.is_signed_integer(column.type):
            refuse_nulls(one.name, name, column_of(column).valid)
    columns = [column_of(table[name].slice(start)) for name in one.ids]
    return hash_keys(columns, len(table) - start)


def refuse_nulls(source: str, column: str, valid: Array) -> None:
    """Demand that a column has a value in every row.

    Raises:
        InputError: It has none in some.
    """
    if not valid.all():
        row = int(np.argmin(valid)) + 1
        raise InputError(
            f"{source}: {column!r} is null in {np.count_nonzero(~valid):,} of {len(valid):,} "
            f"events, first in event {row:,}; every event needs a time and an id: fill it in, "
            "name other columns, or leave those events out"
        )


def _in_time(seen: DedupState, times: Array, lateness: int) -> tuple[DedupState, Array]:
    """Decide which events of one input are late, where none comes twice."""
    if not len(times):
        return seen, np.zeros(0, np.int8)
    if times[0] >= seen.watermark and is_sorted(times):
        watermark = max(seen.watermark, int(times[-1]) - lateness)
        return replace(seen, watermark=watermark), np.zeros(len(times), np.int8)
    latest = np.maximum.accumulate(times) - lateness
    before = np.concatenate([[seen.watermark], np.maximum(latest[:-1], seen.watermark)])
    fate = np.where(times < before, _LATE, _FINE).astype(np.int8)
    return replace(seen, watermark=max(seen.watermark, int(latest[-1]))), fate


def _are_new(seen: DedupState, times: Array) -> bool:
    """Say whether all timestamps rise, from those of remembered events on."""
    if not len(times) or not is_strictly_sorted(times):
        return False
    return not len(seen.times) or bool(seen.times.max() < times[0])


def _remembering(seen: DedupState, ids: Array, times: Array) -> DedupState:
    """Add ids to those remembered, and leave out those whose duplicates are late now."""
    all_times = np.concatenate([seen.times, times])
    kept = all_times >= seen.watermark
    return replace(seen, ids=np.concatenate([seen.ids, ids])[kept], times=all_times[kept])


def _judged(
    seen: DedupState, times: Array, ids: tuple[Array, Array], lateness: int, remember: int
) -> tuple[DedupState, Array]:
    """Decide what becomes of each event of one input."""
    both = np.concatenate([seen.ids, np.stack(ids, axis=1)])
    all_times = np.concatenate([seen.times, times])
    fate = np.zeros(len(times), np.int8)
    table = np.full(2 << len(all_times).bit_length(), -1, np.int64)
    watermark = _judge(
        both, all_times, len(seen.times), table, fate, seen.watermark, lateness, remember
    )
    kept = np.zeros(len(all_times), np.bool_)
    kept[table[table >= 0]] = True
    kept &= all_times >= watermark - remember
    return replace(seen, watermark=watermark, ids=both[kept], times=all_times[kept]), fate


@compiled
def _judge(  # noqa: PLR0913, PLR0917  # compiled: it gets arrays, no values
    ids: Array,
    times: Array,
    known: int,
    table: Array,
    fate: Array,
    watermark: int,
    lateness: int,
    remember: int,
) -> int:
    """Go through the events in the order of arrival; the table has the last row of each id."""
    mask = table.shape[0] - 1
    for i in range(times.shape[0]):
        if i >= known:
            if times[i] < watermark:
                fate[i - known] = _LATE
                continue
            watermark = max(watermark, times[i] - lateness)
        slot = ids[i, 0] & mask
        while table[slot] >= 0 and not (
            ids[table[slot], 0] == ids[i, 0] and ids[table[slot], 1] == ids[i, 1]
        ):
            slot = (slot + 1) & mask
        if i >= known and table[slot] >= 0 and times[table[slot]] >= watermark - remember:
            fate[i - known] = _DUPLICATE
        else:
            table[slot] = i
    return watermark

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
from shedlight.language.eval.column import data_type_of_arrow, to_column
from shedlight.matching.event_time import TIME_FORMS, read_event_times
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array, compiled
from shedlight.matching.permuted import PermutedTable, is_sorted

NEVER = -(1 << 62)
"""A time before all others: the watermark of an input that has said nothing yet."""
FOREVER = 1 << 62  # a time after all others: the watermark at the end of an input
BEYOND = NEVER - 1
"""The time of an event whose own is too far in the future to count: it is always late."""

TIME, INPUT = "#time", "#input"
"""Columns that are added to those of the events: microseconds, and the number of the input."""

FINE, LATE, DUPLICATE = range(3)
"""What becomes of an arrival."""


@dataclass(frozen=True, slots=True)
class StreamInput:
    """Where events come from.

    Attributes:
        name: What the input is called, for messages.
        ids: The columns that identify an event.
        time: The column of the timestamp.
        lateness: How far behind the largest timestamp an event may be, in microseconds.
        id_has_time: Whether the timestamp is part of the id, so that duplicates have the same.
    """

    name: str
    ids: tuple[str, ...]
    time: str
    lateness: int = 0
    id_has_time: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DedupState:
    """The ids of one input that are remembered: two hashes each, and the event's timestamp."""

    watermark: int = NEVER
    ids: Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    times: Array = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class ReorderBuffer:
    """The events of an operator that are not ready yet, and its deduplication state."""

    buffer: pa.Table  # events that are not ready yet
    dedup: tuple[DedupState, ...]  # per input, its watermark and the ids that are remembered
    watermark: int  # how far events have been given out
    late: tuple[int, ...]  # how many late events there were, per input
    duplicates: tuple[int, ...]  # how many duplicates there were, per input


def new_reorder_buffer(schema: pa.Schema, inputs: int) -> ReorderBuffer:
    """Make the reorder buffer before any event."""
    full = schema.append(pa.field(TIME, pa.int64())).append(pa.field(INPUT, pa.int32()))
    return ReorderBuffer(
        full.empty_table(), (DedupState(),) * inputs, NEVER, (0,) * inputs, (0,) * inputs
    )


def admit_arrivals(
    state: ReorderBuffer,
    inputs: Sequence[StreamInput],
    arrivals: Mapping[int, pa.Table],
    dedup_horizon: int | None,
    inputs_not_awaited: frozenset[int] = frozenset(),
    watermarks: Sequence[int] | None = None,
) -> tuple[ReorderBuffer, PermutedTable, pa.Table]:
    """Take in arrivals; give out what is ready, in order, and what is late.

    Arrivals are by the number of their input, in the order of their arrival. Ids are remembered
    for the horizon, in microseconds; None: it is known that none comes twice. Inputs that are
    not awaited have ended, or are idle and hold nobody back. Watermarks are those of each input
    after these arrivals; None: as they say.

    Raises:
        InputError: A null or missing timestamp or id.
    """
    dedup, late, duplicates = list(state.dedup), list(state.late), list(state.duplicates)
    fresh, left_behind = [state.buffer], []
    for number, table in arrivals.items():
        times = _times(inputs[number], table)
        dedup[number], verdict = _judge(
            dedup[number], inputs[number], table, times, dedup_horizon
        )
        verdict[times < state.watermark] = LATE
        numbers = pa.array(np.full(len(table), number, np.int32))
        full = table.append_column(TIME, pa.array(times)).append_column(INPUT, numbers)
        full = _with_schema(state.buffer.schema, full)
        fresh.append(filter_rows(full, verdict == FINE))
        left_behind.append(filter_rows(full, verdict == LATE))
        late[number] += len(left_behind[-1])
        duplicates[number] += len(full) - len(fresh[-1]) - len(left_behind[-1])
    if watermarks is not None:
        pairs = zip(dedup, watermarks, strict=True)
        dedup = [replace(each, watermark=max(each.watermark, new)) for each, new in pairs]
    awaited = (each.watermark for i, each in enumerate(dedup) if i not in inputs_not_awaited)
    watermark = max(state.watermark, min(awaited, default=FOREVER))
    buffer = _joined(fresh, state.buffer.schema)
    is_ready = buffer[TIME].to_numpy() < watermark
    ready = filter_rows(buffer, is_ready)
    new = ReorderBuffer(
        filter_rows(buffer, ~is_ready), tuple(dedup), watermark, tuple(late), tuple(duplicates)
    )
    late_events = _joined(left_behind, buffer.schema)
    return new, PermutedTable(ready, order_of(ready, inputs)), late_events


def _judge(
    dedup: DedupState, stream: StreamInput, table: pa.Table, times: Array, horizon: int | None
) -> tuple[DedupState, Array]:
    """Decide what becomes of each arrival of one input: fine, late or a duplicate."""
    if horizon is None:
        return _check_lateness(dedup, times, stream.lateness)
    if stream.id_has_time and _are_all_new(dedup, times):
        last = int(np.searchsorted(times, times[-1] - stream.lateness))
        newest = np.stack(_ids(stream, table, last), axis=1)
        dedup, verdict = _check_lateness(dedup, times, stream.lateness)
        return _remember_ids(dedup, newest, times[last:], 0), verdict
    length = 0 if stream.id_has_time else horizon
    if _have_rising_ids(stream, table):
        ids = _ids(stream, table)
        if _are_disjoint(dedup.ids[:, 0], ids[0]):
            dedup, verdict = _check_lateness(dedup, times, stream.lateness)
            fine = verdict == FINE
            fresh = fine & (times >= dedup.watermark - length)
            return _remember_ids(
                dedup, np.stack(ids, axis=1)[fresh], times[fresh], length
            ), verdict
        return _deduplicate(dedup, times, ids, stream.lateness, length)
    return _deduplicate(dedup, times, _ids(stream, table), stream.lateness, length)


def judge_arrivals(stream: StreamInput, table: pa.Table, horizon: int) -> tuple[Array, Array]:
    """Decide what becomes of each arrival of a whole input; give their timestamps, too."""
    times = _times(stream, table)
    return times, _judge(DedupState(), stream, table, times, horizon)[1]


def filter_rows(table: pa.Table, chosen: Array) -> pa.Table:
    """Give some rows of a table; where they are a stretch of it, without a copy."""
    number = int(np.count_nonzero(chosen))
    first = int(np.argmax(chosen)) if number else 0
    if chosen[first : first + number].all():
        return table.slice(first, number)
    return table.filter(pa.array(chosen))


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Put tables one after the other, in one chunk."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return schema.empty_table()
    whole = filled[0] if len(filled) == 1 else pa.concat_tables(filled)
    is_whole = all(column.num_chunks <= 1 for column in whole.columns)
    return whole if is_whole else whole.combine_chunks()


def _with_schema(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Give a table the columns of a schema, in its order."""
    if table.column_names != schema.names:
        table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


def order_of(table: pa.Table, inputs: Sequence[StreamInput]) -> Array | None:
    """Find the order by timestamp, input and id; None if the events are in order already."""
    times, numbers = table[TIME].to_numpy(), table[INPUT].to_numpy()
    if is_sorted(times, 1):
        return None
    order = _by_time_and_input(times, numbers)
    times, numbers = times[order], numbers[order]
    same = (times[1:] == times[:-1]) & (numbers[1:] == numbers[:-1])
    tied = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    for number in np.unique(numbers[tied]):
        positions = np.flatnonzero(tied & (numbers == number))
        rows = order[positions]
        keys = table.select([TIME, *inputs[number].ids]).take(pa.array(rows))
        names = [(name, "ascending") for name in keys.column_names]
        order[positions] = rows[pc.sort_indices(keys, names).to_numpy()]
    return None if (order == np.arange(len(order))).all() else order


def _by_time_and_input(times: Array, numbers: Array) -> Array:
    later = times[1:] > times[:-1]
    if (later | ((times[1:] == times[:-1]) & (numbers[1:] >= numbers[:-1]))).all():
        return np.arange(len(times))
    return np.lexsort((numbers, times))


def _times(stream: StreamInput, table: pa.Table) -> Array:
    try:
        column = read_event_times(table[stream.time])
    except InputError as error:
        raise InputError(f"{stream.name}: the time column {stream.time!r}: {error}") from error
    is_time = column.valid
    if not is_time.all():
        is_time = is_time | (column.values == BEYOND)
    if not is_time.all():
        require_values(stream.name, stream.time, np.asarray(table[stream.time].is_valid()))
        value = table[stream.time][int(np.argmin(is_time))].as_py()
        raise InputError(
            f"{stream.name}: {value!r} in {stream.time!r} is no time, or too far away to be "
            f"one; {TIME_FORMS}"
        )
    return np.ascontiguousarray(column.values)


_ID_TYPES = {
    DataType.BIGINT,
    DataType.STRING,
    DataType.TIMESTAMP,
    DataType.DATE,
    DataType.BOOLEAN,
}


def _ids(stream: StreamInput, table: pa.Table, start: int = 0) -> tuple[Array, Array]:
    """Hash ids, from a row on; all are looked at."""
    for name in stream.ids:
        column, data_type = table[name], data_type_of_arrow(table[name].type)
        if data_type not in _ID_TYPES:
            raise InputError(
                f"{stream.name}: the id column {name!r} has {data_type}; ids are whole "
                "numbers, text, true or false, or timestamps"
            )
        if column.null_count or not pa.types.is_signed_integer(column.type):
            require_values(stream.name, name, to_column(column).valid)
    columns = [to_column(table[name].slice(start)) for name in stream.ids]
    return hash_keys(columns, len(table) - start)


def require_values(source: str, column: str, valid: Array) -> None:
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


def _check_lateness(dedup: DedupState, times: Array, lateness: int) -> tuple[DedupState, Array]:
    """Decide which events of one input are late, where none comes twice."""
    if not len(times):
        return dedup, np.zeros(0, np.int8)
    if times[0] >= dedup.watermark and is_sorted(times):
        watermark = max(dedup.watermark, int(times[-1]) - lateness)
        return replace(dedup, watermark=watermark), np.zeros(len(times), np.int8)
    latest = np.maximum.accumulate(times) - lateness
    before = np.concatenate([[dedup.watermark], np.maximum(latest[:-1], dedup.watermark)])
    verdict = np.where(times < before, LATE, FINE).astype(np.int8)
    return replace(dedup, watermark=max(dedup.watermark, int(latest[-1]))), verdict


def _are_all_new(dedup: DedupState, times: Array) -> bool:
    """Say whether all timestamps rise, from those of remembered events on."""
    if not len(times) or not is_sorted(times, 1):
        return False
    return not len(dedup.times) or bool(dedup.times.max() < times[0])


def _have_rising_ids(stream: StreamInput, table: pa.Table) -> bool:
    """Say whether events are numbered, each higher than the one before: none comes twice."""
    if len(stream.ids) != 1 or not len(table):
        return False
    column = table[stream.ids[0]]
    return (
        pa.types.is_int64(column.type)
        and not column.null_count
        and is_sorted(np.ascontiguousarray(column.to_numpy()), 1)
    )


def _are_disjoint(known: Array, new: Array) -> bool:
    """Say whether no hash is in both: few are left to compare once each has marked a table."""
    few, many = sorted((known, new), key=len)
    marks = np.zeros(min(64 << len(few).bit_length(), 1 << 24), np.bool_)
    marks[few & (len(marks) - 1)] = True
    return not np.isin(many[marks[many & (len(marks) - 1)]], few).any()


def _remember_ids(dedup: DedupState, ids: Array, times: Array, horizon: int) -> DedupState:
    """Add ids to those remembered, and leave out those that no duplicate can come of."""
    all_times = np.concatenate([dedup.times, times])
    kept = all_times >= dedup.watermark - horizon
    return replace(dedup, ids=np.concatenate([dedup.ids, ids])[kept], times=all_times[kept])


def _deduplicate(
    dedup: DedupState, times: Array, ids: tuple[Array, Array], lateness: int, dedup_horizon: int
) -> tuple[DedupState, Array]:
    """Decide what becomes of each event of one input."""
    new_ids = np.stack(ids, axis=1)
    same = _among(dedup.ids, ids[0])  # those that a new event may be a duplicate of
    both = np.concatenate([dedup.ids[same], new_ids])
    both_times = np.concatenate([dedup.times[same], times])
    known = len(both) - len(times)
    verdict = np.zeros(len(times), np.int8)
    table = np.full(2 << len(both).bit_length(), -1, np.int64)
    watermark = _classify_arrivals(
        both, both_times, known, table, verdict, dedup.watermark, lateness, dedup_horizon
    )
    last = np.zeros(len(both), np.bool_)  # of those with one id
    last[table[table >= 0]] = True
    kept = ~same
    kept[same] = last[:known]
    kept &= dedup.times >= watermark - dedup_horizon
    fresh = last[known:] & (times >= watermark - dedup_horizon)
    return replace(
        dedup,
        watermark=watermark,
        ids=np.concatenate([dedup.ids[kept], new_ids[fresh]]),
        times=np.concatenate([dedup.times[kept], times[fresh]]),
    ), verdict


def _among(ids: Array, first: Array) -> Array:
    """Say which ids have the first hash of one of the others, and perhaps some more."""
    marks = np.zeros(8 << len(first).bit_length(), np.bool_)
    marks[first & (len(marks) - 1)] = True
    return marks[ids[:, 0] & (len(marks) - 1)]


@compiled
def _classify_arrivals(  # noqa: PLR0913, PLR0917  # compiled: it gets arrays, no values
    ids: Array,
    times: Array,
    known: int,
    table: Array,
    verdict: Array,
    watermark: int,
    lateness: int,
    dedup_horizon: int,
) -> int:
    """Go through the events in the order of arrival; the table has the last row of each id."""
    mask = table.shape[0] - 1
    for i in range(times.shape[0]):
        if i >= known:
            if times[i] < watermark:
                verdict[i - known] = LATE
                continue
            watermark = max(watermark, times[i] - lateness)
        slot = ids[i, 0] & mask
        while table[slot] >= 0 and not (
            ids[table[slot], 0] == ids[i, 0] and ids[table[slot], 1] == ids[i, 1]
        ):
            slot = (slot + 1) & mask
        if i >= known and table[slot] >= 0 and times[table[slot]] >= watermark - dedup_horizon:
            verdict[i - known] = DUPLICATE
        else:
            table[slot] = i
    return watermark

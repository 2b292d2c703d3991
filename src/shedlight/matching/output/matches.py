"""Events that are numbered through: stored ones, then new ones.

Matches are made of both. Few events are stored and many are new, so to put them together would
copy all that are new; plain values of 64 bits are taken from where they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.eval.column import to_one_chunk
from shedlight.matching.jit import Array, compiled

_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Plain:
    """Values of 64 bits without a null, as whole numbers: of stored and of new events."""

    stored: Array
    new: Array

    def take(self, rows: Array) -> Array:
        values = np.empty(len(rows), np.int64)
        _gather(self.stored, self.new, rows, values)
        return values


@dataclass(frozen=True, eq=False)
class EventView:
    """Events that are numbered through; see `view_events`."""

    stored: pa.Table  # those that were stored
    new: pa.Table  # new ones, which have the same columns

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""
        return self.stored.schema

    @cached_property
    def _columns(self) -> dict[str, _Plain | pa.Array]:
        return {}

    def _column(self, name: str) -> _Plain | pa.Array:
        """Give what is in a column; most are never asked for."""
        if name not in self._columns:
            self._columns[name] = _joined_column(self.stored[name], self.new[name])
        return self._columns[name]

    def numbers(self, name: str, rows: Array) -> Array | None:
        """Take rows of a column of whole numbers without a null; None if it is none."""
        column = self._column(name)
        if isinstance(column, _Plain) and pa.types.is_int64(self.schema.field(name).type):
            return column.take(rows)
        return None

    def take(
        self, rows: Array, names: Sequence[str] | None = None, missing: Array | None = None
    ) -> pa.Table:
        """Take rows of some columns (None: all), null where they are said to be missing."""
        names = self.schema.names if names is None else list(names)
        schema = pa.schema([self.schema.field(name) for name in names])
        if missing is not None and missing.all():
            return pa.table([pa.nulls(len(rows), field.type) for field in schema], schema)
        positions = pa.array(rows, mask=missing)
        return pa.table([self._taken(field, rows, positions) for field in schema], schema)

    def _taken(self, field: pa.Field, rows: Array, positions: pa.Array) -> pa.Array:
        """Take rows; of a struct that is null in all of them, nothing is looked at.

        That is what an operator of several inputs has: the structs of all, and each event has
        one.
        """
        column = self._column(field.name)
        if isinstance(column, _Plain):
            values = column.take(rows)
            mask = np.asarray(positions.is_null()) if positions.null_count else None
            return pa.array(values, mask=mask).view(field.type)
        if pa.types.is_struct(field.type) and not _any_valid(column, positions):
            return pa.nulls(len(positions), field.type)
        return column.take(positions)


def _any_valid(column: pa.Array, positions: pa.Array) -> bool:
    if not column.null_count:
        return True
    return bool(pc.any(column.is_valid().take(positions)).as_py())


def view_events(store: pa.Table, batch: pa.Table) -> EventView:
    """Number events through: those that were stored, then new ones of the same columns."""
    return EventView(store, batch)


def _joined_column(stored: pa.ChunkedArray, new: pa.ChunkedArray) -> _Plain | pa.Array:
    if new.type != stored.type:
        new = new.cast(stored.type)
    if _is_plain(stored) and _is_plain(new):
        return _Plain(_as_whole(stored), _as_whole(new))
    if not len(stored):
        return to_one_chunk(new)
    return pa.chunked_array([*stored.chunks, *new.chunks]).combine_chunks()


def _is_plain(column: pa.ChunkedArray) -> bool:
    kind = column.type
    return pa.types.is_primitive(kind) and kind.bit_width == _BITS and not column.null_count


def _as_whole(column: pa.ChunkedArray) -> Array:
    return np.asarray(to_one_chunk(column).view(pa.int64()).to_numpy())


@compiled
def _gather(stored: Array, new: Array, rows: Array, values: Array) -> None:
    size = stored.shape[0]
    for i in range(values.shape[0]):
        row = rows[i]
        values[i] = stored[row] if row < size else new[row - size]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of one pattern in the order in which they were found."""

    time: Array  # timestamp of each match, in microseconds
    start: Array  # timestamp of its first event
    key: Array  # the first hash of its key; 0 without one
    ends: Array  # where the events of each match end among all events
    table: EventView  # the events that there were, stored ones first
    rows: Array  # the rows of the table that are in matches, match by match in the order taken
    elements: Array  # the element that took each of these events
    timed_out: "Matches | None" = None  # partial matches as they were opened; None: not asked

    def __len__(self) -> int:
        return len(self.time)

    def events(self, names: Sequence[str]) -> pa.Table:
        """Give some columns of the events of all matches, in the order of `rows`."""
        return self.table.take(self.rows, names)


def no_matches(schema: pa.Schema) -> Matches:
    """Give no matches, of events of these columns."""
    none = np.zeros(0, np.int64)
    table = view_events(schema.empty_table(), schema.empty_table())
    elements = np.zeros(0, np.int16)
    return Matches(none, none, none, none, table, none, elements)


def merge_matches(parts: Sequence[Matches]) -> Matches:
    """Put the matches of several patterns in one batch one after the other.

    What is stored for the patterns has the same columns, and new events are the same ones.
    """
    stored = np.array([len(part.table.stored) for part in parts])
    before = np.cumsum(stored) - stored
    sizes = [len(part.rows) for part in parts]
    rows = np.concatenate([part.rows for part in parts])
    own, others = np.repeat(stored, sizes), np.repeat(before, sizes)
    rows = np.where(rows < own, rows + others, rows - own + int(stored.sum()))
    ends = np.concatenate([part.ends for part in parts])
    ends = ends + np.repeat(np.cumsum(sizes) - sizes, [len(part) for part in parts])
    filled = [part.table for part in parts if len(part.rows)] or [parts[0].table]
    stores = [part.table.stored for part in parts if len(part.table.stored)]
    store = pa.concat_tables(stores or [filled[0].stored])
    return Matches(
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.key for part in parts]),
        ends,
        view_events(store, filled[0].new),
        rows,
        np.concatenate([part.elements for part in parts]),
    )

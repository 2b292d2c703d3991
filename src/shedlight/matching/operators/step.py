"""The matching itself: a batch of ready events and a state give matches and a new state.

There is no other implementation of matching but the slow reference in the tests. Cutting a
stream into other batches gives the same matches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shedlight.language.ast.expression import Attribute
from shedlight.matching.compile.dfa import DfaTables, Symbol, with_symbols
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array, compiled
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.driver import FifoRun, ScanRun
from shedlight.matching.kernel.match_state import MatchState, due_time
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings
from shedlight.matching.kernel.tables import Events
from shedlight.matching.operators.classify import EventTypes, count_numbers
from shedlight.matching.output.matches import Matches, view_events
from shedlight.matching.permuted import PermutedTable, row_column


@dataclass(frozen=True, slots=True, eq=False)
class ReadyBatch:
    """Events in the order in which they are processed."""

    time: Array  # their timestamps, in microseconds
    table: PermutedTable  # their columns, in order
    types: EventTypes  # all types so far
    numbers: Array  # the type of each event
    # the two hashes of the key of each event, by what is partitioned by
    keys: Mapping[tuple[Attribute, ...], tuple[Array, Array]]
    watermark: int  # every event before this time has been seen
    # the number of the input that each event came by; empty if nobody asks
    inputs: Array = field(default_factory=lambda: np.zeros(0, np.int32))

    def between(self, low: int, high: int, watermark: int) -> "ReadyBatch":
        """Give the events from one position to another, as a batch of its own."""
        here = slice(low, high)
        return ReadyBatch(
            self.time[here],
            self.table.between(low, high),
            self.types,
            self.numbers[here],
            {by: (first[here], second[here]) for by, (first, second) in self.keys.items()},
            watermark,
            self.inputs[here],
        )

    def select(self, positions: Array) -> "ReadyBatch":
        """Give the events at some positions, which rise, as a batch of its own."""
        rows = pa.array(self.table.rows(positions))
        return ReadyBatch(
            self.time[positions],
            PermutedTable(self.table.table.take(rows)),
            self.types,
            self.numbers[positions],
            {by: (a[positions], b[positions]) for by, (a, b) in self.keys.items()},
            self.watermark,
            self.inputs[positions],
        )


@dataclass(frozen=True, slots=True)
class PartialMatchCounts:
    """Counts since the beginning."""

    open: int  # partial matches that are open now
    expired: int  # partial matches that the window closed without a match
    evicted: int  # partial matches that the cap closed
    dropped: int  # bindings of a partial match beyond the cap on them
    cancelled: int  # partial matches that were cancelled by key


def count_partial_matches(state: MatchState) -> PartialMatchCounts:
    """Count what is open and what was closed."""
    counts = state.records.counts
    fields = (rec.OPEN, rec.EXPIRED, rec.EVICTED, rec.DROPPED, rec.CANCELLED)
    return PartialMatchCounts(*(int(counts[i]) for i in fields))


NO_KEYS = (np.zeros(0, np.int64), np.zeros(0, np.int64))
"""The hashes of the keys of events where there are no keys."""


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """What one pattern gets to see of a batch: all events, or those that it can use."""

    time: Array  # their timestamps, in microseconds
    numbers: Array  # a number for each, which says what it is to the pattern
    symbols: Mapping[int, Symbol]  # what a number says; events of others are of no use to it
    size: int  # all numbers are below it
    keys: tuple[
        Array, Array
    ]  # the two hashes of the key of each; empty where there are no keys
    table: PermutedTable  # their columns, in order
    watermark: int  # every event before this time has been seen


def offer_all(matcher: Matcher, ready: ReadyBatch, kept: Array | None = None) -> Offered:
    """Offer a pattern all events; those that are not kept (None: all are) are of no use."""
    signatures, numbers = ready.types.signatures, ready.numbers
    occurring = np.flatnonzero(count_numbers(numbers, len(signatures))).tolist()
    if kept is not None:
        numbers = np.where(kept, numbers, np.int32(len(signatures)))
    symbols = {number: matcher.symbol(signatures[number]) for number in occurring}
    keys = ready.keys.get(matcher.pattern.partition_by, NO_KEYS)
    size = len(signatures) + 1
    return Offered(ready.time, numbers, symbols, size, keys, ready.table, ready.watermark)


def match(
    matcher: Matcher, state: MatchState, ready: ReadyBatch, kept: Array | None = None
) -> tuple[MatchState, Matches]:
    """Offer a batch of ready events to the partial matches, oldest partial match first.

    No argument is changed; cutting the stream into other batches gives the same matches. The
    pattern gets to see the events that are kept (None: all).
    """
    return match_offered(matcher, state, offer_all(matcher, ready, kept))


def match_offered(
    matcher: Matcher, state: MatchState, offered: Offered
) -> tuple[MatchState, Matches]:
    """Match what a pattern gets to see; see `match`."""
    tables, symbols = _symbols(matcher, state.tables, offered)
    hash1, hash2, without_key = _keys_of(matcher, state, offered)
    stored = len(state.store)
    time = offered.time.view()
    time.flags.writeable = False  # one data type, so that the kernels are compiled once
    events = Events(time, offered.numbers, symbols, hash1, hash2, stored)
    batch = PermutedTable(
        offered.table.table.select(matcher.store_schema.names), offered.table.order
    )
    run: FifoRun | ScanRun
    if matcher.scans:
        started = replace(state, tables=tables)
        run = ScanRun(matcher, started, _cells_of(matcher, state.store, batch))
    else:
        run = FifoRun(matcher, state, tables)
    run.advance(events, offered.watermark)
    run.records.counts[rec.WITHOUT_KEY] += without_key
    found, rows, elements, incomplete = run.collector.all()
    if matcher.implicit_key is not None:
        found[rec.KEY] = 0  # it is nobody's key but ours
    nothing = state.store.slice(0, 0)  # without matches nobody looks at events
    table = view_events(*((state.store, batch.table) if len(rows) else (nothing, nothing)))
    rows = _rows_of(rows, stored, batch)
    matches = Matches(
        found[rec.TIME], found[rec.START], found[rec.KEY], found[rec.END], table, rows, elements
    )
    if matcher.timed_out:
        timed_out = select_matches(matches, incomplete)
        matches = replace(select_matches(matches, ~incomplete), timed_out=timed_out)
    bindings, store = _compact_store(run.records, run.bindings, state.store, batch)
    due = due_time(matcher, run.records)
    after = MatchState(
        run.tables, run.records, run.queues, bindings, store, due=due, index=run.index
    )
    return after, matches


_MAX_CHUNKS = 64


def _symbols(matcher: Matcher, tables: DfaTables, offered: Offered) -> tuple[DfaTables, Array]:
    """Find the number of the symbol of every number, with larger tables if one is new."""
    symbols = offered.symbols
    if not set(symbols.values()) <= set(tables.symbols):
        tables = with_symbols(matcher.automaton, tables, symbols.values())
    numbers = {symbol: i for i, symbol in enumerate(tables.symbols)}
    found = np.zeros(offered.size, np.int32)
    found[list(symbols)] = [numbers[symbol] for symbol in symbols.values()]
    return tables, found


def _keys_of(matcher: Matcher, state: MatchState, offered: Offered) -> tuple[Array, Array, int]:
    """Give the hashes of the keys of events, and how many have no value for an implicit key.

    Each of these has a key of its own: null is not equal to null.
    """
    if matcher.implicit_key is None:
        return (*offered.keys, 0)
    column = row_column(offered.table, matcher.implicit_key.attribute)
    hash1, hash2 = hash_keys([column], len(column))
    nulls = ~column.valid
    number = int(np.count_nonzero(nulls))
    if number:
        first = int(state.records.counts[rec.WITHOUT_KEY]) + 1
        hash1[nulls] = np.arange(first, first + number) * _SPREAD
        hash2[nulls] = _OWN_KEY
    return hash1, hash2, number


_SPREAD = np.int64(-7046029254386353131)  # odd, so no two numbers become one
_OWN_KEY = 0x6F776E


def select_matches(matches: Matches, chosen: Array) -> Matches:
    """Choose some of the matches."""
    sizes = np.diff(matches.ends, prepend=0)
    taken = np.repeat(chosen, sizes)
    ends = np.cumsum(sizes[chosen])
    rows, elements = matches.rows[taken], matches.elements[taken]
    return Matches(
        matches.time[chosen],
        matches.start[chosen],
        matches.key[chosen],
        ends,
        matches.table,
        rows,
        elements,
    )


def _cells_of(matcher: Matcher, store: pa.Table, batch: PermutedTable) -> pa.Table:
    """Give what conditions across events ask for, of stored events and then of new ones."""
    names = [name for name in matcher.store_schema.names if name in matcher.programs.columns]
    if not names:  # of their number at least
        names = matcher.store_schema.names[:1]
    return _joined(store.select(names), batch.select(names))


def _rows_of(numbers: Array, stored: int, batch: PermutedTable) -> Array:
    """Find the rows of events that are numbered through, stored ones first."""
    rows = numbers.astype(np.int64)
    if batch.order is None:
        return rows
    new = rows >= stored
    rows[new] = stored + batch.order[rows[new] - stored]
    return rows


def _joined(store: pa.Table, batch: pa.Table) -> pa.Table:
    return pa.concat_tables([store, batch.cast(store.schema)]) if len(store) else batch


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table if table.schema.equals(schema) else table.cast(schema)


def _taken(table: pa.Table, rows: Array) -> pa.Table:
    return table.take(pa.array(rows)) if len(rows) else table.schema.empty_table()


def _compact_store(
    records: PartialMatchRecords, bindings: Bindings, store: pa.Table, batch: PermutedTable
) -> tuple[Bindings, pa.Table]:
    """Keep the events that partial matches have taken; the rest is given up in time."""
    old = len(store)
    if not records.counts[rec.USED_NODES]:
        return bindings, store.schema.empty_table() if old else store
    used = _rows_in_use(records, old + len(batch))
    before = int(np.searchsorted(used, old))
    new_rows = used[before:]
    if before * 2 + 4096 >= old:
        used = np.concatenate([np.arange(old), new_rows])
    else:
        store = _taken(store, used[:before])
    new = store
    if len(new_rows):
        fresh = _with_schema(_taken(batch.table, batch.rows(new_rows - old)), store.schema)
        new = pa.concat_tables([store, fresh]) if len(store) else fresh
    numbers = np.zeros(old + len(batch), np.int32)  # of which few pages are touched
    numbers[used] = np.arange(len(used), dtype=np.int32)
    _rename_rows(records.nodes, records.counts[rec.NODES], numbers)
    bound = bindings.bound
    if len(bound) and len(used):
        renamed = numbers[np.minimum(bound, len(numbers) - 1)]  # of free ones it may be any row
        bound = np.where(bound >= 0, renamed, np.int32(NONE))
    if new.num_columns and new.column(0).num_chunks > _MAX_CHUNKS:
        new = new.combine_chunks()
    return bindings._replace(bound=bound), new


def _rows_in_use(records: PartialMatchRecords, size: int) -> Array:
    """List the rows that partial matches have taken, in order."""
    if records.counts[rec.USED_NODES] * 8 < size:
        rows = records.nodes["row"][: records.counts[rec.NODES]]
        return np.unique(rows[rows >= 0])
    used = np.zeros(size, np.bool_)
    _mark_rows(records.nodes, records.counts[rec.NODES], used)
    return np.flatnonzero(used)


@compiled
def _mark_rows(nodes: Array, size: int, used: Array) -> None:
    for i in range(size):
        if nodes[i].row >= 0:
            used[nodes[i].row] = True


@compiled
def _rename_rows(nodes: Array, size: int, numbers: Array) -> None:
    """Give rows their new numbers."""
    for i in range(size):
        if nodes[i].row >= 0:
            nodes[i].row = numbers[nodes[i].row]

"""The matching itself: a batch of ready events and a state give matches and a new state.

There is no other implementation of matching but the slow reference in the tests. Cutting a
stream into other batches gives the same matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.automaton.assignment import Paths, paths, settle
from shedlight.automaton.compiled import compiled
from shedlight.automaton.hashing import text_buffers
from shedlight.automaton.matcher import Matcher
from shedlight.automaton.pools import (
    COMPLETED,
    DROPPED,
    ELEMENT,
    END,
    EVICTED,
    EXPIRED,
    FORBIDDEN,
    KEYS,
    LONGEST,
    MATCHES,
    NODES,
    NONE,
    OPEN,
    OUT,
    ROW,
    TIME,
    USED_NODES,
    USED_THREADS,
    Array,
    Output,
    Pools,
)
from shedlight.automaton.programs import Cells, code_arrays
from shedlight.automaton.queues import Events, Queues, Rules, end_windows, run_queues
from shedlight.automaton.scan import (
    MOST_THREADS,
    Scan,
    Terms,
    Threads,
    end_windows_scan,
    run_scan,
)
from shedlight.automaton.signature import Types
from shedlight.automaton.state import MatchState, enlarged, widened, with_blocks
from shedlight.automaton.subsets import SPOILS, Tables, build_tables
from shedlight.language.column import TEXT, Column, column_of
from shedlight.language.columns import evaluate
from shedlight.language.expression import Attribute, Expression
from shedlight.language.kind import Kind
from shedlight.language.pattern import Span


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """Events in the order in which they are processed.

    Attributes:
        time: Their timestamps, in microseconds.
        table: Their columns.
        types: All types so far.
        numbers: The type of each event.
        keys: The two hashes of the key of each event, by what is partitioned by.
        frontier: Every event before this time has been seen.
    """

    time: Array
    table: pa.Table
    types: Types
    numbers: Array
    keys: Mapping[tuple[Attribute, ...], tuple[Array, Array]]
    frontier: int


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of one pattern in the order in which they were found.

    Attributes:
        time: Timestamp of each match, in microseconds.
        ends: Where the events of each match end among all events.
        table: The events that there were.
        rows: The rows of the table that are in matches, match by match in the order taken.
        elements: The element that took each of these events.
        completed: The row of the completing event in its batch; NONE at the end of a window.
    """

    time: Array
    ends: Array
    table: pa.Table
    rows: Array
    elements: Array
    completed: Array

    def __len__(self) -> int:
        return len(self.time)

    def events(self, names: Sequence[str]) -> pa.Table:
        """Give some columns of the events of all matches, in the order of `rows`."""
        return _taken(self.table.select(list(names)), self.rows)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since the beginning.

    Attributes:
        open: Machines that are open now.
        expired: Machines that the window closed without a match.
        evicted: Machines that the cap closed.
        dropped: Assignments of a machine beyond the cap on them.
    """

    open: int
    expired: int
    evicted: int
    dropped: int


def tally(state: MatchState) -> Tally:
    """Count what is open and what was closed."""
    counts = state.pools.counts
    return Tally(*(int(counts[i]) for i in (OPEN, EXPIRED, EVICTED, DROPPED)))


def match(matcher: Matcher, state: MatchState, ready: Ready) -> tuple[MatchState, Matches]:
    """Offer a batch of ready events to the open machines, oldest machine first.

    Neither argument is changed; cutting the stream into other batches gives the same matches.
    """
    tables, symbols = _symbols(matcher, state.tables, ready.types)
    hash1, hash2 = ready.keys.get(matcher.pattern.partition_by, _NO_KEYS)
    stored = len(state.store)
    events = Events(ready.time, symbols[ready.numbers], hash1, hash2, stored)
    kernel = _ByScan if matcher.pattern.conditions else _ByQueues
    run = kernel(matcher, replace(state, tables=tables), ready)
    run.process(events, ready.frontier)
    output, pools = run.output, run.pools
    table = _joined(state.store, ready.table.select(matcher.store_schema.names))
    found = _matches(pools, output, table, stored)
    threads, store = _kept_events(pools, run.threads, state.store, table)
    return MatchState(tables, pools, run.waiting, threads, store), found


_MOST_CHUNKS = 64
_NO_KEYS = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _symbols(matcher: Matcher, tables: Tables, types: Types) -> tuple[Tables, Array]:
    """Find the symbol of every type, with larger tables if one is new."""
    symbols = [matcher.symbol(signature) for signature in types.signatures]
    if not set(symbols) <= set(tables.symbols):
        tables = build_tables(matcher.automaton, (*tables.symbols, *symbols), tables.subsets)
    numbers = {symbol: i for i, symbol in enumerate(tables.symbols)}
    return tables, np.array([numbers[symbol] for symbol in symbols], np.int32)


class _ByQueues:
    """A run of the queue kernel on copies of a state's arrays, which grow as needed."""

    def __init__(self, matcher: Matcher, state: MatchState, ready: Ready) -> None:
        pattern = matcher.pattern
        self.keyed = bool(pattern.partition_by)
        self.matcher, self.tables = matcher, state.tables
        self.pools = Pools(*(array.copy() for array in state.pools))
        self.pools.counts[[MATCHES, OUT]] = 0
        self.waiting = widened(
            Queues(*(array.copy() for array in state.waiting)), state.tables, 0
        )
        self.threads = state.threads
        self.output = _new_output(len(ready.time))
        tables = self.tables
        self.rules = Rules(
            tables.moves,
            tables.facts,
            tables.signs,
            tables.bits,
            len(matcher.automaton.lanes),
            *_settings(matcher),
        )

    def process(self, events: Events, frontier: int) -> None:
        """Take all events, then end what the frontier has passed."""
        done = 0
        while done < len(events.time):
            self._grow()
            done = run_queues(self.pools, self.waiting, self.rules, self.output, events, done)
        while not end_windows(self.pools, self.waiting, self.rules, self.output, frontier):
            self._grow()
        settle(
            paths(self.matcher.automaton, self.tables), self.output, self.pools.counts[MATCHES]
        )

    def _grow(self) -> None:
        counts = self.pools.counts
        takers = 1
        if self.matcher.pattern.reuse or self.tables.signs[SPOILS].any():
            takers += int(counts[OPEN])
        self.pools, self.output = _grown(self.pools, self.output, takers, keyed=self.keyed)
        machines = len(self.pools.machines)
        self.waiting = widened(
            self.waiting._replace(
                links=enlarged(self.waiting.links, machines),
                moving=enlarged(self.waiting.moving, machines),
            ),
            self.tables,
            len(self.pools.blocks),
        )


class _ByScan:
    """A run of the scan kernel on copies of a state's arrays, which grow as needed."""

    def __init__(self, matcher: Matcher, state: MatchState, ready: Ready) -> None:
        self.keyed = bool(matcher.pattern.partition_by)
        self.matcher, self.tables, self.waiting = matcher, state.tables, state.waiting
        self.pools = Pools(*(array.copy() for array in state.pools))
        self.pools.counts[[MATCHES, OUT]] = 0
        self.threads = Threads(*(array.copy() for array in state.threads))
        self.output = _new_output(len(ready.time))
        self.path = paths(matcher.automaton, state.tables)
        self.terms = _terms(matcher, self.path)
        self.code = code_arrays(matcher.programs, len(matcher.automaton.elements))
        self.cells = _cells(matcher, state.store, ready.table)

    def process(self, events: Events, frontier: int) -> None:
        """Take all events, then end what the frontier has passed."""
        done = 0
        while done < len(events.time):
            self._grow()
            done = run_scan(self._scan(), events, done)
        while not end_windows_scan(self._scan(), frontier):
            self._grow()

    def _scan(self) -> Scan:
        return Scan(
            self.pools, self.threads, self.path, self.terms, self.code, self.cells, self.output
        )

    def _grow(self) -> None:
        counts = self.pools.counts
        most, takers = MOST_THREADS * (self.terms.fan + 1), 1
        if self.terms.reuse or self.terms.forbids.any():
            most += int(counts[USED_THREADS]) * (self.terms.fan + 1)
            takers += int(counts[OPEN])
        self.pools, self.output = _grown(self.pools, self.output, takers, keyed=self.keyed)
        nodes = _room(len(self.pools.nodes), int(counts[USED_NODES]) + most)
        threads = _room(len(self.threads.threads), int(counts[USED_THREADS]) + most)
        self.pools = self.pools._replace(nodes=enlarged(self.pools.nodes, nodes))
        self.threads = Threads(*(enlarged(array, threads) for array in self.threads))


def _settings(matcher: Matcher) -> tuple[int, int, bool, bool, int]:
    """Give the window in microseconds and in events, the policy, absence and the cap."""
    window = matcher.pattern.within
    by_time = window is not None and window.span is Span.TIME
    by_count = window is not None and window.span is Span.EVENTS
    return (
        window.length if window and by_time else NONE,
        window.length if window and by_count else NONE,
        matcher.pattern.reuse,
        matcher.automaton.absence,
        matcher.cap,
    )


def _terms(matcher: Matcher, path: Paths) -> Terms:
    states = matcher.automaton.lanes[0]
    edges = [len(state.edges) for state in states]
    lefts = [len(left) for state in states for _, left in state.nots]
    needs = code_arrays(matcher.programs, len(matcher.automaton.elements)).needs
    return Terms(
        np.asarray((path.wants & path.is_not).any(axis=1)),
        np.asarray(needs.any(axis=0)),
        np.cumsum([len(checks) for checks in matcher.triggers], dtype=np.int32),
        np.array([check for checks in matcher.triggers for check in checks], np.int32),
        *_settings(matcher),
        max(edges + lefts),
    )


def _cells(matcher: Matcher, store: pa.Table, batch: pa.Table) -> Cells:
    """Compute the cells of all events at hand, stored ones first."""
    programs = matcher.programs
    table = _joined(store, batch.select(matcher.store_schema.names))
    rows = len(table)
    numbers = np.zeros((rows, len(programs.cells)), np.int64)
    decimals = numbers.view(np.float64)
    nulls = np.ones(numbers.shape, np.bool_)
    texts = [pa.array(programs.texts, TEXT)]
    handles = len(programs.texts)
    for i, cell in enumerate(programs.cells):
        column = evaluate(cell, rows, lambda node: row_column(table, node))
        nulls[:, i] = ~column.valid
        if column.kind is Kind.STRING:
            numbers[:, i] = np.arange(handles, handles + rows)
            handles += rows
            texts.append(pa.array(column.values, TEXT))
        elif column.kind is Kind.DOUBLE:
            decimals[:, i] = column.values
        elif column.kind is not Kind.NULL:
            numbers[:, i] = column.values
    offsets, characters = text_buffers(pa.concat_arrays(texts))
    return Cells(numbers, decimals, nulls, offsets, characters)


def row_column(table: pa.Table, node: Expression) -> Column:
    """Find the column of an attribute of the row at hand."""
    if not isinstance(node, Attribute):
        raise TypeError(f"not an attribute: {node}")
    column = table.column(node.path[0])
    for field in node.path[1:]:
        column = pa.chunked_array(
            [pc.struct_field(chunk, field) for chunk in column.chunks],
            column.type.field(field).type,
        )
    return column_of(column)


def _joined(store: pa.Table, batch: pa.Table) -> pa.Table:
    return pa.concat_tables([store, batch.cast(store.schema)]) if len(store) else batch


def _new_output(events: int) -> Output:
    matches, nodes = 64 + events // 4, 256 + events
    return Output(np.empty((3, matches), np.int64), np.empty((3, nodes), np.int32))


def _room(now: int, needed: int) -> int:
    """Find a size that holds what is needed: what is there, or at least twice that."""
    return now if needed <= now else max(needed, 2 * now)


def _grown(pools: Pools, output: Output, takers: int, *, keyed: bool) -> tuple[Pools, Output]:
    """Make room for one more event that `takers` machines may take."""
    counts = pools.counts
    machines = _room(len(pools.machines), int(counts[OPEN]) + 1)
    nodes = _room(len(pools.nodes), int(counts[USED_NODES]) + takers)
    blocks = _room(len(pools.blocks), int(counts[KEYS]) + 1) if keyed else 2
    matches = _room(output.matches.shape[1], int(counts[MATCHES]) + takers)
    chain = int(counts[LONGEST]) + 3
    rows = _room(output.chains.shape[1], int(counts[OUT]) + takers * chain)
    pools = pools._replace(
        machines=enlarged(pools.machines, machines), nodes=enlarged(pools.nodes, nodes)
    )
    if blocks > len(pools.blocks):
        pools = with_blocks(pools, blocks)
    return pools, Output(_longer(output.matches, matches), _longer(output.chains, rows))


def _longer(array: Array, size: int) -> Array:
    if size <= array.shape[1]:
        return array
    longer = np.empty((len(array), size), array.dtype)
    longer[:, : array.shape[1]] = array
    return longer


def _matches(pools: Pools, output: Output, table: pa.Table, stored: int) -> Matches:
    """Read the matches out of what a kernel wrote."""
    number, size = int(pools.counts[MATCHES]), int(pools.counts[OUT])
    rows, ends = output.chains[ROW, :size], output.matches[END, :number]
    taken = rows != FORBIDDEN
    if not taken.all():
        ends = np.concatenate([[0], np.cumsum(taken)])[ends]
    completed = output.matches[COMPLETED, :number]
    return Matches(
        output.matches[TIME, :number].copy(),
        ends.copy(),
        table,
        rows[taken],
        output.chains[ELEMENT, :size][taken],
        np.where(completed == NONE, NONE, completed - stored),
    )


def _taken(table: pa.Table, rows: Array) -> pa.Table:
    return table.take(pa.array(rows)) if len(rows) else table.schema.empty_table()


def _kept_events(
    pools: Pools, threads: Threads, store: pa.Table, table: pa.Table
) -> tuple[Threads, pa.Table]:
    """Keep the events that open machines have taken; the rest is given up in time."""
    used = _rows_in_use(pools, len(table))
    old = len(store)
    if np.searchsorted(used, old) * 2 + 4096 >= old:
        used = np.concatenate([np.arange(old), used[np.searchsorted(used, old) :]])
        fresh = _taken(table, used[old:]).cast(store.schema)
        new = pa.concat_tables([store, fresh]) if old else fresh
    else:
        new = _taken(table, used).cast(store.schema)
    _rename_rows(pools.nodes, pools.counts[NODES], used)
    bound = threads.bound
    if len(bound) and len(used):
        places = np.minimum(np.searchsorted(used, bound), len(used) - 1)
        bound = np.where(bound >= 0, places, NONE).astype(np.int32)
    if new.num_columns and new.column(0).num_chunks > _MOST_CHUNKS:
        new = new.combine_chunks()
    return threads._replace(bound=bound), new


def _rows_in_use(pools: Pools, size: int) -> Array:
    """List the rows that open machines have taken, in order."""
    if pools.counts[USED_NODES] * 8 < size:
        rows = pools.nodes["row"][: pools.counts[NODES]]
        return np.unique(rows[rows >= 0])
    used = np.zeros(size, np.bool_)
    _mark_rows(pools.nodes, pools.counts[NODES], used)
    return np.flatnonzero(used)


@compiled
def _mark_rows(nodes: Array, size: int, used: Array) -> None:
    for i in range(size):
        if nodes[i].row >= 0:
            used[nodes[i].row] = True


@compiled
def _rename_rows(nodes: Array, size: int, used: Array) -> None:
    """Give rows their new numbers: their places in the list of those in use."""
    for i in range(size):
        row = nodes[i].row
        if row >= 0:
            nodes[i].row = np.searchsorted(used, row)

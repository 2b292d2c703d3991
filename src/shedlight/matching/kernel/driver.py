"""A kernel run over a batch: copies of a state's arrays that grow, matches that are gathered.

A kernel stops when an array is too small for the next event. Then the matches so far are taken
out of its output, what is too small is made larger, and it goes on where it stopped.
"""

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.pattern import WindowUnit, negated_elements
from shedlight.language.eval.column import TEXT
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.compile.dfa import KNOWN, SPOILS, DfaTables, explored
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.hashing import text_buffers
from shedlight.matching.jit import Array
from shedlight.matching.kernel.bind import bind_elements, paths
from shedlight.matching.kernel.fifo import run_queues
from shedlight.matching.kernel.guard_vm import Cells, code_arrays
from shedlight.matching.kernel.match_state import MatchState, enlarged, widened, with_blocks
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import (
    BLOCKS,
    END,
    FORBIDDEN,
    KEYS,
    LONGEST,
    MATCHES,
    NONE,
    OPEN,
    OUT,
    USED_NODES,
    USED_THREADS,
    WANTED,
    Output,
    PartialMatchRecords,
)
from shedlight.matching.kernel.scan import Scan, ScanSettings, run_scan
from shedlight.matching.kernel.scan_bindings import MOST_THREADS, Bindings
from shedlight.matching.kernel.scan_tables import FORBIDS, moves
from shedlight.matching.kernel.tables import Events, KernelTables
from shedlight.matching.permuted import row_column

_MATCHES, _NODES = 1 << 14, 1 << 16


class MatchCollector:
    """The matches of a run, taken out of a kernel's output part by part."""

    def __init__(self, *, has_nots: bool, timed_out: bool) -> None:
        self._has_nots, self._timed_out = has_nots, timed_out
        self._matches: list[Array] = []
        self._rows: list[Array] = []
        self._elements: list[Array] = []
        self._incomplete: list[Array] = []
        self._size = 0

    def take(self, pools: PartialMatchRecords, output: Output, *, last: bool) -> None:
        """Take the matches out of an output; the last one is not used again, so not copied."""
        number, size = int(pools.counts[MATCHES]), int(pools.counts[OUT])
        parts = (output.matches[:, :number], output.rows[:size], output.elements[:size])
        matches, rows, elements = parts if last else (part.copy() for part in parts)
        if self._timed_out:
            incomplete = matches[END] < 0
            matches[END, incomplete] = ~matches[END, incomplete]
            self._incomplete.append(incomplete)
        if self._has_nots:
            taken = rows != FORBIDDEN
            matches[END] = np.concatenate([[0], np.cumsum(taken)])[matches[END]]
            rows, elements = rows[taken], elements[taken]
        matches[END] += self._size
        self._size += len(rows)
        self._matches.append(matches)
        self._rows.append(rows)
        self._elements.append(elements)
        pools.counts[[MATCHES, OUT]] = 0

    def all(self) -> tuple[Array, Array, Array]:
        """Give the matches, and the rows and elements of their events."""
        if len(self._matches) == 1:
            return self._matches[0], self._rows[0], self._elements[0]
        return (
            np.concatenate(self._matches, axis=1),
            np.concatenate(self._rows),
            np.concatenate(self._elements),
        )

    def incomplete(self) -> Array:
        """Say which of them are none, but machines that timed out; empty if nobody asked."""
        return np.concatenate([np.zeros(0, np.bool_), *self._incomplete])


class QueueRun:
    """A run of the queue kernel."""

    def __init__(self, matcher: Matcher, state: MatchState) -> None:
        self.matcher, self.tables, self.threads = matcher, state.tables, state.threads
        self.pools = PartialMatchRecords(*(array.copy() for array in state.pools))
        waiting = Queues(*(array.copy() for array in state.waiting))
        self.waiting = widened(waiting, state.tables, 0)
        has_nots = bool(negated_elements(matcher.pattern.where))
        self.gathered = MatchCollector(has_nots=has_nots, timed_out=matcher.timed_out)
        self._output = new_output(0, marked=False)
        self._path = paths(matcher.automaton, state.tables)
        self._use(state.tables)

    def _use(self, tables: DfaTables) -> None:
        self.tables = tables
        unsure = (tables.moves["who"] < 0) & (tables.moves["after"] >= 0)
        self._unsure = bool(unsure.any())
        if self._unsure and not len(self._output.marks):
            marks = np.empty(len(self._output.rows), np.int32)
            self._output = self._output._replace(marks=marks)
        self._rules = KernelTables(
            tables.moves,
            tables.opens,
            tables.spoil,
            tables.facts,
            tables.signs,
            tables.bits,
            len(self.matcher.automaton.lanes),
            self.matcher.automaton.single,
            _is_simple(self.matcher, tables),
            *_settings(self.matcher),
        )

    def process(self, events: Events, watermark: int) -> None:
        """Take all events, then end what the watermark has passed."""
        self._output = new_output(len(events.time), marked=self._unsure)
        done, ended = 0, False
        while not ended:
            self._make_room()
            pools, waiting, output = self.pools, self.waiting, self._output
            done = run_queues(pools, waiting, self._rules, output, events, (done, watermark))
            ended = done > len(events.time)
            if pools.counts[WANTED] != NONE:
                self._explore()
            if self._unsure:
                bind_elements(self._path, output, pools.counts[MATCHES])
            if ended or _is_full(pools, output):
                self.gathered.take(pools, output, last=True)
                self._output = new_output(0, marked=self._unsure)

    def _explore(self) -> None:
        """Explore the subsets that machines have got into."""
        filled = self.waiting.filled[: self.pools.counts[BLOCKS]]
        occupied = np.bitwise_or.reduce(filled, axis=0).view(np.uint8)
        bits = np.unpackbits(occupied, bitorder="little")[: len(self.tables.subsets)]
        wanted = np.flatnonzero((bits == 1) & (self.tables.facts[KNOWN] == 0)).tolist()
        self._use(explored(self.matcher.automaton, self.tables, wanted))
        self.pools.counts[WANTED] = NONE

    def _make_room(self) -> None:
        takers = 2 if self._rules.timed_out else 1
        if self.matcher.pattern.reuse or self.tables.signs[SPOILS].any():
            takers = 2 * (int(self.pools.counts[OPEN]) + 1)  # as in the kernel
        keyed = bool(self.matcher.pattern.partition_by)
        self.pools, self._output = _grown(self.pools, self._output, takers, keyed=keyed)
        partial_matches = len(self.pools.partial_matches)
        waiting = self.waiting._replace(
            links=enlarged(self.waiting.links, partial_matches),
            moving=enlarged(self.waiting.moving, partial_matches),
        )
        self.waiting = widened(waiting, self.tables, len(self.pools.blocks))


class ScanRun:
    """A run of the scan kernel."""

    def __init__(self, matcher: Matcher, state: MatchState, table: pa.Table) -> None:
        self.matcher, self.tables, self.waiting = matcher, state.tables, state.waiting
        self.pools = PartialMatchRecords(*(array.copy() for array in state.pools))
        self.threads = Bindings(*(array.copy() for array in state.threads))
        self.gathered = MatchCollector(has_nots=False, timed_out=matcher.timed_out)
        self._output = new_output()
        self._moves = moves(matcher, state.tables)
        self._terms = _terms(matcher)
        self._code = code_arrays(matcher.programs, matcher.triggers)
        self._cells = _cells(matcher, table)

    def process(self, events: Events, watermark: int) -> None:
        """Take all events, then end what the watermark has passed."""
        done, all_done = 0, len(events.time) + 1
        while done < all_done:
            self._make_room()
            scan = Scan(
                self.pools,
                self.threads,
                self._moves,
                self._terms,
                self._code,
                self._cells,
                self._output,
            )
            done = run_scan(scan, events, done, watermark)
            self.gathered.take(self.pools, self._output, last=done == all_done)

    def _make_room(self) -> None:
        counts, fan = self.pools.counts, self._terms.fan + 1
        most, takers = MOST_THREADS * fan, 1
        if self._terms.reuse or (self._moves.signs & FORBIDS).any():
            most += int(counts[USED_THREADS]) * fan
            takers += int(counts[OPEN])
        takers += self._terms.timed_out
        keyed = bool(self.matcher.pattern.partition_by)
        self.pools, self._output = _grown(self.pools, self._output, takers, keyed=keyed)
        nodes = _room(len(self.pools.nodes), int(counts[USED_NODES]) + most)
        threads = _room(len(self.threads.threads), int(counts[USED_THREADS]) + most)
        self.pools = self.pools._replace(nodes=enlarged(self.pools.nodes, nodes))
        self.threads = Bindings(*(enlarged(array, threads) for array in self.threads))


def _is_simple(matcher: Matcher, tables: DfaTables) -> bool:
    """Whether an event concerns one machine at most."""
    counted = (
        matcher.pattern.within is not None and matcher.pattern.within.span is WindowUnit.EVENTS
    )
    return not (matcher.pattern.reuse or counted or tables.signs[SPOILS].any())


def _settings(matcher: Matcher) -> tuple[int, int, bool, bool, bool, int]:
    """Give the window in microseconds and in events, the policy, absence and so on."""
    window = matcher.pattern.within
    by_time = window is not None and window.span is WindowUnit.TIME
    by_count = window is not None and window.span is WindowUnit.EVENTS
    return (
        window.length if window and by_time else NONE,
        window.length if window and by_count else NONE,
        matcher.pattern.reuse,
        matcher.automaton.absence,
        matcher.timed_out,
        matcher.cap,
    )


def _terms(matcher: Matcher) -> ScanSettings:
    states = matcher.automaton.lanes[0]
    edges = [len(state.edges) for state in states]
    lefts = [len(left) for state in states for _, left in state.nots]
    return ScanSettings(*_settings(matcher), max(edges + lefts))


def _cells(matcher: Matcher, table: pa.Table) -> Cells:
    """Compute the cells of all events at hand, stored ones first."""
    programs = matcher.programs
    rows = len(table)
    numbers = np.zeros((rows, len(programs.cells)), np.int64)
    decimals = numbers.view(np.float64)
    nulls = np.ones(numbers.shape, np.bool_)
    texts = [pa.array(programs.texts, TEXT)]
    handles = len(programs.texts)
    for i, cell in enumerate(programs.cells):
        column = evaluate(cell, rows, lambda node: row_column(table, node))
        nulls[:, i] = ~column.valid
        if column.data_type is DataType.STRING:
            numbers[:, i] = np.arange(handles, handles + rows)
            handles += rows
            texts.append(pa.array(column.values, TEXT))
        elif column.data_type is DataType.DOUBLE:
            decimals[:, i] = column.values
        elif column.data_type is not DataType.NULL:
            numbers[:, i] = column.values
    offsets, characters = text_buffers(pa.concat_arrays(texts))
    return Cells(numbers, nulls, offsets, characters)


def new_output(events: int = 0, *, marked: bool = True) -> Output:
    """Make room for the matches of most batches of so many events, with symbols or without."""
    nodes = max(_NODES, events)
    sizes = (nodes, nodes if marked else 0, nodes)
    matches = np.empty((2, max(_MATCHES, events // 3)), np.int64)
    kinds = (np.int32, np.int32, np.int16)
    return Output(matches, *map(np.empty, sizes, kinds))


def _is_full(pools: PartialMatchRecords, output: Output) -> bool:
    """Whether a kernel may have stopped because there is no room for another match."""
    matches, nodes = int(pools.counts[MATCHES]), int(pools.counts[OUT])
    return matches * 8 > output.matches.shape[1] * 7 or nodes * 8 > len(output.rows) * 7


def _room(now: int, needed: int) -> int:
    """Find a size that holds what is needed: what is there, or at least twice that."""
    return now if needed <= now else max(needed, 2 * now)


def _grown(
    pools: PartialMatchRecords, output: Output, takers: int, *, keyed: bool
) -> tuple[PartialMatchRecords, Output]:
    """Make room for one more event that `takers` machines may take."""
    counts = pools.counts
    partial_matches = _room(len(pools.partial_matches), int(counts[OPEN]) + 1)
    nodes = _room(len(pools.nodes), int(counts[USED_NODES]) + takers)
    blocks = _room(len(pools.blocks), int(counts[KEYS]) + 1) if keyed else 2
    matches = _room(output.matches.shape[1], int(counts[MATCHES]) + takers)
    chain = int(counts[LONGEST]) + 3
    rows = _room(len(output.rows), int(counts[OUT]) + takers * chain)
    pools = pools._replace(
        partial_matches=enlarged(pools.partial_matches, partial_matches),
        nodes=enlarged(pools.nodes, nodes),
    )
    if blocks > len(pools.blocks):
        pools = with_blocks(pools, blocks)
    sizes = (matches, rows, rows if len(output.marks) else 0, rows)
    return pools, Output(*map(_longer, output, sizes))


def _longer(array: Array, size: int) -> Array:
    """Copy an array into a longer one, along its last axis."""
    if size <= array.shape[-1]:
        return array
    longer = np.empty((*array.shape[:-1], size), array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer

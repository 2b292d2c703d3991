"""A kernel run over a batch: copies of a state's arrays that grow, matches that are collected.

A kernel stops when an array is too small for the next event. Then the matches so far are taken
out of its output, what is too small is made larger, and it goes on where it stopped.
"""

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import TEXT
from shedlight.language.eval.decimals import sortable_texts
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.compile.dfa import EXPLORED, DfaTables, explore
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.hashing import text_buffers
from shedlight.matching.jit import Array
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.bind import bind_elements, nfa_arrays
from shedlight.matching.kernel.close import Fifo
from shedlight.matching.kernel.fifo import run_fifo
from shedlight.matching.kernel.guard_vm import Cells, code_arrays
from shedlight.matching.kernel.index_keys import compute_keys
from shedlight.matching.kernel.match_state import (
    MatchState,
    grow,
    grow_key_slots,
    grow_queues,
    new_output,
)
from shedlight.matching.kernel.ordered import GROUPS, WIDTH, copy_ordered, new_ordered
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import NONE, Output, PartialMatchRecords
from shedlight.matching.kernel.scan import run_scan
from shedlight.matching.kernel.scan_bindings import MAX_BINDINGS, Bindings
from shedlight.matching.kernel.scan_close import Scan
from shedlight.matching.kernel.tables import (
    FORBIDS,
    Events,
    build_kernel_tables,
    build_settings,
    build_transition_table,
)
from shedlight.matching.kernel.waiting import Waiting, build_waits, with_room
from shedlight.matching.permuted import row_column


class MatchCollector:
    """The matches of a run, taken out of a kernel's output part by part."""

    def __init__(self, *, has_nots: bool, timed_out: bool) -> None:
        self._has_nots, self._timed_out = has_nots, timed_out
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._size = 0

    def take(self, records: PartialMatchRecords, output: Output, *, last: bool) -> None:
        """Take the matches out of an output; the last one is not used again, so not copied."""
        number, size = int(records.counts[rec.MATCHES]), int(records.counts[rec.OUT])
        parts = (output.matches[:, :number], output.rows[:size], output.elements[:size])
        matches, rows, elements = parts if last else (part.copy() for part in parts)
        incomplete = np.zeros(0, np.bool_)
        if self._timed_out:
            incomplete = matches[rec.END] < 0
            matches[rec.END, incomplete] = ~matches[rec.END, incomplete]
        if self._has_nots:
            taken = rows != rec.NEGATION_HIT
            matches[rec.END] = np.concatenate([[0], np.cumsum(taken)])[matches[rec.END]]
            rows, elements = rows[taken], elements[taken]
        matches[rec.END] += self._size
        self._size += len(rows)
        self._parts.append((matches, rows, elements, incomplete))
        records.counts[[rec.MATCHES, rec.OUT]] = 0

    def all(self) -> tuple[Array, ...]:
        """Give the matches, the rows and elements of their events, and which are incomplete.

        Those are partial matches that timed out; the array is empty if nobody asked.
        """
        if len(self._parts) == 1:
            return self._parts[0]
        return tuple(np.concatenate(part, axis=-1) for part in zip(*self._parts, strict=True))


class FifoRun:
    """A run of the FIFO kernel."""

    def __init__(self, matcher: Matcher, state: MatchState, tables: DfaTables) -> None:
        self.matcher, self.bindings = matcher, state.bindings
        self.index = None
        self.records = PartialMatchRecords(*(array.copy() for array in state.records))
        queues = Queues(*(array.copy() for array in state.queues))
        self.queues = grow_queues(queues, tables, 0)
        self.collector = MatchCollector(has_nots=matcher.has_nots, timed_out=matcher.timed_out)
        self._output: Output
        self._use(tables)

    def _use(self, tables: DfaTables) -> None:
        self.tables = tables
        self._kernel_tables = build_kernel_tables(self.matcher, tables)

    def advance(self, events: Events, watermark: int) -> None:
        """Take all events, then end what the watermark has passed."""
        self._output = new_output(len(events.time), with_symbols=self.tables.unsure)
        done, ended = 0, False
        while not ended:
            self._ensure_capacity()
            records, output = self.records, self._output
            fifo = Fifo(records, self.queues, self._kernel_tables, output)
            done = run_fifo(fifo, events, done, watermark)
            ended = done > len(events.time)
            if records.counts[rec.UNEXPLORED_SUBSET] != NONE:
                self._explore()
            if self.tables.unsure:
                nfa = nfa_arrays(self.matcher.automaton, self.tables)
                bind_elements(nfa, output, records.counts[rec.MATCHES])
            is_full = _is_full(records, output)
            if ended or is_full:
                self.collector.take(records, output, last=True)
            if is_full and not ended:
                self._output = new_output(with_symbols=self.tables.unsure)

    def _explore(self) -> None:
        """Explore the subsets that partial matches have got into."""
        filled = self.queues.filled[: self.records.counts[rec.KEY_SLOTS]]
        occupied = np.bitwise_or.reduce(filled, axis=0).view(np.uint8)
        bits = np.unpackbits(occupied, bitorder="little")[: len(self.tables.subsets)]
        unexplored = np.flatnonzero((bits == 1) & (self.tables.subset_facts[EXPLORED] == 0))
        self._use(explore(self.matcher.automaton, self.tables, unexplored.tolist()))
        if self.tables.unsure and not len(self._output.symbols):
            symbols = np.empty(len(self._output.rows), np.int32)
            self._output = self._output._replace(symbols=symbols)
        self.records.counts[rec.UNEXPLORED_SUBSET] = NONE

    def _ensure_capacity(self) -> None:
        takers = 2 if self._kernel_tables.settings.timed_out else 1
        if self.matcher.pattern.reuse or self.tables.has_nots:
            takers = 2 * (int(self.records.counts[rec.OPEN]) + 1)  # as in the kernel
        self.records, self._output = _grow(self.records, self._output, takers)
        partial_matches, queues = len(self.records.partial_matches), self.queues
        if partial_matches > len(queues.links):
            queues = queues._replace(
                links=grow(queues.links, partial_matches),
                moving=grow(queues.moving, partial_matches),
            )
        self.queues = grow_queues(queues, self.tables, len(self.records.key_slots))


class ScanRun:
    """A run of the scan kernel."""

    def __init__(self, matcher: Matcher, state: MatchState, table: pa.Table) -> None:
        self.matcher, self.tables, self.queues = matcher, state.tables, state.queues
        self.records = PartialMatchRecords(*(array.copy() for array in state.records))
        self.bindings = Bindings(*(array.copy() for array in state.bindings))
        self.collector = MatchCollector(has_nots=False, timed_out=matcher.timed_out)
        self._output: Output
        self._transitions = build_transition_table(matcher, state.tables)
        self._settings = build_settings(matcher)
        self._code = code_arrays(matcher.programs, matcher.triggers)
        self._cells = _cells(matcher, table)
        self._waits = build_waits(matcher)
        indexes = tuple(index for index in matcher.indexes if index)
        self._keys = compute_keys(indexes, table, len(state.store))
        self.index = copy_ordered(state.index or new_ordered())
        if state.index is None:
            self.records.key_slots["entries"] = NONE

    def advance(self, events: Events, watermark: int) -> None:
        """Take all events, then end what the watermark has passed."""
        self._output = new_output(len(events.time), with_symbols=False)
        done, all_done = 0, len(events.time) + 1
        while done < all_done:
            self._ensure_capacity()
            found = np.empty((len(self.index.blocks) * WIDTH, 2), np.int64)
            scan = Scan(
                self.records,
                self.bindings,
                self._transitions,
                self._settings,
                self._code,
                self._cells,
                self._output,
                Waiting(self.index, self._waits, self._keys, found),
            )
            done = run_scan(scan, events, done, watermark)
            self.collector.take(self.records, self._output, last=done == all_done)

    def _ensure_capacity(self) -> None:
        counts, fan = self.records.counts, self._transitions.fan + 1
        most, takers = MAX_BINDINGS * fan, 1
        if self._settings.reuse or (self._transitions.symbol_facts & FORBIDS).any():
            most += int(counts[rec.USED_BINDINGS]) * fan
            takers += int(counts[rec.OPEN])
        takers += self._settings.timed_out
        self.records, self._output = _grow(self.records, self._output, takers)
        nodes = grow(self.records.nodes, int(counts[rec.USED_NODES]) + most)
        self.records = self.records._replace(nodes=nodes)
        bindings = int(counts[rec.USED_BINDINGS]) + most
        self.bindings = Bindings(*(grow(array, bindings) for array in self.bindings))
        if counts[rec.OPEN] >= self._settings.few and len(self._keys):
            more = most + int(counts[rec.USED_BINDINGS]) * fan
            many = self.records.key_slots["open"] > self._settings.few
            started = 1 if self.index.facts[GROUPS] else 1 + int(many.sum())
            self.index = with_room(self.index, more, started, self._waits.shape[1])


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
        elif column.data_type is DataType.DECIMAL:
            numbers[:, i] = np.arange(handles, handles + rows)
            handles += rows
            texts.append(sortable_texts(column.values))
        elif column.data_type is DataType.DOUBLE:
            decimals[:, i] = column.values
        elif column.data_type is not DataType.NULL:
            numbers[:, i] = column.values
    offsets, characters = map(_read_only, text_buffers(pa.concat_arrays(texts)))
    return Cells(numbers, nulls, offsets, characters)


def _read_only(array: Array) -> Array:
    """Give an array that cannot be written to: a kernel is compiled for each sort anew."""
    view = array.view()
    view.flags.writeable = False
    return view


def _is_full(records: PartialMatchRecords, output: Output) -> bool:
    """Whether a kernel may have stopped because there is no room for another match."""
    matches, nodes = int(records.counts[rec.MATCHES]), int(records.counts[rec.OUT])
    return matches * 8 > output.matches.shape[1] * 7 or nodes * 8 > len(output.rows) * 7


def _grow(
    records: PartialMatchRecords, output: Output, takers: int
) -> tuple[PartialMatchRecords, Output]:
    """Make room for one more event that `takers` partial matches may take."""
    counts = records.counts.tolist()
    partial_matches, nodes = counts[rec.OPEN] + 1, counts[rec.USED_NODES] + takers
    if partial_matches > len(records.partial_matches) or nodes > len(records.nodes):
        records = records._replace(
            partial_matches=grow(records.partial_matches, partial_matches),
            nodes=grow(records.nodes, nodes),
        )
    key_slots = counts[rec.USED_KEY_SLOTS] + 1 if counts[rec.KEYED] else 2
    if key_slots > len(records.key_slots):
        records = grow_key_slots(records, key_slots)
    matches, rows = counts[rec.MATCHES] + takers, counts[rec.OUT]
    rows += takers * (counts[rec.LONGEST] + 3)
    if matches > output.matches.shape[1] or rows > len(output.rows):
        symbols = grow(output.symbols, rows) if len(output.symbols) else output.symbols
        output = Output(
            grow(output.matches, matches, axis=1),
            grow(output.rows, rows),
            symbols,
            grow(output.elements, rows),
        )
    return records, output

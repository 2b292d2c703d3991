"""The state of matching as a value: what is open, and the events that it has taken.

The arrays of a state are never changed once it is made: a step works on a copy. As bytes, a
state has no gaps in its arrays, and no numbers that depend on which symbols were seen first in
this process (`saved.py`).
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.matching.compile.dfa import DfaTables, build_tables
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array, compiled
from shedlight.matching.kernel.partial_queue import LINK, QUEUE, Queues
from shedlight.matching.kernel.records import (
    BLOCK,
    BLOCKS,
    COUNTS,
    FREE,
    FREE_BLOCK,
    FREE_MACHINE,
    FREE_NODE,
    FREE_THREAD,
    KEYED,
    NEWEST,
    NODE,
    NODES,
    NONE,
    OLDEST,
    PARTIAL_MATCH,
    PARTIAL_MATCHES,
    THREADS,
    WANTED,
    PartialMatchRecords,
    enter_all,
)
from shedlight.matching.kernel.scan_bindings import THREAD, Bindings


@dataclass(frozen=True, slots=True, eq=False)
class MatchState:
    """Where the matching of one pattern stands.

    Attributes:
        tables: The automaton over the symbols that have occurred.
        pools: The open machines.
        waiting: Their queues; for the scan kernel empty.
        threads: Their assignments; for the queue kernel empty.
        store: The events that open machines have taken.
    """

    tables: DfaTables
    pools: PartialMatchRecords
    waiting: Queues
    threads: Bindings
    store: pa.Table


def new_state(matcher: Matcher) -> MatchState:
    """Make the state before any event."""
    counts = np.zeros(COUNTS, np.int64)
    nothing = [FREE_MACHINE, FREE_NODE, FREE_BLOCK, FREE_THREAD, OLDEST, NEWEST, WANTED]
    counts[nothing] = NONE
    counts[KEYED] = bool(matcher.pattern.partition_by)
    pools = PartialMatchRecords(
        counts,
        np.zeros(16, PARTIAL_MATCH),
        np.zeros(64, NODE),
        np.zeros(1, BLOCK),
        np.full(2, NONE, np.int32),
    )
    tables = build_tables(matcher.automaton)
    lanes = len(matcher.automaton.lanes)
    blocks, partial_matches = (0, 0) if matcher.pattern.conditions else (1, 16)
    waiting = Queues(
        np.zeros((blocks, len(tables.subsets)), QUEUE),
        np.zeros((blocks, tables.bits.shape[2]), np.uint64),
        np.zeros((partial_matches, lanes), LINK),
        np.zeros((partial_matches, 2), np.int32),
    )
    threads = Bindings(
        np.zeros(0, THREAD), np.zeros((0, len(matcher.automaton.elements)), np.int32)
    )
    return MatchState(tables, pools, waiting, threads, matcher.store_schema.empty_table())


def enlarged(array: Array, rows: int) -> Array:
    """Copy an array into one with more rows."""
    if rows <= len(array):
        return array
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def with_blocks(pools: PartialMatchRecords, rows: int) -> PartialMatchRecords:
    """Make room for more keys, with a hash table twice as large."""
    rows = max(rows, len(pools.blocks))
    size = 2 << max(rows - 1, 1).bit_length()
    bigger = pools._replace(
        blocks=enlarged(pools.blocks, rows), table=np.full(size, NONE, np.int32)
    )
    enter_all(bigger)
    return bigger


def with_rows(state: MatchState) -> MatchState:
    """Link the machines of each key from the oldest to the newest."""
    partial_matches, blocks = state.pools.partial_matches.copy(), state.pools.blocks.copy()
    blocks["first"] = blocks["last"] = NONE
    partial_matches["key_newer"] = NONE
    open_ones = np.flatnonzero(partial_matches["block"] != FREE)
    for partial_match in open_ones[np.argsort(partial_matches["opened"][open_ones])].tolist():
        key = blocks[partial_matches["block"][partial_match]]
        if key["last"] == NONE:
            key["first"] = partial_match
        else:
            partial_matches["key_newer"][key["last"]] = partial_match
        key["last"] = partial_match
    return replace(
        state, pools=state.pools._replace(partial_matches=partial_matches, blocks=blocks)
    )


def widened(waiting: Queues, tables: DfaTables, blocks: int) -> Queues:
    """Make room for more keys and more subsets."""
    old, old_bits = waiting.queues, waiting.filled
    rows = max(blocks, len(old))
    subsets, words = len(tables.subsets), tables.bits.shape[2]
    if (rows, subsets, words) == (*old.shape, old_bits.shape[1]):
        return waiting
    queues = np.full((rows, subsets), np.array((NONE, NONE, NONE), QUEUE))
    queues[: len(old), : old.shape[1]] = old
    filled = np.zeros((rows, words), np.uint64)
    filled[: len(old_bits), : old_bits.shape[1]] = old_bits
    return waiting._replace(queues=queues, filled=filled)


def compacted(state: MatchState) -> MatchState:
    """Close the gaps that closed machines left."""
    pools, waiting, threads = state.pools, state.waiting, state.threads
    counts = pools.counts.copy()
    partial_matches = _kept(pools.partial_matches["block"][: counts[PARTIAL_MATCHES]] != FREE)
    nodes = _kept(pools.nodes["row"][: counts[NODES]] != FREE)
    blocks = _kept(pools.blocks["open"][: counts[BLOCKS]] != FREE)
    used = _kept(_threads_in_use(pools, threads))
    sizes = [len(kept.rows) for kept in (partial_matches, nodes, blocks, used)]
    counts[[PARTIAL_MATCHES, NODES, BLOCKS, THREADS]] = sizes
    counts[[FREE_MACHINE, FREE_NODE, FREE_BLOCK, FREE_THREAD]] = NONE
    counts[[OLDEST, NEWEST]] = partial_matches.renamed(counts[[OLDEST, NEWEST]])
    new = PartialMatchRecords(
        counts,
        _renamed(
            pools.partial_matches[partial_matches.rows],
            node=nodes,
            block=blocks,
            older=partial_matches,
            newer=partial_matches,
            threads=used,
            key_older=partial_matches,
            key_newer=partial_matches,
            nodes=nodes,
        ),
        _renamed(pools.nodes[nodes.rows], before=nodes, other=nodes),
        _renamed(pools.blocks[blocks.rows], first=partial_matches, last=partial_matches),
        pools.table,
    )
    return MatchState(
        state.tables,
        with_blocks(new, max(len(blocks.rows), 1)),
        _compacted_queues(waiting, partial_matches, blocks) if len(waiting.queues) else waiting,
        Bindings(
            _renamed(threads.threads[used.rows], node=nodes, next=used),
            threads.bound[used.rows],
        ),
        state.store,
    )


def _compacted_queues(waiting: Queues, partial_matches: "_Kept", blocks: "_Kept") -> Queues:
    rows = blocks.rows if len(blocks.rows) else np.zeros(1, np.int64)
    return Queues(
        _renamed(
            waiting.queues[rows],
            head=partial_matches,
            tail=partial_matches,
            root=partial_matches,
        ),
        waiting.filled[rows],
        _renamed(
            waiting.links[partial_matches.rows], next=partial_matches, child=partial_matches
        ),
        np.zeros((len(partial_matches.rows), 2), np.int32),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """The rows of an array that stay, and the new number of each."""

    rows: Array
    numbers: Array

    def renamed(self, old: Array) -> Array:
        """Give the new numbers for old ones; NONE for what is gone."""
        inside = (old >= 0) & (old < len(self.numbers) - 1)
        return self.numbers[np.where(inside, old, -1)]


def _kept(stays: Array) -> _Kept:
    numbers = np.where(stays, np.cumsum(stays) - 1, NONE)
    return _Kept(np.flatnonzero(stays), np.append(numbers, NONE).astype(np.int32))


def _renamed(rows: Array, **fields: _Kept) -> Array:
    """Copy rows whose fields name rows of other arrays, with their new numbers."""
    new = rows.copy()
    for name, kept in fields.items():
        new[name] = kept.renamed(rows[name])
    return new


def _threads_in_use(pools: PartialMatchRecords, threads: Bindings) -> Array:
    used = np.zeros(pools.counts[THREADS], np.bool_)
    if len(used):
        _mark_threads(pools, threads, used)
    return used


@compiled
def _mark_threads(pools: PartialMatchRecords, threads: Bindings, used: Array) -> None:
    for partial_match in range(pools.counts[PARTIAL_MATCHES]):
        if pools.partial_matches[partial_match].block != FREE:
            thread = pools.partial_matches[partial_match].threads
            while thread != NONE:
                used[thread] = True
                thread = threads.threads[thread].next

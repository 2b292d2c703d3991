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
    BINDINGS,
    COUNTS,
    FREE,
    FREE_BINDING,
    FREE_KEY_SLOT,
    FREE_NODE,
    FREE_PARTIAL_MATCH,
    KEY_SLOT,
    KEY_SLOTS,
    KEYED,
    NEWEST,
    NODE,
    NODES,
    NONE,
    OLDEST,
    PARTIAL_MATCH,
    PARTIAL_MATCHES,
    UNEXPLORED_SUBSET,
    PartialMatchRecords,
    enter_all,
)
from shedlight.matching.kernel.scan_bindings import BINDING, Bindings


@dataclass(frozen=True, slots=True, eq=False)
class MatchState:
    """Where the matching of one pattern stands.

    Attributes:
        tables: The automaton over the symbols that have occurred.
        records: The partial matches.
        waiting: Their queues; for the scan kernel empty.
        bindings: Their bindings; for the queue kernel empty.
        store: The events that partial matches have taken.
    """

    tables: DfaTables
    records: PartialMatchRecords
    queues: Queues
    bindings: Bindings
    store: pa.Table


def new_state(matcher: Matcher) -> MatchState:
    """Make the state before any event."""
    counts = np.zeros(COUNTS, np.int64)
    nothing = [
        FREE_PARTIAL_MATCH,
        FREE_NODE,
        FREE_KEY_SLOT,
        FREE_BINDING,
        OLDEST,
        NEWEST,
        UNEXPLORED_SUBSET,
    ]
    counts[nothing] = NONE
    counts[KEYED] = bool(matcher.pattern.partition_by)
    records = PartialMatchRecords(
        counts,
        np.zeros(16, PARTIAL_MATCH),
        np.zeros(64, NODE),
        np.zeros(1, KEY_SLOT),
        np.full(2, NONE, np.int32),
    )
    tables = build_tables(matcher.automaton)
    regions = len(matcher.automaton.regions)
    key_slots, partial_matches = (0, 0) if matcher.pattern.conditions else (1, 16)
    queues = Queues(
        np.zeros((key_slots, len(tables.subsets)), QUEUE),
        np.zeros((key_slots, tables.bits.shape[2]), np.uint64),
        np.zeros((partial_matches, regions), LINK),
        np.zeros((partial_matches, 2), np.int32),
    )
    bindings = Bindings(
        np.zeros(0, BINDING), np.zeros((0, len(matcher.automaton.elements)), np.int32)
    )
    return MatchState(tables, records, queues, bindings, matcher.store_schema.empty_table())


def grow(array: Array, rows: int) -> Array:
    """Copy an array into one with more rows."""
    if rows <= len(array):
        return array
    larger = np.zeros((rows, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def grow_key_slots(records: PartialMatchRecords, rows: int) -> PartialMatchRecords:
    """Make room for more keys, with a hash table twice as large."""
    rows = max(rows, len(records.key_slots))
    size = 2 << max(rows - 1, 1).bit_length()
    bigger = records._replace(
        key_slots=grow(records.key_slots, rows), table=np.full(size, NONE, np.int32)
    )
    enter_all(bigger)
    return bigger


def with_rows(state: MatchState) -> MatchState:
    """Link the partial matches of each key from the oldest to the newest."""
    partial_matches, key_slots = (
        state.records.partial_matches.copy(),
        state.records.key_slots.copy(),
    )
    key_slots["first"] = key_slots["last"] = NONE
    partial_matches["key_newer"] = NONE
    open_ones = np.flatnonzero(partial_matches["key_slot"] != FREE)
    for partial_match in open_ones[np.argsort(partial_matches["opened"][open_ones])].tolist():
        key = key_slots[partial_matches["key_slot"][partial_match]]
        if key["last"] == NONE:
            key["first"] = partial_match
        else:
            partial_matches["key_newer"][key["last"]] = partial_match
        key["last"] = partial_match
    return replace(
        state,
        records=state.records._replace(partial_matches=partial_matches, key_slots=key_slots),
    )


def grow_queues(queues: Queues, tables: DfaTables, key_slots: int) -> Queues:
    """Make room for more keys and more subsets."""
    old, old_bits = queues.heads, queues.filled
    rows = max(key_slots, len(old))
    subsets, words = len(tables.subsets), tables.bits.shape[2]
    if (rows, subsets, words) == (*old.shape, old_bits.shape[1]):
        return queues
    heads = np.full((rows, subsets), np.array((NONE, NONE, NONE), QUEUE))
    heads[: len(old), : old.shape[1]] = old
    filled = np.zeros((rows, words), np.uint64)
    filled[: len(old_bits), : old_bits.shape[1]] = old_bits
    return queues._replace(heads=heads, filled=filled)


def compact(state: MatchState) -> MatchState:
    """Close the gaps that closed partial matches left."""
    records, queues, bindings = state.records, state.queues, state.bindings
    counts = records.counts.copy()
    partial_matches = _kept(
        records.partial_matches["key_slot"][: counts[PARTIAL_MATCHES]] != FREE
    )
    nodes = _kept(records.nodes["row"][: counts[NODES]] != FREE)
    key_slots = _kept(records.key_slots["open"][: counts[KEY_SLOTS]] != FREE)
    used = _kept(_bindings_in_use(records, bindings))
    sizes = [len(kept.rows) for kept in (partial_matches, nodes, key_slots, used)]
    counts[[PARTIAL_MATCHES, NODES, KEY_SLOTS, BINDINGS]] = sizes
    counts[[FREE_PARTIAL_MATCH, FREE_NODE, FREE_KEY_SLOT, FREE_BINDING]] = NONE
    counts[[OLDEST, NEWEST]] = partial_matches.renumber(counts[[OLDEST, NEWEST]])
    new = PartialMatchRecords(
        counts,
        _renumber_fields(
            records.partial_matches[partial_matches.rows],
            node=nodes,
            key_slot=key_slots,
            older=partial_matches,
            newer=partial_matches,
            bindings=used,
            key_older=partial_matches,
            key_newer=partial_matches,
            nodes=nodes,
        ),
        _renumber_fields(records.nodes[nodes.rows], before=nodes, other=nodes),
        _renumber_fields(
            records.key_slots[key_slots.rows], first=partial_matches, last=partial_matches
        ),
        records.table,
    )
    return MatchState(
        state.tables,
        grow_key_slots(new, max(len(key_slots.rows), 1)),
        _compact_queues(queues, partial_matches, key_slots) if len(queues.heads) else queues,
        Bindings(
            _renumber_fields(bindings.records[used.rows], node=nodes, next=used),
            bindings.bound[used.rows],
        ),
        state.store,
    )


def _compact_queues(
    queues: Queues, partial_matches: "_Renumbering", key_slots: "_Renumbering"
) -> Queues:
    rows = key_slots.rows if len(key_slots.rows) else np.zeros(1, np.int64)
    return Queues(
        _renumber_fields(
            queues.heads[rows],
            head=partial_matches,
            tail=partial_matches,
            root=partial_matches,
        ),
        queues.filled[rows],
        _renumber_fields(
            queues.links[partial_matches.rows], next=partial_matches, child=partial_matches
        ),
        np.zeros((len(partial_matches.rows), 2), np.int32),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Renumbering:
    """The rows of an array that stay, and the new number of each."""

    rows: Array
    numbers: Array

    def renumber(self, old: Array) -> Array:
        """Give the new numbers for old ones; NONE for what is gone."""
        inside = (old >= 0) & (old < len(self.numbers) - 1)
        return self.numbers[np.where(inside, old, -1)]


def _kept(stays: Array) -> _Renumbering:
    numbers = np.where(stays, np.cumsum(stays) - 1, NONE)
    return _Renumbering(np.flatnonzero(stays), np.append(numbers, NONE).astype(np.int32))


def _renumber_fields(rows: Array, **fields: _Renumbering) -> Array:
    """Copy rows whose fields name rows of other arrays, with their new numbers."""
    new = rows.copy()
    for name, kept in fields.items():
        new[name] = kept.renumber(rows[name])
    return new


def _bindings_in_use(records: PartialMatchRecords, bindings: Bindings) -> Array:
    used = np.zeros(records.counts[BINDINGS], np.bool_)
    if len(used):
        _mark_bindings(records, bindings, used)
    return used


@compiled
def _mark_bindings(records: PartialMatchRecords, bindings: Bindings, used: Array) -> None:
    for partial_match in range(records.counts[PARTIAL_MATCHES]):
        if records.partial_matches[partial_match].key_slot != FREE:
            binding = records.partial_matches[partial_match].bindings
            while binding != NONE:
                used[binding] = True
                binding = bindings.records[binding].next

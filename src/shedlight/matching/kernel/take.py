"""A partial match in queues takes an event, is opened by one, or is marked by a NOT."""

from typing import Any

import numpy as np

from shedlight.matching.compile.dfa import CHANGED_BY_NOTS, CLOSES_ALL, EXPLORED
from shedlight.matching.jit import i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.close import close, close_all, evict
from shedlight.matching.kernel.partial_queue import (
    Queues,
    append_to_key_list,
    dequeue,
    enqueue,
    enqueue_newest,
    lowest_bit,
    oldest_in_queue,
)
from shedlight.matching.kernel.records import (
    LONGEST,
    NEGATION_HIT,
    NONE,
    OPEN,
    UNEXPLORED_SUBSET,
    Output,
    PartialMatchRecords,
    emit_match,
    new_key_slot,
    new_node,
    new_partial_match,
)
from shedlight.matching.kernel.tables import KernelTables

TransitionRecord = Any  # a row of `subsets.TRANSITION`


@jit_noinline
def apply_negation(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    key_slot: int,
    symbol: int,
) -> None:
    """Apply the NOTs of a symbol to the partial matches of a key."""
    if tables.symbol_facts[CLOSES_ALL, symbol]:
        close_all(records, queues, tables, key_slot)
        return
    moved = 0
    for w in range(queues.filled.shape[1]):
        bits = queues.filled[idx(key_slot), idx(w)] & tables.bits[CHANGED_BY_NOTS, symbol, w]
        while bits:
            subset = i64(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            while queues.heads[idx(key_slot), idx(subset)].head != NONE:
                partial_match = oldest_in_queue(records, queues, key_slot, subset)
                dequeue(records, queues, key_slot, subset, i64(0), partial_match)
                queues.moving[moved, 0] = partial_match
                queues.moving[moved, 1] = tables.after_not[subset, symbol]
                moved += 1
    for i in range(moved):
        partial_match, target = i64(queues.moving[i, 0]), i64(queues.moving[i, 1])
        if target == NONE:
            close(records, tables, partial_match)
            continue
        record = records.partial_matches[idx(partial_match)]
        record.node = new_node(records, i64(NEGATION_HIT), symbol, i64(NONE), i64(record.node))
        _count_node(records, partial_match)
        enqueue(records, queues, partial_match, target, i64(0))
        if not tables.subset_facts[EXPLORED, target]:
            records.counts[UNEXPLORED_SUBSET] = target


@jit_inline
def _count_node(records: PartialMatchRecords, partial_match: int) -> None:
    """Count a node of a partial match."""
    size = records.partial_matches[idx(partial_match)].size + 1
    records.partial_matches[idx(partial_match)].size = size
    if size > records.counts[LONGEST]:  # noqa: PLR1730  # rarely so: do not write each time
        records.counts[LONGEST] = size


@jit_inline
def take(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    partial_match: int,
    event: tuple[int, int, int, TransitionRecord],
) -> None:
    """Let a partial match that is out of its queue take an event; write the match if it is one.

    `event` is its row, time and symbol, and what taking it does.
    """
    row, time, symbol, transition = event
    record = records.partial_matches[idx(partial_match)]
    record.node = new_node(records, row, symbol, i64(transition.element), i64(record.node))
    _count_node(records, partial_match)
    record.regions_pending -= transition.accepting
    if record.regions_pending == 0 and not tables.absence:
        emit_match(records, output, partial_match, time)
        close(records, tables, partial_match)
    elif transition.queued:
        enqueue(records, queues, partial_match, i64(transition.target), i64(transition.region))
        if not transition.explored:
            records.counts[UNEXPLORED_SUBSET] = transition.target
    elif not tables.single_event_regions:
        queues.links[idx(partial_match), idx(transition.region)].state = transition.target


@jit_inline
def open_partial_match(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    key: tuple[int, int, int],
    event: tuple[int, int, int],
) -> None:
    """Open a partial match with an event.

    `key` is its key slot (NONE if there is none) and two hashes, `event` row, time and symbol.
    """
    key_slot, hash1, hash2 = key
    row, time, symbol = event
    if key_slot == NONE:
        key_slot = new_key_slot(records, hash1, hash2)
        for w in range(queues.filled.shape[1]):
            queues.filled[idx(key_slot), idx(w)] = 0
        records.key_slots[idx(key_slot)].count = 1
        for subset in range(tables.transitions.shape[0]):
            queues.heads[idx(key_slot), idx(subset)].head = NONE
            queues.heads[idx(key_slot), idx(subset)].tail = NONE
            queues.heads[idx(key_slot), idx(subset)].root = NONE
    partial_match = new_partial_match(records, key_slot, time)
    records.partial_matches[idx(partial_match)].regions_pending = tables.regions
    transition = tables.opens[symbol]
    if tables.single_event_regions:
        append_to_key_list(
            records, queues, (key_slot, tables.regions, i64(transition.region)), partial_match
        )
    else:
        for region in range(tables.regions):
            if region != transition.region:
                enqueue_newest(queues, key_slot, i64(region), partial_match)
    take(records, queues, tables, output, partial_match, (row, time, symbol, transition))
    if records.counts[OPEN] > tables.cap:
        evict(records, queues, tables)

"""The kernel for patterns without conditions across events: queues of partial matches.

Partial matches of one key in the same subset of states are alike, so they wait in one queue,
oldest first, and an event goes to the oldest head among the queues that can take it. What an
event costs depends neither on the window nor on the number of partial matches.
"""

from typing import Any

import numpy as np

from shedlight.matching.compile import dfa
from shedlight.matching.jit import compiled, i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel import partial_queue as queue
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.close import (
    Fifo,
    close,
    close_all,
    evict,
    expire,
    expire_by_count,
)
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.tables import Events

TransitionRecord = Any  # a row of `dfa.TRANSITION`


@jit_noinline
def apply_negation(fifo: Fifo, key_slot: int, symbol: int) -> None:
    """Apply the NOTs of a symbol to the partial matches of a key."""
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    if tables.symbol_facts[dfa.CLOSES_ALL, symbol]:
        close_all(fifo, key_slot)
        return
    moved = 0
    for w in range(queues.filled.shape[1]):
        bits = (
            queues.filled[idx(key_slot), idx(w)] & tables.bits[dfa.CHANGED_BY_NOTS, symbol, w]
        )
        while bits:
            subset = i64(w * 64 + queue.lowest_bit(bits))
            bits &= bits - np.uint64(1)
            while queues.heads[idx(key_slot), idx(subset)].head != NONE:
                partial_match = queue.oldest_in_queue(records, queues, key_slot, subset)
                queue.dequeue(records, queues, key_slot, subset, i64(0), partial_match)
                queues.moving[moved, 0] = partial_match
                queues.moving[moved, 1] = tables.after_not[subset, symbol]
                moved += 1
    for i in range(moved):
        partial_match, target = i64(queues.moving[i, 0]), i64(queues.moving[i, 1])
        if target == NONE:
            close(fifo, partial_match)
            continue
        record = records.partial_matches[idx(partial_match)]
        record.node = rec.new_node(
            records, i64(rec.NEGATION_HIT), symbol, i64(NONE), i64(record.node)
        )
        _count_node(records, partial_match)
        queue.enqueue(records, queues, partial_match, target, i64(0))
        if not tables.subset_facts[dfa.EXPLORED, target]:
            records.counts[rec.UNEXPLORED_SUBSET] = target


@jit_inline
def _count_node(records: PartialMatchRecords, partial_match: int) -> None:
    """Count a node of a partial match."""
    size = records.partial_matches[idx(partial_match)].size + 1
    records.partial_matches[idx(partial_match)].size = size
    if size > records.counts[rec.LONGEST]:  # noqa: PLR1730  # rarely so: do not write each time
        records.counts[rec.LONGEST] = size


@jit_inline
def take(fifo: Fifo, partial_match: int, event: tuple[int, int, int, TransitionRecord]) -> None:
    """Let a partial match that is out of its queue take an event; write the match if it is one.

    `event` is its row, time and symbol, and what taking it does.
    """
    records, queues, tables, output = fifo.records, fifo.queues, fifo.tables, fifo.output
    row, time, symbol, transition = event
    record = records.partial_matches[idx(partial_match)]
    record.node = rec.new_node(records, row, symbol, i64(transition.element), i64(record.node))
    _count_node(records, partial_match)
    record.regions_pending -= transition.accepting
    if record.regions_pending == 0 and not tables.settings.absence:
        rec.emit_match(records, output, partial_match, time)
        close(fifo, partial_match)
    elif transition.queued:
        target, region = i64(transition.target), i64(transition.region)
        queue.enqueue(records, queues, partial_match, target, region)
        if not transition.explored:
            records.counts[rec.UNEXPLORED_SUBSET] = transition.target
    elif not tables.single_event_regions:
        queues.links[idx(partial_match), idx(transition.region)].state = transition.target


@jit_inline
def open_partial_match(
    fifo: Fifo, key: tuple[int, int, int], event: tuple[int, int, int]
) -> None:
    """Open a partial match with an event.

    `key` is its key slot (NONE if there is none) and two hashes, `event` row, time and symbol.
    """
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    key_slot, hash1, hash2 = key
    row, time, symbol = event
    if key_slot == NONE:
        key_slot = rec.new_key_slot(records, hash1, hash2)
        for w in range(queues.filled.shape[1]):
            queues.filled[idx(key_slot), idx(w)] = 0
        records.key_slots[idx(key_slot)].count = 1
        for subset in range(tables.transitions.shape[0]):
            queues.heads[idx(key_slot), idx(subset)].head = NONE
            queues.heads[idx(key_slot), idx(subset)].tail = NONE
            queues.heads[idx(key_slot), idx(subset)].root = NONE
    partial_match = rec.new_partial_match(records, key_slot, time)
    records.partial_matches[idx(partial_match)].regions_pending = tables.regions
    transition = tables.opens[symbol]
    if tables.single_event_regions:
        key_list = (key_slot, tables.regions, i64(transition.region))
        queue.append_to_key_list(records, queues, key_list, partial_match)
    else:
        for region in range(tables.regions):
            if region != transition.region:
                queue.enqueue_newest(queues, key_slot, i64(region), partial_match)
    take(fifo, partial_match, (row, time, symbol, transition))
    if records.counts[rec.OPEN] > tables.settings.cap:
        evict(fifo)


@jit_inline
def _find_taker(fifo: Fifo, key_slot: int, symbol: int) -> tuple[int, int]:
    """Find the oldest partial match of a key that can use a symbol, and the subset it is in."""
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    if tables.single_event_regions:
        region = i64(tables.opens[symbol].region)
        if tables.opens[symbol].target == NONE:
            return i64(NONE), region
        return i64(queues.heads[idx(key_slot), idx(region)].head), region
    best = i64(NONE)
    source = i64(NONE)
    for w in range(queues.filled.shape[1]):
        bits = queues.filled[idx(key_slot), idx(w)] & tables.bits[dfa.TAKERS, symbol, w]
        while bits:
            subset = i64(w * 64 + queue.lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = queue.oldest_in_queue(records, queues, key_slot, subset)
            if best == NONE or queue.is_older(records, head, best):
                best = head
                source = subset
    return best, source


@jit_inline
def _dequeue_taker(fifo: Fifo, source: tuple[int, int, int], partial_match: int) -> None:
    """Take the oldest partial match out of its queue, given by key slot, subset and region."""
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    key_slot, subset, region = source
    if tables.single_event_regions:
        newer = records.partial_matches[idx(partial_match)].key_newer
        queues.heads[idx(key_slot), idx(region)].head = newer
    else:
        queue.dequeue(records, queues, key_slot, subset, region, partial_match)


@jit_inline
def _dispatch_to_oldest(fifo: Fifo, key_slot: int, event: tuple[int, int, int]) -> bool:
    """Give an event to the oldest partial match of its key that can use it, if there is one."""
    tables = fifo.tables
    row, time, symbol = event
    best, source = _find_taker(fifo, key_slot, symbol)
    if best == NONE:
        return False
    transition = tables.transitions[source, symbol]
    _dequeue_taker(fifo, (key_slot, source, i64(transition.region)), best)
    take(fifo, best, (row, time, symbol, transition))
    return True


@jit_noinline
def _dispatch_to_all(fifo: Fifo, key_slot: int, event: tuple[int, int, int]) -> None:
    """Give an event to every partial match of its key that can use it, oldest first (REUSE)."""
    queues, tables = fifo.queues, fifo.tables
    row, time, symbol = event
    moved = 0
    while True:
        partial_match, source = _find_taker(fifo, key_slot, symbol)
        if partial_match == NONE:
            break
        region = i64(tables.transitions[source, symbol].region)
        _dequeue_taker(fifo, (key_slot, source, region), partial_match)
        queues.moving[moved, 0] = partial_match
        queues.moving[moved, 1] = source
        moved += 1
    for i in range(moved):
        partial_match, source = i64(queues.moving[i, 0]), i64(queues.moving[i, 1])
        transition = tables.transitions[source, symbol]
        take(fifo, partial_match, (row, time, symbol, transition))


@jit_noinline
def _count_and_negate(
    fifo: Fifo, key: tuple[int, int, int], event: tuple[int, int, int]
) -> int:
    """Count an event and apply its NOTs to its key's partial matches; give the key slot."""
    records, tables = fifo.records, fifo.tables
    key_slot, hash1, hash2 = key
    _, time, symbol = event
    if tables.settings.events != NONE:
        records.key_slots[idx(key_slot)].count += 1
        expire_by_count(fifo, key_slot, time)
        key_slot = rec.find_key_slot(records, hash1, hash2)
    if key_slot != NONE and tables.symbol_facts[dfa.HAS_NOTS, symbol]:
        apply_negation(fifo, key_slot, symbol)
        key_slot = rec.find_key_slot(records, hash1, hash2)
    return key_slot


@jit_inline
def _dispatch(fifo: Fifo, key: tuple[int, int], event: tuple[int, int, int]) -> None:
    """Offer an event to the partial matches of its key, and let it open one if it shall."""
    records, tables = fifo.records, fifo.tables
    symbol = event[2]
    key_slot = rec.find_key_slot(records, key[0], key[1])
    if key_slot != NONE and not tables.one_taker:
        key_slot = _count_and_negate(fifo, (key_slot, key[0], key[1]), event)
    if key_slot != NONE:
        if tables.settings.reuse:
            _dispatch_to_all(fifo, key_slot, event)
            key_slot = rec.find_key_slot(records, key[0], key[1])
        elif _dispatch_to_oldest(fifo, key_slot, event):
            return
    if tables.opens[symbol].target != NONE:
        open_partial_match(fifo, (key_slot, key[0], key[1]), event)


_EVENTS_PER_CHECK = 64  # for how many events at a time the room is checked


@jit_inline
def _capacity(fifo: Fifo, symbol: int, capacity: int) -> int:
    """Say for how many events there is room, of which the next has this symbol.

    An event that every partial match may use is checked by itself: a NOT may add a node to one
    that then takes the event, and the event may open one. With a window of events, an event may
    time one out and complete another.
    """
    records, tables, output = fifo.records, fifo.tables, fifo.output
    settings, concerns_all = tables.settings, tables.symbol_facts[dfa.HAS_NOTS, symbol]
    if not tables.one_taker and (settings.reuse or concerns_all):
        takers = 2 * (i64(records.counts[rec.OPEN]) + 1)
        return rec.events_that_fit(records, output, takers, i64(1))
    if capacity > 0:
        return capacity
    ends = i64(2) if settings.timed_out and settings.events != NONE else i64(1)
    capacity = rec.events_that_fit(records, output, ends, i64(_EVENTS_PER_CHECK))
    return capacity if capacity > 0 else rec.events_that_fit(records, output, ends, i64(1))


@compiled
def run_fifo(fifo: Fifo, events: Events, start: int, watermark: int) -> int:
    """Offer events from number `start` on, then end what the watermark has passed.

    Gives how many events are done, the watermark counting as one behind the last: fewer if the
    arrays are too small to go on, or if a subset must be explored.
    """
    records, settings = fifo.records, fifo.tables.settings
    keyed, number = events.hash1.shape[0] > 0, events.number.shape[0]
    capacity = i64(0)
    for i in range(start, number):
        symbol = i64(events.symbols[events.number[i]])
        if symbol == 0 and settings.events == NONE:
            continue
        time = i64(events.time[i])
        if rec.is_due(records, settings.window, time):
            if not expire(fifo, time - settings.window):
                return i
            capacity = i64(0) if settings.timed_out else capacity  # it may have been used up
        capacity = _capacity(fifo, symbol, capacity)
        if capacity <= 0:
            return i
        capacity -= 1
        hash1 = events.hash1[i] if keyed else i64(0)
        hash2 = events.hash2[i] if keyed else i64(0)
        event = (i64(events.row + i), time, symbol)
        _dispatch(fifo, (hash1, hash2), event)
        if records.counts[rec.UNEXPLORED_SUBSET] != NONE:
            return i + 1
    if settings.window == NONE or expire(fifo, i64(watermark - settings.window)):
        return number + 1
    return number

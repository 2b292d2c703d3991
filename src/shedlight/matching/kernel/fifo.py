"""The kernel for patterns without conditions across events: queues of partial matches.

Partial matches of one key in the same subset of states are alike, so they wait in one queue,
oldest first, and an event goes to the oldest head among the queues that can take it. What an
event costs depends neither on the window nor on the number of partial matches.
"""

import numpy as np

from shedlight.matching.compile.dfa import (
    HAS_NOTS,
    TAKERS,
)
from shedlight.matching.jit import compiled, i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.close import expire, expire_by_count
from shedlight.matching.kernel.partial_queue import (
    Queues,
    dequeue,
    lowest_bit,
    oldest_in_queue,
)
from shedlight.matching.kernel.records import (
    NONE,
    OPEN,
    UNEXPLORED_SUBSET,
    Output,
    PartialMatchRecords,
    events_that_fit,
    find_key_slot,
    is_due,
)
from shedlight.matching.kernel.tables import Events, KernelTables
from shedlight.matching.kernel.take import apply_negation, open_partial_match, take


@jit_inline
def _find_taker(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    key_slot: int,
    symbol: int,
) -> tuple[int, int]:
    """Find the oldest partial match of a key that can use a symbol, and the subset it is in."""
    if tables.single_event_regions:
        region = i64(tables.opens[symbol].region)
        if tables.opens[symbol].target == NONE:
            return i64(NONE), region
        return i64(queues.heads[idx(key_slot), idx(region)].head), region
    best = i64(NONE)
    source = i64(NONE)
    for w in range(queues.filled.shape[1]):
        bits = queues.filled[idx(key_slot), idx(w)] & tables.bits[TAKERS, symbol, w]
        while bits:
            subset = i64(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = oldest_in_queue(records, queues, key_slot, subset)
            if (
                best == NONE
                or records.partial_matches[idx(head)].opened
                < records.partial_matches[idx(best)].opened
            ):
                best = head
                source = subset
    return best, source


@jit_inline
def _dequeue_taker(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    place: tuple[int, int, int],
    partial_match: int,
) -> None:
    """Take the oldest partial match out of its queue, given by key slot, subset and region."""
    key_slot, subset, region = place
    if tables.single_event_regions:
        queues.heads[idx(key_slot), idx(region)].head = records.partial_matches[
            idx(partial_match)
        ].key_newer
    else:
        dequeue(records, queues, key_slot, subset, region, partial_match)


@jit_inline
def _dispatch_to_oldest(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    key_slot: int,
    event: tuple[int, int, int],
) -> bool:
    """Give an event to the oldest partial match of its key that can use it, if there is one."""
    row, time, symbol = event
    best, source = _find_taker(records, queues, tables, key_slot, symbol)
    if best == NONE:
        return False
    transition = tables.transitions[source, symbol]
    _dequeue_taker(records, queues, tables, (key_slot, source, i64(transition.region)), best)
    take(records, queues, tables, output, best, (row, time, symbol, transition))
    return True


@jit_noinline
def _dispatch_to_all(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    key_slot: int,
    event: tuple[int, int, int],
) -> None:
    """Give an event to every partial match of its key that can use it, oldest first (REUSE)."""
    row, time, symbol = event
    moved = 0
    while True:
        partial_match, source = _find_taker(records, queues, tables, key_slot, symbol)
        if partial_match == NONE:
            break
        region = i64(tables.transitions[source, symbol].region)
        _dequeue_taker(records, queues, tables, (key_slot, source, region), partial_match)
        queues.moving[moved, 0] = partial_match
        queues.moving[moved, 1] = source
        moved += 1
    for i in range(moved):
        partial_match, source = i64(queues.moving[i, 0]), i64(queues.moving[i, 1])
        transition = tables.transitions[source, symbol]
        take(records, queues, tables, output, partial_match, (row, time, symbol, transition))


@jit_noinline
def _count_and_negate(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    key: tuple[int, int, int],
    event: tuple[int, int, int],
) -> int:
    """Count an event and apply its NOTs to its key's partial matches; give the key slot."""
    key_slot, hash1, hash2 = key
    _, time, symbol = event
    if tables.events != NONE:
        records.key_slots[idx(key_slot)].count += 1
        expire_by_count(records, queues, tables, output, key_slot, time)
        key_slot = find_key_slot(records, hash1, hash2)
    if key_slot != NONE and tables.symbol_facts[HAS_NOTS, symbol]:
        apply_negation(records, queues, tables, key_slot, symbol)
        key_slot = find_key_slot(records, hash1, hash2)
    return key_slot


@jit_inline
def _dispatch(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    key: tuple[int, int],
    event: tuple[int, int, int],
) -> None:
    """Offer an event to the partial matches of its key, and let it open one if it shall."""
    symbol = event[2]
    key_slot = find_key_slot(records, key[0], key[1])
    if key_slot != NONE and not tables.one_taker:
        key_slot = _count_and_negate(
            records, queues, tables, output, (key_slot, key[0], key[1]), event
        )
    if key_slot != NONE:
        if tables.reuse:
            _dispatch_to_all(records, queues, tables, output, key_slot, event)
            key_slot = find_key_slot(records, key[0], key[1])
        elif _dispatch_to_oldest(records, queues, tables, output, key_slot, event):
            return
    if tables.opens[symbol].target != NONE:
        open_partial_match(records, queues, tables, output, (key_slot, key[0], key[1]), event)


_EVENTS_PER_CHECK = 64
"""For how many events at a time the room is checked."""


@jit_inline
def _capacity(
    records: PartialMatchRecords,
    output: Output,
    tables: KernelTables,
    symbol: int,
    capacity: int,
) -> int:
    """Say for how many events there is room, of which the next has this symbol.

    An event that every partial match may use is checked by itself: a NOT may add a node to one
    that then takes the event, and the event may open one. With a window of events, an event may
    time one out and complete another.
    """
    if not tables.one_taker and (tables.reuse or tables.symbol_facts[HAS_NOTS, symbol]):
        return events_that_fit(records, output, 2 * (i64(records.counts[OPEN]) + 1), i64(1))
    if capacity > 0:
        return capacity
    ends = i64(2) if tables.timed_out and tables.events != NONE else i64(1)
    capacity = events_that_fit(records, output, ends, i64(_EVENTS_PER_CHECK))
    return capacity if capacity > 0 else events_that_fit(records, output, ends, i64(1))


@compiled
def run_fifo(
    records: PartialMatchRecords,
    queues: Queues,
    tables: KernelTables,
    output: Output,
    events: Events,
    span: tuple[int, int],
) -> int:
    """Offer events to the partial matches, then end what the watermark has passed.

    Args:
        records: The partial matches.
        queues: Their queues.
        tables: The pattern.
        output: Where matches go.
        events: The events.
        span: The number of the event to start with, and the watermark behind the last.

    Returns:
        How many events are done, the watermark counting as one behind the last: fewer if the
        arrays are too small to go on, or if a subset must be explored.
    """
    keyed, number = events.hash1.shape[0] > 0, events.number.shape[0]
    start, watermark = span
    capacity = i64(0)
    for i in range(start, number):
        symbol = i64(events.symbols[events.number[i]])
        if symbol == 0 and tables.events == NONE:
            continue
        time = i64(events.time[i])
        if is_due(records, tables.window, time):
            if not expire(records, queues, tables, output, time - tables.window):
                return i
            capacity = i64(0) if tables.timed_out else capacity  # room may have been used up
        capacity = _capacity(records, output, tables, symbol, capacity)
        if capacity <= 0:
            return i
        capacity -= 1
        hash1 = events.hash1[i] if keyed else i64(0)
        hash2 = events.hash2[i] if keyed else i64(0)
        event = (i64(events.row + i), time, symbol)
        _dispatch(records, queues, tables, output, (hash1, hash2), event)
        if records.counts[UNEXPLORED_SUBSET] != NONE:
            return i + 1
    if tables.window == NONE or expire(
        records, queues, tables, output, i64(watermark - tables.window)
    ):
        return number + 1
    return number

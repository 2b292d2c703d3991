"""How queued partial matches end without taking an event: by the window, a NOT or the cap."""

from typing import NamedTuple

import numpy as np

from shedlight.matching.compile.dfa import ACCEPTING, QUEUED
from shedlight.matching.jit import Array, compiled, i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel import partial_queue as queue
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import NONE, Output, PartialMatchRecords
from shedlight.matching.kernel.tables import KernelTables


class Fifo(NamedTuple):
    """All that the kernel works on."""

    records: PartialMatchRecords
    queues: Queues
    tables: KernelTables
    output: Output


@jit_inline
def close(fifo: Fifo, partial_match: int) -> None:
    """Give a partial match that is in no queue and all its nodes back."""
    records, tables = fifo.records, fifo.tables
    record = records.partial_matches[idx(partial_match)]
    if tables.single_event_regions:
        queue.pop_key_list(records, partial_match)
    rec.free_chain(records, i64(record.node), i64(record.size))
    rec.free_partial_match(records, partial_match)


@jit_inline
def dequeue_everywhere(fifo: Fifo, partial_match: int) -> None:
    """Take the oldest partial match of its key out of all its queues; it heads each of them."""
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    key_slot = i64(records.partial_matches[idx(partial_match)].key_slot)
    if tables.single_event_regions:
        queue.advance_region_heads(records, queues, key_slot, tables.regions, partial_match)
        return
    for region in range(tables.regions):
        subset = i64(queues.links[idx(partial_match), idx(region)].state)
        if tables.subset_facts[QUEUED, subset]:
            queue.dequeue(records, queues, key_slot, subset, i64(region), partial_match)


@jit_noinline
def expire(fifo: Fifo, before: int) -> bool:
    """Close the partial matches opened before a time; False if the output is full."""
    records, queues, tables, output = fifo.records, fifo.queues, fifo.tables, fifo.output
    counts = records.counts
    settings = tables.settings
    partial_match = i64(counts[rec.OLDEST])
    while partial_match != NONE and records.partial_matches[idx(partial_match)].time < before:
        writes = settings.absence or settings.timed_out
        if writes and rec.events_that_fit(records, output, i64(1), i64(1)) < 1:
            return False
        dequeue_everywhere(fifo, partial_match)
        subset = queues.links[idx(partial_match), 0].state
        is_match = settings.absence and tables.subset_facts[ACCEPTING, subset]
        if is_match or settings.timed_out:
            end = records.partial_matches[idx(partial_match)].time + settings.window
            rec.emit_match(records, output, partial_match, end)
        if not is_match:
            counts[rec.EXPIRED] += 1
            if settings.timed_out:
                rec.mark_timed_out(records, output)
        close(fifo, partial_match)
        partial_match = i64(counts[rec.OLDEST])
    return True


@jit_noinline
def expire_by_count(fifo: Fifo, key_slot: int, time: int) -> None:
    """Close the partial matches of a key that have seen as many events as the window has.

    Only an event of the key opens a partial match of it, so each event closes one at most.
    """
    records, tables, output = fifo.records, fifo.tables, fifo.output
    limit = records.key_slots[idx(key_slot)].count - tables.settings.events
    while True:
        partial_match = _oldest_of_key(fifo, key_slot)
        if partial_match == NONE or records.partial_matches[idx(partial_match)].count > limit:
            return
        dequeue_everywhere(fifo, partial_match)
        records.counts[rec.EXPIRED] += 1
        if tables.settings.timed_out:
            rec.emit_match(records, output, partial_match, time)
            rec.mark_timed_out(records, output)
        last = records.key_slots[idx(key_slot)].open == 1
        close(fifo, partial_match)
        if last:
            return


@jit_inline
def _oldest_of_key(fifo: Fifo, key_slot: int) -> int:
    records, queues, tables = fifo.records, fifo.queues, fifo.tables
    if tables.single_event_regions:
        return i64(records.key_slots[idx(key_slot)].first)
    oldest = i64(NONE)
    for w in range(queues.filled.shape[1]):
        bits = queues.filled[idx(key_slot), idx(w)]
        while bits:
            subset = i64(w * 64 + queue.lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = queue.oldest_in_queue(records, queues, key_slot, subset)
            if oldest == NONE or queue.is_older(records, head, oldest):
                oldest = head
    return oldest


@jit_inline
def close_all(fifo: Fifo, key_slot: int) -> None:
    """Close all partial matches of a key."""
    records = fifo.records
    for _ in range(records.key_slots[idx(key_slot)].open):
        partial_match = _oldest_of_key(fifo, key_slot)
        dequeue_everywhere(fifo, partial_match)
        close(fifo, partial_match)


@jit_noinline
def evict(fifo: Fifo) -> None:
    """Close the oldest partial match of all, because there are too many."""
    records = fifo.records
    partial_match = i64(records.counts[rec.OLDEST])
    dequeue_everywhere(fifo, partial_match)
    close(fifo, partial_match)
    records.counts[rec.EVICTED] += 1


@compiled
def cancel_queued(fifo: Fifo, keys: Array) -> None:
    """Close all partial matches of some keys, and count them."""
    records = fifo.records
    for i in range(keys.shape[0]):
        key_slot = rec.find_open_key(records, keys, i)
        if key_slot != NONE:
            records.counts[rec.CANCELLED] += records.key_slots[idx(key_slot)].open
            close_all(fifo, key_slot)

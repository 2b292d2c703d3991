"""Queues of partial matches that are alike: the oldest first.

A queue is first-in-first-out as long as partial matches join it in the order of their opening,
which is nearly always. One that joins behind a younger one (after an OR, say, whose
alternatives need different numbers of events) goes to a pairing heap next to the list; the
oldest of the queue is the older of the two heads.

If every region is over with its first event, the partial matches of a key need one list for all
regions, the *key list*: an event goes to the oldest that lacks it, so those that have it are
older, and a region's head says where in the list those that lack it begin.
"""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.records import NONE, PartialMatchRecords

QUEUE = np.dtype([("head", "i4"), ("tail", "i4"), ("root", "i4")], align=True)
LINK = np.dtype([("state", "i4"), ("next", "i4"), ("child", "i4")], align=True)


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _place in range(64):
    _PLACES[((int(_DE_BRUIJN) << _place) & 0xFFFFFFFFFFFFFFFF) >> 58] = _place


class Queues(NamedTuple):
    """The queues of all keys, and each partial match's place in them."""

    heads: Array  # [key slot, subset]
    filled: Array  # [key slot, word] which queues of a key are not empty, as bits
    links: Array  # [partial match, region]
    moving: Array  # [number, 2] partial matches on the move, and from or to which subset


@jit_inline
def lowest_bit(word: np.uint64) -> int:
    """Find the place of the lowest 1 in a word that has one, by a de Bruijn sequence."""
    lowest = word & (~word + np.uint64(1))
    return _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]


@jit_inline
def _meld(partial_matches: Array, links: Array, region: int, record: int, other: int) -> int:
    """Join two heaps; the older root wins."""
    if record == NONE:
        return other
    if other == NONE:
        return record
    if partial_matches[idx(other)].opened < partial_matches[idx(record)].opened:
        record, other = other, record
    links[idx(other), idx(region)].next = links[idx(record), idx(region)].child
    links[idx(record), idx(region)].child = other
    return record


@jit_inline
def is_older(records: PartialMatchRecords, partial_match: int, other: int) -> bool:
    """Whether a partial match was opened before another."""
    partial_matches = records.partial_matches
    return partial_matches[idx(partial_match)].opened < partial_matches[idx(other)].opened


@jit_inline
def enqueue(
    records: PartialMatchRecords, queues: Queues, partial_match: int, subset: int, region: int
) -> None:
    """Put a partial match into the queue of a subset."""
    key_slot = records.partial_matches[idx(partial_match)].key_slot
    links = queues.links
    queue = queues.heads[idx(key_slot), idx(subset)]
    links[idx(partial_match), idx(region)].state = subset
    links[idx(partial_match), idx(region)].next = NONE
    links[idx(partial_match), idx(region)].child = NONE
    if queue.head == NONE:
        queue.head = partial_match
        queue.tail = partial_match
        queues.filled[idx(key_slot), idx(subset >> 6)] |= np.uint64(1) << np.uint64(subset & 63)
    elif is_older(records, queue.tail, partial_match):
        links[idx(queue.tail), idx(region)].next = partial_match
        queue.tail = partial_match
    else:
        queue.root = _meld(
            records.partial_matches, links, region, i64(queue.root), partial_match
        )


@jit_inline
def enqueue_newest(queues: Queues, key_slot: int, region: int, partial_match: int) -> None:
    """Put a partial match that was just opened into the queue at the start of a region."""
    link = queues.links[idx(partial_match), idx(region)]
    queue = queues.heads[idx(key_slot), idx(region)]
    link.state = region
    link.next = NONE
    link.child = NONE
    if queue.head == NONE:
        queue.head = partial_match
        queues.filled[idx(key_slot), idx(region >> 6)] |= np.uint64(1) << np.uint64(region & 63)
    else:
        queues.links[idx(queue.tail), idx(region)].next = partial_match
    queue.tail = partial_match


@jit_inline
def oldest_in_queue(
    records: PartialMatchRecords, queues: Queues, key_slot: int, subset: int
) -> int:
    """Find the oldest partial match of a queue."""
    queue = queues.heads[idx(key_slot), idx(subset)]
    root, head = i64(queue.root), i64(queue.head)
    if root == NONE or is_older(records, head, root):
        return head
    return root


@jit_noinline
def _without_root(partial_matches: Array, links: Array, region: int, root: int) -> int:
    """Take the root off a pairing heap: join its children in pairs, then from the last."""
    pairs = i64(NONE)
    child = i64(links[idx(root), idx(region)].child)
    while child != NONE:
        second = i64(links[idx(child), idx(region)].next)
        after = i64(NONE)
        links[idx(child), idx(region)].next = NONE
        if second != NONE:
            after = i64(links[idx(second), idx(region)].next)
            links[idx(second), idx(region)].next = NONE
        joined = _meld(partial_matches, links, region, child, second)
        links[idx(joined), idx(region)].next = pairs
        pairs = joined
        child = after
    heap = i64(NONE)
    while pairs != NONE:
        after = i64(links[idx(pairs), idx(region)].next)
        links[idx(pairs), idx(region)].next = NONE
        heap = _meld(partial_matches, links, region, heap, pairs)
        pairs = after
    return heap


@jit_inline
def dequeue(
    records: PartialMatchRecords,
    queues: Queues,
    key_slot: int,
    subset: int,
    region: int,
    partial_match: int,
) -> None:
    """Take the oldest partial match out of a queue."""
    queue = queues.heads[idx(key_slot), idx(subset)]
    if partial_match == queue.head:
        queue.head = queues.links[idx(partial_match), idx(region)].next
        if queue.head != NONE:
            return
        queue.tail = NONE
    else:
        queue.root = _without_root(records.partial_matches, queues.links, region, partial_match)
        return
    if queue.root == NONE:
        word = np.uint64(1) << np.uint64(subset & 63)
        queues.filled[idx(key_slot), idx(subset >> 6)] &= ~word
        return
    root = i64(queue.root)  # the list must not be empty while the heap is not
    queue.root = _without_root(records.partial_matches, queues.links, region, root)
    queues.links[idx(root), idx(region)].next = NONE
    queues.links[idx(root), idx(region)].child = NONE
    queue.head = root
    queue.tail = root


@jit_inline
def append_to_key_list(
    records: PartialMatchRecords,
    queues: Queues,
    key_list: tuple[int, int, int],
    partial_match: int,
) -> None:
    """Put a new partial match behind all others of its key.

    `key_list` is the key slot, the number of regions and the region whose event it has.
    """
    key_slot, regions, filled = key_list
    key = records.key_slots[idx(key_slot)]
    records.partial_matches[idx(partial_match)].key_newer = NONE
    if key.last == NONE:
        key.first = partial_match
    else:
        records.partial_matches[idx(key.last)].key_newer = partial_match
    key.last = partial_match
    for region in range(regions):
        if region != filled and queues.heads[idx(key_slot), idx(region)].head == NONE:
            queues.heads[idx(key_slot), idx(region)].head = partial_match


@jit_inline
def pop_key_list(records: PartialMatchRecords, partial_match: int) -> None:
    """Take the oldest partial match of a key out of its list."""
    record = records.partial_matches[idx(partial_match)]
    key = records.key_slots[idx(record.key_slot)]
    key.first = record.key_newer
    if key.first == NONE:
        key.last = NONE


@jit_inline
def advance_region_heads(
    records: PartialMatchRecords,
    queues: Queues,
    key_slot: int,
    regions: int,
    partial_match: int,
) -> None:
    """Let the regions that wait at the oldest partial match of a key wait at the next."""
    for region in range(regions):
        if queues.heads[idx(key_slot), idx(region)].head == partial_match:
            newer = records.partial_matches[idx(partial_match)].key_newer
            queues.heads[idx(key_slot), idx(region)].head = newer

"""Queues of machines that are alike: the oldest first.

A queue is first-in-first-out as long as machines join it in the order of their opening, which
is nearly always. A machine that joins behind a younger one (after an OR, say, whose
alternatives need different numbers of events) goes to a pairing heap beside the list; the
oldest of the queue is the older of the two heads.

If every lane is over with its first event, the machines of a key need one list for all lanes, a
*row*: an event goes to the oldest machine that lacks it, so the machines that have it are the
older ones, and a lane's head says where in the row those that lack it begin.
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
    """The queues of all keys, and each machine's place in them."""

    queues: Array  # [block, subset]
    filled: Array  # [block, word] which queues of a block have a machine, as bits
    links: Array  # [machine, lane]
    moving: Array  # [machine, 2] room for machines on the move, and from or to which subset


@jit_inline
def lowest_bit(word: np.uint64) -> int:
    """Find the place of the lowest 1 in a word that has one, by a de Bruijn sequence."""
    lowest = word & (~word + np.uint64(1))
    return _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]


@jit_inline
def _meld(partial_matches: Array, links: Array, lane: int, one: int, other: int) -> int:
    """Join two heaps; the older root wins."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if partial_matches[idx(other)].opened < partial_matches[idx(one)].opened:
        one, other = other, one
    links[idx(other), idx(lane)].next = links[idx(one), idx(lane)].child
    links[idx(one), idx(lane)].child = other
    return one


@jit_inline
def join(
    pools: PartialMatchRecords, waiting: Queues, partial_match: int, subset: int, lane: int
) -> None:
    """Put a machine into the queue of a subset."""
    block = pools.partial_matches[idx(partial_match)].block
    links = waiting.links
    queue = waiting.queues[idx(block), idx(subset)]
    links[idx(partial_match), idx(lane)].state = subset
    links[idx(partial_match), idx(lane)].next = NONE
    links[idx(partial_match), idx(lane)].child = NONE
    if queue.head == NONE:
        queue.head = partial_match
        queue.tail = partial_match
        waiting.filled[idx(block), idx(subset >> 6)] |= np.uint64(1) << np.uint64(subset & 63)
    elif (
        pools.partial_matches[idx(queue.tail)].opened
        < pools.partial_matches[idx(partial_match)].opened
    ):
        links[idx(queue.tail), idx(lane)].next = partial_match
        queue.tail = partial_match
    else:
        queue.root = _meld(pools.partial_matches, links, lane, i64(queue.root), partial_match)


@jit_inline
def join_last(waiting: Queues, block: int, lane: int, partial_match: int) -> None:
    """Put a machine that was just opened into the queue at the start of a lane."""
    link = waiting.links[idx(partial_match), idx(lane)]
    queue = waiting.queues[idx(block), idx(lane)]
    link.state = lane
    link.next = NONE
    link.child = NONE
    if queue.head == NONE:
        queue.head = partial_match
        waiting.filled[idx(block), idx(lane >> 6)] |= np.uint64(1) << np.uint64(lane & 63)
    else:
        waiting.links[idx(queue.tail), idx(lane)].next = partial_match
    queue.tail = partial_match


@jit_inline
def oldest(pools: PartialMatchRecords, waiting: Queues, block: int, subset: int) -> int:
    """Find the oldest machine of a queue."""
    queue = waiting.queues[idx(block), idx(subset)]
    root, head = i64(queue.root), i64(queue.head)
    if (
        root == NONE
        or pools.partial_matches[idx(head)].opened < pools.partial_matches[idx(root)].opened
    ):
        return head
    return root


@jit_noinline
def _without_root(partial_matches: Array, links: Array, lane: int, root: int) -> int:
    """Take the root off a pairing heap: join its children in pairs, then from the last."""
    pairs = i64(NONE)
    child = i64(links[idx(root), idx(lane)].child)
    while child != NONE:
        second = i64(links[idx(child), idx(lane)].next)
        rest = i64(NONE)
        links[idx(child), idx(lane)].next = NONE
        if second != NONE:
            rest = i64(links[idx(second), idx(lane)].next)
            links[idx(second), idx(lane)].next = NONE
        joined = _meld(partial_matches, links, lane, child, second)
        links[idx(joined), idx(lane)].next = pairs
        pairs = joined
        child = rest
    heap = i64(NONE)
    while pairs != NONE:
        rest = i64(links[idx(pairs), idx(lane)].next)
        links[idx(pairs), idx(lane)].next = NONE
        heap = _meld(partial_matches, links, lane, heap, pairs)
        pairs = rest
    return heap


@jit_inline
def leave(
    pools: PartialMatchRecords,
    waiting: Queues,
    block: int,
    subset: int,
    lane: int,
    partial_match: int,
) -> None:
    """Take the oldest machine out of a queue."""
    queue = waiting.queues[idx(block), idx(subset)]
    if partial_match == queue.head:
        queue.head = waiting.links[idx(partial_match), idx(lane)].next
        if queue.head != NONE:
            return
        queue.tail = NONE
    else:
        queue.root = _without_root(pools.partial_matches, waiting.links, lane, partial_match)
        return
    if queue.root == NONE:
        word = np.uint64(1) << np.uint64(subset & 63)
        waiting.filled[idx(block), idx(subset >> 6)] &= ~word
        return
    root = i64(queue.root)  # the list must not be empty while the heap is not
    queue.root = _without_root(pools.partial_matches, waiting.links, lane, root)
    waiting.links[idx(root), idx(lane)].next = NONE
    waiting.links[idx(root), idx(lane)].child = NONE
    queue.head = root
    queue.tail = root


@jit_inline
def join_row(
    pools: PartialMatchRecords, waiting: Queues, place: tuple[int, int, int], partial_match: int
) -> None:
    """Put a machine that was just opened behind all others of its key.

    Args:
        pools: The machines.
        waiting: The heads of the lanes.
        place: The block, the number of lanes and the lane whose event the machine has.
        partial_match: The machine.
    """
    block, lanes, filled = place
    key = pools.blocks[idx(block)]
    pools.partial_matches[idx(partial_match)].key_newer = NONE
    if key.last == NONE:
        key.first = partial_match
    else:
        pools.partial_matches[idx(key.last)].key_newer = partial_match
    key.last = partial_match
    for lane in range(lanes):
        if lane != filled and waiting.queues[idx(block), idx(lane)].head == NONE:
            waiting.queues[idx(block), idx(lane)].head = partial_match


@jit_inline
def leave_row(pools: PartialMatchRecords, partial_match: int) -> None:
    """Take the oldest machine of a key out of the row."""
    one = pools.partial_matches[idx(partial_match)]
    key = pools.blocks[idx(one.block)]
    key.first = one.key_newer
    if key.first == NONE:
        key.last = NONE


@jit_inline
def pass_by(
    pools: PartialMatchRecords, waiting: Queues, block: int, lanes: int, partial_match: int
) -> None:
    """Let the lanes that wait at the oldest machine of a key wait at the next."""
    for lane in range(lanes):
        if waiting.queues[idx(block), idx(lane)].head == partial_match:
            waiting.queues[idx(block), idx(lane)].head = pools.partial_matches[
                idx(partial_match)
            ].key_newer

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

from shedlight.matching.kernel.jit import apart, step
from shedlight.matching.kernel.records import NONE, Array, Pools, at, whole

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


@step
def lowest_bit(word: np.uint64) -> int:
    """Find the place of the lowest 1 in a word that has one, by a de Bruijn sequence."""
    lowest = word & (~word + np.uint64(1))
    return _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]


@step
def _meld(machines: Array, links: Array, lane: int, one: int, other: int) -> int:
    """Join two heaps; the older root wins."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if machines[at(other)].opened < machines[at(one)].opened:
        one, other = other, one
    links[at(other), at(lane)].next = links[at(one), at(lane)].child
    links[at(one), at(lane)].child = other
    return one


@step
def join(pools: Pools, waiting: Queues, machine: int, subset: int, lane: int) -> None:
    """Put a machine into the queue of a subset."""
    block = pools.machines[at(machine)].block
    links = waiting.links
    queue = waiting.queues[at(block), at(subset)]
    links[at(machine), at(lane)].state = subset
    links[at(machine), at(lane)].next = NONE
    links[at(machine), at(lane)].child = NONE
    if queue.head == NONE:
        queue.head = machine
        queue.tail = machine
        waiting.filled[at(block), at(subset >> 6)] |= np.uint64(1) << np.uint64(subset & 63)
    elif pools.machines[at(queue.tail)].opened < pools.machines[at(machine)].opened:
        links[at(queue.tail), at(lane)].next = machine
        queue.tail = machine
    else:
        queue.root = _meld(pools.machines, links, lane, whole(queue.root), machine)


@step
def join_last(waiting: Queues, block: int, lane: int, machine: int) -> None:
    """Put a machine that was just opened into the queue at the start of a lane."""
    link = waiting.links[at(machine), at(lane)]
    queue = waiting.queues[at(block), at(lane)]
    link.state = lane
    link.next = NONE
    link.child = NONE
    if queue.head == NONE:
        queue.head = machine
        waiting.filled[at(block), at(lane >> 6)] |= np.uint64(1) << np.uint64(lane & 63)
    else:
        waiting.links[at(queue.tail), at(lane)].next = machine
    queue.tail = machine


@step
def oldest(pools: Pools, waiting: Queues, block: int, subset: int) -> int:
    """Find the oldest machine of a queue."""
    queue = waiting.queues[at(block), at(subset)]
    root, head = whole(queue.root), whole(queue.head)
    if root == NONE or pools.machines[at(head)].opened < pools.machines[at(root)].opened:
        return head
    return root


@apart
def _without_root(machines: Array, links: Array, lane: int, root: int) -> int:
    """Take the root off a pairing heap: join its children in pairs, then from the last."""
    pairs = whole(NONE)
    child = whole(links[at(root), at(lane)].child)
    while child != NONE:
        second = whole(links[at(child), at(lane)].next)
        rest = whole(NONE)
        links[at(child), at(lane)].next = NONE
        if second != NONE:
            rest = whole(links[at(second), at(lane)].next)
            links[at(second), at(lane)].next = NONE
        joined = _meld(machines, links, lane, child, second)
        links[at(joined), at(lane)].next = pairs
        pairs = joined
        child = rest
    heap = whole(NONE)
    while pairs != NONE:
        rest = whole(links[at(pairs), at(lane)].next)
        links[at(pairs), at(lane)].next = NONE
        heap = _meld(machines, links, lane, heap, pairs)
        pairs = rest
    return heap


@step
def leave(
    pools: Pools, waiting: Queues, block: int, subset: int, lane: int, machine: int
) -> None:
    """Take the oldest machine out of a queue."""
    queue = waiting.queues[at(block), at(subset)]
    if machine == queue.head:
        queue.head = waiting.links[at(machine), at(lane)].next
        if queue.head != NONE:
            return
        queue.tail = NONE
    else:
        queue.root = _without_root(pools.machines, waiting.links, lane, machine)
        return
    if queue.root == NONE:
        word = np.uint64(1) << np.uint64(subset & 63)
        waiting.filled[at(block), at(subset >> 6)] &= ~word
        return
    root = whole(queue.root)  # the list must not be empty while the heap is not
    queue.root = _without_root(pools.machines, waiting.links, lane, root)
    waiting.links[at(root), at(lane)].next = NONE
    waiting.links[at(root), at(lane)].child = NONE
    queue.head = root
    queue.tail = root


@step
def join_row(pools: Pools, waiting: Queues, place: tuple[int, int, int], machine: int) -> None:
    """Put a machine that was just opened behind all others of its key.

    Args:
        pools: The machines.
        waiting: The heads of the lanes.
        place: The block, the number of lanes and the lane whose event the machine has.
        machine: The machine.
    """
    block, lanes, filled = place
    key = pools.blocks[at(block)]
    pools.machines[at(machine)].key_newer = NONE
    if key.last == NONE:
        key.first = machine
    else:
        pools.machines[at(key.last)].key_newer = machine
    key.last = machine
    for lane in range(lanes):
        if lane != filled and waiting.queues[at(block), at(lane)].head == NONE:
            waiting.queues[at(block), at(lane)].head = machine


@step
def leave_row(pools: Pools, machine: int) -> None:
    """Take the oldest machine of a key out of the row."""
    one = pools.machines[at(machine)]
    key = pools.blocks[at(one.block)]
    key.first = one.key_newer
    if key.first == NONE:
        key.last = NONE


@step
def pass_by(pools: Pools, waiting: Queues, block: int, lanes: int, machine: int) -> None:
    """Let the lanes that wait at the oldest machine of a key wait at the next."""
    for lane in range(lanes):
        if waiting.queues[at(block), at(lane)].head == machine:
            waiting.queues[at(block), at(lane)].head = pools.machines[at(machine)].key_newer

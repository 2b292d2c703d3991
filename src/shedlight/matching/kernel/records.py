"""The open machines of a pattern as flat arrays, and the compiled steps that all kernels share.

A machine, an event it has taken (a node) and a key with open machines (a block) are rows of
arrays that are used again when they are free. Machines form one list from the oldest to the
newest, so that the window closes them from one end. Keys are found by a hash table.

All functions here are compiled and change arrays in place; `state.py` makes a value of them.
"""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, compiled, i64, idx, jit_inline

PARTIAL_MATCH = np.dtype(
    [  # what most events touch comes first
        ("time", "i8"),  # of the first event, in microseconds
        ("node", "i4"),  # the last event taken
        ("block", "i4"),  # its key
        ("left", "i4"),  # lanes that do not accept yet
        ("size", "i4"),  # length of the chain of nodes
        ("older", "i4"),
        ("newer", "i4"),
        ("key_newer", "i4"),  # neighbours among the machines of its key
        ("key_older", "i4"),
        ("opened", "i8"),  # running number: the order of opening
        ("count", "i8"),  # how many events its key had seen when it opened, that one included
        ("threads", "i4"),  # first of its assignments (scan kernel)
        ("nodes", "i4"),  # first of all its nodes (scan kernel)
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("row", "i4"),  # of the event; FORBIDDEN for a NOT that changed the state; FREE
        ("mark", "i4"),  # the symbol of the event
        ("element", "i4"),  # who took it, -1 where that is settled at the end
        ("before", "i4"),  # the node before
        ("other", "i4"),  # next node of the same machine (scan kernel)
    ],
    align=True,
)
BLOCK = np.dtype(
    [
        ("hash1", "i8"),
        ("hash2", "i8"),
        ("count", "i8"),  # events seen while machines were open
        ("open", "i4"),
        ("first", "i4"),  # oldest machine of the key (scan kernel)
        ("last", "i4"),
        ("slot", "i4"),  # place in the hash table
    ],
    align=True,
)
FORBIDDEN = -2
FREE = -1
NONE = -1

# Numbers about a pool, by place in `counts`.
(
    PARTIAL_MATCHES,  # rows ever used
    FREE_MACHINE,  # first of the free ones
    NODES,
    FREE_NODE,
    USED_NODES,
    BLOCKS,
    FREE_BLOCK,
    OPEN,  # machines open now
    OLDEST,
    NEWEST,
    OPENED,  # machines ever opened
    EXPIRED,  # machines that the window closed
    EVICTED,  # machines that the cap closed
    LONGEST,  # longest chain so far
    MATCHES,  # matches written out in this call
    OUT,  # nodes written out in this call
    THREADS,
    FREE_THREAD,
    USED_THREADS,
    DROPPED,  # assignments beyond the cap
    KEYS,  # blocks in use
    KEYED,  # whether there are keys at all; if not, one block serves for good
    WANTED,  # a subset that must be explored before the next event, or NONE
    COUNTS,
) = range(24)


class PartialMatchRecords(NamedTuple):
    """The arrays of one pattern's machines."""

    counts: Array
    partial_matches: Array
    nodes: Array
    blocks: Array
    table: Array  # block by hash, NONE where free


class Output(NamedTuple):
    """What a kernel writes out: matches and the chains of their nodes."""

    matches: Array  # [TIME or END, match]; machines that timed out are among them
    rows: Array  # the nodes of all matches: their rows, marks and elements
    marks: Array  # empty where no element is left open
    elements: Array


# What `Output.matches` says of a match: its timestamp and where its chain ends. Of a machine
# that timed out END has every bit the other way round, and so is below zero.
TIME, END = range(2)


@jit_inline
def find_block(pools: PartialMatchRecords, hash1: int, hash2: int) -> int:
    """Find the block of a key, or NONE."""
    if not pools.counts[KEYED]:
        return i64(pools.counts[KEYS] - 1)
    mask = pools.table.shape[0] - 1
    slot = hash1 & mask
    while pools.table[slot] != NONE:
        block = pools.table[slot]
        if pools.blocks[idx(block)].hash1 == hash1 and pools.blocks[idx(block)].hash2 == hash2:
            return i64(block)
        slot = (slot + 1) & mask
    return i64(NONE)


@jit_inline
def enter_table(pools: PartialMatchRecords, block: int) -> None:
    """Put a key that is not there yet into the hash table."""
    mask = pools.table.shape[0] - 1
    slot = pools.blocks[idx(block)].hash1 & mask
    while pools.table[slot] != NONE:
        slot = (slot + 1) & mask
    pools.table[slot] = block
    pools.blocks[idx(block)].slot = slot


@compiled
def enter_all(pools: PartialMatchRecords) -> None:
    """Fill an empty hash table."""
    for block in range(pools.counts[BLOCKS]):
        if pools.blocks[idx(block)].open != FREE:
            enter_table(pools, block)


@jit_inline
def new_block(pools: PartialMatchRecords, hash1: int, hash2: int) -> int:
    """Make a block for a key that has none; the caller has made sure of room."""
    counts = pools.counts
    block = counts[FREE_BLOCK]
    if block != NONE:
        counts[FREE_BLOCK] = pools.blocks[idx(block)].first
    else:
        block = counts[BLOCKS]
        counts[BLOCKS] += 1
    counts[KEYS] += 1
    pools.blocks[idx(block)].hash1 = hash1
    pools.blocks[idx(block)].hash2 = hash2
    enter_table(pools, block)
    pools.blocks[idx(block)].count = 0
    pools.blocks[idx(block)].open = 0
    pools.blocks[idx(block)].first = NONE
    pools.blocks[idx(block)].last = NONE
    return block


@jit_inline
def free_block(pools: PartialMatchRecords, block: int) -> None:
    """Give a key's block back; keys behind it in the hash table move up."""
    mask = pools.table.shape[0] - 1
    hole = pools.blocks[idx(block)].slot
    slot = (hole + 1) & mask
    while pools.table[slot] != NONE:
        other = pools.table[slot]
        home = pools.blocks[idx(other)].hash1 & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            pools.table[hole] = other
            pools.blocks[idx(other)].slot = hole
            hole = slot
        slot = (slot + 1) & mask
    pools.table[hole] = NONE
    pools.blocks[idx(block)].open = FREE
    pools.blocks[idx(block)].first = pools.counts[FREE_BLOCK]
    pools.counts[FREE_BLOCK] = block
    pools.counts[KEYS] -= 1


@jit_inline
def new_node(pools: PartialMatchRecords, row: int, mark: int, element: int, before: int) -> int:
    """Make a node; the caller has made sure of room."""
    counts = pools.counts
    node = counts[FREE_NODE]
    if node != NONE:
        counts[FREE_NODE] = pools.nodes[idx(node)].before
    else:
        node = counts[NODES]
        counts[NODES] += 1
    counts[USED_NODES] += 1
    pools.nodes[idx(node)].row = row
    pools.nodes[idx(node)].mark = mark
    pools.nodes[idx(node)].element = element
    pools.nodes[idx(node)].before = before
    return node


@jit_inline
def free_chain(pools: PartialMatchRecords, last: int, size: int) -> None:
    """Give a whole chain of nodes back; it is its own list of free nodes."""
    if last == NONE:
        return
    node = first = last
    while node != NONE:
        pools.nodes[idx(node)].row = FREE
        first = node
        node = i64(pools.nodes[idx(node)].before)
    pools.nodes[idx(first)].before = pools.counts[FREE_NODE]
    pools.counts[FREE_NODE] = last
    pools.counts[USED_NODES] -= size


@jit_inline
def free_node(pools: PartialMatchRecords, node: int) -> None:
    """Give a node back."""
    pools.nodes[idx(node)].row = FREE
    pools.nodes[idx(node)].before = pools.counts[FREE_NODE]
    pools.counts[FREE_NODE] = node
    pools.counts[USED_NODES] -= 1


@jit_inline
def new_partial_match(pools: PartialMatchRecords, block: int, time: int) -> int:
    """Open a machine as the newest one; the caller has made sure of room."""
    counts = pools.counts
    partial_match = counts[FREE_MACHINE]
    if partial_match != NONE:
        counts[FREE_MACHINE] = pools.partial_matches[idx(partial_match)].newer
    else:
        partial_match = counts[PARTIAL_MATCHES]
        counts[PARTIAL_MATCHES] += 1
    one = pools.partial_matches[idx(partial_match)]
    one.opened = counts[OPENED]
    one.time = time
    one.count = pools.blocks[idx(block)].count
    one.node = NONE
    one.block = block
    one.left = 0
    one.size = 0
    one.threads = NONE
    one.nodes = NONE
    one.older = counts[NEWEST]
    one.newer = NONE
    if counts[NEWEST] != NONE:
        pools.partial_matches[counts[NEWEST]].newer = partial_match
    else:
        counts[OLDEST] = partial_match
    counts[NEWEST] = partial_match
    counts[OPENED] += 1
    counts[OPEN] += 1
    pools.blocks[idx(block)].open += 1
    return partial_match


@jit_inline
def free_partial_match(pools: PartialMatchRecords, partial_match: int) -> None:
    """Take a machine out of the list and give it back; its key too, if it was the last."""
    counts = pools.counts
    one = pools.partial_matches[idx(partial_match)]
    if one.older != NONE:
        pools.partial_matches[idx(one.older)].newer = one.newer
    else:
        counts[OLDEST] = one.newer
    if one.newer != NONE:
        pools.partial_matches[idx(one.newer)].older = one.older
    else:
        counts[NEWEST] = one.older
    block = i64(one.block)
    one.block = FREE
    one.newer = counts[FREE_MACHINE]
    counts[FREE_MACHINE] = partial_match
    counts[OPEN] -= 1
    pools.blocks[idx(block)].open -= 1
    if pools.blocks[idx(block)].open == 0 and pools.counts[KEYED]:
        free_block(pools, block)


@jit_inline
def is_due(pools: PartialMatchRecords, window: int, time: int) -> bool:
    """Whether the window of the oldest machine is over."""
    oldest = pools.counts[OLDEST]
    if oldest == NONE:
        return False
    return window != NONE and pools.partial_matches[idx(oldest)].time < time - window


@jit_inline
def _begin_match(pools: PartialMatchRecords, output: Output, size: int, time: int) -> int:
    """Write a match of so many nodes out, and say where its chain ends."""
    counts = pools.counts
    place = counts[OUT] + size
    counts[OUT] = place
    number = idx(counts[MATCHES])
    output.matches[TIME, number] = time
    output.matches[END, number] = place
    counts[MATCHES] += 1
    return place


@jit_inline
def hand_out(pools: PartialMatchRecords, output: Output, partial_match: int, time: int) -> None:
    """Write the match of a machine out, and give the nodes of its chain back."""
    counts = pools.counts
    one = pools.partial_matches[idx(partial_match)]
    place = _begin_match(pools, output, i64(one.size), time)
    marked = output.marks.shape[0] > 0
    free, node = i64(counts[FREE_NODE]), i64(one.node)
    counts[FREE_NODE] = node
    counts[USED_NODES] -= one.size
    while node != NONE:
        place -= 1
        link = pools.nodes[idx(node)]
        before = i64(link.before)
        output.rows[idx(place)] = link.row
        output.elements[idx(place)] = link.element
        if marked:
            output.marks[idx(place)] = link.mark
        link.row = FREE
        if before == NONE:
            link.before = free
        node = before
    one.node = NONE


@jit_inline
def write_match(
    pools: PartialMatchRecords, output: Output, last: int, size: int, time: int
) -> None:
    """Write a match out: the chain of so many nodes that ends in `last`."""
    place = _begin_match(pools, output, size, time)
    node = last
    while node != NONE:
        place -= 1
        one = pools.nodes[idx(node)]
        output.rows[idx(place)] = one.row
        output.elements[idx(place)] = one.element
        if output.marks.shape[0]:
            output.marks[idx(place)] = one.mark
        node = i64(one.before)


@jit_inline
def mark_timed_out(pools: PartialMatchRecords, output: Output) -> None:
    """Say of what was written out last that it is no match: its machine timed out."""
    last = idx(pools.counts[MATCHES] - 1)
    output.matches[END, last] = ~output.matches[END, last]


@jit_inline
def room(pools: PartialMatchRecords, output: Output, takers: int, most: int) -> int:
    """Say how many events surely fit, up to `most`, if each has so many takers."""
    counts = pools.counts
    longest = counts[LONGEST] + most + 1
    return min(
        most,
        pools.partial_matches.shape[0] - counts[OPEN],
        pools.blocks.shape[0] - counts[KEYS] if counts[KEYED] else most,
        (pools.nodes.shape[0] - counts[USED_NODES]) // takers,
        (output.matches.shape[1] - counts[MATCHES]) // takers,
        (output.rows.shape[0] - counts[OUT]) // (takers * longest),
    )

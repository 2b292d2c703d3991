"""The partial matches of a pattern as flat arrays, and the compiled steps all kernels share.

A partial match, an event it has taken (a node) and a key with partial matches (a key slot) are
rows of arrays that are used again when they are free. Partial matches form one list from the
oldest to the newest, so that the window closes them from one end. Keys are found by a hash
table.

Functions here are compiled and change arrays in place; `match_state.py` makes a value of them.
"""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, compiled, i64, idx, jit_inline

PARTIAL_MATCH = np.dtype(
    [  # what most events touch comes first
        ("time", "i8"),  # of the first event, in microseconds
        ("node", "i4"),  # the last event taken
        ("key_slot", "i4"),  # its key
        ("regions_pending", "i4"),  # regions that do not accept yet
        ("size", "i4"),  # length of the chain of nodes
        ("older", "i4"),
        ("newer", "i4"),
        ("key_newer", "i4"),  # neighbours among the partial matches of its key
        ("key_older", "i4"),
        ("opened", "i8"),  # running number: the order of opening
        ("count", "i8"),  # how many events its key had seen when it opened, that one included
        ("bindings", "i4"),  # first of its bindings (scan kernel)
        ("nodes", "i4"),  # first of all its nodes (scan kernel)
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("row", "i4"),  # of the event; NEGATION_HIT for a NOT that changed the state; FREE
        ("symbol", "i4"),  # the symbol of the event
        ("element", "i4"),  # who took it, -1 where that is settled at the end
        ("before", "i4"),  # the node before
        ("other", "i4"),  # next node of the same partial match (scan kernel)
    ],
    align=True,
)
KEY_SLOT = np.dtype(
    [
        ("hash1", "i8"),
        ("hash2", "i8"),
        ("count", "i8"),  # events seen while partial matches were open
        ("entries", "i8"),  # the number of its entries in the index, NONE if it has none
        ("open", "i4"),
        ("first", "i4"),  # oldest partial match of the key (scan kernel)
        ("last", "i4"),
        ("slot", "i4"),  # index in the hash table
    ],
    align=True,
)
NEGATION_HIT = -2
FREE = -1
NONE = -1

# What is counted, by index in `counts`.
(
    PARTIAL_MATCHES,  # rows ever used
    FREE_PARTIAL_MATCH,  # first of the free ones
    NODES,
    FREE_NODE,
    USED_NODES,
    KEY_SLOTS,
    FREE_KEY_SLOT,
    OPEN,  # partial matches open now
    OLDEST,
    NEWEST,
    OPENED,  # partial matches ever opened
    EXPIRED,  # partial matches that the window closed
    EVICTED,  # partial matches that the cap closed
    LONGEST,  # longest chain so far
    MATCHES,  # matches written out in this call
    OUT,  # nodes written out in this call
    BINDINGS,
    FREE_BINDING,
    USED_BINDINGS,
    DROPPED,  # bindings beyond the cap
    USED_KEY_SLOTS,  # key slots in use
    KEYED,  # whether there are keys at all; if not, one key slot serves for good
    CANCELLED,  # partial matches that were cancelled by key
    UNEXPLORED_SUBSET,  # a subset that must be explored before the next event, or NONE
    WITHOUT_KEY,  # events so far of which an implicit key was null
    COUNTS,
) = range(26)
IMPLICITLY = 2  # what KEYED is if the keys are implied by conditions


class PartialMatchRecords(NamedTuple):
    """The arrays of one pattern's partial matches."""

    counts: Array
    partial_matches: Array
    nodes: Array
    key_slots: Array
    table: Array  # key slot by hash, NONE where free


class Output(NamedTuple):
    """What a kernel writes out: matches and the chains of their nodes."""

    matches: Array  # [TIME or END, match]; partial matches that timed out are among them
    rows: Array  # the nodes of all matches: their rows, marks and elements
    symbols: Array  # empty where no element is left open
    elements: Array


# What `Output.matches` says of a match: its timestamp, where its chain ends, the timestamp of
# its first event, and the first hash of its key. Of a partial match that timed out END has
# every bit the other way round, and so is below zero.
MATCH_FIELDS = TIME, END, START, KEY = range(4)


@jit_inline
def find_key_slot(records: PartialMatchRecords, hash1: int, hash2: int) -> int:
    """Find the key slot of a key, or NONE."""
    if not records.counts[KEYED]:
        return i64(records.counts[USED_KEY_SLOTS] - 1)
    mask = records.table.shape[0] - 1
    slot = hash1 & mask
    while records.table[slot] != NONE:
        key_slot = records.table[slot]
        if (
            records.key_slots[idx(key_slot)].hash1 == hash1
            and records.key_slots[idx(key_slot)].hash2 == hash2
        ):
            return i64(key_slot)
        slot = (slot + 1) & mask
    return i64(NONE)


@jit_inline
def find_open_key(records: PartialMatchRecords, keys: Array, number: int) -> int:
    """Find the key slot of one of some keys, or NONE; without PARTITION BY, that of (0, 0)."""
    hash1, hash2 = i64(keys[number, 0]), i64(keys[number, 1])
    key_slot = find_key_slot(records, hash1, hash2)
    if key_slot != NONE and (
        records.key_slots[idx(key_slot)].hash1 != hash1
        or records.key_slots[idx(key_slot)].hash2 != hash2
    ):
        return i64(NONE)
    return key_slot


@jit_inline
def enter_table(records: PartialMatchRecords, key_slot: int) -> None:
    """Put a key that is not there yet into the hash table."""
    mask = records.table.shape[0] - 1
    slot = records.key_slots[idx(key_slot)].hash1 & mask
    while records.table[slot] != NONE:
        slot = (slot + 1) & mask
    records.table[slot] = key_slot
    records.key_slots[idx(key_slot)].slot = slot


@compiled
def enter_all(records: PartialMatchRecords) -> None:
    """Fill an empty hash table."""
    for key_slot in range(records.counts[KEY_SLOTS]):
        if records.key_slots[idx(key_slot)].open != FREE:
            enter_table(records, key_slot)


@jit_inline
def new_key_slot(records: PartialMatchRecords, hash1: int, hash2: int) -> int:
    """Make a key slot for a key that has none; the caller has made sure of room."""
    counts = records.counts
    key_slot = counts[FREE_KEY_SLOT]
    if key_slot != NONE:
        counts[FREE_KEY_SLOT] = records.key_slots[idx(key_slot)].first
    else:
        key_slot = counts[KEY_SLOTS]
        counts[KEY_SLOTS] += 1
    counts[USED_KEY_SLOTS] += 1
    records.key_slots[idx(key_slot)].hash1 = hash1
    records.key_slots[idx(key_slot)].hash2 = hash2
    enter_table(records, key_slot)
    records.key_slots[idx(key_slot)].count = 0
    records.key_slots[idx(key_slot)].open = 0
    records.key_slots[idx(key_slot)].entries = NONE
    records.key_slots[idx(key_slot)].first = NONE
    records.key_slots[idx(key_slot)].last = NONE
    return key_slot


@jit_inline
def free_key_slot(records: PartialMatchRecords, key_slot: int) -> None:
    """Give a key's key slot back; keys behind it in the hash table move up."""
    mask = records.table.shape[0] - 1
    hole = records.key_slots[idx(key_slot)].slot
    slot = (hole + 1) & mask
    while records.table[slot] != NONE:
        other = records.table[slot]
        home = records.key_slots[idx(other)].hash1 & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            records.table[hole] = other
            records.key_slots[idx(other)].slot = hole
            hole = slot
        slot = (slot + 1) & mask
    records.table[hole] = NONE
    records.key_slots[idx(key_slot)].open = FREE
    records.key_slots[idx(key_slot)].first = records.counts[FREE_KEY_SLOT]
    records.counts[FREE_KEY_SLOT] = key_slot
    records.counts[USED_KEY_SLOTS] -= 1


@jit_inline
def new_node(
    records: PartialMatchRecords, row: int, symbol: int, element: int, before: int
) -> int:
    """Make a node; the caller has made sure of room."""
    counts = records.counts
    node = counts[FREE_NODE]
    if node != NONE:
        counts[FREE_NODE] = records.nodes[idx(node)].before
    else:
        node = counts[NODES]
        counts[NODES] += 1
    counts[USED_NODES] += 1
    records.nodes[idx(node)].row = row
    records.nodes[idx(node)].symbol = symbol
    records.nodes[idx(node)].element = element
    records.nodes[idx(node)].before = before
    return node


@jit_inline
def free_chain(records: PartialMatchRecords, last: int, size: int) -> None:
    """Give a whole chain of nodes back; it is its own list of free nodes."""
    if last == NONE:
        return
    node = first = last
    while node != NONE:
        records.nodes[idx(node)].row = FREE
        first = node
        node = i64(records.nodes[idx(node)].before)
    records.nodes[idx(first)].before = records.counts[FREE_NODE]
    records.counts[FREE_NODE] = last
    records.counts[USED_NODES] -= size


@jit_inline
def free_node(records: PartialMatchRecords, node: int) -> None:
    """Give a node back."""
    records.nodes[idx(node)].row = FREE
    records.nodes[idx(node)].before = records.counts[FREE_NODE]
    records.counts[FREE_NODE] = node
    records.counts[USED_NODES] -= 1


@jit_inline
def new_partial_match(records: PartialMatchRecords, key_slot: int, time: int) -> int:
    """Open a partial match as the newest one; the caller has made sure of room."""
    counts = records.counts
    partial_match = counts[FREE_PARTIAL_MATCH]
    if partial_match != NONE:
        counts[FREE_PARTIAL_MATCH] = records.partial_matches[idx(partial_match)].newer
    else:
        partial_match = counts[PARTIAL_MATCHES]
        counts[PARTIAL_MATCHES] += 1
    record = records.partial_matches[idx(partial_match)]
    record.opened = counts[OPENED]
    record.time = time
    record.count = records.key_slots[idx(key_slot)].count
    record.node = NONE
    record.key_slot = key_slot
    record.regions_pending = 0
    record.size = 0
    record.bindings = NONE
    record.nodes = NONE
    record.older = counts[NEWEST]
    record.newer = NONE
    if counts[NEWEST] != NONE:
        records.partial_matches[counts[NEWEST]].newer = partial_match
    else:
        counts[OLDEST] = partial_match
    counts[NEWEST] = partial_match
    counts[OPENED] += 1
    counts[OPEN] += 1
    records.key_slots[idx(key_slot)].open += 1
    return partial_match


@jit_inline
def free_partial_match(records: PartialMatchRecords, partial_match: int) -> None:
    """Take a partial match out of the list and free it; its key too, if it was the last."""
    counts = records.counts
    record = records.partial_matches[idx(partial_match)]
    if record.older != NONE:
        records.partial_matches[idx(record.older)].newer = record.newer
    else:
        counts[OLDEST] = record.newer
    if record.newer != NONE:
        records.partial_matches[idx(record.newer)].older = record.older
    else:
        counts[NEWEST] = record.older
    key_slot = i64(record.key_slot)
    record.key_slot = FREE
    record.newer = counts[FREE_PARTIAL_MATCH]
    counts[FREE_PARTIAL_MATCH] = partial_match
    counts[OPEN] -= 1
    records.key_slots[idx(key_slot)].open -= 1
    if records.key_slots[idx(key_slot)].open == 0 and records.counts[KEYED]:
        free_key_slot(records, key_slot)


@jit_inline
def is_due(records: PartialMatchRecords, window: int, time: int) -> bool:
    """Whether the window of the oldest partial match is over."""
    oldest = records.counts[OLDEST]
    if oldest == NONE:
        return False
    return window != NONE and records.partial_matches[idx(oldest)].time < time - window


@jit_inline
def _begin_match(
    records: PartialMatchRecords, output: Output, partial_match: int, time: int
) -> int:
    """Write the match of a partial match out, and say where its chain ends."""
    counts = records.counts
    record = records.partial_matches[idx(partial_match)]
    position = counts[OUT] + i64(record.size)
    counts[OUT] = position
    number = idx(counts[MATCHES])
    output.matches[TIME, number] = time
    output.matches[END, number] = position
    output.matches[START, number] = record.time
    output.matches[KEY, number] = records.key_slots[idx(record.key_slot)].hash1
    counts[MATCHES] += 1
    return position


@jit_inline
def emit_match(
    records: PartialMatchRecords, output: Output, partial_match: int, time: int
) -> None:
    """Write the match of a partial match out, and give the nodes of its chain back."""
    counts = records.counts
    record = records.partial_matches[idx(partial_match)]
    position = _begin_match(records, output, partial_match, time)
    with_symbols = output.symbols.shape[0] > 0
    free, node = i64(counts[FREE_NODE]), i64(record.node)
    counts[FREE_NODE] = node
    counts[USED_NODES] -= record.size
    while node != NONE:
        position -= 1
        link = records.nodes[idx(node)]
        before = i64(link.before)
        output.rows[idx(position)] = link.row
        output.elements[idx(position)] = link.element
        if with_symbols:
            output.symbols[idx(position)] = link.symbol
        link.row = FREE
        if before == NONE:
            link.before = free
        node = before
    record.node = NONE


@jit_inline
def _write_chain(
    records: PartialMatchRecords, output: Output, last: int, position: int
) -> None:
    node = last
    while node != NONE:
        position -= 1
        record = records.nodes[idx(node)]
        output.rows[idx(position)] = record.row
        output.elements[idx(position)] = record.element
        if output.symbols.shape[0]:
            output.symbols[idx(position)] = record.symbol
        node = i64(record.before)


@jit_inline
def write_match(
    records: PartialMatchRecords, output: Output, partial_match: int, last: int, time: int
) -> None:
    """Write the match of a partial match out: the chain of its nodes that ends in `last`."""
    _write_chain(records, output, last, _begin_match(records, output, partial_match, time))


@jit_inline
def write_completed(
    records: PartialMatchRecords,
    output: Output,
    partial_match: int,
    last: int,
    end: tuple[int, int, int],
) -> None:
    """Write a match out that ends with an event without a node: its row, time and element."""
    position = _begin_match(records, output, partial_match, end[1]) - 1
    output.rows[idx(position)], output.elements[idx(position)] = end[0], end[2]
    _write_chain(records, output, last, position)


@jit_inline
def mark_timed_out(records: PartialMatchRecords, output: Output) -> None:
    """Say of what was written out last that it is no match: its partial match timed out."""
    last = idx(records.counts[MATCHES] - 1)
    output.matches[END, last] = ~output.matches[END, last]


@jit_inline
def events_that_fit(
    records: PartialMatchRecords, output: Output, takers: int, most: int
) -> int:
    """Say how many events surely fit, up to `most`, if each has so many takers."""
    counts = records.counts
    longest = counts[LONGEST] + most + 1
    return min(
        most,
        records.partial_matches.shape[0] - counts[OPEN],
        records.key_slots.shape[0] - counts[USED_KEY_SLOTS] if counts[KEYED] else most,
        (records.nodes.shape[0] - counts[USED_NODES]) // takers,
        (output.matches.shape[1] - counts[MATCHES]) // takers,
        (output.rows.shape[0] - counts[OUT]) // (takers * longest),
    )


@jit_inline
def is_room(records: PartialMatchRecords, output: Output, takers: int) -> bool:
    """Whether an event that so many may take surely fits; no division, so it costs little."""
    counts = records.counts
    return (
        records.partial_matches.shape[0] > counts[OPEN]
        and (not counts[KEYED] or records.key_slots.shape[0] > counts[USED_KEY_SLOTS])
        and records.nodes.shape[0] - counts[USED_NODES] >= takers
        and output.matches.shape[1] - counts[MATCHES] >= takers
        and output.rows.shape[0] - counts[OUT] >= takers * (counts[LONGEST] + 2)
    )

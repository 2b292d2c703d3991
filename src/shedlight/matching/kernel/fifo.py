"""The kernel for patterns without conditions across events: queues of machines.

Machines of one key in the same subset of states are alike, so they wait in one queue, oldest
first, and an event goes to the oldest head among the queues that can take it. What an event
costs depends neither on the window nor on the number of open machines.
"""

import numpy as np

from shedlight.matching.compile.dfa import (
    SPOILS,
    TAKERS,
)
from shedlight.matching.jit import compiled, i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.close import expire, expire_by_count
from shedlight.matching.kernel.partial_queue import (
    Queues,
    leave,
    lowest_bit,
    oldest,
)
from shedlight.matching.kernel.records import (
    NONE,
    OPEN,
    WANTED,
    Output,
    PartialMatchRecords,
    find_block,
    is_due,
    room,
)
from shedlight.matching.kernel.tables import Events, KernelTables
from shedlight.matching.kernel.take import open_partial_match, spoil, take


@jit_inline
def _best(
    pools: PartialMatchRecords, waiting: Queues, rules: KernelTables, block: int, symbol: int
) -> tuple[int, int]:
    """Find the oldest machine of a key that can use a symbol, and the subset it is in."""
    if rules.single:
        lane = i64(rules.opens[symbol].lane)
        if rules.opens[symbol].after == NONE:
            return i64(NONE), lane
        return i64(waiting.queues[idx(block), idx(lane)].head), lane
    best = i64(NONE)
    source = i64(NONE)
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[idx(block), idx(w)] & rules.bits[TAKERS, symbol, w]
        while bits:
            subset = i64(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = oldest(pools, waiting, block, subset)
            if (
                best == NONE
                or pools.partial_matches[idx(head)].opened
                < pools.partial_matches[idx(best)].opened
            ):
                best = head
                source = subset
    return best, source


@jit_inline
def _call(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    place: tuple[int, int, int],
    partial_match: int,
) -> None:
    """Take the oldest machine out of its queue, given by block, subset and lane."""
    block, subset, lane = place
    if rules.single:
        waiting.queues[idx(block), idx(lane)].head = pools.partial_matches[
            idx(partial_match)
        ].key_newer
    else:
        leave(pools, waiting, block, subset, lane, partial_match)


@jit_inline
def _offer_to_one(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    block: int,
    event: tuple[int, int, int],
) -> bool:
    """Give an event to the oldest machine of its key that can use it, if there is one."""
    row, time, symbol = event
    best, source = _best(pools, waiting, rules, block, symbol)
    if best == NONE:
        return False
    move = rules.moves[source, symbol]
    _call(pools, waiting, rules, (block, source, i64(move.lane)), best)
    take(pools, waiting, rules, output, best, (row, time, symbol, move))
    return True


@jit_noinline
def _offer_to_all(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    block: int,
    event: tuple[int, int, int],
) -> None:
    """Give an event to every machine of its key that can use it, oldest first (REUSE)."""
    row, time, symbol = event
    moved = 0
    while True:
        partial_match, source = _best(pools, waiting, rules, block, symbol)
        if partial_match == NONE:
            break
        lane = i64(rules.moves[source, symbol].lane)
        _call(pools, waiting, rules, (block, source, lane), partial_match)
        waiting.moving[moved, 0] = partial_match
        waiting.moving[moved, 1] = source
        moved += 1
    for i in range(moved):
        partial_match, source = i64(waiting.moving[i, 0]), i64(waiting.moving[i, 1])
        move = rules.moves[source, symbol]
        take(pools, waiting, rules, output, partial_match, (row, time, symbol, move))


@jit_noinline
def _before(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    key: tuple[int, int, int],
    event: tuple[int, int, int],
) -> int:
    """Do what an event does to the machines of its key before one takes it; give the block."""
    block, hash1, hash2 = key
    _, time, symbol = event
    if rules.events != NONE:
        pools.blocks[idx(block)].count += 1
        expire_by_count(pools, waiting, rules, output, block, time)
        block = find_block(pools, hash1, hash2)
    if block != NONE and rules.signs[SPOILS, symbol]:
        spoil(pools, waiting, rules, block, symbol)
        block = find_block(pools, hash1, hash2)
    return block


@jit_inline
def _offer(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    key: tuple[int, int],
    event: tuple[int, int, int],
) -> None:
    """Offer an event to the machines of its key, and let it open one if it shall."""
    symbol = event[2]
    block = find_block(pools, key[0], key[1])
    if block != NONE and not rules.simple:
        block = _before(pools, waiting, rules, output, (block, key[0], key[1]), event)
    if block != NONE:
        if rules.reuse:
            _offer_to_all(pools, waiting, rules, output, block, event)
            block = find_block(pools, key[0], key[1])
        elif _offer_to_one(pools, waiting, rules, output, block, event):
            return
    if rules.opens[symbol].after != NONE:
        open_partial_match(pools, waiting, rules, output, (block, key[0], key[1]), event)


_CHECKED = 64
"""For how many events at a time the room is checked."""


@jit_inline
def _spare(
    pools: PartialMatchRecords, output: Output, rules: KernelTables, symbol: int, spare: int
) -> int:
    """Say for how many events there is room, of which the next has this symbol.

    An event that every machine may use is checked by itself: a NOT may leave a mark in a
    machine that then takes the event, and the event may open one. With a window of events, an
    event may time a machine out and complete another.
    """
    if not rules.simple and (rules.reuse or rules.signs[SPOILS, symbol]):
        return room(pools, output, 2 * (i64(pools.counts[OPEN]) + 1), i64(1))
    if spare > 0:
        return spare
    ends = i64(2) if rules.timed_out and rules.events != NONE else i64(1)
    spare = room(pools, output, ends, i64(_CHECKED))
    return spare if spare > 0 else room(pools, output, ends, i64(1))


@compiled
def run_queues(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    events: Events,
    span: tuple[int, int],
) -> int:
    """Offer events to the machines, then end what the watermark has passed.

    Args:
        pools: The machines.
        waiting: The queues.
        rules: The pattern.
        output: Where matches go.
        events: The events.
        span: The number of the event to start with, and the watermark behind the last.

    Returns:
        How many events are done, the watermark counting as one behind the last: fewer if the
        arrays are too small to go on, or if a subset must be explored.
    """
    keyed, number = events.hash1.shape[0] > 0, events.number.shape[0]
    start, watermark = span
    spare = i64(0)
    for i in range(start, number):
        symbol = i64(events.symbols[events.number[i]])
        if symbol == 0 and rules.events == NONE:
            continue
        time = i64(events.time[i])
        if is_due(pools, rules.window, time):
            if not expire(pools, waiting, rules, output, time - rules.window):
                return i
            spare = i64(0) if rules.timed_out else spare  # room may have been used up
        spare = _spare(pools, output, rules, symbol, spare)
        if spare <= 0:
            return i
        spare -= 1
        hash1 = events.hash1[i] if keyed else i64(0)
        hash2 = events.hash2[i] if keyed else i64(0)
        event = (i64(events.row + i), time, symbol)
        _offer(pools, waiting, rules, output, (hash1, hash2), event)
        if pools.counts[WANTED] != NONE:
            return i + 1
    if rules.window == NONE or expire(
        pools, waiting, rules, output, i64(watermark - rules.window)
    ):
        return number + 1
    return number

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
from shedlight.matching.kernel.close import expire, expire_by_count
from shedlight.matching.kernel.jit import apart, compiled, step
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
    Pools,
    at,
    find_block,
    is_due,
    room,
    whole,
)
from shedlight.matching.kernel.tables import Events, Rules
from shedlight.matching.kernel.take import open_machine, spoil, take


@step
def _best(
    pools: Pools, waiting: Queues, rules: Rules, block: int, symbol: int
) -> tuple[int, int]:
    """Find the oldest machine of a key that can use a symbol, and the subset it is in."""
    if rules.single:
        lane = whole(rules.opens[symbol].lane)
        if rules.opens[symbol].after == NONE:
            return whole(NONE), lane
        return whole(waiting.queues[at(block), at(lane)].head), lane
    best = whole(NONE)
    source = whole(NONE)
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[at(block), at(w)] & rules.bits[TAKERS, symbol, w]
        while bits:
            subset = whole(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = oldest(pools, waiting, block, subset)
            if (
                best == NONE
                or pools.machines[at(head)].opened < pools.machines[at(best)].opened
            ):
                best = head
                source = subset
    return best, source


@step
def _call(
    pools: Pools, waiting: Queues, rules: Rules, place: tuple[int, int, int], machine: int
) -> None:
    """Take the oldest machine out of its queue, given by block, subset and lane."""
    block, subset, lane = place
    if rules.single:
        waiting.queues[at(block), at(lane)].head = pools.machines[at(machine)].key_newer
    else:
        leave(pools, waiting, block, subset, lane, machine)


@step
def _offer_to_one(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
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
    _call(pools, waiting, rules, (block, source, whole(move.lane)), best)
    take(pools, waiting, rules, output, best, (row, time, symbol, move))
    return True


@apart
def _offer_to_all(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
    output: Output,
    block: int,
    event: tuple[int, int, int],
) -> None:
    """Give an event to every machine of its key that can use it, oldest first (REUSE)."""
    row, time, symbol = event
    moved = 0
    while True:
        machine, source = _best(pools, waiting, rules, block, symbol)
        if machine == NONE:
            break
        lane = whole(rules.moves[source, symbol].lane)
        _call(pools, waiting, rules, (block, source, lane), machine)
        waiting.moving[moved, 0] = machine
        waiting.moving[moved, 1] = source
        moved += 1
    for i in range(moved):
        machine, source = whole(waiting.moving[i, 0]), whole(waiting.moving[i, 1])
        move = rules.moves[source, symbol]
        take(pools, waiting, rules, output, machine, (row, time, symbol, move))


@apart
def _before(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
    output: Output,
    key: tuple[int, int, int],
    event: tuple[int, int, int],
) -> int:
    """Do what an event does to the machines of its key before one takes it; give the block."""
    block, hash1, hash2 = key
    _, time, symbol = event
    if rules.events != NONE:
        pools.blocks[at(block)].count += 1
        expire_by_count(pools, waiting, rules, output, block, time)
        block = find_block(pools, hash1, hash2)
    if block != NONE and rules.signs[SPOILS, symbol]:
        spoil(pools, waiting, rules, block, symbol)
        block = find_block(pools, hash1, hash2)
    return block


@step
def _offer(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
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
        open_machine(pools, waiting, rules, output, (block, key[0], key[1]), event)


_CHECKED = 64
"""For how many events at a time the room is checked."""


@step
def _spare(pools: Pools, output: Output, rules: Rules, symbol: int, spare: int) -> int:
    """Say for how many events there is room, of which the next has this symbol.

    An event that every machine may use is checked by itself: a NOT may leave a mark in a
    machine that then takes the event, and the event may open one. With a window of events, an
    event may time a machine out and complete another.
    """
    if not rules.simple and (rules.reuse or rules.signs[SPOILS, symbol]):
        return room(pools, output, 2 * (whole(pools.counts[OPEN]) + 1), whole(1))
    if spare > 0:
        return spare
    ends = whole(2) if rules.timed_out and rules.events != NONE else whole(1)
    spare = room(pools, output, ends, whole(_CHECKED))
    return spare if spare > 0 else room(pools, output, ends, whole(1))


@compiled
def run_queues(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
    output: Output,
    events: Events,
    span: tuple[int, int],
) -> int:
    """Offer events to the machines, then end what the frontier has passed.

    Args:
        pools: The machines.
        waiting: The queues.
        rules: The pattern.
        output: Where matches go.
        events: The events.
        span: The number of the event to start with, and the frontier behind the last.

    Returns:
        How many events are done, the frontier counting as one behind the last: fewer if the
        arrays are too small to go on, or if a subset must be explored.
    """
    keyed, number = events.hash1.shape[0] > 0, events.number.shape[0]
    start, frontier = span
    spare = whole(0)
    for i in range(start, number):
        symbol = whole(events.symbols[events.number[i]])
        if symbol == 0 and rules.events == NONE:
            continue
        time = whole(events.time[i])
        if is_due(pools, rules.window, time):
            if not expire(pools, waiting, rules, output, time - rules.window):
                return i
            spare = whole(0) if rules.timed_out else spare  # room may have been used up
        spare = _spare(pools, output, rules, symbol, spare)
        if spare <= 0:
            return i
        spare -= 1
        hash1 = events.hash1[i] if keyed else whole(0)
        hash2 = events.hash2[i] if keyed else whole(0)
        event = (whole(events.row + i), time, symbol)
        _offer(pools, waiting, rules, output, (hash1, hash2), event)
        if pools.counts[WANTED] != NONE:
            return i + 1
    if rules.window == NONE or expire(
        pools, waiting, rules, output, whole(frontier - rules.window)
    ):
        return number + 1
    return number

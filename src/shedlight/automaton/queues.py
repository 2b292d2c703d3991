"""The kernel for patterns without conditions across events: queues of machines.

Machines of one key in the same subset of states are alike, so they wait in one queue, oldest
first, and an event goes to the oldest head among the queues that can take it. What an event
costs depends neither on the window nor on the number of open machines.
"""

from typing import Any, NamedTuple

import numpy as np

from shedlight.automaton.compiled import apart, compiled, step
from shedlight.automaton.pools import (
    EVICTED,
    EXPIRED,
    FORBIDDEN,
    LONGEST,
    NONE,
    OLDEST,
    OPEN,
    WANTED,
    Array,
    Output,
    Pools,
    at,
    find_block,
    free_chain,
    free_machine,
    hand_out,
    is_due,
    new_block,
    new_machine,
    new_node,
    room,
    whole,
)
from shedlight.automaton.subsets import (
    ACCEPTS,
    CLOSES,
    KNOWN,
    SPOILED,
    SPOILS,
    TAKERS,
    WAITS,
)
from shedlight.automaton.waiting import (
    Queues,
    join,
    join_last,
    join_row,
    leave,
    leave_row,
    lowest_bit,
    oldest,
    pass_by,
)

MoveRecord = Any  # a row of `subsets.MOVE`


class Rules(NamedTuple):
    """The tables of `subsets.py` and the settings of a pattern, as the kernel wants them."""

    moves: Array
    opens: Array
    spoil: Array
    facts: Array
    signs: Array
    bits: Array
    lanes: int
    single: bool  # whether there are several lanes and each is over with its first event
    simple: bool  # whether an event concerns one machine: no REUSE, no NOT, no window of events
    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    cap: int  # most open machines


class Events(NamedTuple):
    """Ready events, in order, as one pattern sees them."""

    time: Array
    number: Array  # the type of each
    symbols: Array  # what the pattern calls each type
    hash1: Array  # of the key; empty where there are no keys
    hash2: Array
    row: int  # of the first event


@step
def _close(pools: Pools, rules: Rules, machine: int) -> None:
    """Give a machine that is in no queue and all its nodes back."""
    one = pools.machines[at(machine)]
    if rules.single:
        leave_row(pools, machine)
    free_chain(pools, whole(one.node), whole(one.size))
    free_machine(pools, machine)


@step
def _withdraw(pools: Pools, waiting: Queues, rules: Rules, machine: int) -> None:
    """Take the oldest machine of its key out of all its queues; it heads each of them."""
    block = whole(pools.machines[at(machine)].block)
    if rules.single:
        pass_by(pools, waiting, block, rules.lanes, machine)
        return
    for lane in range(rules.lanes):
        subset = whole(waiting.links[at(machine), at(lane)].state)
        if rules.facts[WAITS, subset]:
            leave(pools, waiting, block, subset, whole(lane), machine)


@apart
def _expire(pools: Pools, waiting: Queues, rules: Rules, output: Output, before: int) -> bool:
    """Close the machines opened before a time; False if there is no room to write matches."""
    counts = pools.counts
    while counts[OLDEST] != NONE and pools.machines[counts[OLDEST]].time < before:
        if rules.absence and room(pools, output, whole(1), whole(1)) < 1:
            return False
        machine = whole(counts[OLDEST])
        _withdraw(pools, waiting, rules, machine)
        if rules.absence and rules.facts[ACCEPTS, waiting.links[at(machine), 0].state]:
            end = pools.machines[at(machine)].time + rules.window
            hand_out(pools, output, machine, end)
        else:
            counts[EXPIRED] += 1
        _close(pools, rules, machine)
    return True


@apart
def _expire_by_count(pools: Pools, waiting: Queues, rules: Rules, block: int) -> None:
    """Close the machines of a key that have seen as many events as the window has."""
    limit = pools.blocks[at(block)].count - rules.events
    while True:
        machine = _oldest_of_key(pools, waiting, rules, block)
        if machine == NONE or pools.machines[at(machine)].count > limit:
            return
        _withdraw(pools, waiting, rules, machine)
        pools.counts[EXPIRED] += 1
        last = pools.blocks[at(block)].open == 1
        _close(pools, rules, machine)
        if last:
            return


@step
def _oldest_of_key(pools: Pools, waiting: Queues, rules: Rules, block: int) -> int:
    if rules.single:
        return whole(pools.blocks[at(block)].first)
    found = whole(NONE)
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[at(block), at(w)]
        while bits:
            subset = whole(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = oldest(pools, waiting, block, subset)
            if (
                found == NONE
                or pools.machines[at(head)].opened < pools.machines[at(found)].opened
            ):
                found = head
    return found


@step
def _close_all(pools: Pools, waiting: Queues, rules: Rules, block: int) -> None:
    """Close all machines of a key."""
    for _ in range(pools.blocks[at(block)].open):
        machine = _oldest_of_key(pools, waiting, rules, block)
        _withdraw(pools, waiting, rules, machine)
        _close(pools, rules, machine)


@apart
def _spoil(pools: Pools, waiting: Queues, rules: Rules, block: int, symbol: int) -> None:
    """Apply the NOTs of a symbol to the machines of a key."""
    if rules.signs[CLOSES, symbol]:
        _close_all(pools, waiting, rules, block)
        return
    moved = 0
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[at(block), at(w)] & rules.bits[SPOILED, symbol, w]
        while bits:
            subset = whole(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            while waiting.queues[at(block), at(subset)].head != NONE:
                machine = oldest(pools, waiting, block, subset)
                leave(pools, waiting, block, subset, whole(0), machine)
                waiting.moving[moved, 0] = machine
                waiting.moving[moved, 1] = rules.spoil[subset, symbol]
                moved += 1
    for i in range(moved):
        machine, target = whole(waiting.moving[i, 0]), whole(waiting.moving[i, 1])
        if target == NONE:
            _close(pools, rules, machine)
            continue
        one = pools.machines[at(machine)]
        one.node = new_node(pools, whole(FORBIDDEN), symbol, whole(NONE), whole(one.node))
        _grown(pools, machine)
        join(pools, waiting, machine, target, whole(0))
        if not rules.facts[KNOWN, target]:
            pools.counts[WANTED] = target


@step
def _grown(pools: Pools, machine: int) -> None:
    """Count a node of a machine."""
    size = pools.machines[at(machine)].size + 1
    pools.machines[at(machine)].size = size
    if size > pools.counts[LONGEST]:  # noqa: PLR1730  # rarely so: do not write each time
        pools.counts[LONGEST] = size


@step
def _take(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
    output: Output,
    machine: int,
    event: tuple[int, int, int, MoveRecord],
) -> None:
    """Let a machine that is out of its queue take an event; write the match if it is one.

    Args:
        pools: The machines.
        waiting: The queues.
        rules: The pattern.
        output: Where matches go.
        machine: The machine.
        event: The row, time and symbol of the event, and what taking it does.
    """
    row, time, symbol, move = event
    one = pools.machines[at(machine)]
    one.node = new_node(pools, row, symbol, whole(move.who), whole(one.node))
    _grown(pools, machine)
    one.left -= move.accepts
    if one.left == 0 and not rules.absence:
        hand_out(pools, output, machine, time)
        _close(pools, rules, machine)
    elif move.waits:
        join(pools, waiting, machine, whole(move.after), whole(move.lane))
        if not move.known:
            pools.counts[WANTED] = move.after
    elif not rules.single:
        waiting.links[at(machine), at(move.lane)].state = move.after


@step
def _open(
    pools: Pools,
    waiting: Queues,
    rules: Rules,
    output: Output,
    key: tuple[int, int, int],
    event: tuple[int, int, int],
) -> None:
    """Open a machine with an event.

    Args:
        pools: The machines.
        waiting: The queues.
        rules: The pattern.
        output: Where matches go.
        key: The block of the key (NONE if it has none yet) and its two hashes.
        event: The row, time and symbol of the event.
    """
    block, hash1, hash2 = key
    row, time, symbol = event
    if block == NONE:
        block = new_block(pools, hash1, hash2)
        for w in range(waiting.filled.shape[1]):
            waiting.filled[at(block), at(w)] = 0
        pools.blocks[at(block)].count = 1
        for subset in range(rules.moves.shape[0]):
            waiting.queues[at(block), at(subset)].head = NONE
            waiting.queues[at(block), at(subset)].tail = NONE
            waiting.queues[at(block), at(subset)].root = NONE
    machine = new_machine(pools, block, time)
    pools.machines[at(machine)].left = rules.lanes
    move = rules.opens[symbol]
    if rules.single:
        join_row(pools, waiting, (block, rules.lanes, whole(move.lane)), machine)
    else:
        for lane in range(rules.lanes):
            if lane != move.lane:
                join_last(waiting, block, whole(lane), machine)
    _take(pools, waiting, rules, output, machine, (row, time, symbol, move))
    if pools.counts[OPEN] > rules.cap:
        _evict(pools, waiting, rules)


@apart
def _evict(pools: Pools, waiting: Queues, rules: Rules) -> None:
    """Close the oldest machine of all, because there are too many."""
    machine = whole(pools.counts[OLDEST])
    _withdraw(pools, waiting, rules, machine)
    _close(pools, rules, machine)
    pools.counts[EVICTED] += 1


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
    _take(pools, waiting, rules, output, best, (row, time, symbol, move))
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
        _take(pools, waiting, rules, output, machine, (row, time, symbol, move))


@apart
def _before(
    pools: Pools, waiting: Queues, rules: Rules, key: tuple[int, int, int], symbol: int
) -> int:
    """Do what an event does to the machines of its key before one takes it; give the block."""
    block, hash1, hash2 = key
    if rules.events != NONE:
        pools.blocks[at(block)].count += 1
        _expire_by_count(pools, waiting, rules, block)
        block = find_block(pools, hash1, hash2)
    if block != NONE and rules.signs[SPOILS, symbol]:
        _spoil(pools, waiting, rules, block, symbol)
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
        block = _before(pools, waiting, rules, (block, key[0], key[1]), symbol)
    if block != NONE:
        if rules.reuse:
            _offer_to_all(pools, waiting, rules, output, block, event)
            block = find_block(pools, key[0], key[1])
        elif _offer_to_one(pools, waiting, rules, output, block, event):
            return
    if rules.opens[symbol].after != NONE:
        _open(pools, waiting, rules, output, (block, key[0], key[1]), event)


_CHECKED = 64
"""For how many events at a time the room is checked."""


@step
def _spare(pools: Pools, output: Output, rules: Rules, symbol: int, spare: int) -> int:
    """Say for how many events there is room, of which the next has this symbol.

    An event that every machine may use is checked by itself: a NOT may leave a mark in a
    machine that then takes the event, and the event may open one.
    """
    if not rules.simple and (rules.reuse or rules.signs[SPOILS, symbol]):
        return room(pools, output, 2 * (whole(pools.counts[OPEN]) + 1), whole(1))
    if spare > 0:
        return spare
    spare = room(pools, output, whole(1), whole(_CHECKED))
    return spare if spare > 0 else room(pools, output, whole(1), whole(1))


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
        spare = _spare(pools, output, rules, symbol, spare)
        if spare <= 0:
            return i
        spare -= 1
        time = whole(events.time[i])
        if is_due(pools, rules.window, time) and not _expire(
            pools, waiting, rules, output, time - rules.window
        ):
            return i
        hash1 = events.hash1[i] if keyed else whole(0)
        hash2 = events.hash2[i] if keyed else whole(0)
        event = (whole(events.row + i), time, symbol)
        _offer(pools, waiting, rules, output, (hash1, hash2), event)
        if pools.counts[WANTED] != NONE:
            return i + 1
    if rules.window == NONE or _expire(
        pools, waiting, rules, output, whole(frontier - rules.window)
    ):
        return number + 1
    return number

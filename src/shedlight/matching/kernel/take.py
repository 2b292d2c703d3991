"""A machine in queues takes an event, is opened by one, or is marked by a NOT."""

from typing import Any

import numpy as np

from shedlight.matching.compile.dfa import CLOSES, KNOWN, SPOILED
from shedlight.matching.kernel.close import close, close_all, evict
from shedlight.matching.kernel.jit import apart, step
from shedlight.matching.kernel.partial_queue import (
    Queues,
    join,
    join_last,
    join_row,
    leave,
    lowest_bit,
    oldest,
)
from shedlight.matching.kernel.records import (
    FORBIDDEN,
    LONGEST,
    NONE,
    OPEN,
    WANTED,
    Output,
    Pools,
    at,
    hand_out,
    new_block,
    new_machine,
    new_node,
    whole,
)
from shedlight.matching.kernel.tables import Rules

MoveRecord = Any  # a row of `subsets.MOVE`


@apart
def spoil(pools: Pools, waiting: Queues, rules: Rules, block: int, symbol: int) -> None:
    """Apply the NOTs of a symbol to the machines of a key."""
    if rules.signs[CLOSES, symbol]:
        close_all(pools, waiting, rules, block)
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
            close(pools, rules, machine)
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
def take(
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
        close(pools, rules, machine)
    elif move.waits:
        join(pools, waiting, machine, whole(move.after), whole(move.lane))
        if not move.known:
            pools.counts[WANTED] = move.after
    elif not rules.single:
        waiting.links[at(machine), at(move.lane)].state = move.after


@step
def open_machine(
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
    take(pools, waiting, rules, output, machine, (row, time, symbol, move))
    if pools.counts[OPEN] > rules.cap:
        evict(pools, waiting, rules)

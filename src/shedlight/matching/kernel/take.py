"""A machine in queues takes an event, is opened by one, or is marked by a NOT."""

from typing import Any

import numpy as np

from shedlight.matching.compile.dfa import CLOSES, KNOWN, SPOILED
from shedlight.matching.jit import i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.close import close, close_all, evict
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
    PartialMatchRecords,
    hand_out,
    new_block,
    new_node,
    new_partial_match,
)
from shedlight.matching.kernel.tables import KernelTables

MoveRecord = Any  # a row of `subsets.MOVE`


@jit_noinline
def spoil(
    pools: PartialMatchRecords, waiting: Queues, rules: KernelTables, block: int, symbol: int
) -> None:
    """Apply the NOTs of a symbol to the machines of a key."""
    if rules.signs[CLOSES, symbol]:
        close_all(pools, waiting, rules, block)
        return
    moved = 0
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[idx(block), idx(w)] & rules.bits[SPOILED, symbol, w]
        while bits:
            subset = i64(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            while waiting.queues[idx(block), idx(subset)].head != NONE:
                partial_match = oldest(pools, waiting, block, subset)
                leave(pools, waiting, block, subset, i64(0), partial_match)
                waiting.moving[moved, 0] = partial_match
                waiting.moving[moved, 1] = rules.spoil[subset, symbol]
                moved += 1
    for i in range(moved):
        partial_match, target = i64(waiting.moving[i, 0]), i64(waiting.moving[i, 1])
        if target == NONE:
            close(pools, rules, partial_match)
            continue
        one = pools.partial_matches[idx(partial_match)]
        one.node = new_node(pools, i64(FORBIDDEN), symbol, i64(NONE), i64(one.node))
        _grown(pools, partial_match)
        join(pools, waiting, partial_match, target, i64(0))
        if not rules.facts[KNOWN, target]:
            pools.counts[WANTED] = target


@jit_inline
def _grown(pools: PartialMatchRecords, partial_match: int) -> None:
    """Count a node of a machine."""
    size = pools.partial_matches[idx(partial_match)].size + 1
    pools.partial_matches[idx(partial_match)].size = size
    if size > pools.counts[LONGEST]:  # noqa: PLR1730  # rarely so: do not write each time
        pools.counts[LONGEST] = size


@jit_inline
def take(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    partial_match: int,
    event: tuple[int, int, int, MoveRecord],
) -> None:
    """Let a machine that is out of its queue take an event; write the match if it is one.

    Args:
        pools: The machines.
        waiting: The queues.
        rules: The pattern.
        output: Where matches go.
        partial_match: The machine.
        event: The row, time and symbol of the event, and what taking it does.
    """
    row, time, symbol, move = event
    one = pools.partial_matches[idx(partial_match)]
    one.node = new_node(pools, row, symbol, i64(move.who), i64(one.node))
    _grown(pools, partial_match)
    one.left -= move.accepts
    if one.left == 0 and not rules.absence:
        hand_out(pools, output, partial_match, time)
        close(pools, rules, partial_match)
    elif move.waits:
        join(pools, waiting, partial_match, i64(move.after), i64(move.lane))
        if not move.known:
            pools.counts[WANTED] = move.after
    elif not rules.single:
        waiting.links[idx(partial_match), idx(move.lane)].state = move.after


@jit_inline
def open_partial_match(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
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
            waiting.filled[idx(block), idx(w)] = 0
        pools.blocks[idx(block)].count = 1
        for subset in range(rules.moves.shape[0]):
            waiting.queues[idx(block), idx(subset)].head = NONE
            waiting.queues[idx(block), idx(subset)].tail = NONE
            waiting.queues[idx(block), idx(subset)].root = NONE
    partial_match = new_partial_match(pools, block, time)
    pools.partial_matches[idx(partial_match)].left = rules.lanes
    move = rules.opens[symbol]
    if rules.single:
        join_row(pools, waiting, (block, rules.lanes, i64(move.lane)), partial_match)
    else:
        for lane in range(rules.lanes):
            if lane != move.lane:
                join_last(waiting, block, i64(lane), partial_match)
    take(pools, waiting, rules, output, partial_match, (row, time, symbol, move))
    if pools.counts[OPEN] > rules.cap:
        evict(pools, waiting, rules)

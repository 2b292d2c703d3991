"""How machines in queues end without taking an event: by the window, by a NOT, by the cap."""

import numpy as np

from shedlight.matching.compile.dfa import ACCEPTS, WAITS
from shedlight.matching.jit import i64, idx, jit_inline, jit_noinline
from shedlight.matching.kernel.partial_queue import (
    Queues,
    leave,
    leave_row,
    lowest_bit,
    oldest,
    pass_by,
)
from shedlight.matching.kernel.records import (
    EVICTED,
    EXPIRED,
    NONE,
    OLDEST,
    Output,
    PartialMatchRecords,
    free_chain,
    free_partial_match,
    hand_out,
    mark_timed_out,
    room,
)
from shedlight.matching.kernel.tables import KernelTables


@jit_inline
def close(pools: PartialMatchRecords, rules: KernelTables, partial_match: int) -> None:
    """Give a machine that is in no queue and all its nodes back."""
    one = pools.partial_matches[idx(partial_match)]
    if rules.single:
        leave_row(pools, partial_match)
    free_chain(pools, i64(one.node), i64(one.size))
    free_partial_match(pools, partial_match)


@jit_inline
def withdraw(
    pools: PartialMatchRecords, waiting: Queues, rules: KernelTables, partial_match: int
) -> None:
    """Take the oldest machine of its key out of all its queues; it heads each of them."""
    block = i64(pools.partial_matches[idx(partial_match)].block)
    if rules.single:
        pass_by(pools, waiting, block, rules.lanes, partial_match)
        return
    for lane in range(rules.lanes):
        subset = i64(waiting.links[idx(partial_match), idx(lane)].state)
        if rules.facts[WAITS, subset]:
            leave(pools, waiting, block, subset, i64(lane), partial_match)


@jit_noinline
def expire(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    before: int,
) -> bool:
    """Close the machines opened before a time; False if there is no room to write matches."""
    counts = pools.counts
    while counts[OLDEST] != NONE and pools.partial_matches[counts[OLDEST]].time < before:
        writes = rules.absence or rules.timed_out
        if writes and room(pools, output, i64(1), i64(1)) < 1:
            return False
        partial_match = i64(counts[OLDEST])
        withdraw(pools, waiting, rules, partial_match)
        found = (
            rules.absence and rules.facts[ACCEPTS, waiting.links[idx(partial_match), 0].state]
        )
        if found or rules.timed_out:
            end = pools.partial_matches[idx(partial_match)].time + rules.window
            hand_out(pools, output, partial_match, end)
        if not found:
            counts[EXPIRED] += 1
            if rules.timed_out:
                mark_timed_out(pools, output)
        close(pools, rules, partial_match)
    return True


@jit_noinline
def expire_by_count(
    pools: PartialMatchRecords,
    waiting: Queues,
    rules: KernelTables,
    output: Output,
    block: int,
    time: int,
) -> None:
    """Close the machines of a key that have seen as many events as the window has.

    Only an event of the key opens a machine of it, so each event closes one at most.
    """
    limit = pools.blocks[idx(block)].count - rules.events
    while True:
        partial_match = _oldest_of_key(pools, waiting, rules, block)
        if partial_match == NONE or pools.partial_matches[idx(partial_match)].count > limit:
            return
        withdraw(pools, waiting, rules, partial_match)
        pools.counts[EXPIRED] += 1
        if rules.timed_out:
            hand_out(pools, output, partial_match, time)
            mark_timed_out(pools, output)
        last = pools.blocks[idx(block)].open == 1
        close(pools, rules, partial_match)
        if last:
            return


@jit_inline
def _oldest_of_key(
    pools: PartialMatchRecords, waiting: Queues, rules: KernelTables, block: int
) -> int:
    if rules.single:
        return i64(pools.blocks[idx(block)].first)
    found = i64(NONE)
    for w in range(waiting.filled.shape[1]):
        bits = waiting.filled[idx(block), idx(w)]
        while bits:
            subset = i64(w * 64 + lowest_bit(bits))
            bits &= bits - np.uint64(1)
            head = oldest(pools, waiting, block, subset)
            if (
                found == NONE
                or pools.partial_matches[idx(head)].opened
                < pools.partial_matches[idx(found)].opened
            ):
                found = head
    return found


@jit_inline
def close_all(
    pools: PartialMatchRecords, waiting: Queues, rules: KernelTables, block: int
) -> None:
    """Close all machines of a key."""
    for _ in range(pools.blocks[idx(block)].open):
        partial_match = _oldest_of_key(pools, waiting, rules, block)
        withdraw(pools, waiting, rules, partial_match)
        close(pools, rules, partial_match)


@jit_noinline
def evict(pools: PartialMatchRecords, waiting: Queues, rules: KernelTables) -> None:
    """Close the oldest machine of all, because there are too many."""
    partial_match = i64(pools.counts[OLDEST])
    withdraw(pools, waiting, rules, partial_match)
    close(pools, rules, partial_match)
    pools.counts[EVICTED] += 1

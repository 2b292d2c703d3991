"""How machines in queues end without taking an event: by the window, by a NOT, by the cap."""

import numpy as np

from shedlight.matching.compile.dfa import ACCEPTS, WAITS
from shedlight.matching.kernel.jit import apart, step
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
    Pools,
    at,
    free_chain,
    free_machine,
    hand_out,
    mark_timed_out,
    room,
    whole,
)
from shedlight.matching.kernel.tables import Rules


@step
def close(pools: Pools, rules: Rules, machine: int) -> None:
    """Give a machine that is in no queue and all its nodes back."""
    one = pools.machines[at(machine)]
    if rules.single:
        leave_row(pools, machine)
    free_chain(pools, whole(one.node), whole(one.size))
    free_machine(pools, machine)


@step
def withdraw(pools: Pools, waiting: Queues, rules: Rules, machine: int) -> None:
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
def expire(pools: Pools, waiting: Queues, rules: Rules, output: Output, before: int) -> bool:
    """Close the machines opened before a time; False if there is no room to write matches."""
    counts = pools.counts
    while counts[OLDEST] != NONE and pools.machines[counts[OLDEST]].time < before:
        writes = rules.absence or rules.timed_out
        if writes and room(pools, output, whole(1), whole(1)) < 1:
            return False
        machine = whole(counts[OLDEST])
        withdraw(pools, waiting, rules, machine)
        found = rules.absence and rules.facts[ACCEPTS, waiting.links[at(machine), 0].state]
        if found or rules.timed_out:
            end = pools.machines[at(machine)].time + rules.window
            hand_out(pools, output, machine, end)
        if not found:
            counts[EXPIRED] += 1
            if rules.timed_out:
                mark_timed_out(pools, output)
        close(pools, rules, machine)
    return True


@apart
def expire_by_count(
    pools: Pools, waiting: Queues, rules: Rules, output: Output, block: int, time: int
) -> None:
    """Close the machines of a key that have seen as many events as the window has.

    Only an event of the key opens a machine of it, so each event closes one at most.
    """
    limit = pools.blocks[at(block)].count - rules.events
    while True:
        machine = _oldest_of_key(pools, waiting, rules, block)
        if machine == NONE or pools.machines[at(machine)].count > limit:
            return
        withdraw(pools, waiting, rules, machine)
        pools.counts[EXPIRED] += 1
        if rules.timed_out:
            hand_out(pools, output, machine, time)
            mark_timed_out(pools, output)
        last = pools.blocks[at(block)].open == 1
        close(pools, rules, machine)
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
def close_all(pools: Pools, waiting: Queues, rules: Rules, block: int) -> None:
    """Close all machines of a key."""
    for _ in range(pools.blocks[at(block)].open):
        machine = _oldest_of_key(pools, waiting, rules, block)
        withdraw(pools, waiting, rules, machine)
        close(pools, rules, machine)


@apart
def evict(pools: Pools, waiting: Queues, rules: Rules) -> None:
    """Close the oldest machine of all, because there are too many."""
    machine = whole(pools.counts[OLDEST])
    withdraw(pools, waiting, rules, machine)
    close(pools, rules, machine)
    pools.counts[EVICTED] += 1

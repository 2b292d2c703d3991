"""The kernel for patterns with conditions across events: a scan over the machines of a key.

Whether a machine can use an event depends on the events it has, so each is asked in turn,
oldest first. A machine carries every assignment of its events to elements that is still
possible (a *thread*), in the order in which they count: the first as written first. Threads
that wait at the same state with the same events to compare are one.
"""

from typing import NamedTuple

from shedlight.matching.kernel.guard_vm import Cells, Code, holds
from shedlight.matching.kernel.jit import apart, compiled, step
from shedlight.matching.kernel.records import (
    EVICTED,
    EXPIRED,
    FREE,
    LONGEST,
    NONE,
    OLDEST,
    OPEN,
    USED_NODES,
    USED_THREADS,
    Array,
    Output,
    Pools,
    find_block,
    free_machine,
    free_node,
    mark_timed_out,
    new_block,
    new_machine,
    new_node,
    room,
    whole,
    write_match,
)
from shedlight.matching.kernel.scan_bindings import (
    MOST_THREADS,
    Threads,
    append,
    free_threads,
    new_thread,
)
from shedlight.matching.kernel.scan_tables import FORBIDS, OPENS, TAKES, Moves
from shedlight.matching.kernel.tables import Events


class Terms(NamedTuple):
    """The settings of a pattern, as the kernel wants them."""

    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    timed_out: bool  # whether machines that time out are written out
    cap: int  # most open machines
    fan: int  # most edges or alternatives of a state


class Scan(NamedTuple):
    """All that the kernel works on."""

    pools: Pools
    threads: Threads
    moves: Moves
    terms: Terms
    code: Code
    cells: Cells
    output: Output


@step
def _steps(
    scan: Scan,
    machine: int,
    thread: int,
    element: int,
    event: tuple[int, int, int],
    chosen: tuple[int, int, int],
) -> tuple[int, int, int]:
    """Add the threads that follow from one thread when an element takes an event."""
    row, _, symbol = event
    counts, threads = scan.pools.counts, scan.threads
    place = threads.threads[thread].state * threads.bound.shape[1] + element
    start, end = scan.moves.ends[place], scan.moves.ends[place + 1]
    if start == end or not holds(scan.code, scan.cells, element, row, threads.bound, thread):
        return chosen
    for i in range(start, end):
        new = new_thread(counts, threads, whole(scan.moves.targets[i]), thread)
        if scan.moves.binds[element]:
            threads.bound[new, element] = row
        number = chosen[2]
        chosen = append(counts, threads, chosen, new)
        if chosen[2] > number:
            before = whole(threads.threads[thread].node)
            node = new_node(scan.pools, row, symbol, element, before)
            scan.pools.nodes[node].other = scan.pools.machines[machine].nodes
            scan.pools.machines[machine].nodes = node
            threads.threads[new].node = node
    return chosen


@apart
def _close(pools: Pools, threads: Array, machine: int) -> None:
    """Give a machine and all that is its own back."""
    one = pools.machines[machine]
    free_threads(pools.counts, threads, whole(one.threads))
    node = whole(one.nodes)
    while node != NONE:
        other = whole(pools.nodes[node].other)
        free_node(pools, node)
        node = other
    older, newer, block = one.key_older, one.key_newer, pools.blocks[one.block]
    if older != NONE:
        pools.machines[older].key_newer = newer
    else:
        block.first = newer
    if newer != NONE:
        pools.machines[newer].key_older = older
    else:
        block.last = older
    free_machine(pools, machine)


@apart
def _finish(scan: Scan, machine: int, time: int) -> bool:
    """Write the match of a machine out and close it, if one of its threads is a match."""
    one = scan.pools.machines[machine]
    thread = whole(one.threads)
    while thread != NONE and not scan.moves.accepts[scan.threads.threads[thread].state]:
        thread = whole(scan.threads.threads[thread].next)
    if thread == NONE:
        return False
    last = whole(scan.threads.threads[thread].node)
    write_match(scan.pools, scan.output, last, whole(one.size), time)
    _close(scan.pools, scan.threads.threads, machine)
    return True


@apart
def _give_up(scan: Scan, machine: int, time: int) -> None:
    """Write a machine out that times out, as the first of its threads has it."""
    one = scan.pools.machines[machine]
    last = whole(scan.threads.threads[one.threads].node)
    write_match(scan.pools, scan.output, last, whole(one.size), time)
    mark_timed_out(scan.pools, scan.output)


@step
def _advance(scan: Scan, machine: int, event: tuple[int, int, int]) -> bool:
    """Let a machine take an event if it can use it.

    Assignments are compared event by event, an element written earlier coming first; those that
    have been the same up to here have the same rank.
    """
    counts, threads = scan.pools.counts, scan.threads.threads
    one = scan.pools.machines[machine]
    chosen = (whole(NONE), whole(NONE), whole(0))
    rank = whole(-1)
    first = whole(one.threads)
    while first != NONE:
        end = first
        while end != NONE and threads[end].rank == threads[first].rank:
            end = whole(threads[end].next)
        for element in range(scan.moves.wants.shape[1]):
            if scan.moves.wants[event[2], element] != TAKES:
                continue
            last, thread = chosen[1], first
            while thread != end:
                chosen = _steps(scan, machine, thread, element, event, chosen)
                thread = whole(threads[thread].next)
            new = chosen[0] if last == NONE else whole(threads[last].next)
            rank += new != NONE
            while new != NONE:
                threads[new].rank = rank
                new = whole(threads[new].next)
        first = end
    if chosen[0] != NONE:
        free_threads(counts, threads, whole(one.threads))
        one.threads = chosen[0]
        one.size += 1
        counts[LONGEST] = max(counts[LONGEST], whole(one.size))
    return chosen[0] != NONE


@step
def _left(
    scan: Scan, thread: int, element: int, row: int, chosen: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Add what a NOT leaves of a thread."""
    counts, threads = scan.pools.counts, scan.threads
    state = whole(threads.threads[thread].state)
    place = state * threads.bound.shape[1] + element
    start, end = scan.moves.ends[place], scan.moves.ends[place + 1]
    stays = end - start == 1 and scan.moves.targets[start] == state
    threads.threads[thread].next = NONE
    if stays or not holds(scan.code, scan.cells, element, row, threads.bound, thread):
        return append(counts, threads, chosen, thread)
    for i in range(start, end):
        new = new_thread(counts, threads, whole(scan.moves.targets[i]), thread)
        chosen = append(counts, threads, chosen, new)
    free_threads(counts, threads.threads, thread)
    return chosen


@apart
def _spoil(scan: Scan, machine: int, row: int, symbol: int) -> None:
    """Apply the NOTs of an event to a machine and the newer ones of its key."""
    while machine != NONE:
        one = scan.pools.machines[machine]
        newer = whole(one.key_newer)
        for element in range(scan.moves.wants.shape[1]):
            if scan.moves.wants[symbol, element] == FORBIDS:
                chosen = (whole(NONE), whole(NONE), whole(0))
                thread = whole(one.threads)
                while thread != NONE:
                    after = whole(scan.threads.threads[thread].next)
                    chosen = _left(scan, thread, element, row, chosen)
                    thread = after
                one.threads = chosen[0]
        if one.threads == NONE:
            _close(scan.pools, scan.threads.threads, machine)
        machine = newer


@step
def _expire(scan: Scan, time: int) -> bool:
    """Close the machines whose window is over; False if there is no room to write matches."""
    pools, window = scan.pools, scan.terms.window
    machine = whole(pools.counts[OLDEST]) if window != NONE else whole(NONE)
    while machine != NONE and pools.machines[machine].time < time - window:
        writes = scan.terms.absence or scan.terms.timed_out
        if writes and room(pools, scan.output, whole(1), whole(1)) < 1:
            return False
        end = whole(pools.machines[machine].time + window)
        if not (scan.terms.absence and _finish(scan, machine, end)):
            pools.counts[EXPIRED] += 1
            if scan.terms.timed_out:
                _give_up(scan, machine, end)
            _close(pools, scan.threads.threads, machine)
        machine = whole(pools.counts[OLDEST])
    return True


@step
def _first(pools: Pools, block: int) -> int:
    """Find the oldest machine of a key, or NONE."""
    if block == NONE or pools.blocks[block].open <= 0:
        return whole(NONE)
    return whole(pools.blocks[block].first)


@step
def _expire_by_count(scan: Scan, block: int, time: int) -> None:
    """Close the machines of a key that have seen as many events as the window has."""
    if block == NONE:
        return
    pools = scan.pools
    pools.blocks[block].count += 1
    limit = pools.blocks[block].count - scan.terms.events
    machine = _first(pools, block)
    while machine != NONE and pools.machines[machine].count <= limit:
        newer = whole(pools.machines[machine].key_newer)
        pools.counts[EXPIRED] += 1
        if scan.terms.timed_out:
            _give_up(scan, machine, time)
        _close(pools, scan.threads.threads, machine)
        machine = newer


@step
def _open(pools: Pools, threads: Threads, block: int, key: tuple[int, int], time: int) -> int:
    """Open a machine that has no event yet."""
    if block == NONE or pools.blocks[block].open == FREE:
        block = new_block(pools, key[0], key[1])
        pools.blocks[block].count = 1
    machine = new_machine(pools, block, time)
    one, group = pools.machines[machine], pools.blocks[block]
    one.key_newer = NONE
    one.key_older = group.last
    if group.last != NONE:
        pools.machines[group.last].key_newer = machine
    else:
        group.first = machine
    group.last = machine
    one.threads = new_thread(pools.counts, threads, whole(0), whole(NONE))
    return machine


@step
def _offer(  # noqa: C901  # a function less is much less to compile
    scan: Scan, key: tuple[int, int], event: tuple[int, int, int]
) -> None:
    """Offer an event to the machines of its key, oldest first, and then to a new one."""
    pools, threads, (row, time, symbol) = scan.pools, scan.threads.threads, event
    block = find_block(pools, key[0], key[1])
    if scan.terms.events != NONE:
        _expire_by_count(scan, block, time)
    if symbol == 0:
        return
    if scan.moves.signs[symbol] & FORBIDS:
        _spoil(scan, _first(pools, block), row, symbol)
    machine = _first(pools, block)
    opened = False
    while not opened:
        if machine == NONE:
            if not scan.moves.signs[symbol] & OPENS:
                break
            machine = _open(pools, scan.threads, block, key, time)
            opened = True
        newer = whole(pools.machines[machine].key_newer)
        if _advance(scan, machine, event):
            if not scan.terms.absence:
                _finish(scan, machine, time)
            if not scan.terms.reuse:
                break
        elif opened:
            _close(pools, threads, machine)
        machine = newer
    if opened and pools.counts[OPEN] > scan.terms.cap:
        _close(pools, threads, whole(pools.counts[OLDEST]))
        pools.counts[EVICTED] += 1


@step
def _has_room(scan: Scan, symbol: int) -> bool:
    pools, terms = scan.pools, scan.terms
    most, takers = MOST_THREADS * (terms.fan + 1), whole(1)
    if terms.reuse or scan.moves.signs[symbol] & FORBIDS:
        most += pools.counts[USED_THREADS] * (terms.fan + 1)
        takers += pools.counts[OPEN]
    if terms.timed_out and terms.events != NONE:  # the event may close a machine besides
        takers += 1
    return (
        room(pools, scan.output, takers, whole(1)) > 0
        and pools.counts[USED_THREADS] + most <= scan.threads.threads.shape[0]
        and pools.counts[USED_NODES] + most <= pools.nodes.shape[0]
    )


@compiled
def run_scan(scan: Scan, events: Events, start: int, frontier: int) -> int:
    """Offer events to the machines from number `start` on, then end what the frontier passed.

    Returns:
        How many events are done, the frontier counting as one behind the last: fewer than there
        are if the arrays are too small to go on.
    """
    keyed = events.hash1.shape[0] > 0
    number = events.time.shape[0]
    for i in range(start, number + 1):
        time, symbol = whole(frontier), whole(0)
        if i < number:
            time, symbol = whole(events.time[i]), whole(events.symbols[events.number[i]])
            if symbol == 0 and scan.terms.events == NONE:
                continue
        if not _expire(scan, time):
            return i
        if i < number:
            if not _has_room(scan, symbol):
                return i
            hash1 = events.hash1[i] if keyed else whole(0)
            hash2 = events.hash2[i] if keyed else whole(0)
            _offer(scan, (hash1, hash2), (whole(events.row + i), time, symbol))
    return number + 1

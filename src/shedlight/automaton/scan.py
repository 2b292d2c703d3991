"""The kernel for patterns with conditions across events: a scan over the machines of a key.

Whether a machine can use an event depends on the events it has, so each is asked in turn,
oldest first. A machine carries every assignment of its events to elements that is still
possible (a *thread*), in the order in which they count: the first as written first. Threads
that wait at the same state with the same events to compare are one.
"""

from typing import NamedTuple

import numpy as np

from shedlight.automaton.assignment import Paths
from shedlight.automaton.compiled import apart, compiled, step
from shedlight.automaton.pools import (
    DROPPED,
    EVICTED,
    EXPIRED,
    FREE_THREAD,
    LONGEST,
    NONE,
    OLDEST,
    OPEN,
    THREADS,
    USED_NODES,
    USED_THREADS,
    Array,
    Output,
    Pools,
    find_block,
    free_machine,
    free_node,
    is_due,
    new_block,
    new_machine,
    new_node,
    room,
    whole,
    write_match,
)
from shedlight.automaton.queues import Events
from shedlight.automaton.stack import Cells, Code, holds

MOST_THREADS = 64
"""How many assignments a machine may carry; later ones are dropped and counted."""

THREAD = np.dtype([("state", "i4"), ("node", "i4"), ("next", "i4"), ("rank", "i4")], align=True)


class Threads(NamedTuple):
    """The assignments of all machines."""

    threads: Array
    bound: Array  # [thread, element] the row of the last event of an element, or NONE


class Terms(NamedTuple):
    """The conditions and settings of a pattern, as the kernel wants them."""

    forbids: Array  # whether a symbol has NOTs
    binds: Array  # whether conditions mention an element
    check_end: Array  # by element: where its checks end
    checks: Array  # numbers of conditions
    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    cap: int  # most open machines
    fan: int  # most edges or alternatives of a state


class Scan(NamedTuple):
    """All that the kernel works on."""

    pools: Pools
    threads: Threads
    path: Paths
    terms: Terms
    code: Code
    cells: Cells
    output: Output


@step
def _begin(ends: Array, number: int) -> int:
    return ends[number - 1] if number > 0 else 0


@step
def _copy_bound(all_threads: Threads, source: int, target: int) -> None:
    for element in range(all_threads.bound.shape[1]):
        all_threads.bound[target, element] = all_threads.bound[source, element]


@step
def _new_thread(scan: Scan, state: int, node: int) -> int:
    counts = scan.pools.counts
    thread = whole(counts[FREE_THREAD])
    if thread != NONE:
        counts[FREE_THREAD] = whole(scan.threads.threads[thread].next)
    else:
        thread = counts[THREADS]
        counts[THREADS] += 1
    counts[USED_THREADS] += 1
    scan.threads.threads[thread].state = state
    scan.threads.threads[thread].node = node
    scan.threads.threads[thread].next = NONE
    scan.threads.threads[thread].rank = 0
    return thread


@step
def _free_threads(scan: Scan, first: int) -> None:
    while first != NONE:
        after = whole(scan.threads.threads[first].next)
        scan.threads.threads[first].next = scan.pools.counts[FREE_THREAD]
        scan.pools.counts[FREE_THREAD] = first
        scan.pools.counts[USED_THREADS] -= 1
        first = after


@step
def _same(bound: Array, one: int, other: int) -> bool:
    for element in range(bound.shape[1]):
        if bound[one, element] != bound[other, element]:
            return False
    return True


@step
def _append(scan: Scan, chosen: tuple[int, int, int], new: int) -> tuple[int, int, int]:
    """Put a thread behind the others unless there is one like it; (first, last, number)."""
    first, last, number = chosen
    threads, bound = scan.threads.threads, scan.threads.bound
    other = first
    while other != NONE:
        if threads[other].state == threads[new].state and _same(bound, other, new):
            break
        other = whole(threads[other].next)
    if other != NONE or number == MOST_THREADS:
        if other == NONE:
            scan.pools.counts[DROPPED] += 1
        _free_threads(scan, new)
        return chosen
    if first == NONE:
        return new, new, whole(1)
    threads[last].next = new
    return first, new, number + 1


@step
def _passes(scan: Scan, element: int, bound: Array) -> bool:
    """Whether the conditions that an element's event decides hold."""
    for i in range(_begin(scan.terms.check_end, element), scan.terms.check_end[element]):
        if not holds(scan.code, scan.cells, scan.terms.checks[i], bound):
            return False
    return True


@step
def _steps(
    scan: Scan,
    thread: int,
    machine: int,
    event: tuple[int, int, int],
    element: int,
    chosen: tuple[int, int, int],
) -> tuple[int, int, int]:
    """Add the threads that follow from one thread when an element takes an event."""
    row, _, symbol = event
    state = whole(scan.threads.threads[thread].state)
    for edge in range(_begin(scan.path.edge_end, state), scan.path.edge_end[state]):
        if scan.path.edge_element[edge] != element:
            continue
        new = _new_thread(scan, whole(scan.path.edge_target[edge]), whole(NONE))
        _copy_bound(scan.threads, thread, new)
        if scan.terms.binds[element]:
            scan.threads.bound[new, element] = row
        if not _passes(scan, element, scan.threads.bound[new]):
            _free_threads(scan, new)
            continue
        number = chosen[2]
        chosen = _append(scan, chosen, new)
        if chosen[2] > number:
            before = whole(scan.threads.threads[thread].node)
            node = new_node(scan.pools, row, symbol, element, before)
            scan.pools.nodes[node].other = scan.pools.machines[machine].nodes
            scan.pools.machines[machine].nodes = node
            scan.threads.threads[new].node = node
    return chosen


@step
def _followers(
    scan: Scan,
    machine: int,
    event: tuple[int, int, int],
) -> int:
    """Make the threads of a machine after an event and give the first; NONE if there are none.

    Assignments are compared event by event, an element written earlier coming first; those that
    have been the same up to here have the same rank.
    """
    threads = scan.threads.threads
    chosen = (whole(NONE), whole(NONE), whole(0))
    rank = 0
    first = whole(scan.pools.machines[machine].threads)
    while first != NONE:
        end = first
        while end != NONE and threads[end].rank == threads[first].rank:
            end = whole(threads[end].next)
        for element in range(scan.path.wants.shape[1]):
            if not scan.path.wants[event[2], element]:
                continue
            last = chosen[1]
            thread = first
            while thread != end:
                chosen = _steps(
                    scan,
                    thread,
                    machine,
                    event,
                    element,
                    chosen,
                )
                thread = whole(threads[thread].next)
            if chosen[1] != last:
                new = chosen[0] if last == NONE else threads[last].next
                while new != NONE:
                    threads[new].rank = rank
                    new = whole(threads[new].next)
                rank += 1
        first = end
    return chosen[0]


@step
def _close(scan: Scan, machine: int) -> None:
    """Give a machine and all that is its own back."""
    one = scan.pools.machines[machine]
    _free_threads(scan, whole(one.threads))
    node = whole(one.nodes)
    while node != NONE:
        other = whole(scan.pools.nodes[node].other)
        free_node(scan.pools, node)
        node = other
    block = scan.pools.blocks[one.block]
    if one.key_older != NONE:
        scan.pools.machines[one.key_older].key_newer = one.key_newer
    else:
        block.first = one.key_newer
    if one.key_newer != NONE:
        scan.pools.machines[one.key_newer].key_older = one.key_older
    else:
        block.last = one.key_older
    free_machine(scan.pools, machine)


@step
def _accepting(scan: Scan, first: int) -> int:
    """Find the first thread that is a match, or NONE."""
    while first != NONE and not scan.path.accepts[scan.threads.threads[first].state]:
        first = whole(scan.threads.threads[first].next)
    return first


@apart
def _advance(
    scan: Scan,
    machine: int,
    event: tuple[int, int, int],
) -> bool:
    """Let a machine take an event if it can use it; write the match if it is one."""
    first = _followers(scan, machine, event)
    if first == NONE:
        return False
    one = scan.pools.machines[machine]
    _free_threads(scan, whole(one.threads))
    one.threads = first
    one.size += 1
    scan.pools.counts[LONGEST] = max(scan.pools.counts[LONGEST], one.size)
    if not scan.terms.absence:
        winner = _accepting(scan, whole(one.threads))
        if winner != NONE:
            last = whole(scan.threads.threads[winner].node)
            write_match(scan.pools, scan.output, last, whole(one.size), event[1], event[0])
            _close(scan, machine)
    return True


@step
def _alternatives(
    scan: Scan,
    thread: int,
    entry: int,
    chosen: tuple[int, int, int],
) -> tuple[int, int, int]:
    """Add what a NOT leaves of a thread."""
    for i in range(_begin(scan.path.left_end, entry), scan.path.left_end[entry]):
        node = whole(scan.threads.threads[thread].node)
        new = _new_thread(scan, whole(scan.path.left_target[i]), node)
        scan.threads.threads[new].rank = scan.threads.threads[thread].rank
        _copy_bound(scan.threads, thread, new)
        chosen = _append(scan, chosen, new)
    return chosen


@step
def _entry(path: Paths, state: int, element: int) -> int:
    """Find what a NOT does to a state, or NONE if nothing."""
    for entry in range(_begin(path.not_end, state), path.not_end[state]):
        if path.not_element[entry] == element:
            return whole(entry)
    return whole(NONE)


@apart
def _spoil(
    scan: Scan,
    machine: int,
    event: tuple[int, int, int],
) -> None:
    """Apply the NOTs of an event to a machine; close it if nothing is left."""
    row, _, symbol = event
    one = scan.pools.machines[machine]
    for element in range(scan.path.wants.shape[1]):
        if not (scan.path.wants[symbol, element] and scan.path.is_not[element]):
            continue
        chosen = (whole(NONE), whole(NONE), whole(0))
        thread = whole(one.threads)
        while thread != NONE:
            after = whole(scan.threads.threads[thread].next)
            entry = _entry(scan.path, scan.threads.threads[thread].state, element)
            bound = scan.threads.bound[thread]
            if entry != NONE:
                before = bound[element]
                bound[element] = row
                hit = _passes(scan, element, bound)
                bound[element] = before
                if hit:
                    chosen = _alternatives(scan, thread, entry, chosen)
                    scan.threads.threads[thread].next = NONE
                    _free_threads(scan, thread)
                    thread = after
                    continue
            scan.threads.threads[thread].next = NONE
            chosen = _append(scan, chosen, thread)
            thread = after
        one.threads = chosen[0]
    if one.threads == NONE:
        _close(scan, machine)


@apart
def _expire(scan: Scan, before: int) -> bool:
    """Close the machines opened before a time; False if there is no room to write matches."""
    counts = scan.pools.counts
    while counts[OLDEST] != NONE and scan.pools.machines[counts[OLDEST]].time < before:
        if scan.terms.absence and room(scan.pools, scan.output, 1, 1) < 1:
            return False
        machine = whole(counts[OLDEST])
        winner = whole(NONE)
        if scan.terms.absence:
            winner = _accepting(scan, whole(scan.pools.machines[machine].threads))
        if winner != NONE:
            end = scan.pools.machines[machine].time + scan.terms.window
            last = whole(scan.threads.threads[winner].node)
            size = whole(scan.pools.machines[machine].size)
            write_match(scan.pools, scan.output, last, size, end, whole(NONE))
        else:
            counts[EXPIRED] += 1
        _close(scan, machine)
    return True


@apart
def _expire_by_count(scan: Scan, block: int) -> None:
    """Close the machines of a key that have seen as many events as the window has."""
    limit = scan.pools.blocks[block].count - scan.terms.events
    machine = whole(scan.pools.blocks[block].first)
    while machine != NONE and scan.pools.machines[machine].count <= limit:
        newer = whole(scan.pools.machines[machine].key_newer)
        scan.pools.counts[EXPIRED] += 1
        _close(scan, machine)
        machine = newer


@apart
def _open(
    scan: Scan,
    key: tuple[int, int],
    event: tuple[int, int, int],
) -> None:
    """Open a machine with an event, if it can start a match."""
    block = find_block(scan.pools, key[0], key[1])
    if block == NONE:
        block = new_block(scan.pools, key[0], key[1])
        scan.pools.blocks[block].count = 1
    machine = new_machine(scan.pools, block, event[1])
    one = scan.pools.machines[machine]
    one.key_newer = NONE
    one.key_older = scan.pools.blocks[block].last
    if one.key_older != NONE:
        scan.pools.machines[one.key_older].key_newer = machine
    else:
        scan.pools.blocks[block].first = machine
    scan.pools.blocks[block].last = machine
    one.threads = _new_thread(scan, whole(0), whole(NONE))
    for element in range(scan.threads.bound.shape[1]):
        scan.threads.bound[one.threads, element] = NONE
    if not _advance(scan, machine, event):
        _close(scan, machine)
    elif scan.pools.counts[OPEN] > scan.terms.cap:
        _close(scan, whole(scan.pools.counts[OLDEST]))
        scan.pools.counts[EVICTED] += 1


@step
def _can_open(path: Paths, symbol: int) -> bool:
    """Whether an event can be the first of a match."""
    for edge in range(path.edge_end[0]):  # noqa: SIM110  # compiled
        if path.wants[symbol, path.edge_element[edge]]:
            return True
    return False


@step
def _offer(
    scan: Scan,
    key: tuple[int, int],
    event: tuple[int, int, int],
) -> bool:
    """Offer an event to the machines of its key; False if it may open one."""
    symbol = event[2]
    block = find_block(scan.pools, key[0], key[1])
    if block == NONE:
        return False
    if scan.terms.events != NONE:
        scan.pools.blocks[block].count += 1
        _expire_by_count(scan, block)
    if symbol == 0:
        return True
    block = find_block(scan.pools, key[0], key[1])
    machine = whole(scan.pools.blocks[block].first) if block != NONE else whole(NONE)
    while machine != NONE and scan.terms.forbids[symbol]:
        newer = whole(scan.pools.machines[machine].key_newer)
        _spoil(scan, machine, event)
        machine = newer
    block = find_block(scan.pools, key[0], key[1])
    machine = whole(scan.pools.blocks[block].first) if block != NONE else whole(NONE)
    while machine != NONE:
        newer = whole(scan.pools.machines[machine].key_newer)
        taken = _advance(scan, machine, event)
        if taken and not scan.terms.reuse:
            return True
        machine = newer
    return False


@step
def _has_room(scan: Scan, symbol: int) -> bool:
    most = MOST_THREADS * (scan.terms.fan + 1)
    takers = 1
    if scan.terms.reuse or scan.terms.forbids[symbol]:
        most += scan.pools.counts[USED_THREADS] * (scan.terms.fan + 1)
        takers += scan.pools.counts[OPEN]
    return (
        room(scan.pools, scan.output, takers, 1) > 0
        and scan.pools.counts[USED_THREADS] + most <= scan.threads.threads.shape[0]
        and scan.pools.counts[USED_NODES] + most <= scan.pools.nodes.shape[0]
    )


@compiled
def run_scan(
    scan: Scan,
    events: Events,
    start: int,
) -> int:
    """Offer events to the machines from number `start` on.

    Returns:
        How many events are done: fewer than there are if the arrays are too small to go on.
    """
    keyed = events.hash1.shape[0] > 0
    for i in range(start, events.time.shape[0]):
        symbol = whole(events.symbol[i])
        if symbol == 0 and scan.terms.events == NONE:
            continue
        if not _has_room(scan, symbol):
            return i
        time = events.time[i]
        if is_due(scan.pools, scan.terms.window, time) and not _expire(
            scan, time - scan.terms.window
        ):
            return i
        hash1 = events.hash1[i] if keyed else whole(0)
        hash2 = events.hash2[i] if keyed else whole(0)
        key, event = (hash1, hash2), (whole(events.row + i), whole(time), symbol)
        if not _offer(scan, key, event) and _can_open(scan.path, symbol):
            _open(scan, key, event)
    return events.time.shape[0]


@compiled
def end_windows_scan(scan: Scan, frontier: int) -> bool:
    """Close the machines whose window ended before the frontier; False if out of room."""
    return scan.terms.window == NONE or _expire(scan, frontier - scan.terms.window)

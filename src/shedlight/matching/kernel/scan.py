"""The kernel for patterns with conditions across events: a scan over the machines of a key.

Whether a machine can use an event depends on the events it has, so each is asked in turn,
oldest first. A machine carries every assignment of its events to elements that is still
possible (a *thread*), in the order in which they count: the first as written first. Threads
that wait at the same state with the same events to compare are one.
"""

from typing import NamedTuple

from shedlight.matching.jit import Array, compiled, i64, jit_inline, jit_noinline
from shedlight.matching.kernel.guard_vm import Cells, Code, holds
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
    Output,
    PartialMatchRecords,
    find_block,
    free_node,
    free_partial_match,
    mark_timed_out,
    new_block,
    new_node,
    new_partial_match,
    room,
    write_match,
)
from shedlight.matching.kernel.scan_bindings import (
    MOST_THREADS,
    Bindings,
    append,
    free_threads,
    new_thread,
)
from shedlight.matching.kernel.scan_tables import FORBIDS, OPENS, TAKES, TransitionTable
from shedlight.matching.kernel.tables import Events


class ScanSettings(NamedTuple):
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

    pools: PartialMatchRecords
    threads: Bindings
    moves: TransitionTable
    terms: ScanSettings
    code: Code
    cells: Cells
    output: Output


@jit_inline
def _steps(
    scan: Scan,
    partial_match: int,
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
        new = new_thread(counts, threads, i64(scan.moves.targets[i]), thread)
        if scan.moves.binds[element]:
            threads.bound[new, element] = row
        number = chosen[2]
        chosen = append(counts, threads, chosen, new)
        if chosen[2] > number:
            before = i64(threads.threads[thread].node)
            node = new_node(scan.pools, row, symbol, element, before)
            scan.pools.nodes[node].other = scan.pools.partial_matches[partial_match].nodes
            scan.pools.partial_matches[partial_match].nodes = node
            threads.threads[new].node = node
    return chosen


@jit_noinline
def _close(pools: PartialMatchRecords, threads: Array, partial_match: int) -> None:
    """Give a machine and all that is its own back."""
    one = pools.partial_matches[partial_match]
    free_threads(pools.counts, threads, i64(one.threads))
    node = i64(one.nodes)
    while node != NONE:
        other = i64(pools.nodes[node].other)
        free_node(pools, node)
        node = other
    older, newer, block = one.key_older, one.key_newer, pools.blocks[one.block]
    if older != NONE:
        pools.partial_matches[older].key_newer = newer
    else:
        block.first = newer
    if newer != NONE:
        pools.partial_matches[newer].key_older = older
    else:
        block.last = older
    free_partial_match(pools, partial_match)


@jit_noinline
def _finish(scan: Scan, partial_match: int, time: int) -> bool:
    """Write the match of a machine out and close it, if one of its threads is a match."""
    one = scan.pools.partial_matches[partial_match]
    thread = i64(one.threads)
    while thread != NONE and not scan.moves.accepts[scan.threads.threads[thread].state]:
        thread = i64(scan.threads.threads[thread].next)
    if thread == NONE:
        return False
    last = i64(scan.threads.threads[thread].node)
    write_match(scan.pools, scan.output, last, i64(one.size), time)
    _close(scan.pools, scan.threads.threads, partial_match)
    return True


@jit_noinline
def _give_up(scan: Scan, partial_match: int, time: int) -> None:
    """Write a machine out that times out, as the first of its threads has it."""
    one = scan.pools.partial_matches[partial_match]
    last = i64(scan.threads.threads[one.threads].node)
    write_match(scan.pools, scan.output, last, i64(one.size), time)
    mark_timed_out(scan.pools, scan.output)


@jit_inline
def _advance(scan: Scan, partial_match: int, event: tuple[int, int, int]) -> bool:
    """Let a machine take an event if it can use it.

    Assignments are compared event by event, an element written earlier coming first; those that
    have been the same up to here have the same rank.
    """
    counts, threads = scan.pools.counts, scan.threads.threads
    one = scan.pools.partial_matches[partial_match]
    chosen = (i64(NONE), i64(NONE), i64(0))
    rank = i64(-1)
    first = i64(one.threads)
    while first != NONE:
        end = first
        while end != NONE and threads[end].rank == threads[first].rank:
            end = i64(threads[end].next)
        for element in range(scan.moves.wants.shape[1]):
            if scan.moves.wants[event[2], element] != TAKES:
                continue
            last, thread = chosen[1], first
            while thread != end:
                chosen = _steps(scan, partial_match, thread, element, event, chosen)
                thread = i64(threads[thread].next)
            new = chosen[0] if last == NONE else i64(threads[last].next)
            rank += new != NONE
            while new != NONE:
                threads[new].rank = rank
                new = i64(threads[new].next)
        first = end
    if chosen[0] != NONE:
        free_threads(counts, threads, i64(one.threads))
        one.threads = chosen[0]
        one.size += 1
        counts[LONGEST] = max(counts[LONGEST], i64(one.size))
    return chosen[0] != NONE


@jit_inline
def _left(
    scan: Scan, thread: int, element: int, row: int, chosen: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Add what a NOT leaves of a thread."""
    counts, threads = scan.pools.counts, scan.threads
    state = i64(threads.threads[thread].state)
    place = state * threads.bound.shape[1] + element
    start, end = scan.moves.ends[place], scan.moves.ends[place + 1]
    stays = end - start == 1 and scan.moves.targets[start] == state
    threads.threads[thread].next = NONE
    if stays or not holds(scan.code, scan.cells, element, row, threads.bound, thread):
        return append(counts, threads, chosen, thread)
    for i in range(start, end):
        new = new_thread(counts, threads, i64(scan.moves.targets[i]), thread)
        chosen = append(counts, threads, chosen, new)
    free_threads(counts, threads.threads, thread)
    return chosen


@jit_noinline
def _spoil(scan: Scan, partial_match: int, row: int, symbol: int) -> None:
    """Apply the NOTs of an event to a machine and the newer ones of its key."""
    while partial_match != NONE:
        one = scan.pools.partial_matches[partial_match]
        newer = i64(one.key_newer)
        for element in range(scan.moves.wants.shape[1]):
            if scan.moves.wants[symbol, element] == FORBIDS:
                chosen = (i64(NONE), i64(NONE), i64(0))
                thread = i64(one.threads)
                while thread != NONE:
                    after = i64(scan.threads.threads[thread].next)
                    chosen = _left(scan, thread, element, row, chosen)
                    thread = after
                one.threads = chosen[0]
        if one.threads == NONE:
            _close(scan.pools, scan.threads.threads, partial_match)
        partial_match = newer


@jit_inline
def _expire(scan: Scan, time: int) -> bool:
    """Close the machines whose window is over; False if there is no room to write matches."""
    pools, window = scan.pools, scan.terms.window
    partial_match = i64(pools.counts[OLDEST]) if window != NONE else i64(NONE)
    while partial_match != NONE and pools.partial_matches[partial_match].time < time - window:
        writes = scan.terms.absence or scan.terms.timed_out
        if writes and room(pools, scan.output, i64(1), i64(1)) < 1:
            return False
        end = i64(pools.partial_matches[partial_match].time + window)
        if not (scan.terms.absence and _finish(scan, partial_match, end)):
            pools.counts[EXPIRED] += 1
            if scan.terms.timed_out:
                _give_up(scan, partial_match, end)
            _close(pools, scan.threads.threads, partial_match)
        partial_match = i64(pools.counts[OLDEST])
    return True


@jit_inline
def _first(pools: PartialMatchRecords, block: int) -> int:
    """Find the oldest machine of a key, or NONE."""
    if block == NONE or pools.blocks[block].open <= 0:
        return i64(NONE)
    return i64(pools.blocks[block].first)


@jit_inline
def _expire_by_count(scan: Scan, block: int, time: int) -> None:
    """Close the machines of a key that have seen as many events as the window has."""
    if block == NONE:
        return
    pools = scan.pools
    pools.blocks[block].count += 1
    limit = pools.blocks[block].count - scan.terms.events
    partial_match = _first(pools, block)
    while partial_match != NONE and pools.partial_matches[partial_match].count <= limit:
        newer = i64(pools.partial_matches[partial_match].key_newer)
        pools.counts[EXPIRED] += 1
        if scan.terms.timed_out:
            _give_up(scan, partial_match, time)
        _close(pools, scan.threads.threads, partial_match)
        partial_match = newer


@jit_inline
def _open(
    pools: PartialMatchRecords, threads: Bindings, block: int, key: tuple[int, int], time: int
) -> int:
    """Open a machine that has no event yet."""
    if block == NONE or pools.blocks[block].open == FREE:
        block = new_block(pools, key[0], key[1])
        pools.blocks[block].count = 1
    partial_match = new_partial_match(pools, block, time)
    one, group = pools.partial_matches[partial_match], pools.blocks[block]
    one.key_newer = NONE
    one.key_older = group.last
    if group.last != NONE:
        pools.partial_matches[group.last].key_newer = partial_match
    else:
        group.first = partial_match
    group.last = partial_match
    one.threads = new_thread(pools.counts, threads, i64(0), i64(NONE))
    return partial_match


@jit_inline
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
    partial_match = _first(pools, block)
    opened = False
    while not opened:
        if partial_match == NONE:
            if not scan.moves.signs[symbol] & OPENS:
                break
            partial_match = _open(pools, scan.threads, block, key, time)
            opened = True
        newer = i64(pools.partial_matches[partial_match].key_newer)
        if _advance(scan, partial_match, event):
            if not scan.terms.absence:
                _finish(scan, partial_match, time)
            if not scan.terms.reuse:
                break
        elif opened:
            _close(pools, threads, partial_match)
        partial_match = newer
    if opened and pools.counts[OPEN] > scan.terms.cap:
        _close(pools, threads, i64(pools.counts[OLDEST]))
        pools.counts[EVICTED] += 1


@jit_inline
def _has_room(scan: Scan, symbol: int) -> bool:
    pools, terms = scan.pools, scan.terms
    most, takers = MOST_THREADS * (terms.fan + 1), i64(1)
    if terms.reuse or scan.moves.signs[symbol] & FORBIDS:
        most += pools.counts[USED_THREADS] * (terms.fan + 1)
        takers += pools.counts[OPEN]
    if terms.timed_out and terms.events != NONE:  # the event may close a machine besides
        takers += 1
    return (
        room(pools, scan.output, takers, i64(1)) > 0
        and pools.counts[USED_THREADS] + most <= scan.threads.threads.shape[0]
        and pools.counts[USED_NODES] + most <= pools.nodes.shape[0]
    )


@compiled
def run_scan(scan: Scan, events: Events, start: int, watermark: int) -> int:
    """Offer events to the machines from number `start` on, then end what the watermark passed.

    Returns:
        How many events are done, the watermark counting as one after the last: fewer than
        there are if the arrays are too small to go on.
    """
    keyed = events.hash1.shape[0] > 0
    number = events.time.shape[0]
    for i in range(start, number + 1):
        time, symbol = i64(watermark), i64(0)
        if i < number:
            time, symbol = i64(events.time[i]), i64(events.symbols[events.number[i]])
            if symbol == 0 and scan.terms.events == NONE:
                continue
        if not _expire(scan, time):
            return i
        if i < number:
            if not _has_room(scan, symbol):
                return i
            hash1 = events.hash1[i] if keyed else i64(0)
            hash2 = events.hash2[i] if keyed else i64(0)
            _offer(scan, (hash1, hash2), (i64(events.row + i), time, symbol))
    return number + 1

"""The kernel for patterns with conditions across events.

Whether a partial match can use an event depends on the events it has, so each is asked in turn,
oldest first: all of the key where these are few, else those that the index finds
(`waiting.py`). It carries every *binding* of its events to elements that is still possible, in
the order in which they count: the first as written first. Bindings that wait at the same state
with the same events to compare are one.
"""

from shedlight.matching.jit import Array, compiled, i64, idx, jit_inline, prefetch
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.guard_vm import holds
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import (
    MAX_BINDINGS,
    Bindings,
    append,
    free_bindings,
    new_binding,
)
from shedlight.matching.kernel.scan_close import (
    Scan,
    close,
    close_with_entries,
    emit_timed_out,
    give_back,
    index_all_keys,
    index_key,
    move_entries_apart,
    write_match,
)
from shedlight.matching.kernel.scan_take import take
from shedlight.matching.kernel.tables import FORBIDS, OPENS, TAKES, Events
from shedlight.matching.kernel.waiting import (
    PUT_IN,
    TAKE_OUT,
    has_room,
    next_candidate,
    next_listed,
)


@jit_inline
def _negate_binding(
    scan: Scan, binding: int, element: int, row: int, chosen: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Add what a NOT leaves of a binding."""
    counts, bindings = scan.records.counts, scan.bindings
    state = i64(bindings.records[binding].state)
    entry = state * bindings.bound.shape[1] + element
    start, end = scan.transitions.ends[entry], scan.transitions.ends[entry + 1]
    stays = end - start == 1 and scan.transitions.targets[start] == state
    bindings.records[binding].next = NONE
    if stays or not holds(
        scan.code, scan.cells, element, row, bindings.bound, binding, (i64(NONE), i64(0))
    ):
        return append(counts, bindings, chosen, binding)
    for i in range(start, end):
        new = new_binding(counts, bindings, i64(scan.transitions.targets[i]), binding)
        chosen = append(counts, bindings, chosen, new)
    free_bindings(counts, bindings.records, binding)
    return chosen


@jit_inline
def _apply_negation(scan: Scan, key_slot: int, row: int, symbol: int) -> None:
    """Apply the NOTs of an event to the partial matches of its key."""
    records, bindings = scan.records, scan.bindings.records
    number, partial_match = _number_of(records, key_slot), _oldest_of_key(records, key_slot)
    takers, age, size = scan.transitions.accepts[symbol], i64(NONE), i64(NONE)
    while True:
        if number != NONE:
            age, partial_match, size = next_listed(
                scan.waiting, takers, FORBIDS, (number, row, age), size
            )
        if partial_match == NONE:
            break
        record = records.partial_matches[partial_match]
        newer = i64(record.key_newer)
        move_entries_apart(scan, partial_match, i64(TAKE_OUT))
        for element in range(takers.shape[0]):
            if takers[element] == FORBIDS:
                chosen = (i64(NONE), i64(NONE), i64(0))
                binding = i64(record.bindings)
                while binding != NONE:
                    after = i64(bindings[binding].next)
                    chosen = _negate_binding(scan, binding, element, row, chosen)
                    binding = after
                record.bindings = chosen[0]
        if record.bindings == NONE:
            close(scan, partial_match)
        else:
            move_entries_apart(scan, partial_match, i64(PUT_IN))
        partial_match = newer


@jit_inline
def _expire(scan: Scan, time: int) -> bool:
    """Close the partial matches whose window is over; False if the output is full."""
    records, window = scan.records, scan.settings.window
    partial_match = i64(records.counts[rec.OLDEST]) if window != NONE else i64(NONE)
    while partial_match != NONE and records.partial_matches[partial_match].time < time - window:
        writes = scan.settings.absence or scan.settings.timed_out
        if writes and not rec.is_room(records, scan.output, i64(1)):
            return False
        end = i64(records.partial_matches[partial_match].time + window)
        if not (scan.settings.absence and write_match(scan, partial_match, end)):
            records.counts[rec.EXPIRED] += 1
            if scan.settings.timed_out:
                emit_timed_out(scan, partial_match, end)
        close_with_entries(scan, partial_match)
        partial_match = i64(records.counts[rec.OLDEST])
    return True


@jit_inline
def _number_of(records: PartialMatchRecords, key_slot: int) -> int:
    """Give the number of a key's entries in the index, NONE if it has none."""
    if key_slot == NONE or records.key_slots[idx(key_slot)].open <= 0:
        return i64(NONE)
    return i64(records.key_slots[idx(key_slot)].entries)


@jit_inline
def _oldest_of_key(records: PartialMatchRecords, key_slot: int) -> int:
    """Find the oldest partial match of a key, or NONE."""
    if key_slot == NONE or records.key_slots[key_slot].open <= 0:
        return i64(NONE)
    return i64(records.key_slots[key_slot].first)


@jit_inline
def _expire_by_count(scan: Scan, key_slot: int, time: int) -> None:
    """Close the partial matches of a key that have seen as many events as the window has."""
    if key_slot == NONE:
        return
    records = scan.records
    records.key_slots[key_slot].count += 1
    limit = records.key_slots[key_slot].count - scan.settings.events
    partial_match = _oldest_of_key(records, key_slot)
    while partial_match != NONE and records.partial_matches[partial_match].count <= limit:
        newer = i64(records.partial_matches[partial_match].key_newer)
        records.counts[rec.EXPIRED] += 1
        if scan.settings.timed_out:
            emit_timed_out(scan, partial_match, time)
        close_with_entries(scan, partial_match)
        partial_match = newer


@jit_inline
def _open_partial_match(
    records: PartialMatchRecords,
    bindings: Bindings,
    key_slot: int,
    key: tuple[int, int],
    time: int,
) -> int:
    """Open a partial match that has no event yet."""
    if key_slot == NONE or records.key_slots[key_slot].open == rec.FREE:
        key_slot = rec.new_key_slot(records, key[0], key[1])
        records.key_slots[key_slot].count = 1
    partial_match = rec.new_partial_match(records, key_slot, time)
    record, key_record = records.partial_matches[partial_match], records.key_slots[key_slot]
    record.key_newer = NONE
    record.key_older = key_record.last
    if key_record.last != NONE:
        records.partial_matches[key_record.last].key_newer = partial_match
    else:
        key_record.first = partial_match
    key_record.last = partial_match
    record.bindings = new_binding(records.counts, bindings, i64(0), i64(NONE))
    return partial_match


@jit_inline
def _next_in_turn(
    scan: Scan, symbol: int, asked: tuple[int, int, int], tries: int, size: int
) -> tuple[int, int, int]:
    """Find the next partial match that may use an event: (age, itself, how many are listed).

    The first few are looked up one by one; then, and if each may use it, all are listed.
    """
    takers = scan.transitions.accepts[symbol]
    if tries > 0:
        age, partial_match = next_candidate(scan.waiting, takers, TAKES, asked)
        return age, partial_match, size
    return next_listed(scan.waiting, takers, TAKES, asked, size)


@jit_inline
def _offer(  # noqa: C901  # a function less is much less to compile
    scan: Scan, key_slot: int, key: tuple[int, int], event: tuple[int, int, int]
) -> None:
    """Offer an event to the partial matches of its key, oldest first, and then to a new one."""
    records, (row, time, symbol) = scan.records, event
    number, age, size = _number_of(records, key_slot), i64(NONE), i64(NONE)
    tries = i64(0 if scan.settings.reuse else scan.settings.tries)
    partial_match, opened = _oldest_of_key(records, key_slot), False
    while not opened:
        if number != NONE:
            asked = (number, row, age)
            age, partial_match, size = _next_in_turn(scan, symbol, asked, tries, size)
            tries -= 1
            # mostly a partial match, its binding and its first node have the same number
            prefetch(scan.bindings.records, partial_match)
            prefetch(records.nodes, partial_match)
        if partial_match == NONE:
            if not scan.transitions.symbol_facts[symbol] & OPENS:
                break
            partial_match = _open_partial_match(records, scan.bindings, key_slot, key, time)
            opened = True
        newer = i64(records.partial_matches[partial_match].key_newer)
        if take(scan, partial_match, number, event):
            if not scan.settings.reuse:
                break
        elif opened:
            close(scan, partial_match)
        partial_match = newer
    if opened:
        _after_opening(scan, key)


@jit_inline
def _after_opening(scan: Scan, key: tuple[int, int]) -> None:
    """Keep to the cap, and give a key with many partial matches entries in the index."""
    records, few = scan.records, scan.settings.few
    if records.counts[rec.OPEN] > scan.settings.cap:
        close_with_entries(scan, i64(records.counts[rec.OLDEST]))
        records.counts[rec.EVICTED] += 1
    if records.counts[rec.OPEN] > few and scan.waiting.keys.shape[0]:
        key_slot = rec.find_key_slot(records, key[0], key[1])
        if key_slot != NONE and records.key_slots[idx(key_slot)].entries == NONE:
            index_key(records, scan.bindings, scan.waiting, key_slot, few)


@jit_inline
def _dispatch(scan: Scan, key: tuple[int, int], event: tuple[int, int, int]) -> None:
    """Let an event end, forbid and be taken by partial matches of its key."""
    records, (row, time, symbol) = scan.records, event
    key_slot = rec.find_key_slot(records, key[0], key[1])
    if scan.settings.events != NONE:
        _expire_by_count(scan, key_slot, time)
    if symbol == 0:
        return
    if scan.transitions.symbol_facts[symbol] & FORBIDS:
        _apply_negation(scan, key_slot, row, symbol)
    _offer(scan, key_slot, key, event)


@jit_inline
def _fits(scan: Scan, symbol: int) -> bool:
    records, settings, fan = scan.records, scan.settings, scan.transitions.fan + 1
    most, takers = MAX_BINDINGS * fan, i64(1)
    if settings.reuse or scan.transitions.symbol_facts[symbol] & FORBIDS:
        most += records.counts[rec.USED_BINDINGS] * fan
        takers += records.counts[rec.OPEN]
    takers += settings.timed_out and settings.events != NONE  # it may close one besides
    return (
        rec.is_room(records, scan.output, takers)
        and records.counts[rec.USED_BINDINGS] + most <= scan.bindings.records.shape[0]
        and records.counts[rec.USED_NODES] + most <= records.nodes.shape[0]
        and (
            records.counts[rec.OPEN] < settings.few
            or scan.waiting.keys.shape[0] == 0
            or has_room(
                scan.waiting.ordered,
                scan.waiting.waits.shape[1],
                most
                + fan * min(records.counts[rec.USED_BINDINGS], MAX_BINDINGS * settings.few),
            )
        )
    )


@compiled
def run_scan(scan: Scan, events: Events, start: int, watermark: int) -> int:
    """Offer events from number `start` on, then end what the watermark has passed.

    Gives how many events are done, the watermark counting as one after the last: fewer than
    there are if the arrays are too small to go on.
    """
    index_all_keys(scan)
    keyed = events.hash1.shape[0] > 0
    number = events.time.shape[0]
    for i in range(start, number + 1):
        time, symbol = i64(watermark), i64(0)
        if i < number:
            time, symbol = i64(events.time[i]), i64(events.symbols[events.number[i]])
            if symbol == 0 and scan.settings.events == NONE:
                continue
        if not _expire(scan, time):
            return i
        if i < number:
            if not _fits(scan, symbol):
                return i
            hash1 = events.hash1[i] if keyed else i64(0)
            hash2 = events.hash2[i] if keyed else i64(0)
            _dispatch(scan, (hash1, hash2), (i64(events.row + i), time, symbol))
    return number + 1


@compiled
def cancel_scanned(records: PartialMatchRecords, bindings: Array, keys: Array) -> None:
    """Close all partial matches of some keys, and count them; none has entries in the index."""
    for i in range(keys.shape[0]):
        partial_match = _oldest_of_key(records, rec.find_open_key(records, keys, i))
        while partial_match != NONE:
            newer = i64(records.partial_matches[partial_match].key_newer)
            give_back(records, bindings, records.counts, i64(0), partial_match)
            records.counts[rec.CANCELLED] += 1
            partial_match = newer

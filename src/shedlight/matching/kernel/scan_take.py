"""How partial matches of the scan kernel take events."""

from shedlight.matching.jit import i64, idx, jit_inline
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.guard_vm import holds
from shedlight.matching.kernel.records import NONE
from shedlight.matching.kernel.scan_bindings import append, free_bindings, new_binding
from shedlight.matching.kernel.scan_close import (
    Scan,
    close,
    move_entries,
    move_entries_apart,
    write_match,
)
from shedlight.matching.kernel.tables import TAKER, TAKES
from shedlight.matching.kernel.waiting import PUT_IN, TAKE_OUT, find_known_cell


@jit_inline
def _extend_binding(
    scan: Scan,
    partial_match: int,
    binding: int,
    element: int,
    event: tuple[int, int, int],
    chosen: tuple[int, int, int],
) -> tuple[int, int, int]:
    """Add the bindings that follow from one binding when an element takes an event."""
    row, _, symbol = event
    counts, bindings = scan.records.counts, scan.bindings
    entry = bindings.records[binding].state * bindings.bound.shape[1] + element
    start, end = scan.transitions.ends[entry], scan.transitions.ends[entry + 1]
    asks = scan.code.ends[element] < scan.code.ends[element + 1]
    if start == end or (
        asks
        and not holds(
            scan.code, scan.cells, element, row, bindings.bound, binding, (i64(NONE), i64(0))
        )
    ):
        return chosen
    for i in range(start, end):
        new = new_binding(counts, bindings, i64(scan.transitions.targets[i]), binding)
        if scan.transitions.binds[element]:
            bindings.bound[new, element] = row
        number = chosen[2]
        chosen = append(counts, bindings, chosen, new) if number else (new, new, i64(1))
        if chosen[2] > number:
            before = i64(bindings.records[binding].node)
            node = rec.new_node(scan.records, row, symbol, element, before)
            scan.records.nodes[node].other = scan.records.partial_matches[partial_match].nodes
            scan.records.partial_matches[partial_match].nodes = node
            bindings.records[new].node = node
    return chosen


@jit_inline
def _advance(scan: Scan, partial_match: int, event: tuple[int, int, int]) -> bool:
    """Let a partial match take an event if it can use it.

    Bindings are compared event by event, an element written earlier coming first; those that
    have been the same up to here have the same rank.
    """
    counts, bindings = scan.records.counts, scan.bindings.records
    record = scan.records.partial_matches[partial_match]
    chosen = (i64(NONE), i64(NONE), i64(0))
    rank = i64(-1)
    first = i64(record.bindings)
    while first != NONE:
        end = first
        while end != NONE and bindings[end].rank == bindings[first].rank:
            end = i64(bindings[end].next)
        for element in range(scan.transitions.accepts.shape[1]):
            if scan.transitions.accepts[event[2], element] != TAKES:
                continue
            last, binding = chosen[1], first
            while binding != end:
                chosen = _extend_binding(scan, partial_match, binding, element, event, chosen)
                binding = i64(bindings[binding].next)
            new = chosen[0] if last == NONE else i64(bindings[last].next)
            rank += new != NONE
            while new != NONE:
                bindings[new].rank = rank
                new = i64(bindings[new].next)
        first = end
    if chosen[0] != NONE:
        move_entries_apart(scan, partial_match, i64(TAKE_OUT))
        free_bindings(counts, bindings, i64(record.bindings))
        record.bindings = chosen[0]
        record.size += 1
        counts[rec.LONGEST] = max(counts[rec.LONGEST], i64(record.size))
    return chosen[0] != NONE


@jit_inline
def _only_step(scan: Scan, binding: int, symbol: int) -> tuple[int, int]:
    """Find who alone may take an event and the one state it leads to; NONE if that is not so.

    It is not so of a partial match with several bindings either.
    """
    element = i64(scan.transitions.symbol_facts[symbol] >> TAKER) - 1
    record = scan.bindings.records[idx(binding)]
    if element == NONE or record.next != NONE:
        return element, i64(NONE)
    entry = idx(record.state * scan.bindings.bound.shape[1] + element)
    start, end = scan.transitions.ends[entry], scan.transitions.ends[entry + idx(1)]
    return element, i64(scan.transitions.targets[idx(start)]) if end - start == 1 else i64(NONE)


@jit_inline
def take(scan: Scan, partial_match: int, number: int, event: tuple[int, int, int]) -> bool:
    """Let a partial match take an event if it can use it, and write it out if that ends it."""
    (row, time, symbol), bound = event, scan.bindings.bound
    record = scan.records.partial_matches[idx(partial_match)]
    binding = i64(record.bindings)
    element, target = _only_step(scan, binding, symbol)
    if target == NONE:
        if not _advance(scan, partial_match, event):
            return False
        ends = not scan.settings.absence and write_match(scan, partial_match, time)
    else:
        known = (i64(NONE), i64(0))
        if number != NONE:
            known = find_known_cell(scan.waiting, element, number, i64(record.opened))
        asks = scan.code.ends[element] < scan.code.ends[element + 1]
        if asks and not holds(scan.code, scan.cells, element, row, bound, binding, known):
            return False
        move_entries(scan, partial_match, i64(TAKE_OUT))
        ends = _make_step(scan, partial_match, (element, target), event)
    if ends:
        close(scan, partial_match)
    else:
        move_entries(scan, partial_match, i64(PUT_IN))
    return True


@jit_inline
def _make_step(
    scan: Scan, partial_match: int, step: tuple[int, int], event: tuple[int, int, int]
) -> bool:
    """Let an element take an event and go to a state; whether a match was written out.

    There is one way to take it, so no binding is made, and for the last event no node.
    """
    records, (element, target), (row, time, symbol) = scan.records, step, event
    record = records.partial_matches[idx(partial_match)]
    binding = scan.bindings.records[idx(record.bindings)]
    record.size += 1
    records.counts[rec.LONGEST] = max(records.counts[rec.LONGEST], i64(record.size))
    if not scan.settings.absence and scan.transitions.accepting[idx(target)]:
        end = (row, time, element)
        rec.write_completed(records, scan.output, partial_match, i64(binding.node), end)
        return True
    node = rec.new_node(records, row, symbol, element, i64(binding.node))
    records.nodes[idx(node)].other = record.nodes
    record.nodes = node
    binding.node = node
    binding.state = target
    binding.rank = 0
    if scan.transitions.binds[element]:
        scan.bindings.bound[idx(record.bindings), idx(element)] = row
    return False

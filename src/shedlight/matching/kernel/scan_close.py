"""How partial matches of the scan kernel get into its index, are written out and are closed."""

from typing import NamedTuple

from shedlight.matching.jit import Array, i64, idx, jit_inline, jit_noinline, stay_apart
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.guard_vm import Cells, Code
from shedlight.matching.kernel.ordered import GROUPS, Ordered
from shedlight.matching.kernel.records import NONE, Output, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings, free_bindings
from shedlight.matching.kernel.tables import KernelSettings, TransitionTable
from shedlight.matching.kernel.waiting import (
    PUT_IN,
    TAKE_OUT,
    Waiting,
    change_entries,
    change_entries_apart,
    free_number,
    new_number,
)


class Scan(NamedTuple):
    """All that the kernel works on."""

    records: PartialMatchRecords
    bindings: Bindings
    transitions: TransitionTable
    settings: KernelSettings
    code: Code
    cells: Cells
    output: Output
    waiting: Waiting


@jit_inline
def _place_of(scan: Scan, partial_match: int) -> tuple[int, int, int]:
    """Say where the entries of a partial match are; the number is NONE if it has none."""
    record = scan.records.partial_matches[idx(partial_match)]
    number = i64(scan.records.key_slots[idx(record.key_slot)].entries)
    return number if record.size else i64(NONE), i64(record.opened), partial_match


@jit_inline
def move_entries(scan: Scan, partial_match: int, change: int) -> None:
    """Put the entries of a partial match in or take them out, if its key has any."""
    place, (ordered, waits, keys, _) = _place_of(scan, partial_match), scan.waiting
    if place[0] != NONE:
        first = i64(scan.records.partial_matches[idx(partial_match)].bindings)
        change_entries(ordered, waits, keys, scan.bindings, first, place, change)


@jit_inline
def move_entries_apart(scan: Scan, partial_match: int, change: int) -> None:
    """Do the same where it is done less often."""
    place, (ordered, waits, keys, _) = _place_of(scan, partial_match), scan.waiting
    if place[0] != NONE:
        first = i64(scan.records.partial_matches[idx(partial_match)].bindings)
        change_entries_apart(ordered, waits, keys, scan.bindings, first, place, change)


@jit_noinline
def index_key(
    records: PartialMatchRecords, bindings: Bindings, waiting: Waiting, key_slot: int, few: int
) -> None:
    """Give the partial matches of a key entries in the index, once they are many."""
    stay_apart()
    if (
        key_slot == NONE
        or records.key_slots[key_slot].open <= few
        or records.key_slots[key_slot].entries != NONE
    ):
        return
    number = new_number(waiting.ordered.facts, waiting.waits.shape[1])
    records.key_slots[key_slot].entries = number
    partial_match = i64(records.key_slots[key_slot].first)
    while partial_match != NONE:
        record = records.partial_matches[partial_match]
        place = (number, i64(record.opened), partial_match)
        change_entries_apart(
            waiting.ordered,
            waiting.waits,
            waiting.keys,
            bindings,
            i64(record.bindings),
            place,
            i64(PUT_IN),
        )
        partial_match = i64(record.key_newer)


@jit_inline
def index_all_keys(scan: Scan) -> None:
    """Make the index of a state that comes without it."""
    if not scan.waiting.ordered.facts[GROUPS] and scan.waiting.keys.shape[0]:
        for key_slot in range(scan.records.counts[rec.KEY_SLOTS]):
            index_key(
                scan.records, scan.bindings, scan.waiting, i64(key_slot), scan.settings.few
            )


@jit_noinline
def give_back(
    records: PartialMatchRecords,
    bindings: Array,
    facts: Array,
    elements: int,
    partial_match: int,
) -> None:
    """Give a partial match and all that is its own back."""
    record = records.partial_matches[partial_match]
    slot = records.key_slots[record.key_slot]
    if slot.open == 1 and slot.entries != NONE:
        free_number(facts, elements, i64(slot.entries))
        slot.entries = NONE
    free_bindings(records.counts, bindings, i64(record.bindings))
    node = i64(record.nodes)
    while node != NONE:
        other = i64(records.nodes[node].other)
        rec.free_node(records, node)
        node = other
    older, newer = record.key_older, record.key_newer
    key_slot = records.key_slots[record.key_slot]
    if older != NONE:
        records.partial_matches[older].key_newer = newer
    else:
        key_slot.first = newer
    if newer != NONE:
        records.partial_matches[newer].key_older = older
    else:
        key_slot.last = older
    rec.free_partial_match(records, partial_match)


@jit_inline
def close(scan: Scan, partial_match: int) -> None:
    """Close a partial match that has no entries in the index."""
    elements = scan.waiting.waits.shape[1]
    facts = scan.waiting.ordered.facts
    give_back(scan.records, scan.bindings.records, facts, elements, partial_match)


@jit_noinline
def _take_out_and_free(  # no more is passed than is used
    records: PartialMatchRecords,
    bindings: Bindings,
    ordered: Ordered,
    waits: Array,
    keys: Array,
    partial_match: int,
) -> None:
    stay_apart()
    record = records.partial_matches[partial_match]
    number = i64(records.key_slots[record.key_slot].entries)
    if number != NONE:
        place, first = (number, i64(record.opened), partial_match), i64(record.bindings)
        change_entries_apart(ordered, waits, keys, bindings, first, place, i64(TAKE_OUT))
    give_back(records, bindings.records, ordered.facts, waits.shape[1], partial_match)


@jit_inline
def close_with_entries(scan: Scan, partial_match: int) -> None:
    """Close a partial match that may have entries in the index."""
    ordered, waits, keys, _ = scan.waiting
    _take_out_and_free(scan.records, scan.bindings, ordered, waits, keys, partial_match)


@jit_noinline
def _write_out(
    records: PartialMatchRecords, output: Output, partial_match: int, last: int, time: int
) -> None:
    rec.write_match(records, output, partial_match, last, time)


@jit_inline
def write_match(scan: Scan, partial_match: int, time: int) -> bool:
    """Write the match of a partial match out, if one of the bindings is complete."""
    bindings, accepting = scan.bindings.records, scan.transitions.accepting
    binding = i64(scan.records.partial_matches[idx(partial_match)].bindings)
    while binding != NONE and not accepting[idx(bindings[idx(binding)].state)]:
        binding = i64(bindings[idx(binding)].next)
    if binding == NONE:
        return False
    _write_out(scan.records, scan.output, partial_match, i64(bindings[idx(binding)].node), time)
    return True


@jit_inline
def emit_timed_out(scan: Scan, partial_match: int, time: int) -> None:
    """Write a partial match out that times out, as the first of its bindings has it."""
    record = scan.records.partial_matches[partial_match]
    last = i64(scan.bindings.records[record.bindings].node)
    _write_out(scan.records, scan.output, partial_match, last, time)
    rec.mark_timed_out(scan.records, scan.output)

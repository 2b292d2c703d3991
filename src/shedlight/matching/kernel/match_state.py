"""The state of matching as a value: what is open, and the events that it has taken.

The arrays of a state are never changed once it is made: a step works on a copy. As bytes, a
state has no gaps in its arrays, and no numbers that depend on which symbols were seen first in
this process (`saved.py`).
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.matching.compile.dfa import DfaTables, build_tables
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.close import Fifo, cancel_queued
from shedlight.matching.kernel.ordered import Ordered
from shedlight.matching.kernel.partial_queue import LINK, QUEUE, Queues
from shedlight.matching.kernel.records import NONE, Output, PartialMatchRecords
from shedlight.matching.kernel.scan import cancel_scanned
from shedlight.matching.kernel.scan_bindings import BINDING, Bindings
from shedlight.matching.kernel.tables import build_kernel_tables, build_settings

NEVER_DUE = 1 << 62  # a time that no watermark passes
_INITIAL_PARTIAL_MATCHES = 32
_INITIAL_MATCHES, _INITIAL_NODES = 1 << 9, 1 << 11


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MatchState:
    """Where the matching of one pattern stands."""

    tables: DfaTables  # the automaton over the symbols that have occurred
    records: PartialMatchRecords  # the partial matches
    queues: Queues  # their queues; for the scan kernel empty
    bindings: Bindings  # their bindings; for the FIFO kernel empty
    store: pa.Table  # the events that partial matches have taken
    # no window ends before the watermark is beyond this time, so nothing changes without events
    due: int = -NEVER_DUE
    index: Ordered | None = None  # of the scan kernel; None: it is made when it is needed


def due_time(matcher: Matcher, records: PartialMatchRecords) -> int:
    """Say until which watermark no window ends: that of the oldest partial match."""
    window, oldest = build_settings(matcher).window, int(records.counts[rec.OLDEST])
    if NONE in {window, oldest}:
        return NEVER_DUE
    return int(records.partial_matches[oldest]["time"]) + window


def new_state(matcher: Matcher) -> MatchState:
    """Make the state before any event."""
    counts = np.zeros(rec.COUNTS, np.int64)
    counts[[rec.FREE_PARTIAL_MATCH, rec.FREE_NODE, rec.FREE_KEY_SLOT, rec.FREE_BINDING]] = NONE
    counts[[rec.OLDEST, rec.NEWEST, rec.UNEXPLORED_SUBSET]] = NONE
    counts[rec.KEYED] = bool(matcher.pattern.partition_by)
    if matcher.implicit_key is not None:
        counts[rec.KEYED] = rec.IMPLICITLY
    records = PartialMatchRecords(
        counts,
        np.zeros(_INITIAL_PARTIAL_MATCHES, rec.PARTIAL_MATCH),
        np.zeros(4 * _INITIAL_PARTIAL_MATCHES, rec.NODE),
        np.zeros(2, rec.KEY_SLOT),
        np.full(4, NONE, np.int32),
    )
    tables = build_tables(matcher.automaton)
    regions = len(matcher.automaton.regions)
    key_slots, partial_matches = (0, 0) if matcher.scans else (2, _INITIAL_PARTIAL_MATCHES)
    queues = Queues(
        np.zeros((key_slots, len(tables.subsets)), QUEUE),
        np.zeros((key_slots, tables.bits.shape[2]), np.uint64),
        np.zeros((partial_matches, regions), LINK),
        np.zeros((partial_matches, 2), np.int32),
    )
    bindings = Bindings(
        np.zeros(0, BINDING), np.zeros((0, len(matcher.automaton.elements)), np.int32)
    )
    store = matcher.store_schema.empty_table()
    return MatchState(tables, records, queues, bindings, store, NEVER_DUE)


def open_keys(state: MatchState) -> Array:
    """List the keys that have a partial match: [number, 2] hashes, as `hash_keys` gives them.

    Without PARTITION BY all partial matches are of one key, whose hashes are 0.
    """
    counts = state.records.counts
    if counts[rec.KEYED] == rec.IMPLICITLY:
        return np.zeros((int(counts[rec.OPEN] > 0), 2), np.int64)
    return held_keys(state.records)


def held_keys(records: PartialMatchRecords) -> Array:
    """List the keys that have a partial match in records, whatever they are keyed by."""
    slots = records.key_slots[: records.counts[rec.KEY_SLOTS]]
    held = slots[slots["open"] > 0]
    return np.stack([held["hash1"], held["hash2"]], axis=1)


def cancel(matcher: Matcher, state: MatchState, keys: Array) -> MatchState:
    """Give the state without the partial matches of some keys; they are counted.

    What comes later of these keys ([number, 2] hashes) is matched as if they had not been seen
    before; those without a partial match are left out.
    """
    records = PartialMatchRecords(*(array.copy() for array in state.records))
    if matcher.implicit_key is not None:
        keys = held_keys(state.records)[: None if (keys == 0).all(axis=1).any() else 0]
    if matcher.scans:
        bindings = Bindings(*(array.copy() for array in state.bindings))
        records.key_slots["entries"] = NONE  # the index is made anew
        cancel_scanned(records, bindings.records, keys)
        return replace(state, records=records, bindings=bindings, index=None)
    queues = Queues(*(array.copy() for array in state.queues))
    tables = build_kernel_tables(matcher, state.tables)
    cancel_queued(Fifo(records, queues, tables, new_output(with_symbols=False)), keys)
    return replace(state, records=records, queues=queues)


def new_output(events: int = 0, *, with_symbols: bool = True) -> Output:
    """Make room for the matches of most batches of so many events, with symbols or without."""
    nodes = max(_INITIAL_NODES, min(4 * events, 1 << 16), events)
    sizes = (nodes, nodes if with_symbols else 0, nodes)
    size = (len(rec.MATCH_FIELDS), max(_INITIAL_MATCHES, min(events, 1 << 14), events // 3))
    matches = np.empty(size, np.int64)
    return Output(matches, *map(np.empty, sizes, (np.int32, np.int32, np.int16)))


def grow(array: Array, needed: int, axis: int = 0) -> Array:
    """Copy an array that is too small for what is needed into one at least twice as large."""
    if needed <= array.shape[axis]:
        return array
    shape = list(array.shape)
    shape[axis] = max(needed, 2 * shape[axis])
    larger = np.zeros(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger


def grow_key_slots(records: PartialMatchRecords, needed: int) -> PartialMatchRecords:
    """Make room for more keys, with a hash table twice as large."""
    key_slots = grow(records.key_slots, needed)
    size = 2 << max(len(key_slots) - 1, 1).bit_length()
    bigger = records._replace(key_slots=key_slots, table=np.full(size, NONE, np.int32))
    rec.enter_all(bigger)
    return bigger


def grow_queues(queues: Queues, tables: DfaTables, key_slots: int) -> Queues:
    """Make room for more keys and more subsets."""
    old, old_bits = queues.heads, queues.filled
    rows = max(key_slots, len(old))
    subsets, words = len(tables.subsets), tables.bits.shape[2]
    if (rows, subsets, words) == (*old.shape, old_bits.shape[1]):
        return queues
    heads = np.full((rows, subsets), np.array((NONE, NONE, NONE), QUEUE))
    heads[: len(old), : old.shape[1]] = old
    filled = np.zeros((rows, words), np.uint64)
    filled[: len(old_bits), : old_bits.shape[1]] = old_bits
    return queues._replace(heads=heads, filled=filled)

"""The state of a pattern divided by keys, and such parts joined: what a change of shards needs.

A part has the partial matches of some keys. Parts that are joined have no key in common, and
each is as far as the others: whatever comes is later than all that is open in any of them. So
only the list from the oldest partial match to the newest has to be made anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.matching.compile.dfa import DfaTables, build_tables, explored_subsets
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.match_state import (
    MatchState,
    cancel,
    due_time,
    grow_key_slots,
    new_state,
    open_keys,
)
from shedlight.matching.kernel.partial_queue import LINK, QUEUE, Queues
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings
from shedlight.matching.state.compact import compact

_TOTALS = [rec.EXPIRED, rec.EVICTED, rec.DROPPED, rec.CANCELLED]
"""What is counted from the beginning; a state that is divided has it in one of its parts."""


def select_keys(
    matcher: Matcher,
    state: MatchState,
    choose: Callable[[Array], Array],
    *,
    with_totals: bool = True,
) -> MatchState:
    """Give the part of a state with the partial matches of some keys.

    `choose` says of the first hashes of keys which are chosen. The state must have keys.
    """
    keys = open_keys(state)
    part = cancel(matcher, state, keys[~choose(keys[:, 0])])
    counts = part.records.counts  # a copy of its own
    counts[rec.CANCELLED] = state.records.counts[rec.CANCELLED]
    if not with_totals:
        counts[_TOTALS] = 0
    return replace(part, due=due_time(matcher, part.records))


def join_states(matcher: Matcher, parts: Sequence[MatchState]) -> MatchState:
    """Join parts that have no key in common."""
    states = [compact(part) for part in parts]
    tables = _joined_tables(matcher, states)
    pieces, sizes = [], np.zeros(5, np.int64)
    for state in states:
        piece = _Piece(state, tables, sizes)
        pieces.append(piece)
        sizes = sizes + piece.sizes
    records = _joined_records([piece.records for piece in pieces])
    if not records.counts[rec.OPEN]:
        empty = new_state(matcher)
        counts = empty.records.counts
        counts[_TOTALS], counts[rec.LONGEST] = (
            records.counts[_TOTALS],
            records.counts[rec.LONGEST],
        )
        return empty
    return MatchState(
        tables,
        records,
        Queues(*map(np.concatenate, zip(*(piece.queues for piece in pieces), strict=True))),
        Bindings(*map(np.concatenate, zip(*(piece.bindings for piece in pieces), strict=True))),
        pa.concat_tables([piece.store for piece in pieces]).combine_chunks(),
        due_time(matcher, records),
    )


def _joined_tables(matcher: Matcher, states: Sequence[MatchState]) -> DfaTables:
    symbols = dict.fromkeys(symbol for state in states for symbol in state.tables.symbols)
    subsets = dict.fromkeys(subset for state in states for subset in state.tables.subsets)
    numbers = {subset: number for number, subset in enumerate(subsets)}
    explored = {
        numbers[state.tables.subsets[number]]
        for state in states
        for number in explored_subsets(state.tables)
    }
    return build_tables(matcher.automaton, symbols, subsets, sorted(explored))


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A state without gaps whose arrays are numbered as they are behind those of others."""

    state: MatchState
    tables: DfaTables  # of all states together
    before: Array  # how many rows others have: partial matches, nodes, keys, bindings, events

    @property
    def sizes(self) -> Array:
        """How many rows of its own it has."""
        counts = self.state.records.counts
        numbers = [rec.PARTIAL_MATCHES, rec.NODES, rec.KEY_SLOTS, rec.BINDINGS]
        return np.append(counts[numbers], len(self._rows))

    @property
    def _rows(self) -> Array:
        """The stored events that partial matches have taken."""
        rows = self.state.records.nodes["row"]
        return np.unique(rows[rows >= 0])

    @property
    def store(self) -> pa.Table:
        """The events that partial matches have taken."""
        return self.state.store.take(pa.array(self._rows))

    def _renamed(self, rows: Array) -> Array:
        """Give stored events their new numbers; what is below 0 is no event."""
        new = np.searchsorted(self._rows, rows) + self.before[4]
        return np.where(rows >= 0, new, rows).astype(np.int32)

    @property
    def records(self) -> PartialMatchRecords:
        """The partial matches."""
        records = self.state.records
        partial_match, node, key_slot, binding, _ = self.before
        nodes = _shifted(records.nodes, before=node, other=node)
        nodes["row"] = self._renamed(nodes["row"])
        symbols = self.state.tables.symbols
        nodes["symbol"] = _translation(symbols, self.tables.symbols)[nodes["symbol"]]
        return PartialMatchRecords(
            records.counts,
            _shifted(
                records.partial_matches,
                node=node,
                nodes=node,
                key_slot=key_slot,
                bindings=binding,
                key_older=partial_match,
                key_newer=partial_match,
            ),
            nodes,
            _shifted(
                records.key_slots[: records.counts[rec.KEY_SLOTS]],
                first=partial_match,
                last=partial_match,
            ),
            records.table,
        )

    @property
    def queues(self) -> Queues:
        """The queues, each in the place of its set of states."""
        queues, (partial_match, *_) = self.state.queues, self.before
        keys = int(self.state.records.counts[rec.KEY_SLOTS])
        if not len(queues.heads):  # of the scan kernel
            return queues
        mine, total = queues.heads.shape[1], len(self.tables.subsets)
        places = _translation(self.state.tables.subsets, self.tables.subsets)
        heads = np.full((keys, total), np.array((NONE, NONE, NONE), QUEUE))
        heads[:, places[:mine]] = _shifted(
            queues.heads[:keys], head=partial_match, tail=partial_match, root=partial_match
        )
        bits = np.unpackbits(queues.filled[:keys].view(np.uint8), axis=1, bitorder="little")
        filled = np.zeros((keys, 64 * self.tables.bits.shape[2]), np.uint8)
        filled[:, places[:mine]] = bits[:, :mine]
        number = int(self.state.records.counts[rec.PARTIAL_MATCHES])
        links = _shifted(queues.links[:number], next=partial_match, child=partial_match)
        links["state"] = places[np.clip(links["state"], 0, len(places) - 1)]
        words = np.packbits(filled, axis=1, bitorder="little").view(np.uint64)
        return Queues(heads, words, links.astype(LINK), np.zeros((number, 2), np.int32))

    @property
    def bindings(self) -> Bindings:
        """The bindings of the scan kernel."""
        _, node, _, binding, _ = self.before
        bindings = self.state.bindings
        return Bindings(
            _shifted(bindings.records, node=node, next=binding), self._renamed(bindings.bound)
        )


def _shifted(rows: Array, **fields: int) -> Array:
    """Copy rows whose fields name rows of other arrays, which are behind others now."""
    new = rows.copy()
    for name, by in fields.items():
        new[name] = np.where(rows[name] >= 0, rows[name] + by, rows[name])
    return new


def _translation(mine: Sequence[object], every: Sequence[object]) -> Array:
    """Give the new number of each symbol, or of each set of states."""
    numbers = {each: number for number, each in enumerate(every)}
    return np.array([numbers[each] for each in mine], np.int32)


def _joined_records(parts: Sequence[PartialMatchRecords]) -> PartialMatchRecords:
    """Put records behind each other, in one list from the oldest to the newest."""
    counts = parts[0].counts.copy()
    for part in parts[1:]:
        summed = [*_TOTALS, *_SIZES]
        counts[summed] += part.counts[summed]
        counts[rec.LONGEST] = max(counts[rec.LONGEST], part.counts[rec.LONGEST])
    partial_matches, nodes, key_slots = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("partial_matches", "nodes", "key_slots")
    )
    number = len(partial_matches)
    whose = np.repeat(np.arange(len(parts)), [len(part.partial_matches) for part in parts])
    order = np.lexsort((partial_matches["opened"], whose, partial_matches["time"]))
    partial_matches["opened"][order] = np.arange(number)
    partial_matches["older"][order] = np.append(NONE, order)[:number]
    partial_matches["newer"][order] = np.append(order, NONE)[1:]
    counts[rec.OPENED] = number
    counts[[rec.OLDEST, rec.NEWEST]] = order[[0, -1]] if number else NONE
    joined = PartialMatchRecords(
        counts, partial_matches, nodes, key_slots, np.full(4, NONE, np.int32)
    )
    key_slots["entries"] = NONE  # the index is made anew
    return grow_key_slots(joined, max(len(key_slots), 1))


_SIZES = [
    rec.PARTIAL_MATCHES,
    rec.NODES,
    rec.USED_NODES,
    rec.KEY_SLOTS,
    rec.USED_KEY_SLOTS,
    rec.OPEN,
    rec.BINDINGS,
    rec.USED_BINDINGS,
]

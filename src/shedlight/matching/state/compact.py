"""A state without gaps: what is saved of it."""

from dataclasses import dataclass

import numpy as np

from shedlight.matching.jit import Array, compiled
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.match_state import MatchState, grow_key_slots
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings

_MIN_SHARE = 0.25  # of the room for partial matches that is used
_FEW = 1024  # so much room is not worth giving back


def shrink(state: MatchState) -> MatchState:
    """Close the gaps of a state that had many more partial matches once.

    Of others they are left: they are used again, and rows that stay where they are have not
    changed.
    """
    room = len(state.records.partial_matches)
    is_wide = state.records.counts[rec.OPEN] < _MIN_SHARE * room and room > _FEW
    return compact(state) if is_wide else state


def compact(state: MatchState) -> MatchState:
    """Close the gaps that closed partial matches left."""
    records, queues, bindings = state.records, state.queues, state.bindings
    counts = records.counts.copy()
    partial_matches = _kept(
        records.partial_matches["key_slot"][: counts[rec.PARTIAL_MATCHES]] != rec.FREE
    )
    nodes = _kept(records.nodes["row"][: counts[rec.NODES]] != rec.FREE)
    key_slots = _kept(records.key_slots["open"][: counts[rec.KEY_SLOTS]] != rec.FREE)
    used = _kept(_bindings_in_use(records, bindings))
    sizes = [len(kept.rows) for kept in (partial_matches, nodes, key_slots, used)]
    counts[[rec.PARTIAL_MATCHES, rec.NODES, rec.KEY_SLOTS, rec.BINDINGS]] = sizes
    counts[[rec.FREE_PARTIAL_MATCH, rec.FREE_NODE, rec.FREE_KEY_SLOT, rec.FREE_BINDING]] = NONE
    counts[[rec.OLDEST, rec.NEWEST]] = partial_matches.renumber(
        counts[[rec.OLDEST, rec.NEWEST]]
    )
    new = PartialMatchRecords(
        counts,
        _renumber_fields(
            records.partial_matches[partial_matches.rows],
            node=nodes,
            key_slot=key_slots,
            older=partial_matches,
            newer=partial_matches,
            bindings=used,
            key_older=partial_matches,
            key_newer=partial_matches,
            nodes=nodes,
        ),
        _renumber_fields(records.nodes[nodes.rows], before=nodes, other=nodes),
        _renumber_fields(
            records.key_slots[key_slots.rows], first=partial_matches, last=partial_matches
        ),
        records.table,
    )
    new.key_slots["entries"] = NONE  # the index is made anew
    return MatchState(
        state.tables,
        grow_key_slots(new, max(len(key_slots.rows), 1)),
        _compact_queues(queues, partial_matches, key_slots) if len(queues.heads) else queues,
        Bindings(
            _renumber_fields(bindings.records[used.rows], node=nodes, next=used),
            bindings.bound[used.rows],
        ),
        state.store,
        state.due,
    )


def _compact_queues(
    queues: Queues, partial_matches: "_Renumbering", key_slots: "_Renumbering"
) -> Queues:
    rows = key_slots.rows if len(key_slots.rows) else np.zeros(1, np.int64)
    return Queues(
        _renumber_fields(
            queues.heads[rows], head=partial_matches, tail=partial_matches, root=partial_matches
        ),
        queues.filled[rows],
        _renumber_fields(
            queues.links[partial_matches.rows], next=partial_matches, child=partial_matches
        ),
        np.zeros((len(partial_matches.rows), 2), np.int32),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Renumbering:
    """The rows of an array that stay, and the new number of each."""

    rows: Array
    numbers: Array

    def renumber(self, old: Array) -> Array:
        """Give the new numbers for old ones; NONE for what is gone."""
        inside = (old >= 0) & (old < len(self.numbers) - 1)
        return self.numbers[np.where(inside, old, -1)]


def _kept(stays: Array) -> _Renumbering:
    numbers = np.where(stays, np.cumsum(stays) - 1, NONE)
    return _Renumbering(np.flatnonzero(stays), np.append(numbers, NONE).astype(np.int32))


def _renumber_fields(rows: Array, **fields: _Renumbering) -> Array:
    """Copy rows whose fields name rows of other arrays, with their new numbers."""
    new = rows.copy()
    for name, kept in fields.items():
        new[name] = kept.renumber(rows[name])
    return new


def _bindings_in_use(records: PartialMatchRecords, bindings: Bindings) -> Array:
    used = np.zeros(records.counts[rec.BINDINGS], np.bool_)
    if len(used):
        _mark_bindings(records, bindings, used)
    return used


@compiled
def _mark_bindings(records: PartialMatchRecords, bindings: Bindings, used: Array) -> None:
    for partial_match in range(records.counts[rec.PARTIAL_MATCHES]):
        if records.partial_matches[partial_match].key_slot != rec.FREE:
            binding = records.partial_matches[partial_match].bindings
            while binding != NONE:
                used[binding] = True
                binding = bindings.records[binding].next

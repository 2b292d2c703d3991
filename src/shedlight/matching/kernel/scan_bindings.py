"""The bindings of the scan kernel: bindings of a partial match's events to elements."""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, i64, jit_inline, jit_noinline
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.records import NONE

MAX_BINDINGS = 64
"""How many bindings a partial match may carry; later ones are dropped and counted."""

BINDING = np.dtype(
    [("state", "i4"), ("node", "i4"), ("next", "i4"), ("rank", "i4")], align=True
)


class Bindings(NamedTuple):
    """The bindings of all partial matches."""

    records: Array
    bound: Array  # [binding, element] the row of the last event of an element, or NONE


@jit_inline
def new_binding(counts: Array, bindings: Bindings, state: int, source: int) -> int:
    """Make a binding at a state, with the events of another one or (NONE) with none."""
    binding = i64(counts[rec.FREE_BINDING])
    if binding != NONE:
        counts[rec.FREE_BINDING] = bindings.records[binding].next
    else:
        binding = i64(counts[rec.BINDINGS])
        counts[rec.BINDINGS] += 1
    counts[rec.USED_BINDINGS] += 1
    record, other = bindings.records[binding], bindings.records[source]
    record.state = state
    record.node = NONE if source == NONE else other.node
    record.rank = 0 if source == NONE else other.rank
    record.next = NONE
    for element in range(bindings.bound.shape[1]):
        before = NONE if source == NONE else bindings.bound[source, element]
        bindings.bound[binding, element] = before
    return binding


@jit_inline
def free_bindings(counts: Array, bindings: Array, first: int) -> None:
    """Give a binding and those behind it back."""
    while first != NONE:
        record = bindings[first]
        after = i64(record.next)
        record.next = counts[rec.FREE_BINDING]
        counts[rec.FREE_BINDING] = first
        counts[rec.USED_BINDINGS] -= 1
        first = after


@jit_noinline
def append(
    counts: Array, bindings: Bindings, chosen: tuple[int, int, int], new: int
) -> tuple[int, int, int]:
    """Put a binding behind the others unless there is one like it; (first, last, number)."""
    first, last, number = chosen
    other = first
    while other != NONE:
        same = bindings.records[other].state == bindings.records[new].state
        for element in range(bindings.bound.shape[1]):
            same &= bindings.bound[other, element] == bindings.bound[new, element]
        if same:
            break
        other = i64(bindings.records[other].next)
    if other != NONE or number == MAX_BINDINGS:
        counts[rec.DROPPED] += other == NONE
        free_bindings(counts, bindings.records, new)
        return chosen
    if first == NONE:
        return new, new, i64(1)
    bindings.records[last].next = new
    return first, new, number + 1

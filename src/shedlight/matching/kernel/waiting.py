"""The index of the scan kernel: which partial matches wait for an event like this one.

Each binding of a partial match has an entry for every element that it waits for (one under NOT
too, if its event would change something): by the key of the element's index, or, where that
has no event yet or there is no index, as one that is always a candidate (*wild*). A key slot
has entries only while it has many partial matches: few are asked as fast one after another.
"""

from typing import NamedTuple

import numpy as np

from shedlight.language.ast.data_type import DataType
from shedlight.matching.compile.indexes import ElementIndex
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array, i64, idx, jit_inline, jit_noinline, stay_apart
from shedlight.matching.kernel import ordered as tree
from shedlight.matching.kernel.index_keys import ABSENT, HIGH, KEY, LOW, WILD
from shedlight.matching.kernel.ordered import LOWEST, YOUNGEST, Ordered
from shedlight.matching.kernel.ordered_search import (
    collect_range,
    oldest_in_range,
    pop_oldest,
)
from shedlight.matching.kernel.records import NONE
from shedlight.matching.kernel.scan_bindings import Bindings

TAKE_OUT, PUT_IN = range(2)
"""What is done with entries."""

_INDEX, _SOURCE, _CELL, _STATES = range(4)  # rows of `Waiting.waits`


class Waiting(NamedTuple):
    """The index, and what it is made from."""

    ordered: Ordered
    # [_INDEX, element] the number of its index, or NONE; [_SOURCE, element] whose event has the
    # key; [_CELL, element] the cell that the key is, or NONE, and as last bit whether it is a
    # double; [_STATES + state, element] whether a binding at the state waits for it
    waits: Array
    keys: Array  # [index, KEY, LOW or HIGH, row]
    found: Array  # [place, age and partial match] a heap of candidates


def build_waits(matcher: Matcher) -> Array:
    """Say what the states of a pattern wait for, and by which key it is found."""
    states = matcher.automaton.regions[0]
    waits = np.zeros((_STATES + len(states), len(matcher.indexes)), np.int32)
    waits[:_STATES] = NONE
    for number, index in enumerate(filter(None, matcher.indexes)):
        waits[:_STATES, index.element] = number, index.source, _cell_of(matcher, index)
    for number, state in enumerate(states):
        takers = [element for element, _ in state.edges]
        nots = [element for element, left in state.nots if left != (number,)]
        waits[_STATES + number, takers + nots] = 1
    return waits


def _cell_of(matcher: Matcher, index: ElementIndex) -> int:
    """Find the cell that has what the key of an index has, bit by bit, or NONE."""
    programs = matcher.programs
    if index.data_type in {DataType.STRING, DataType.UNKNOWN}:
        return NONE
    for number, cell in enumerate(programs.cells):
        if cell == index.key and programs.data_types[number] is index.data_type:
            return 2 * number + (index.data_type is DataType.DOUBLE)
    return NONE


def with_room(ordered: Ordered, more: int, started: int, elements: int) -> Ordered:
    """Make room for more entries, and for so many more key slots that have some."""
    numbers = int(ordered.facts[tree.GROUPS])
    blocks = int(tree.count_blocks(ordered.facts, more, 2 * elements * started))
    return tree.with_room(ordered, blocks, 2 * elements * (numbers + started))


@jit_inline
def change_entries(  # noqa: C901, PLR0913, PLR0917  # no more is passed than is used
    ordered: Ordered,
    waits: Array,
    keys: Array,
    bindings: Bindings,
    first: int,
    place: tuple[int, int, int],
    change: int,
) -> None:
    """Put the entries of bindings in or take them out.

    The place is the number of the key slot, the age of the partial match, and itself.
    """
    number, age, partial_match = place
    several = bindings.records[idx(first)].next != NONE
    binding, found = first, i64(NONE)  # the group whose entry was found last, and not another
    if change == TAKE_OUT and ordered.facts[tree.FOUND_AGE] == age:
        found = i64(NONE) if several else i64(ordered.facts[tree.FOUND_GROUP])
        ordered.facts[tree.FOUND_AGE] = NONE
    while binding != NONE:
        waited = waits[idx(_STATES + bindings.records[idx(binding)].state)]
        for element in range(waits.shape[1]):
            group, key = (number * waits.shape[1] + element) * 2, i64(ABSENT)
            if group == found:  # then its event is not looked at, which is anywhere in memory
                key = i64(ordered.facts[tree.FOUND_VALUE])
            elif waited[idx(element)]:
                key = _key_of(waits, keys, bindings.bound, binding, i64(element))
            if key == ABSENT:
                continue
            group += key == WILD
            value = age if key == WILD else key
            if several or change == TAKE_OUT:  # bindings that are alike have one entry
                tree.remove(ordered, group, value, age)
            if change == PUT_IN:
                tree.insert(ordered, group, value, age, partial_match)
        binding = i64(bindings.records[idx(binding)].next)


@jit_noinline
def change_entries_apart(  # noqa: PLR0913, PLR0917
    ordered: Ordered,
    waits: Array,
    keys: Array,
    bindings: Bindings,
    first: int,
    place: tuple[int, int, int],
    change: int,
) -> None:
    """Do the same where it is done less often."""
    stay_apart()
    change_entries(ordered, waits, keys, bindings, first, place, change)


@jit_inline
def find_known_cell(waiting: Waiting, element: int, number: int, age: int) -> tuple[int, int]:
    """Give what was found of a partial match: which cell of which element, and its number.

    The first is as in the programs of conditions, or NONE. To read the cell instead would read
    an event that is anywhere in memory.
    """
    waits, facts = waiting.waits, waiting.ordered.facts
    cell, group = i64(waits[_CELL, idx(element)]), (number * waits.shape[1] + element) * 2
    if cell == NONE or facts[tree.FOUND_AGE] != age or facts[tree.FOUND_GROUP] != group:
        return i64(NONE), i64(0)
    value = i64(facts[tree.FOUND_VALUE])
    if cell & 1:  # as doubles are ordered, but for the sign of a zero, which nothing asks for
        value ^= (value >> 63) & 0x7FFFFFFFFFFFFFFF
    return i64(waits[_SOURCE, idx(element)]) | (cell >> 1) << 16, value


@jit_inline
def _key_of(waits: Array, keys: Array, bound: Array, binding: int, element: int) -> int:
    """Find the key by which an element finds a binding: WILD if it always does."""
    index = i64(waits[_INDEX, idx(element)])
    if index == NONE:
        return i64(WILD)
    row = i64(bound[idx(binding), idx(waits[_SOURCE, idx(element)])])
    return i64(WILD) if row == NONE else i64(keys[idx(index), KEY, idx(row)])


@jit_noinline
def next_candidate(
    waiting: Waiting, takers: Array, what: int, asked: tuple[int, int, int]
) -> tuple[int, int]:
    """Find the oldest partial match that may have use for an event; (age, partial match).

    Asked for are the number of the key slot, the row of the event, and the age up to which
    partial matches have been looked at.
    """
    number, row, after = asked
    facts, best, partial_match = waiting.ordered.facts, i64(YOUNGEST), i64(NONE)
    for element in range(takers.shape[0]):
        if takers[idx(element)] != what:
            continue
        group, index = (number * takers.shape[0] + element) * 2, waiting.waits[_INDEX, element]
        for wild in range(2):
            if facts[idx(tree.TREES + 2 * (group + wild))] == NONE:
                continue
            low, high = after + 1, i64(YOUNGEST)
            if not wild:
                low = i64(waiting.keys[idx(index), LOW, idx(row)])
                high = i64(waiting.keys[idx(index), HIGH, idx(row)])
            age, other = oldest_in_range(waiting.ordered, i64(group + wild), low, high, after)
            if age < best:
                best, partial_match = age, other
    return best, partial_match


@jit_inline
def _collect_candidates(
    waiting: Waiting, takers: Array, what: int, asked: tuple[int, int, int]
) -> int:
    """List all that may have use for an event as a heap, oldest first; how many there are."""
    number, row, after = asked
    size = i64(0)
    for element in range(takers.shape[0]):
        if takers[element] != what:
            continue
        group, index = (number * takers.shape[0] + element) * 2, waiting.waits[_INDEX, element]
        for wild in range(index == NONE, 2):
            low, high = i64(LOWEST), i64(YOUNGEST)
            if not wild:
                low, high = (
                    i64(waiting.keys[index, LOW, row]),
                    i64(waiting.keys[index, HIGH, row]),
                )
            size = collect_range(
                waiting.ordered, i64(group + wild), low, high, after, waiting.found, size
            )
    return size


@jit_noinline
def next_listed(
    waiting: Waiting, takers: Array, what: int, asked: tuple[int, int, int], size: int
) -> tuple[int, int, int]:
    """Do the same from a list of all candidates: (age, partial match, length of the list).

    It is made when its length is NONE.
    """
    found, after = waiting.found, asked[2]
    if size == NONE:
        size = _collect_candidates(waiting, takers, what, asked)
    while size and found[0, 0] <= after:
        size = pop_oldest(found, size)
    if size == 0:
        return i64(YOUNGEST), i64(NONE), size
    return i64(found[0, 0]), i64(found[0, 1]), size


@jit_inline
def new_number(facts: Array, elements: int) -> int:
    """Give out a number for a key slot; the caller has made sure of room."""
    number = i64(facts[tree.FREE_GROUPS])
    if number == NONE:
        number = i64(facts[tree.GROUPS])
        facts[tree.GROUPS] += 1
    else:
        first = tree.TREES + 4 * elements * number
        facts[tree.FREE_GROUPS] = facts[first]
        facts[first] = NONE
    return number


@jit_inline
def free_number(facts: Array, elements: int, number: int) -> None:
    """Take the number of a key slot back; it has no entries left."""
    facts[tree.TREES + 4 * elements * number] = facts[tree.FREE_GROUPS]
    facts[tree.FREE_GROUPS] = number


@jit_inline
def has_room(ordered: Ordered, elements: int, more: int) -> bool:
    """Whether so many more entries surely fit, and one more key slot."""
    facts = ordered.facts
    return (
        tree.blocks_needed(facts, more, 2 * elements) <= ordered.blocks.shape[0]
        and tree.TREES + 4 * elements * (facts[tree.GROUPS] + 1) <= facts.shape[0]
    )

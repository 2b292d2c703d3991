"""An ordered index: entries in blocks of 128 by their values, with the least age below each.

An entry is a value, and the age and number of a partial match. Blocks form trees, one for each
group of entries that are asked for together: of each block below it a block knows the first
entry that may be there and the least age. So "the oldest whose value lies between two" reads
the ages of a few blocks, however many entries there are. Entries of a block are in no order:
when it is full, on the way to where an entry is put, the greater half moves to another one. An
empty block is taken out.

Where a block has no entry its values and ages are the greatest there are, so that all loops are
over whole blocks: these become vectors without a rest, wherever they are compiled into.

What a search found is mostly taken out next, so it is remembered where it was.

All that is not in a block is in one array, for what is passed to compiled functions is what
takes time to compile.
"""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, i64, idx, jit_inline, jit_noinline, stay_apart
from shedlight.matching.kernel.records import NONE

WIDTH = 128
_HALF = WIDTH // 2
# Where the fields of a block begin. Of an entry LINK is the partial match; of a block below,
# that block. LEAST is of blocks below alone.
VALUE, AGE, LINK, LEAST, SIZE = range(0, 5 * WIDTH, WIDTH)
_LINE = 8  # numbers in a line of the cache, with which a block begins
_BLOCK = SIZE + _LINE

_DEEPEST = 12
# Numbers about all trees; what was found last, if it is still there (else its age is NONE);
# where a search or a removal is, as pairs; and from TREES on the root and the height of each
# tree.
BLOCKS, FREE_BLOCK, USED_BLOCKS, ENTRIES, GROUPS, FREE_GROUPS = range(6)
FOUND_GROUP, FOUND_AGE, FOUND_VALUE, FOUND_PLACE, STACK = range(6, 11)
TREES = STACK + 2 * _DEEPEST * WIDTH

YOUNGEST = 9223372036854775807
LOWEST = -9223372036854775808


class Ordered(NamedTuple):
    """The arrays of an ordered index."""

    blocks: Array  # [block, VALUE to SIZE]
    facts: Array  # BLOCKS to TREES


def new_ordered() -> Ordered:
    """Make an index without entries and without room."""
    facts = np.zeros(TREES, np.int64)
    facts[[FREE_BLOCK, FREE_GROUPS, FOUND_AGE]] = NONE
    return Ordered(np.zeros((0, _BLOCK), np.int64), facts)


def with_room(ordered: Ordered, blocks: int, groups: int) -> Ordered:
    """Make room for more blocks and groups, at least twice as many as there were."""
    before, trees = ordered.blocks, len(ordered.facts) - TREES
    if blocks > len(before):
        larger = max(blocks, 2 * len(before))
        ordered = ordered._replace(blocks=_copy_blocks(ordered, larger))
    if 2 * groups > trees:
        added = np.full(max(2 * groups - trees, trees), NONE, np.int64)
        ordered = ordered._replace(facts=np.concatenate([ordered.facts, added]))
    return ordered


def copy_ordered(ordered: Ordered) -> Ordered:
    """Copy an index; what is in it may then be changed."""
    return Ordered(_copy_blocks(ordered, len(ordered.blocks)), ordered.facts.copy())


def _copy_blocks(ordered: Ordered, room: int) -> Array:
    """Copy the blocks that were ever used, with room for so many in all."""
    memory = np.empty(room * _BLOCK + _LINE, np.int64)
    start = -(memory.ctypes.data // memory.itemsize) % _LINE
    blocks = memory[start : start + room * _BLOCK].reshape(room, _BLOCK)
    used = int(ordered.facts[BLOCKS])
    blocks[:used] = ordered.blocks[:used]
    return blocks


def count_blocks(facts: Array, entries: int, groups: int) -> int:
    """Say how many blocks may be in use after so many more entries, in so many new groups.

    A block is split when it is full and leaves two that are half full. So a split needs a block
    full of entries that are there or half of it added; a root that is split has a block put
    above it.
    """
    splits = facts[ENTRIES] // WIDTH + entries // _HALF + 1
    above = facts[USED_BLOCKS] // WIDTH + splits // _HALF + 1
    return facts[USED_BLOCKS] + 2 * (splits + above) + groups


blocks_needed = jit_inline(count_blocks)


@jit_inline
def place_of_value(keys: Array, value: int) -> int:
    """Find the first place of a block of blocks whose value is not below a value."""
    place = i64(0)
    for i in range(WIDTH):  # to count those below is faster than to divide
        place += keys[idx(VALUE + i)] < value
    return place


@jit_inline
def _place_below(keys: Array, value: int, age: int) -> int:
    """Find the place of the block below where an entry belongs."""
    place, size = place_of_value(keys, value), keys[SIZE]
    while place < size and keys[idx(VALUE + place)] == value and keys[idx(AGE + place)] <= age:
        place += 1
    return max(place - 1, i64(0))


@jit_inline
def _least(keys: Array, field: int) -> int:
    least = i64(YOUNGEST)
    for i in range(WIDTH):
        least = min(least, keys[idx(field + i)])
    return least


@jit_inline
def _new_block(ordered: Ordered) -> int:
    facts = ordered.facts
    block = i64(facts[FREE_BLOCK])
    if block != NONE:
        facts[FREE_BLOCK] = ordered.blocks[idx(block), LINK]
    else:
        block = i64(facts[BLOCKS])
        facts[BLOCKS] += 1
    facts[USED_BLOCKS] += 1
    for i in range(SIZE):
        ordered.blocks[idx(block), i] = YOUNGEST
    ordered.blocks[idx(block), SIZE] = 0
    return block


@jit_inline
def _free_block(ordered: Ordered, block: int) -> None:
    ordered.blocks[idx(block), LINK] = ordered.facts[FREE_BLOCK]
    ordered.facts[FREE_BLOCK] = block
    ordered.facts[USED_BLOCKS] -= 1


@jit_inline
def _move_greater(keys: Array, others: Array) -> None:
    """Move the greater half of the entries of a full block to another, the least of them first.

    How many are less than each is counted, by value and then by age, which no two share both:
    that takes no branches, so it is faster than to sort them.
    """
    for i in range(WIDTH):
        value, age, less = keys[VALUE + i], keys[AGE + i], i64(0)
        for j in range(WIDTH):
            is_tie = (keys[VALUE + j] == value) & (keys[AGE + j] < age)
            less += (keys[VALUE + j] < value) | is_tie
        keys[LEAST + i] = less
    stay, move = i64(0), i64(1)
    for i in range(WIDTH):
        less = keys[LEAST + i]
        goal = keys if less < _HALF else others
        place = stay if less < _HALF else move * (less > _HALF)
        for field in range(0, LEAST, WIDTH):
            goal[idx(field + place)] = keys[field + i]
        stay += less < _HALF
        move += less > _HALF


@jit_noinline
def _split(ordered: Ordered, above: int, place: int, level: int) -> None:
    """Split the full block at a place of the one above, which has room."""
    stay_apart()
    upper, right = ordered.blocks[above], _new_block(ordered)
    keys, others = ordered.blocks[upper[LINK + place]], ordered.blocks[right]
    if level == 1:
        _move_greater(keys, others)
    for field in range(0, SIZE, WIDTH):
        if level > 1:
            for i in range(_HALF):
                others[field + i] = keys[field + i + _HALF]
        for i in range(upper[SIZE], place + 1, -1):
            upper[field + i] = upper[field + i - 1]
        for i in range(_HALF, WIDTH):
            keys[field + i] = YOUNGEST
    keys[SIZE] = others[SIZE] = _HALF
    upper[SIZE] += 1
    ages = i64(LEAST if level > 1 else AGE)
    upper[VALUE + place + 1], upper[AGE + place + 1] = others[VALUE], others[AGE]
    upper[LINK + place + 1] = right
    upper[LEAST + place] = _least(keys, ages)
    upper[LEAST + place + 1] = _least(others, ages)


@jit_noinline
def _grow_tree(ordered: Ordered, group: int) -> None:
    """Put a block above the root, or make a root."""
    stay_apart()
    facts, new = ordered.facts, _new_block(ordered)
    root, height = facts[TREES + 2 * group], facts[TREES + 2 * group + 1]
    facts[TREES + 2 * group], facts[TREES + 2 * group + 1] = new, height + 1
    if root != NONE:
        keys = ordered.blocks[new]
        keys[SIZE] = 1
        keys[VALUE], keys[AGE], keys[LINK] = LOWEST, NONE, root  # nothing comes before it
        keys[LEAST] = _least(ordered.blocks[root], i64(LEAST if height else AGE))


@jit_noinline
def insert(ordered: Ordered, group: int, value: int, age: int, partial_match: int) -> None:
    """Put an entry in that is not there yet; the caller has made sure of room."""
    facts, blocks = ordered.facts, ordered.blocks
    block = i64(facts[idx(TREES + 2 * group)])
    if block == NONE or blocks[idx(block), SIZE] == WIDTH:
        _grow_tree(ordered, group)
        block = i64(facts[idx(TREES + 2 * group)])
    for level in range(facts[idx(TREES + 2 * group + 1)], 0, -1):
        keys = blocks[idx(block)]
        place = _place_below(keys, value, age)
        if blocks[idx(keys[idx(LINK + place)]), SIZE] == WIDTH:
            _split(ordered, block, place, i64(level))
            right = idx(VALUE + place + 1)
            place += keys[right] < value or (
                keys[right] == value and keys[right + idx(AGE)] <= age
            )
        keys[idx(LEAST + place)] = min(keys[idx(LEAST + place)], age)
        block = i64(keys[idx(LINK + place)])
    keys = blocks[idx(block)]
    place = keys[SIZE]
    keys[idx(VALUE + place)], keys[idx(AGE + place)] = value, age
    keys[idx(LINK + place)] = partial_match
    keys[SIZE] += 1
    facts[ENTRIES] += 1


@jit_inline
def place_of_age(keys: Array, field: int, age: int) -> int:
    """Find the last place of a block with an age, or NONE."""
    place = i64(0)
    for i in range(WIDTH):
        place = max(place, (i + 1) & -i64(keys[idx(field + i)] == age))
    return place - 1


@jit_noinline
def remove(ordered: Ordered, group: int, value: int, age: int) -> None:
    """Take an entry out, if it is there."""
    facts, blocks = ordered.facts, ordered.blocks
    block, height = i64(facts[idx(TREES + 2 * group)]), i64(facts[idx(TREES + 2 * group + 1)])
    if block == NONE:
        return
    for level in range(height):
        place = _place_below(blocks[idx(block)], value, age)
        facts[idx(STACK + 2 * level)], facts[idx(STACK + 2 * level + 1)] = block, place
        block = i64(blocks[idx(block), idx(LINK + place)])
    keys = blocks[idx(block)]
    place, last = i64(facts[FOUND_PLACE]), keys[SIZE] - 1
    if place > last or keys[idx(VALUE + place)] != value or keys[idx(AGE + place)] != age:
        place = place_of_age(keys, i64(AGE), age)
    while place >= 0 and (keys[idx(VALUE + place)] != value or keys[idx(AGE + place)] != age):
        place -= 1  # another one of the same partial match
    if place == NONE:
        return
    for field in range(0, LEAST, WIDTH):
        keys[idx(field + place)] = keys[idx(field + last)]
    keys[idx(AGE + last)] = YOUNGEST
    keys[SIZE] = last
    facts[ENTRIES] -= 1
    if last == 0 or height:
        _put_right_above(ordered, group, block, age)


@jit_noinline
def _put_right_above(ordered: Ordered, group: int, block: int, age: int) -> None:
    """Put right what blocks on the stack know of one that an entry of an age was taken from."""
    facts, blocks, field = ordered.facts, ordered.blocks, i64(AGE)
    root = TREES + 2 * group
    for level in range(facts[root + 1] - 1, -1, -1):
        above, place = i64(facts[STACK + 2 * level]), i64(facts[STACK + 2 * level + 1])
        keys = blocks[idx(above)]
        if blocks[idx(block), SIZE] == 0:
            _free_block(ordered, block)
            keys[SIZE] -= 1
            for row in range(0, SIZE, WIDTH):
                for i in range(row + place, row + keys[SIZE]):
                    keys[i] = keys[i + 1]
            keys[idx(VALUE + keys[SIZE])] = keys[idx(LEAST + keys[SIZE])] = YOUNGEST
            keys[VALUE] = LOWEST  # nothing comes before the first
        elif keys[idx(LEAST + place)] == age:
            keys[idx(LEAST + place)] = _least(blocks[idx(block)], field)
        else:
            return
        block, field = above, i64(LEAST)
    while facts[root] != NONE and blocks[facts[root], SIZE] <= (facts[root + 1] > 0):
        block, some = i64(facts[root]), blocks[facts[root], SIZE] > 0
        facts[root] = blocks[block, LINK] if some else NONE
        facts[root + 1] = facts[root + 1] - 1 if some else NONE
        _free_block(ordered, block)

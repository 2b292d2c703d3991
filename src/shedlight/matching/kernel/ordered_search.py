"""Searches of an ordered index: the oldest between two values, or all of them."""

from shedlight.matching.jit import Array, i64, idx, jit_inline, jit_noinline, stay_apart
from shedlight.matching.kernel.ordered import (
    AGE,
    FOUND_AGE,
    FOUND_GROUP,
    FOUND_PLACE,
    FOUND_VALUE,
    LEAST,
    LINK,
    LOWEST,
    SIZE,
    STACK,
    TREES,
    VALUE,
    WIDTH,
    YOUNGEST,
    Ordered,
    place_of_age,
    place_of_value,
)
from shedlight.matching.kernel.records import NONE

_FAR = 1 << 62  # a bit that no age has


@jit_inline
def _range_below(keys: Array, low: int, high: int) -> tuple[int, int]:
    """Find the places of the blocks below where entries between two values may be."""
    first, size = i64(0), i64(keys[SIZE])
    if low > LOWEST:
        first = max(place_of_value(keys, low) - 1, i64(0))
    if high == YOUNGEST:
        return first, size
    if first + 1 == size or keys[idx(VALUE + first + 1)] > high:  # a narrow range
        return first, first + (keys[idx(VALUE + first)] <= high)
    return first, place_of_value(keys, high + 1)


@jit_inline
def _remember(ordered: Ordered, group: int, block: int, height: int, age: int) -> int:
    """Find the entry of an age below a block whose least age that is, and give its link."""
    facts, blocks = ordered.facts, ordered.blocks
    for _ in range(height):
        keys = blocks[idx(block)]
        block = i64(keys[idx(LINK + place_of_age(keys, i64(LEAST), age))])
    keys = blocks[idx(block)]
    place = place_of_age(keys, i64(AGE), age)
    facts[FOUND_GROUP], facts[FOUND_AGE] = group, age
    facts[FOUND_VALUE], facts[FOUND_PLACE] = keys[idx(VALUE + place)], place
    return i64(keys[idx(LINK + place)])


@jit_inline
def _least_in_range(keys: Array, low: int, high: int, after: int, best: int) -> int:
    """Find the least age in a block of entries, of those in the range."""
    span, least = idx(high - low), i64(YOUNGEST)
    for i in range(WIDTH):
        value, age = keys[idx(VALUE + i)], keys[idx(AGE + i)]
        is_out = (idx(value - low) > span) | (age <= after)
        least = min(least, age | (-i64(is_out) & _FAR))  # no choice, so that vectors do it
    return min(least, best) if least < _FAR else best


@jit_inline
def _least_between(keys: Array, first: int, end: int, best: int) -> int:
    """Find the least age below some places of a block."""
    for i in range(first, end):
        best = min(best, keys[idx(LEAST + i)])
    return best


@jit_noinline
def oldest_in_range(  # noqa: C901  # a function less is much less to compile
    ordered: Ordered, group: int, low: int, high: int, after: int
) -> tuple[int, int]:
    """Find the oldest entry between two values that is younger than an age; (age, link)."""
    facts, blocks, top = ordered.facts, ordered.blocks, i64(STACK)
    best, where, height = i64(YOUNGEST), i64(facts[idx(TREES + 2 * group)]), i64(0)
    if where == NONE or low > high:
        return best, i64(NONE)
    facts[STACK], facts[STACK + 1] = where, facts[idx(TREES + 2 * group + 1)]
    top, where = top + 2, i64(NONE)
    while top > STACK:
        top -= 2
        block, level = i64(facts[idx(top)]), i64(facts[idx(top + 1)])
        keys = blocks[idx(block)]
        if level == 0:
            least = _least_in_range(keys, low, high, after, best)
            if least < best:
                best, where, height = least, block, i64(0)
            continue
        first, end = _range_below(keys, low, high)
        # all of a block is in the range if it is neither the first nor the last
        least = _least_between(keys, first + 1, end - 1, best)
        step = i64(1)
        if after < least < best:
            best, where, height = least, block, level
            step = max(end - first - 1, step)
        for i in range(first, end, step):  # the first and the last alone, if that will do
            if keys[idx(LEAST + i)] < best:
                facts[idx(top)], facts[idx(top + 1)] = keys[idx(LINK + i)], level - 1
                top += 2
    if where == NONE:
        return best, where
    return best, _remember(ordered, group, where, height, best)


@jit_noinline
def collect_range(  # noqa: PLR0913, PLR0917
    ordered: Ordered, group: int, low: int, high: int, after: int, found: Array, number: int
) -> int:
    """Put all entries between two values that are younger than an age on a heap."""
    stay_apart()
    facts, top = ordered.facts, i64(STACK)
    facts[STACK], facts[STACK + 1] = facts[TREES + 2 * group], facts[TREES + 2 * group + 1]
    if facts[STACK] == NONE:
        return number
    top += 2
    while top > STACK:
        top -= 2
        keys, level = ordered.blocks[facts[top]], facts[top + 1]
        if level:
            first, end = _range_below(keys, low, high)
            for i in range(first, end):
                facts[top], facts[top + 1] = keys[LINK + i], level - 1
                top += 2
            continue
        for i in range(keys[SIZE]):
            if low <= keys[VALUE + i] <= high and keys[AGE + i] > after:
                number = _push(found, number, keys[AGE + i], keys[LINK + i])
    return number


@jit_inline
def _push(found: Array, number: int, age: int, partial_match: int) -> int:
    place = number
    while place > 0 and found[(place - 1) >> 1, 0] > age:
        above = (place - 1) >> 1
        found[place, 0], found[place, 1] = found[above, 0], found[above, 1]
        place = above
    found[place, 0], found[place, 1] = age, partial_match
    return number + 1


@jit_noinline
def pop_oldest(found: Array, number: int) -> int:
    """Take the oldest off the heap; how many are left."""
    number -= 1
    age, partial_match = found[number, 0], found[number, 1]
    place, below = i64(0), i64(1)
    while below < number:
        if below + 1 < number and found[below + 1, 0] < found[below, 0]:
            below += 1
        if found[below, 0] >= age:
            break
        found[place, 0], found[place, 1] = found[below, 0], found[below, 1]
        place = below
        below = 2 * place + 1
    found[place, 0], found[place, 1] = age, partial_match
    return number

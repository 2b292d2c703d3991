"""The ordered index finds what a look at all of its entries finds."""

import numpy as np
import pytest

from shedlight.matching.jit import compiled
from shedlight.matching.kernel import ordered as tree
from shedlight.matching.kernel import ordered_search as search
from shedlight.matching.kernel.records import NONE

PUT_IN, TAKE_OUT, OLDEST, ALL = range(4)
GROUPS = 3


@compiled
def _follow(ordered, script, found, results):
    """Do what a script says: (what, group, value or low, high, age); gives results of each."""
    for i in range(script.shape[0]):
        what, group, value, high, age = script[i]
        if what == PUT_IN:
            tree.insert(ordered, group, value, age, 3 * age)
        elif what == TAKE_OUT:
            tree.remove(ordered, group, value, age)
        elif what == OLDEST:
            results[i, 0], results[i, 1] = search.oldest_in_range(
                ordered, group, value, high, age
            )
        else:
            size = search.collect_range(ordered, group, value, high, age, found, 0)
            results[i, 0] = size
            while size:  # oldest first: a sum that depends on the order
                results[i, 1] = (results[i, 1] * 31 + found[0, 0]) % 1_000_003
                size = search.pop_oldest(found, size)
    return ordered.facts[tree.ENTRIES]


def _script(rng, size, values, most):
    """Make a random script, and what should come of it."""
    entries: dict[tuple[int, int, int], None] = {}
    script, expected = [], []
    for age in range(size):
        what = rng.choice(4, p=[0.4, 0.25, 0.25, 0.1])
        group, low = int(rng.integers(GROUPS)), int(rng.integers(values))
        high, after = low + int(rng.integers(-1, values)), int(rng.integers(-1, age + 1))
        if what == TAKE_OUT or len(entries) > most:
            what = TAKE_OUT
            known = list(entries)[int(rng.integers(len(entries)))] if entries else (0, 0, 0)
            group, low, after = known if rng.random() < 0.9 else (group, low, age)
            entries.pop((group, low, after), None)
        elif what == PUT_IN:
            after = age
            entries[group, low, after] = None
        inside = sorted(a for g, v, a in entries if g == group and low <= v <= high)
        inside = [a for a in inside if a > after]
        script.append((what, group, low, high, after))
        if what == OLDEST:
            expected.append((inside[0], 3 * inside[0]) if inside else (tree.YOUNGEST, NONE))
        elif what == ALL:
            checksum = 0
            for found in inside:
                checksum = (checksum * 31 + found) % 1_000_003
            expected.append((len(inside), checksum))
        else:
            expected.append((0, 0))
    return np.array(script, np.int64), np.array(expected, np.int64), len(entries)


@pytest.mark.parametrize("values", [1, 4, 10_000])
@pytest.mark.parametrize("most", [5, 3_000])
def test_entries_are_found_by_range_and_age(values, most):
    """Few values or many, few entries or blocks of blocks, put in and taken out at random."""
    script, expected, left = _script(np.random.default_rng(values + most), 8_000, values, most)
    ordered = tree.with_room(tree.new_ordered(), 1_000, GROUPS)
    results = np.zeros_like(expected)
    entries = _follow(ordered, script, np.zeros((9_000, 2), np.int64), results)
    assert entries == left
    np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize("order", [1, -1])
def test_room_is_reckoned_before_entries_come(order):
    """There are never more blocks than was said, and in the end none."""
    ordered = tree.with_room(tree.new_ordered(), 0, GROUPS)
    found, no_results = np.zeros((1, 2), np.int64), np.zeros((500, 2), np.int64)
    for start in range(0, 20_000, 500):
        ordered = tree.with_room(ordered, tree.count_blocks(ordered.facts, 500, GROUPS), GROUPS)
        ages = np.arange(start, start + 500)
        script = np.stack([0 * ages, ages % GROUPS, order * ages, ages, ages], axis=1)
        _follow(ordered, script, found, no_results)
        assert ordered.facts[tree.BLOCKS] <= len(ordered.blocks)
    ages = np.arange(20_000)
    script = np.stack([0 * ages + TAKE_OUT, ages % GROUPS, order * ages, ages, ages], axis=1)
    assert _follow(ordered, script, found, np.zeros((20_000, 2), np.int64)) == 0
    assert ordered.facts[tree.USED_BLOCKS] == 0


def test_a_copy_is_apart_and_begins_with_a_line_of_the_cache():
    """What is done to it leaves the index as it was; vectors do not cross lines."""
    ordered = tree.with_room(tree.new_ordered(), 50, GROUPS)
    ages = np.arange(300)
    script = np.stack([0 * ages, 0 * ages, ages, ages, ages], axis=1)
    found, no_results = np.zeros((1, 2), np.int64), np.zeros((300, 2), np.int64)
    _follow(ordered, script, found, no_results)
    copied = tree.copy_ordered(ordered)
    script[:, 0] = TAKE_OUT
    assert _follow(copied, script, found, no_results) == 0
    assert ordered.facts[tree.ENTRIES] == 300
    assert copied.blocks.shape == ordered.blocks.shape
    assert copied.blocks.ctypes.data % 64 == copied.blocks.strides[0] % 64 == 0

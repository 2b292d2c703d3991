"""Limits by cell: read as the JVM reads them, they are the shares of the plan."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.shed.cell_limits import (
    BELOW,
    FLAG,
    CellLayout,
    group_entries,
)
from shedlight.engines.spark.shed.plan_column import keep_limits
from shedlight.engines.spark.support.plan_store import UNUSED, WORD, KeepTable
from shedlight.shedding.shedder import threshold


def _table(shares):
    """Make a table of shares that pressure multiplies."""
    fixed = np.where(shares < 0, UNUSED, 0.0)
    return KeepTable(fixed, np.zeros(shares.shape), np.maximum(shares, 0.0))


def _layout(relevant, hashed=None):
    words = -(-len(relevant) // WORD)
    return CellLayout(words, 0, group_entries(relevant, hashed or ["id"] * len(relevant)))


def _read(cells, layout, types):
    """Give for each pattern and type whether all is kept, and below which of which hashes."""
    rows, whole, below = cells.reshape(types, layout.size).tolist(), {}, {}
    for number, row in enumerate(rows):
        for word in range(layout.words):
            for bit in range(WORD):
                whole[word * WORD + bit, number] = bool(row[word] >> bit & 1)
        for group, at in layout.entries():
            if flag := row[at + FLAG]:
                pattern = group.word * WORD + flag.bit_length() - 1
                assert flag.bit_count() == 1
                assert (pattern, number) not in below
                below[pattern, number] = group.hashed, row[at + BELOW]
        asks = any(at == number for _, at in below)
        assert bool(row[layout.undecided]) == asks
    return whole, below


@st.composite
def _plans(draw):
    """Draw shares of some patterns of some types, that are of no use here and there."""
    patterns, types = draw(st.integers(1, WORD + 4)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    shares = np.where(
        rng.random((patterns, types)) < 0.5, rng.integers(0, 2, (patterns, types)), 0.5
    ) * rng.random((patterns, types))
    shares = np.where(rng.random(shares.shape) < 0.2, 1.0, shares)
    relevant = rng.random(shares.shape) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    hashed = [("id", "key")[each] for each in rng.integers(0, 2, patterns)]
    return np.where(relevant, shares, UNUSED), relevant, hashed


@given(_plans(), st.sampled_from([1.0, 0.6, 0.0]))
def test_limits_are_the_thresholds_of_the_shedder(plan, pressure):
    """To the last bit, each with its own hash, and all is kept where the share is one."""
    shares, relevant, hashed = plan
    layout = _layout(relevant.tolist(), hashed)
    cells = keep_limits(_table(shares), pressure, layout)
    whole, below = _read(cells, layout, shares.shape[1])
    sorts = {each: number for number, each in enumerate(dict.fromkeys(hashed))}
    for pattern, number in np.ndindex(*shares.shape):
        share = shares[pattern, number] * pressure if relevant[pattern, number] else 0.0
        assert whole[pattern, number] == (share >= 1)
        if threshold(share) > threshold(0.0) and share < 1:
            assert below.pop((pattern, number)) == (sorts[hashed[pattern]], threshold(share))
    assert not below


@pytest.mark.parametrize("patterns", [1, 61, 62, 63, 125])
def test_flags_of_many_patterns_go_into_several_words(patterns):
    """Each pattern has its own bit."""
    shares = np.eye(patterns)
    layout = _layout(np.ones((patterns, patterns), np.bool_).tolist())
    whole, below = _read(keep_limits(_table(shares), 1.0, layout), layout, patterns)
    assert not below
    for pattern, number in np.ndindex(patterns, patterns):
        assert whole[pattern, number] == (pattern == number)


def test_patterns_that_have_nothing_to_do_with_each_other_need_no_room():
    """A thousand of them, each with types of its own, have one entry for each word of flags."""
    relevant = np.eye(1000, dtype=np.bool_)
    layout = _layout(relevant.tolist())
    assert layout.size == 2 * layout.words + 1 + layout.words
    shares = np.where(relevant, 0.5, UNUSED)
    whole, below = _read(keep_limits(_table(shares), 1.0, layout), layout, 1000)
    assert not any(whole.values())
    assert sorted(below) == [(number, number) for number in range(1000)]

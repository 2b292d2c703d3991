"""Which keys are in the unshed sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Column
from shedlight.matching.hashing import hash_keys
from shedlight.shedding.shedder import threshold
from shedlight.shedding.thresholds import salted_hashes
from shedlight.shedding.unshed_sample import KeyWork, choose_keys


def hashes_of(keys):
    """Hash whole numbers, as keys are."""
    values = np.array(keys, np.int64)
    return hash_keys(
        [Column(DataType.BIGINT, values, np.ones(len(keys), np.bool_))], len(keys)
    )[0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_sample_has_all_keys_of_a_smaller_one(keys, one, other):
    """And a key is in it or not, whatever else is asked."""
    hashes = hashes_of(keys)
    small, large = (choose_keys(hashes, share) for share in sorted((one, other)))
    assert not (small & ~large).any()
    assert [bool(choose_keys(hashes[i : i + 1], one)[0]) for i in range(len(keys))] == (
        choose_keys(hashes, one).tolist()
    )


@pytest.mark.parametrize("epoch", [0, 1, 17, 10**9])
def test_the_sample_has_nothing_to_do_with_what_a_plan_keeps(epoch):
    """Of keys that a plan keeps as many are in it as of others, within 4 deviations."""
    hashes = hashes_of(range(200_000))
    kept = salted_hashes(hashes, np.full(len(hashes), epoch)) < threshold(0.3)
    in_sample = choose_keys(hashes, 0.02)
    deviation = np.sqrt(200_000 * 0.02 * 0.98)
    assert abs(in_sample.sum() - 4_000) < 4 * deviation
    assert abs((in_sample & kept).sum() - 0.3 * in_sample.sum()) < 4 * np.sqrt(4_000 * 0.21)


@given(st.lists(st.lists(st.integers(0, 2_000), max_size=200), max_size=20))
def test_work_is_counted_by_key(batches):
    """With few keys it is exact, and whatever has more than 0.1 % is a heavy hitter."""
    work = KeyWork()
    for batch in batches:
        work = work.add(np.array(batch, np.int64))
    keys, counts = np.unique([key for batch in batches for key in batch], return_counts=True)
    assert work.total == sum(map(len, batches))
    assert dict(zip(work.keys.tolist(), work.work.tolist(), strict=True)) == dict(
        zip(keys.tolist(), counts.tolist(), strict=True)
    )
    heavy = set(keys[counts > work.total / 1000].astype(int).tolist())
    assert heavy <= set(work.heavy_hitters().tolist())
    assert set(work.heavy_hitters().tolist()) - heavy <= set(work.dropped.tolist())


def test_with_many_keys_the_work_is_too_low_by_little():
    """By at most 0.005 % of all: a key of 0.11 % is still found, one of 0.09 % is none."""
    rng = np.random.default_rng(3)
    work, total = KeyWork(), 0
    for _ in range(40):
        others = rng.integers(10, 10**9, 9_000)
        batch = np.concatenate([others, np.repeat([1, 2, 3], [300, 10, 8])])
        work, total = work.add(batch), total + len(batch)
    assert work.total == total
    assert len(work.keys) <= 20_000
    assert work.heavy_hitters().tolist() == [1, 2]
    assert work.dropped.tolist() == [1]
    assert work.share_of(np.array([1])) == pytest.approx(300 * 40 / total, abs=5e-5)


def test_a_heavy_hitter_is_dropped():
    """A sample keeps it until it is clear that it is one."""
    work = KeyWork().add(np.arange(1000))
    assert work.choose(np.array([7]), 0.9999).tolist() == [True]
    work = work.add(np.full(100, 7))
    assert work.choose(np.array([7, 8]), 0.9999).tolist() == [False, True]

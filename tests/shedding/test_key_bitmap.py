"""Keys in bitmaps."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedlight.shedding.key_bitmap import MAX_BITS, MIN_BITS, KeyBitmap, KeyCodes

HASHES = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.lists(HASHES, max_size=60).map(lambda keys: np.array(keys, np.int64))


@given(KEYS, KEYS, KEYS)
def test_what_is_put_in_is_found(keys, others, looked_up):
    """No false negatives, joined or not; what is found ends as something that was put in."""
    joined = KeyBitmap.of(keys).join(KeyBitmap.of(others, copies=40_000))

    assert joined.has(keys).all()
    assert joined.has(others).all()
    ends = {int(key) % MIN_BITS for key in [*keys, *others]}
    found = looked_up[joined.has(looked_up)]
    assert {int(key) % MIN_BITS for key in found} <= ends


@given(KEYS, KEYS, KEYS)
def test_a_key_has_the_number_of_its_set(first, second, looked_up):
    """Of the first one, if sets or the ends of hashes are in common."""
    codes = KeyCodes.of((first, second))

    def ends(keys):
        return {int(key) % (1 << 16) for key in keys}

    for key, code in zip(looked_up, codes.find(looked_up), strict=True):
        end = int(key) % (1 << 16)
        assert code == (0 if end in ends(first) else 1 if end in ends(second) else 2)
    assert (codes.find(first) == 0).all()


def test_one_key_in_eight_is_taken_for_open_at_most():
    """A bitmap grows with its keys, up to 2 MB."""
    rng = np.random.default_rng(1)
    for number in (100, 20_000, 300_000):
        keys, others = rng.integers(-(1 << 63), 1 << 63, (2, number), np.int64)
        assert KeyBitmap.of(keys).has(others).mean() < 0.125
    assert len(KeyBitmap.of(np.zeros(MAX_BITS // 4, np.int64)).words) * 64 == MAX_BITS


def test_a_million_open_keys_have_their_bitmap_at_once():
    """Within 50 ms on a quiet machine; the best of some, and twice that here."""
    keys = np.random.default_rng(1).integers(-(1 << 63), 1 << 63, 1_000_000, np.int64)

    def seconds() -> float:
        began = time.process_time()
        KeyBitmap.of(keys)
        return time.process_time() - began

    assert min(seconds() for _ in range(5)) < 0.1

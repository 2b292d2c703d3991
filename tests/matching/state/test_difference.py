"""What changed from one run of bytes to the next: exact, and small where little changed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import StateError
from shedlight.matching.state.changes import apply_change, write_change
from shedlight.matching.state.container import Section
from shedlight.matching.state.difference import apply_difference, difference

_octets = st.binary(max_size=400) | st.integers(0, 40).map(lambda n: bytes(range(n)) * 40)


@st.composite
def _edited(draw):
    """Bytes, and the same with stretches changed, removed, added and moved."""
    old = draw(_octets)
    new = bytearray(old)
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(new)))
        end = draw(st.integers(start, len(new)))
        new[start:end] = draw(st.binary(max_size=80) | st.just(old[: end - start]))
    return old, bytes(new)


@given(_edited() | st.tuples(_octets, _octets))
def test_a_difference_gives_the_new_bytes_again(pair):
    """Whatever was changed."""
    old, new = pair
    assert apply_difference(old, difference(old, new)) == new


_ROWS = np.random.default_rng(1).integers(0, 1 << 40, (20_000, 8))
_CHANGED = _ROWS.copy()
_CHANGED[::200, 3] += 1
_OVERWRITTEN = _ROWS.copy()
_OVERWRITTEN[7_000:7_100] += 1


@pytest.mark.parametrize(
    "new",
    [
        _ROWS,
        _CHANGED,
        _OVERWRITTEN,
        np.delete(_ROWS, np.s_[::200], 0),
        np.concatenate([_ROWS[100:], _ROWS[:100] + 1]),
        np.insert(_ROWS, 7_000, _ROWS[:100] + 1, axis=0),
    ],
    ids=["nothing", "in place", "a long stretch in place", "removed", "moved up", "added"],
)
def test_a_difference_is_small_where_little_changed(new):
    """A hundred rows of 20,000 are 6,400 bytes of 1,280,000; stretches have 24 bytes each."""
    old = _ROWS.tobytes()
    change = difference(old, new.tobytes())
    assert apply_difference(old, change) == new.tobytes()
    assert len(change) < 10_000


def test_a_difference_to_other_bytes_is_refused():
    """It would give bytes that never were."""
    with pytest.raises(StateError, match="of 3 bytes, but there are 2"):
        apply_difference(b"ab", difference(b"abc", b"abd"))


_sections = st.lists(
    st.builds(
        Section,
        st.sampled_from(["operator", "pattern"]),
        st.sampled_from(["v", "w"]),
        st.sampled_from(["", "P"]),
        st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3)),
        _octets,
    ),
    max_size=5,
)


@given(st.lists(_sections, min_size=1, max_size=5))
def test_changes_one_after_the_other_give_each_state(states):
    """Sections may come, go, change places, and be several of one name."""
    held = states[0]
    for old, new in pairwise(states):
        held = apply_change(held, write_change(old, new))
        assert held == new


@given(_sections, _sections)
def test_a_change_of_another_state_is_refused_if_sections_are_missing(old, new):
    """Rather than to guess."""
    change = write_change(old, [*new, *old])
    if old:
        with pytest.raises(StateError):
            apply_change([], change)
    assert apply_change(old, change) == [*new, *old]

"""What keys yield, learned and forgotten."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.shedding import key_yields
from shedlight.shedding.key_yields import CLASSES, KeyYields

NONE = np.zeros(0, np.int64)


def _learn(steps, results, kept=None, before=None):
    """Let every key have ten events a step, and so many results as its place says."""
    yields, keys = before or KeyYields(), np.arange(len(results))
    seen = np.repeat(keys, 10)
    chosen = seen if kept is None else seen[np.isin(seen, kept)]
    for _ in range(steps):
        found = np.repeat(
            keys, [n if kept is None or k in kept else 0 for k, n in enumerate(results)]
        )
        yields = yields.add(seen, chosen, found).age(0.9)
    return yields


def test_keys_are_classed_by_their_yield_over_the_mean():
    """Four results of ten events, one, and none, where the mean is 1.6."""
    classes = _learn(30, [4, 4, 1, 1, 1, 1, 1, 1, 0]).classes()

    assert classes["high-yield"].tolist() == [0, 1]
    assert classes["low-yield"].tolist() == [8]


def test_the_best_keys_stay_the_best_when_only_they_are_kept():
    """The mean is over what arrives, so that shedding the others does not make them average."""
    yields = _learn(30, [4, 4, 0, 0, 0, 0])
    yields = _learn(10, [4, 4, 0, 0, 0, 0], kept=(0, 1), before=yields)

    assert yields.classes()["high-yield"].tolist() == [0, 1]


def test_what_is_shed_for_long_is_as_any_other():
    """So it is tried again."""
    yields = _learn(30, [2, 2, 2, 0])
    assert yields.classes()["low-yield"].tolist() == [3]

    yields = _learn(80, [2, 2, 2, 0], kept=(0, 1, 2), before=yields)

    assert not len(yields.classes()["low-yield"])


def test_one_result_is_luck():
    """Of rare results one makes no key better than others."""
    yields = KeyYields().add(
        np.repeat(np.arange(50), 4), np.repeat(np.arange(50), 4), np.array([7])
    )

    assert not any(len(keys) for name, keys in yields.classes().items() if name != "low-yield")


@given(st.lists(st.integers(0, 30), max_size=60), st.data())
def test_no_key_is_in_two_classes(seen, data):
    """Whatever came, was kept and was found."""
    kept = [key for key in seen if data.draw(st.booleans())]
    found = kept[::2]
    arrays = (np.array(each, np.int64) for each in (seen, kept, found))

    classes = KeyYields().add(*arrays).classes()

    listed = [key for keys in classes.values() for key in keys.tolist()]
    assert len(listed) == len(set(listed))
    assert set(classes) <= set(CLASSES)


def test_keys_that_came_least_are_forgotten(monkeypatch):
    """There is room for so many."""
    monkeypatch.setattr(key_yields, "MAX_KEYS", 3)
    seen = np.repeat(np.arange(5), [9, 1, 8, 2, 7])

    assert KeyYields().add(seen, seen, NONE).keys.tolist() == [0, 2, 4]


def test_without_a_result_there_are_no_classes():
    """Nothing is known then."""
    assert KeyYields().add(np.arange(5), np.arange(5), NONE).classes() == {}
    assert KeyYields().mean == pytest.approx(0.0)

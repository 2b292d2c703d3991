"""What a micro-batch used stays what it used, whoever asks and however often."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.shed.plan_column import keep_limits
from shedlight.engines.spark.support.plan_store import (
    UNUSED,
    WORD,
    ActivePlan,
    KeepTable,
    PlanStore,
)
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import threshold

Q = Stream("Q", "w")
SHARES = {
    Q: PatternShares(
        {"type=0": 0.4, "type=1": 1.0},
        by_key=True,
        pressure_exempt=frozenset({"type=1"}),
        default_share=0.3,
    )
}
TABLE = KeepTable(np.array([[0.4, 1.0, UNUSED]]), np.array([[False, True, False]]))


@pytest.fixture
def plans(tmp_path):
    """Plans of which one is active."""
    found = PlanStore(tmp_path / "plan")
    found.activate(ActivePlan(found.publish(SHARES, {"w": TABLE})))
    return found


def test_a_plan_is_read_as_it_was_published(plans):
    """By label for Python, by number for the JVM."""
    used = plans.plan_for_batch(0)
    assert used == ActivePlan(1)
    assert plans.shares(used) == SHARES
    assert plans.shares(ActivePlan(1, 0.5))[Q].shares == {"type=0": 0.2, "type=1": 1.0}
    np.testing.assert_array_equal(plans.tables(used)["w"].shares, TABLE.shares)


def test_a_micro_batch_keeps_what_it_began_with(plans):
    """A new plan is for those that begin after it."""
    first = plans.plan_for_batch(7)
    number = plans.publish({}, {})
    plans.activate(ActivePlan(number, 0.25))
    assert plans.plan_for_batch(7) == first
    assert plans.plan_for_batch(8) == ActivePlan(2, 0.25)
    assert PlanStore(plans.folder).plan_for_batch(7) == first


def test_records_are_forgotten_when_they_cannot_be_asked_for_again(plans):
    """Only those before."""
    for batch in range(5):
        plans.plan_for_batch(batch)
    plans.prune(3)
    assert sorted(path.name for path in (plans.folder / "batches").iterdir()) == ["3", "4"]


def test_plans_that_nobody_can_ask_for_again_are_removed(plans):
    """A number is never given twice all the same."""
    shares, tables = plans.shares(plans.active), plans.tables(plans.active)
    for batch in range(4):
        plans.activate(ActivePlan(plans.publish(shares, tables)))
        plans.plan_for_batch(batch)
    last = plans.active
    plans.prune(3)
    left = sorted(int(path.stem) for path in (plans.folder / "plans").glob("*.npz"))
    assert left == [last.plan]
    assert plans.shares(plans.plan_for_batch(3)) == shares
    assert plans.publish(shares, tables) == last.plan + 1


def test_without_a_plan_or_with_a_damaged_one_it_says_so(tmp_path, plans):
    """And what to do."""
    with pytest.raises(StateError, match=r"no plan in .*start with a new one"):
        PlanStore(tmp_path / "nothing").plan_for_batch(0)
    (plans.folder / "batches").mkdir()
    (plans.folder / "batches" / "3").write_text("{")
    with pytest.raises(StateError, match=r"3 is damaged .*new checkpoint"):
        plans.plan_for_batch(3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0, 1))
def test_limits_are_the_thresholds_of_the_shedder(shares, pressure):
    """To the last bit, and everything is kept where the share is one."""
    table = KeepTable(np.array([shares]), np.zeros((1, len(shares)), np.bool_))
    found = keep_limits(table, pressure).tolist()
    lowered = [share * pressure for share in shares]
    everything = [int(share >= 1) for share in lowered]
    asked = [int(0 < share < 1) for share in lowered]
    limits = [threshold(0.0 if share >= 1 else share) for share in lowered]
    assert found == [*everything, *asked, *limits]


def test_what_a_pattern_has_no_use_for_is_never_kept():
    """Not even without pressure."""
    limits = [threshold(0.4), threshold(0.0), threshold(0.0)]
    assert keep_limits(TABLE, 1.0).tolist() == [0, 1, 0, 1, 0, 0, *limits]


@pytest.mark.parametrize("patterns", [1, 61, 62, 63, 125])
def test_flags_of_many_patterns_go_into_several_words(patterns):
    """Each pattern has its own bit."""
    shares = np.eye(patterns)
    found = keep_limits(KeepTable(shares, np.zeros(shares.shape, np.bool_)), 1.0).tolist()
    words = -(-patterns // WORD)
    assert len(found) == patterns * (words + 1 + patterns)
    for number in range(patterns):
        for word in range(words):
            mine = 1 << number % WORD if number // WORD == word else 0
            assert found[word * patterns + number] == mine

"""What a micro-batch used stays what it used, whoever asks and however often."""

import time

import numpy as np
import pytest

from shedlight.engines.spark.support import plan_store
from shedlight.engines.spark.support.batch_record import SEGMENT
from shedlight.engines.spark.support.plan_store import (
    UNUSED,
    ActivePlan,
    KeepTable,
    PlanStore,
)
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares

Q = Stream("Q", "w")
SHARES = {
    Q: PatternShares(
        {"type=0": 0.4, "type=1": 1.0},
        by_key=True,
        pressure_exempt=frozenset({"type=1"}),
        default_share=0.3,
    )
}
TABLE = KeepTable(np.array([[0, 1.0, UNUSED]]), np.zeros((1, 3)), np.array([[0.4, 0, 0]]))


def scaled(shares):
    """Make a table of shares that pressure multiplies."""
    return KeepTable(np.zeros(shares.shape), np.zeros(shares.shape), shares)


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
    np.testing.assert_array_equal(plans.tables(used)["w"].under(0.5), TABLE.under(0.5))


def test_a_micro_batch_keeps_what_it_began_with(plans):
    """A new plan is for those that begin after it."""
    first = plans.plan_for_batch(7)
    number = plans.publish({}, {})
    plans.activate(ActivePlan(number, 0.25))
    assert plans.plan_for_batch(7) == first
    assert plans.plan_for_batch(8) == ActivePlan(2, 0.25)
    assert PlanStore(plans.folder).plan_for_batch(7) == first


def test_what_is_on_record_is_forgotten_after_its_time(plans):
    """Whole files, and never the latest two; plans that no other used go with them."""
    for batch in range(3 * SEGMENT):
        plans.activate(ActivePlan(plans.publish(SHARES, {}) if batch % SEGMENT == 0 else 1))
        plans.plan_for_batch(batch)
    plans.activate(ActivePlan(4))
    plans.prune(time.time() - 60)
    assert plans.plan_for_batch(0) == ActivePlan(2)
    plans.prune(time.time() + 60)
    assert plans.record.find(0) is None
    assert plans.record.find(SEGMENT) is not None
    with pytest.raises(StateError, match="does not have micro-batch 0; put the file back"):
        plans.check(0)
    left = sorted(int(path.stem) for path in (plans.folder / "plans").glob("*.json"))
    assert left == [3, 4]
    assert plans.publish(SHARES, {"w": TABLE}) == 5


def test_a_line_that_was_cut_off_was_never_used(plans):
    """It is dropped; a line that is damaged is an error."""
    first = plans.plan_for_batch(0)
    path = plans.record.missing(0)
    whole = path.read_text()
    path.write_text(whole + '{"batch": 1, "pl')
    plans.activate(ActivePlan(1, 0.5))
    assert plans.plan_for_batch(1) == ActivePlan(1, 0.5)
    assert plans.plan_for_batch(0) == first
    path.write_text("{\n" + whole)
    with pytest.raises(StateError, match=r"line 1 of .* is damaged .*new checkpoint"):
        plans.plan_for_batch(0)


def test_who_comes_second_gets_what_the_first_one_wrote(plans):
    """As two processes that ask at the same time do."""
    plans.record.append(3, {"plan": 1, "pressure": 0.5, "after": 2, "latest": {"s": 7}})
    later = {"plan": 1, "pressure": 0.25, "after": 2, "latest": {}}
    assert plans.record.append(3, later)["pressure"] == 0.5
    assert plans.plan_for_batch(3) == ActivePlan(1, 0.5, 2, {"s": 7})


def test_heavy_hitters_are_listed_by_number(plans):
    """The list of a micro-batch stays what it was, and goes with the record of it."""
    assert plans.heavy(plans.plan_for_batch(0)) == ()
    for number in (1, 2):
        keys = (-(1 << 63), 5, number)
        assert plans.publish_heavy(keys) == number
        plans.activate(ActivePlan(1, heavy=number))
        assert plans.heavy(plans.plan_for_batch(number)) == keys
    assert plans.heavy(plans.plan_for_batch(1))[-1] == 1
    (plans.folder / "heavy" / "2.json").unlink()
    with pytest.raises(StateError, match=r"2\.json is missing; put it back"):
        plans.heavy(plans.plan_for_batch(2))


def test_nobody_waits_for_what_is_not_decided_after_each(plans, monkeypatch):
    """Where shares are fixed; else this would wait for ever."""
    monkeypatch.setattr(plan_store, "MAX_WAIT_S", float("inf"))
    fixed = ActivePlan(1, after=2, awaited=False)
    plans.activate(fixed)
    assert plans.plan_for_batch(9) == fixed


def test_without_a_plan_it_says_so(tmp_path):
    """And what to do."""
    with pytest.raises(StateError, match=r"no plan in .*start with a new one"):
        PlanStore(tmp_path / "nothing").plan_for_batch(0)

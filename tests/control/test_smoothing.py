"""Plans are made from averages: of what is alike, and never of what is urgent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.control.observation import offered_to
from shedlight.control.smoothing import (
    SmoothedObservation,
    SmoothingSettings,
    rate_history_of,
    smooth,
)
from tests.control.loops import FITS, START, TOO_MUCH, run
from tests.control.observations import NODE, observed
from tests.graph.applications import stream

Q11 = stream("w1.Q11")


def _after(observations, smoothing=None):
    smoothed = SmoothedObservation()
    for each in observations:
        smoothed = smooth(smoothed, each, smoothing or SmoothingSettings(), ["w2"])
    return smoothed


@given(st.lists(st.floats(0.95, 1.05), min_size=2, max_size=30))
def test_alike_observations_are_averaged(factors):
    """Types by their mean share, while the total is the latest."""
    smoothed = _after([observed(FITS * factor) for factor in factors])
    assert smoothed.mean is not None
    assert smoothed.number == min(len(factors), SmoothingSettings().most)
    total = sum(offered_to(smoothed.mean, "w2").values())
    latest = sum(offered_to(observed(FITS * factors[-1]), "w2").values())
    assert total == pytest.approx(latest)


def test_a_sudden_change_begins_anew():
    """What was before it says nothing about what comes."""
    smoothed = _after([observed(FITS)] * 5 + [observed(TOO_MUCH)])
    assert smoothed.mean is not None
    assert smoothed.number == 1
    assert offered_to(smoothed.mean, "w2") == offered_to(observed(TOO_MUCH), "w2")


def test_what_no_plan_can_change_is_averaged_across_changes():
    """Its matches wait for others as long as a window lasts, in bursts of these too."""
    smoothed = _after([observed(FITS)] * 5 + [observed(2 * FITS)])
    assert smoothed.mean is not None
    before, now = observed(FITS).outputs[Q11], observed(2 * FITS).outputs[Q11]
    usual = (5 * before + now) / 6
    assert smoothed.outputs[Q11] == pytest.approx(usual)
    assert smoothed.mean.outputs[Q11] == pytest.approx(usual * 2 / (7 / 6))


def test_a_lull_does_not_make_partners_fewer():
    """They come whether or not anybody waits for them."""
    smoothed = _after([observed(2 * FITS)] * 5 + [observed(FITS)])
    assert smoothed.mean is not None
    assert smoothed.mean.outputs[Q11] == pytest.approx(smoothed.outputs[Q11])


def test_the_rate_history_of_rates_is_told_when_it_is_long_enough():
    """Step by step, the oldest first."""
    assert rate_history_of(_after([observed(FITS)] * 4)) is None
    course = rate_history_of(_after([observed(FITS)] * 4 + [observed(3 * FITS)] * 2))
    assert course is not None
    steps = course.rates[stream("s2")]
    assert [step / steps[0] for step in steps] == pytest.approx([1, 1, 1, 1, 3, 3])
    assert course.varies


def test_urgent_things_are_the_latest():
    """A backlog of long ago is none."""
    smoothed = _after(
        [observed(FITS, backlog={NODE: 5.0}), observed(FITS, backlog={NODE: 0.0})]
    )
    assert smoothed.mean is not None
    assert smoothed.mean.backlog[NODE] == 0.0


def test_a_plan_of_one_observation_is_made_anew_when_more_are_alike():
    """Once; then it is settled."""
    _, decisions = run(START, [TOO_MUCH] * 40)
    asked = [number for number, each in enumerate(decisions) if each.attempted]
    assert asked == [0, SmoothingSettings().settled]
    assert "the load has been steady for 12 observations" in decisions[asked[1]].reason

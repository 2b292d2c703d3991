"""Feedback: what is planned for a node that is less busy than it may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.control.feedback import (
    FeedbackSettings,
    NodeFeedback,
    describe_feedback,
    update_feedback,
)

SETTINGS = FeedbackSettings()


def _after(loads, before=None, *, sheds=True):
    feedback = before
    for load in loads:
        feedback = update_feedback(feedback, load, SETTINGS, aim=0.9, sheds=sheds)
    return feedback


def test_three_observations_below_raise_what_is_planned():
    """To what brings the node to its aim, if it is busy in proportion."""
    assert _after([0.6, 0.6]).factor == 1.0
    assert _after([0.6, 0.6, 0.6]).factor == pytest.approx(1.5)


def test_a_node_that_sheds_nothing_is_idle_and_that_is_all():
    """There is nothing to raise."""
    assert _after([0.2] * 10, sheds=False).factor == 1.0


@given(st.lists(st.floats(0.0, 3.0), max_size=30))
def test_never_less_than_the_limit_is_planned(loads):
    """Less is for pressure; and there is a most."""
    feedback = _after(loads) or NodeFeedback()
    assert 1.0 <= feedback.factor <= SETTINGS.most


@given(st.floats(0.3, 1.0))
def test_a_plan_that_keeps_a_part_of_what_it_says_reaches_its_aim(part):
    """A loop of a node that is busy for a part of what is planned settles within the aim."""
    feedback = NodeFeedback()
    for _ in range(30):
        load = 0.9 * part * feedback.factor
        feedback = _after([load], feedback)
    assert 0.85 <= 0.9 * part * feedback.factor <= 1.0


def test_too_much_is_taken_back():
    """When keys change, what was raised may be too much."""
    raised = _after([0.45] * 3)
    assert raised.factor == pytest.approx(2.0)

    lowered = _after([1.4], raised)

    assert lowered.factor == pytest.approx(2.0 * 0.9 / 1.4)
    assert "edge is over its limit" in describe_feedback({"edge": raised}, {"edge": lowered})
    assert not describe_feedback({"edge": lowered}, {"edge": lowered})

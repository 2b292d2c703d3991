"""Calibration: what patterns yield is learned, within bounds, and planned with."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.control.controller import decide
from tests.control.loops import FITS, START, TOO_MUCH, run, still
from tests.control.observations import NODE, observed
from tests.graph.applications import stream

Q21 = stream("w2.Q21")


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
@settings(max_examples=20)
def test_calibration_stays_within_its_bounds(yields):
    """Whatever is measured, a snapshot takes the factors."""
    memory = START
    for each in yields:
        memory, _ = decide(memory, observed(FITS, memory.shares, yields=each), clock=still)

    assert all(0.01 <= factor <= 100 for factor in memory.factors.values())


def test_calibration_learns_what_patterns_yield():
    """Half of what the model says: the factors go there, by a fifth of the way each time."""
    memory, _ = run(START, [FITS], yields=0.5)
    assert memory.factors[Q21] == pytest.approx(0.9)

    memory, _ = run(memory, [FITS] * 30, yields=0.5)
    assert memory.factors[Q21] == pytest.approx(0.5, abs=0.01)


def test_nothing_is_learned_from_too_little_or_from_a_queue():
    """Few events are chance; what is queued has not been matched yet."""
    few, _ = run(START, [0.001], yields=0.5)
    queued, _ = run(START, [FITS], yields=0.5, backlog={NODE: 10.0})

    assert Q21 not in few.factors
    assert Q21 not in queued.factors


def test_what_was_learned_is_planned_with():
    """When patterns yield something else than was planned for, and the rest is over."""
    _, decisions = run(START, [TOO_MUCH] * 13, yields=0.5)

    assert [n for n, each in enumerate(decisions) if each.attempted] == [0, 11]
    assert (
        "finds 53 % of the matches that the model predicts, the plan was made for 90 %"
        in decisions[11].reason
    )

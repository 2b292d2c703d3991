"""The pressure factor: its laws, and that it keeps a queue within the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.control.pressure import batch_pressure, pressure

bounds = st.floats(0.01, 100)
shares = st.floats(0, 1)
aims = st.floats(0.1, 1)


@given(st.floats(0, 1000), bounds, shares, aims)
def test_it_is_a_share(backlog, bound, limit, aim):
    """It only ever lowers what a plan keeps."""
    assert 0 <= pressure(backlog, bound, limit, aim) <= 1


@given(st.floats(0, 2), st.floats(0, 2), bounds, shares, aims)
def test_more_backlog_is_never_less_pressure(one, other, bound, limit, aim):
    """It falls with the backlog."""
    low, high = sorted((one * bound, other * bound))

    assert pressure(high, bound, limit, aim) <= pressure(low, bound, limit, aim)


@given(st.floats(0, 2), bounds, shares, aims)
def test_it_has_no_jumps(backlog, bound, limit, aim):
    """The ramp is at least a twentieth of the bound wide, so its slope is at most 20 / B."""
    step = 1e-4
    here = pressure(backlog * bound, bound, limit, aim)
    there = pressure((backlog + step) * bound, bound, limit, aim)

    assert here - there <= 20 * step + 1e-9


@given(st.floats(0, 0.5), bounds, shares, aims)
def test_there_is_none_well_below_the_bound(backlog, bound, limit, aim):
    """Up to half of what the bound allows the plan alone counts."""
    assert pressure(backlog * bound, bound, limit, aim) == pytest.approx(1)


@given(st.floats(1, 10), bounds, shares)
def test_nothing_is_taken_in_at_the_bound(backlog, bound, limit):
    """What arrives now would wait longer than it may."""
    assert pressure(backlog * bound, bound, limit) == 0


def test_without_a_bound_there_is_none():
    """A node without a bound never sheds."""
    assert pressure(1e9, None) == 1


@given(shares, shares)
def test_a_tighter_bound_leaves_more_to_the_plan(one, other):
    """With a lower limit a longer queue is usual, and the ramp starts later."""
    low, high = sorted((one, other))

    assert pressure(0.8, 1.0, low) >= pressure(0.8, 1.0, high) - 1e-12


@pytest.mark.parametrize("overload", [1.2, 3.0, 10.0])
def test_a_stale_plan_keeps_the_backlog_near_the_bound(overload):
    """A fluid queue settles where the factor is one over the overload, below the bound."""
    bound, step, backlog = 2.0, 0.01, 0.0
    highest = 0.0
    for _ in range(5000):
        inflow = overload * pressure(backlog, bound)
        backlog = max(0.0, backlog + (inflow - 1) * step)
        highest = max(highest, backlog)

    assert highest <= bound + overload * step
    assert pressure(backlog, bound) == pytest.approx(1 / overload, abs=0.01)


@given(st.floats(1, 1e6), st.floats(1e-6, 1e-2), st.floats(0, 2), bounds)
def test_a_bound_that_no_micro_batch_keeps_sheds_nothing(unread, work, fixed, bound):
    """An event takes one and a half of them on average, however little is in them."""
    factor = batch_pressure(unread, work, fixed=fixed, reading=0.0, bound=bound)

    assert 0 <= factor <= 1
    if 1.5 * fixed >= bound:
        assert factor == 1


@given(st.floats(1, 1e5), st.floats(1e-6, 1e-2), st.floats(0, 1), st.floats(0, 1e-4))
def test_the_next_micro_batch_takes_as_long_as_the_bound_allows(unread, work, fixed, reading):
    """What is fixed, reading all events, and the work of those that are kept."""
    bound = 6.0
    factor = batch_pressure(unread, work, fixed=fixed, reading=reading, bound=bound)
    longest, before_work = bound / 1.5, fixed + unread * reading

    if 0 < factor < 1:
        assert before_work + factor * unread * work == pytest.approx(longest)
    elif factor == 0:
        assert before_work >= longest
    else:
        assert before_work + unread * work <= longest * (1 + 1e-9)


@given(st.floats(1, 1e5), st.floats(1e-6, 1e-2), st.integers(50, 99), st.integers(50, 99))
def test_a_higher_percentile_is_no_less_pressure(unread, work, one, other):
    """And the mean is the median of what an event spends in micro-batches."""
    low, high, middle, mean = (
        batch_pressure(unread, work, fixed=0.5, reading=0.0, bound=6.0, percentile=percentile)
        for percentile in (*sorted((one, other)), 50, None)
    )

    assert high <= low
    assert middle == mean


def test_what_reading_takes_is_taken_from_the_work():
    """60,000 events at 0.1 ms need 6 s, and 4 s are allowed: less what is fixed and reading."""
    factors = [
        batch_pressure(60_000, 1e-4, fixed=0.5, reading=reading, bound=6.0)
        for reading in (0.0, 2e-5, 1e-4)
    ]

    assert factors == [pytest.approx(3.5 / 6), pytest.approx(2.3 / 6), 0.0]

"""The experiment on latency, small: what its rows say, and that its claims hold."""

from dataclasses import replace

import pytest

from experiments.data_sets import STEPS
from experiments.figures.latency_figure import draw_courses, draw_rests
from experiments.latency import (
    AT_REST,
    FIGURE,
    Compliance,
    Moment,
    Rest,
    Stay,
    Way,
    deviation,
    moments,
    papers_shares,
    rest,
)
from experiments.run import RunSetting
from experiments.text import course_lines, rest_lines
from shedlight.engines.simulator.csv_rows import read_results, write_results
from shedlight.errors import InputError
from tests.experiments.points import PNG

SMALL = Compliance(
    name="small",
    data=(STEPS,),
    over_time=RunSetting(duration=24.0, settled=6.0),
    loads=(2.0,),
    at_rest=replace(AT_REST, duration=60.0, settled=20.0),
    seeds=(1,),
)


@pytest.fixture(scope="module")
def courses():
    """Run the small experiment over time."""
    return tuple(row for course in SMALL.courses for row in moments(course))


@pytest.fixture(scope="module")
def rests():
    """Run the small experiment at rest."""
    return tuple(map(rest, SMALL.rests))


def of(courses, way):
    """Take the rows of one way."""
    return [row for row in courses if row.way is way]


def a_moment(time, busy, *, sheds):
    """Make a row with a limit of 1."""
    return Moment(
        data="steps",
        way=Way.GLOBAL,
        seed=1,
        time=time,
        events=100.0,
        busy=busy,
        limit=1.0,
        sheds=sheds,
        latency=0.1,
        bound=3.0,
        backlog=0.0,
        pressure=1.0,
        replans=0,
    )


def test_deviation_counts_what_is_over_always_and_what_is_under_while_shedding():
    """0.5 over, 0.25 under while shedding, and 0.5 under without: 0.75 for a second each."""
    rows = [
        a_moment(0.0, 1.5, sheds=False),
        a_moment(1.0, 0.75, sheds=True),
        a_moment(2.0, 0.5, sheds=False),
    ]

    assert deviation(rows) == pytest.approx(0.75)
    assert deviation(rows[::-1]) == pytest.approx(0.75)


def test_shedding_keeps_busy_time_near_its_limit(courses):
    """Both shedders are much less off than none, as in the paper."""
    off = {way: deviation(of(courses, way)) for way in (Way.NONE, Way.LOCAL, Way.GLOBAL)}

    assert off[Way.LOCAL] < off[Way.NONE] / 2
    assert off[Way.GLOBAL] < off[Way.NONE] / 2


def test_latency_stays_under_its_bound_by_shedding_and_not_without(courses):
    """Also when the load jumps to four times the capacity."""
    waits = {
        way: [row.latency or 0.0 for row in of(courses, way)] for way in (Way.NONE, Way.GLOBAL)
    }

    assert sum(waits[Way.GLOBAL]) / len(waits[Way.GLOBAL]) < 3.0
    assert max(waits[Way.NONE]) > 6


def test_there_is_a_row_per_interval(courses):
    """24 of each of four runs."""
    assert len(courses) == 4 * 24
    assert [row.time for row in of(courses, Way.PAPER)] == pytest.approx(range(24), abs=0.1)
    assert not any(row.sheds for row in of(courses, Way.NONE))


def test_the_papers_share_is_its_processing_time_over_that_of_all():
    """500 events/s and 0.1 s: p* = 1 / (500 + 10) s of 4 ms."""
    shares = papers_shares(2.0, 0.1)

    assert {share for one in shares.values() for share in one.shares.values()} == {250 / 510}


def test_the_papers_limit_misses_the_bound_by_the_share_that_it_keeps():
    """It promises 0.1 s, but at half the events kept, M/M/1 gives 0.2 s."""
    row = rest(Stay(Way.PAPER_KNOWN, 2.0, 1, replace(AT_REST, duration=250.0)))

    assert row.kept == pytest.approx(0.49, abs=0.01)
    assert row.expected == pytest.approx(row.promised / row.kept)
    assert row.latency > 1.4 * row.bound


def test_ours_keeps_the_bound_at_rest_without_pressure(rests):
    """By M/G/1, at 0.9 of the limit."""
    (ours,) = (row for row in rests if row.way is Way.LOCAL)

    assert ours.latency < ours.bound
    assert 0.7 < ours.busy < 1


def test_rows_are_read_back_and_drawn_from_the_files_alone(courses, rests, tmp_path):
    """Rows of intervals without any event included."""
    path, other = tmp_path / "courses.csv", tmp_path / "rests.csv"
    rows = (*courses, replace(courses[-1], latency=None, time=99.0))
    write_results(path, rows, Moment, {})
    write_results(other, rests, Rest, {})

    assert read_results(path, Moment).rows == rows
    assert read_results(other, Rest).rows == rests
    for draw, file in ((draw_courses, path), (draw_rests, other)):
        image = tmp_path / f"{file.stem}.png"
        draw(file, image)
        assert image.read_bytes().startswith(PNG)


def test_files_without_rows_are_refused(tmp_path):
    """With their names."""
    for draw, kind in ((draw_courses, Moment), (draw_rests, Rest)):
        path = tmp_path / f"{kind.__name__}.csv"
        write_results(path, (), kind, {})
        with pytest.raises(InputError, match=f"{kind.__name__}.csv: it must have rows"):
            draw(path, tmp_path / "figure.png")


def test_the_tables_have_a_line_per_way(courses, rests):
    """Under what was asked of them."""
    over_time, at_rest = [*course_lines(courses)], [*rest_lines(rests)]

    assert over_time[0] == "Over 24 s, with a bound of 3 s on average"
    assert [line.split()[1] for line in over_time[3:]] == ["none", "local", "global", "paper"]
    assert at_rest[0] == "A stationary stream and a bound of 0.1 s, without pressure"
    assert len(at_rest) == 3 + 3


def test_the_figure_is_run_with_five_seeds():
    """Two data sets in four ways, and three ways at four loads."""
    assert len(FIGURE.courses) == 2 * 4 * 5
    assert len(FIGURE.rests) == 3 * 4 * 5

"""The experiment on latency, small: what its rows say, and that its claims hold."""

from dataclasses import replace

import pytest

from experiments.data_sets import STEPS
from experiments.figures.latency_figure import draw_steady_state, draw_timelines
from experiments.latency import (
    FIGURE,
    STEADY_STATE,
    IntervalRow,
    LatencyExperiment,
    Method,
    SteadyStateJob,
    SteadyStateRow,
    limit_deviation,
    paper_shares,
    run_steady_state,
    run_timeline,
)
from experiments.results_file import read_results
from experiments.run import RunSetting
from experiments.text import steady_state_lines, timeline_lines
from shedlight.engines.simulator.csv_rows import write_results
from shedlight.errors import InputError
from tests.experiments.points import PNG

SMALL = LatencyExperiment(
    name="small",
    data=(STEPS,),
    timeline=RunSetting(duration=24.0, warm_up=6.0),
    loads=(2.0,),
    steady_state=replace(STEADY_STATE, duration=60.0, warm_up=20.0),
    seeds=(1,),
)


@pytest.fixture(scope="module")
def timelines():
    """Run the timelines of the small experiment."""
    return tuple(row for job in SMALL.timeline_jobs for row in run_timeline(job))


@pytest.fixture(scope="module")
def steady():
    """Run the small experiment in steady state."""
    return tuple(map(run_steady_state, SMALL.steady_state_jobs))


def of(timelines, method):
    """Take the rows of one method."""
    return [row for row in timelines if row.method is method]


def an_interval(time, busy, *, sheds):
    """Make a row with a limit of 1."""
    return IntervalRow(
        data="steps",
        method=Method.GLOBAL,
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
        an_interval(0.0, 1.5, sheds=False),
        an_interval(1.0, 0.75, sheds=True),
        an_interval(2.0, 0.5, sheds=False),
    ]

    assert limit_deviation(rows) == pytest.approx(0.75)
    assert limit_deviation(rows[::-1]) == pytest.approx(0.75)


def test_shedding_keeps_busy_time_near_its_limit(timelines):
    """Both shedders are much less off than none, as in the paper."""
    off = {
        method: limit_deviation(of(timelines, method))
        for method in (Method.NONE, Method.LOCAL, Method.GLOBAL)
    }

    assert off[Method.LOCAL] < off[Method.NONE] / 2
    assert off[Method.GLOBAL] < off[Method.NONE] / 2


def test_latency_stays_under_its_bound_by_shedding_and_not_without(timelines):
    """Also when the load jumps to four times the capacity."""
    waits = {
        method: [row.latency or 0.0 for row in of(timelines, method)]
        for method in (Method.NONE, Method.GLOBAL)
    }

    assert sum(waits[Method.GLOBAL]) / len(waits[Method.GLOBAL]) < 3.0
    assert max(waits[Method.NONE]) > 6


def test_there_is_a_row_per_interval(timelines):
    """24 of each of four runs."""
    assert len(timelines) == 4 * 24
    assert [row.time for row in of(timelines, Method.PAPER)] == pytest.approx(
        range(24), abs=0.1
    )
    assert not any(row.sheds for row in of(timelines, Method.NONE))


def test_the_papers_share_is_its_processing_time_over_that_of_all():
    """500 events/s and 0.1 s: p* = 1 / (500 + 10) s of 4 ms."""
    shares = paper_shares(2.0, 0.1)

    assert {share for one in shares.values() for share in one.shares.values()} == {250 / 510}


def test_the_papers_limit_misses_the_bound_by_the_share_that_it_keeps():
    """It promises 0.1 s, but at half the events kept, M/M/1 gives 0.2 s."""
    row = run_steady_state(
        SteadyStateJob(Method.PAPER_KNOWN, 2.0, 1, replace(STEADY_STATE, duration=250.0))
    )

    assert row.kept == pytest.approx(0.49, abs=0.01)
    assert row.expected == pytest.approx(row.promised / row.kept)
    assert row.latency > 1.4 * row.bound


def test_ours_keeps_the_bound_in_steady_state_without_pressure(steady):
    """By M/G/1, at 0.9 of the limit."""
    (ours,) = (row for row in steady if row.method is Method.LOCAL)

    assert ours.latency < ours.bound
    assert 0.7 < ours.busy < 1


def test_rows_are_read_back_and_drawn_from_the_files_alone(timelines, steady, tmp_path):
    """Rows of intervals without any event included."""
    path, other = tmp_path / "timelines.csv", tmp_path / "steady.csv"
    rows = (*timelines, replace(timelines[-1], latency=None, time=99.0))
    write_results(path, rows, IntervalRow, {})
    write_results(other, steady, SteadyStateRow, {})

    assert read_results(path, IntervalRow).rows == rows
    assert read_results(other, SteadyStateRow).rows == steady
    for draw, file in ((draw_timelines, path), (draw_steady_state, other)):
        image = tmp_path / f"{file.stem}.png"
        draw(file, image)
        assert image.read_bytes().startswith(PNG)


def test_files_without_rows_are_refused(tmp_path):
    """With their names."""
    for draw, row in ((draw_timelines, IntervalRow), (draw_steady_state, SteadyStateRow)):
        path = tmp_path / f"{row.__name__}.csv"
        write_results(path, (), row, {})
        with pytest.raises(InputError, match=f"{row.__name__}.csv: it must have rows"):
            draw(path, tmp_path / "figure.png")


def test_the_tables_have_a_line_per_method(timelines, steady):
    """Under what was asked of them."""
    timeline, steady_state = [*timeline_lines(timelines)], [*steady_state_lines(steady)]

    assert timeline[0] == "Over 24 s, with a bound of 3 s on average"
    assert [line.split()[1] for line in timeline[3:]] == ["none", "local", "global", "paper"]
    assert steady_state[0] == "A stationary stream and a bound of 0.1 s, without pressure"
    assert len(steady_state) == 3 + 3


def test_the_figure_is_run_with_five_seeds():
    """Two data sets by four methods, and three methods at four loads."""
    assert len(FIGURE.timeline_jobs) == 2 * 4 * 5
    assert len(FIGURE.steady_state_jobs) == 3 * 4 * 5

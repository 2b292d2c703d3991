"""The experiment on the runtime of the solver, on a tiny grid: rows, file, figure."""

import re
from dataclasses import replace

import pytest

from experiments.figures.scalability_figure import draw_scalability
from experiments.results_file import read_results
from experiments.scalability import (
    FIGURE,
    ProgramForm,
    Size,
    Status,
    TimedSolve,
    disagreements,
    median_points,
)
from experiments.timing import measure, reason_to_skip
from shedlight.engines.simulator.csv_rows import provenance, write_results
from shedlight.errors import InputError
from tests.experiments.points import PNG, TINY, a_point

MADE_WITH = {"seed": "1", "time_limit": "30"}


@pytest.fixture(scope="module")
def points():
    """Measure the tiny grid."""
    return tuple(measure(TINY))


# ---------------------------------------------------------------------------------------------
# Rows.


def test_there_is_a_row_per_size_program_and_repeat(points):
    """8 sizes, once the paper's program, three times each the others."""
    assert len(points) == TINY.points == 8 * 7
    assert {point.size for point in points} == set(TINY.sizes)
    assert all(point.status is Status.OPTIMAL and point.seconds for point in points)


def test_all_programs_find_the_same_optimum(points):
    """The reduced program is the paper's without its x; filling changes no optimum."""
    assert disagreements(points) == ()
    first = points[0]
    wrong = replace(first, objective=first.objective * 1.01)
    assert disagreements((*points, wrong)) == (first.size,)


def test_time_comes_from_the_clock():
    """A clock that ticks whenever it is read: every solve takes one tick."""
    ticks = iter(range(1_000))

    taken = {point.seconds for point in measure(TINY, clock=lambda: next(ticks))}

    assert taken == {1}


def test_no_answer_in_time_is_a_row_and_larger_ones_are_skipped():
    """With no time at all the solver gives up at once."""
    grid = replace(TINY, shares=(1.0,), time_limit=0.0, repeats={ProgramForm.PAPER: 1})

    found = list(measure(grid))

    assert {point.seconds for point in found} == {None}
    assert found[0].status is Status.NO_ANSWER
    assert found[0].remark == "no answer within 0 s"
    assert [point.status for point in found[1:]] == [Status.SKIPPED] * 3
    assert found[1].remark == "a smaller one had no answer within 0 s"


def test_the_trend_of_smaller_sizes_is_a_reason_to_skip():
    """31 s for a tenth of the size are 310 s or more, and that is over five times the limit."""
    size = Size(1_000, 10, 1.0)

    assert reason_to_skip(size, ProgramForm.PAPER, [a_point(31.0)], 60.0) == (
        "a smaller one promises 310 s or more; the limit is 60 s"
    )
    assert reason_to_skip(size, ProgramForm.PAPER, [a_point(29.0)], 60.0) == ""


@pytest.mark.parametrize(
    "seen",
    [
        a_point(0.9),
        a_point(13.0, program=ProgramForm.REDUCED),
        a_point(None, queries=20),
    ],
    ids=["too fast for a trend", "another program", "more queries"],
)
def test_there_is_no_reason_to_skip_in(seen):
    """Only a smaller size of the same program says something."""
    assert reason_to_skip(Size(1_000, 10, 1.0), ProgramForm.PAPER, [seen], 1.0) == ""


def test_the_median_of_repeats_is_taken_and_no_answer_stays_none():
    """Of 3, 1 and 2 seconds it is 2."""
    some = [a_point(seconds) for seconds in (3.0, 1.0, 2.0)]
    none = [a_point(1.0, types=5), a_point(None, types=5)]

    middle = median_points([*some, *none])

    assert middle[ProgramForm.PAPER, Size(100, 10, 1.0)].seconds == 2.0
    assert middle[ProgramForm.PAPER, Size(5, 10, 1.0)].seconds is None


def test_the_figure_has_the_sizes_of_the_paper():
    """Up to 10,000 types in all of 100 queries, with a minute for each solve."""
    assert max(FIGURE.sizes) == Size(10_000, 100, 1.0)
    assert len(FIGURE.sizes) == 27
    assert FIGURE.time_limit == 60


# ---------------------------------------------------------------------------------------------
# The file and the figure.


def test_rows_are_read_back_as_they_were(points, tmp_path):
    """Every digit, every None, and what they were made with."""
    path = tmp_path / "new" / "rows.csv"
    rows = (*points, a_point(None))
    made_with = MADE_WITH | provenance()

    assert write_results(path, iter(rows), TimedSolve, made_with) == rows

    read = read_results(path, TimedSolve)
    assert read.rows == rows
    assert read.made_with == made_with
    assert {"shedlight", "highspy", "numpy", "python", "cpu_count"} <= set(read.made_with)
    assert [file.name for file in path.parent.iterdir()] == ["rows.csv"]


def test_the_figure_is_made_from_the_file_alone(points, tmp_path):
    """Also with sizes that have no answer, and where the paper reports something."""
    path, image = tmp_path / "rows.csv", tmp_path / "figure.png"
    more = (a_point(None, types=1_000, queries=100), a_point(0.1, types=1_000, queries=50))
    write_results(path, (*points, *more), TimedSolve, MADE_WITH)

    draw_scalability(path, image)

    assert image.read_bytes().startswith(PNG)


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    """An experiment that breaks off leaves nothing behind."""

    def broken():
        yield a_point()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_results(tmp_path / "rows.csv", broken(), TimedSolve, MADE_WITH)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "its columns must be program, types, "),
        ("{header}\nbest,1,1,1.0,,optimal,,1,0,\n", "line 3: 'best' is not a valid Program"),
        ("{header}\npaper,1\n", "line 3: "),
        ("{header}\n", "it must have rows"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path, text, problem):
    """With its name and what is wrong."""
    path = tmp_path / "rows.csv"
    header = "# seed: 1\n" + ",".join(TimedSolve.__dataclass_fields__)
    path.write_text(text.format(header=header), encoding="utf-8")

    with pytest.raises(InputError, match=re.escape(f"{path}: {problem}")):
        draw_scalability(path, tmp_path / "figure.png")

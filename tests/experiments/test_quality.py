"""The experiment on quality, small: what its rows say, and that its claims hold."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.data_sets import BALANCED, BORG_HALVES, MIRRORED, with_trace
from experiments.figures.quality_figure import draw_quality
from experiments.pool import map_jobs
from experiments.quality import FIGURE, QualityExperiment, QualityRow, group_by_seed, run_job
from experiments.results_file import read_results
from experiments.run import ExperimentRun, RunSetting, run
from experiments.shedders import ShedderSettings
from experiments.text import RECALLS, quality_lines
from shedlight.engines.simulator.csv_rows import write_results
from shedlight.engines.simulator.shedders import Shedder
from shedlight.errors import InputError
from shedlight.graph import Stream
from tests.engines.simulator.recall_by_sets import recall_by_sets
from tests.experiments.points import PNG

SMALL = QualityExperiment(
    name="small",
    data=(BALANCED, MIRRORED),
    loads=(2.0,),
    seeds=(1, 2),
    setting=RunSetting(duration=16.0, warm_up=8.0),
)


@pytest.fixture(scope="module")
def rows():
    """Run the small experiment."""
    return tuple(row for job in SMALL.jobs for row in run_job(job))


def test_there_is_a_row_per_shedder_and_one_without_pressure(rows):
    """Six runs of each of four jobs."""
    assert len(rows) == 4 * 6
    settings = [(row.shedder.value, row.pressed) for row in rows[:6]]
    assert settings == [
        ("none", True),
        ("global", True),
        ("local", True),
        ("random", True),
        ("utility", True),
        ("global", False),
    ]


def test_loss_is_as_the_paper_has_it(rows):
    """One less the results over those of global; none for global itself."""
    for first in range(0, len(rows), 6):
        group = rows[first : first + 6]
        best = next(row for row in group if row.shedder is Shedder.GLOBAL and row.pressed)
        assert best.loss == 0
        for row in group:
            assert row.results == row.sink1 + row.sink2
            assert row.loss == pytest.approx(1 - row.results / best.results)
            assert row.unshed == group[0].results
        assert best.lost_to_pressure == group[-1].results - best.results


def test_recall_and_precision_are_what_sets_of_events_say():
    """Of each sink, after the warm-up, by the events of both runs in plain Python."""
    setting = RunSetting(duration=8.0, warm_up=1.0)
    (job,) = replace(SMALL, data=(MIRRORED,), seeds=(1,), setting=setting).jobs
    rows = {(row.shedder, row.pressed): row for row in run_job(job)}
    data = MIRRORED.draw(job.load, job.setting.duration, job.seed)

    def outputs(shedder):
        control = ShedderSettings(every=job.every)
        return run(
            data, shedder, control, job.setting, seed=job.seed, with_outputs=True
        ).outputs

    unshed = outputs(Shedder.NONE)
    assert (rows[Shedder.NONE, True].recall1, rows[Shedder.NONE, True].precision2) == (1, 1)
    for shedder in (Shedder.GLOBAL, Shedder.RANDOM):
        row, shed = rows[shedder, True], outputs(shedder)
        for sink, stream in (("1", Stream("Q31", "w3")), ("2", Stream("Q41", "w4"))):
            expected = recall_by_sets(shed, unshed, stream, setting.warm_up * 1e6)
            columns = [name.format(sink) for name in ("sink{}", "unshed{}", *RECALLS)]
            assert tuple(getattr(row, column) for column in columns) == expected
            assert 0 < expected.recall < expected.recall_by_overlap


def test_balanced_data_are_all_the_same_to_global_and_local(rows):
    """As the paper expects, and finds."""
    loss = group_by_seed(rows)["balanced", 2.0, Shedder.LOCAL, True].spread(
        lambda row: row.loss
    )

    assert loss.minimum > -0.02
    assert loss.maximum < 0.02


def test_on_skewed_data_global_finds_more(rows):
    """Local fills up with the cheap pattern, whose partners are few."""
    found = group_by_seed(rows)
    for shedder in (Shedder.LOCAL, Shedder.RANDOM, Shedder.UTILITY):
        loss = found["mirrored", 2.0, shedder, True].spread(lambda row: row.loss)
        assert loss.minimum > 0.1


def test_the_bound_is_kept_by_shedding_and_not_without(rows):
    """Busy between 0.8 and 1.0 of the limit, too."""
    for row in rows:
        if row.shedder is Shedder.NONE:
            assert row.busy > 1.5
            assert row.latency > row.bound
            assert row.over > 0.9
        elif row.pressed:
            assert 0.8 <= row.busy <= 1.0
            assert row.latency < row.bound


def test_the_same_job_gives_the_same_rows():
    """Only how long things took may differ."""
    (job,) = replace(
        SMALL, data=(BALANCED,), seeds=(1,), setting=RunSetting(duration=4, warm_up=1)
    ).jobs

    first, second = (
        [replace(row, planning_seconds=0.0, seconds=0.0) for row in run_job(job)]
        for _ in range(2)
    )

    assert first == second


def test_work_side_by_side_comes_in_the_order_of_the_jobs():
    """As it does one after the other."""
    jobs = [9.0, 4.0, 1.0, 0.0]

    assert (
        [*map_jobs(math.sqrt, jobs, processes=2)]
        == [*map_jobs(math.sqrt, jobs)]
        == [3, 2, 1, 0]
    )


def test_rows_are_read_back_and_drawn_from_the_file_alone(rows, tmp_path):
    """Marks and what is not there included."""
    path, image = tmp_path / "rows.csv", tmp_path / "figure.png"
    write_results(path, rows, QualityRow, {"seed": "1, 2"})

    assert read_results(path, QualityRow).rows == rows
    draw_quality(path, image)

    assert image.read_bytes().startswith(PNG)


def test_a_file_without_rows_or_with_other_marks_is_refused(rows, tmp_path):
    """With its name."""
    path = tmp_path / "rows.csv"
    write_results(path, (), QualityRow, {})
    with pytest.raises(InputError, match=r"rows\.csv: it must have rows"):
        draw_quality(path, tmp_path / "figure.png")
    write_results(path, rows[:1], QualityRow, {})
    path.write_text(path.read_text().replace("True", "yes"))
    with pytest.raises(InputError, match="line 2: 'yes'"):
        read_results(path, QualityRow)


def test_the_tables_name_where_global_is_not_best(rows):
    """Here it is; if it were not, that would be said."""
    lines = [*quality_lines(rows)]

    assert lines[3].split()[:4] == ["data", "set", "load", "unshed"]
    assert [line.split()[0] for line in lines[4:6]] == ["balanced", "mirrored"]
    assert lines[-1] == "`global` has at least as many results as `random` on all, within 1 %"
    worse = [replace(row, loss=-0.5) if row.shedder is Shedder.RANDOM else row for row in rows]
    assert [*quality_lines(worse)][-1] == (
        "`global` has fewer results than `random` on balanced at 2 (-50.0 %), "
        "mirrored at 2 (-50.0 %)"
    )


def test_the_figure_has_the_loads_and_seeds_that_are_asked_for():
    """Four loads and five seeds of seven data sets, two of them of the trace."""
    assert FIGURE.loads == (1.2, 1.5, 2.0, 3.0)
    assert len(FIGURE.seeds) == 5
    assert sum(data.name.startswith("borg") for data in FIGURE.data) == 2
    assert len(FIGURE.jobs) == 7 * 4 * 5


def test_the_limit_is_that_of_pollaczek_and_khinchine():
    """Exponential times of 4 ms and a bound of 100 ms: s / (1 - rho) = B, so rho = 0.96."""
    processing = np.random.default_rng(1).exponential(0.004, 1_000_000)
    none = np.zeros(0)
    done = ExperimentRun(
        setting=RunSetting(bound=0.1, warm_up=0.0),
        results={},
        starts=none,
        busy=none,
        relevant=none,
        backlog=none,
        pressure=none,
        sheds=none.astype(bool),
        arrival=np.ones(len(processing)),
        times_in_node=processing,
        processing=processing,
        replans=0,
        planning_seconds=0.0,
        seconds=0.0,
    )

    assert done.limit() == pytest.approx(0.96, abs=0.001)


def test_the_real_trace_is_shed_within_its_bound():
    """With pressure; without shedding it is not."""
    folder = Path(os.environ.get("SHEDLIGHT_DATA", "nowhere"))
    if not (folder / "borg2019").is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")
    data = with_trace((BORG_HALVES,), folder, strict=True)
    (job,) = replace(SMALL, data=data, seeds=(1,)).jobs

    by_shedder = {(row.shedder, row.pressed): row for row in run_job(job)}

    assert by_shedder[Shedder.GLOBAL, True].latency < job.setting.bound
    assert by_shedder[Shedder.NONE, True].latency > job.setting.bound
    assert (by_shedder[Shedder.GLOBAL, True].compression or 0) > 1_000

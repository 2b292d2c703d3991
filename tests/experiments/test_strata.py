"""The experiment on strata: its rows, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.strata import (
    KeyShedder,
    StrataExperiment,
    StrataRow,
    group_rows,
    rates_around_switch,
    run_job,
)
from experiments.strata_text import strata_lines

ROW = StrataRow(
    data="half",
    load=2.0,
    shedder=KeyShedder.GLOBAL,
    seed=1,
    results=60,
    unshed=100,
    kept=50,
    busy=0.9,
    before=10.0,
    after=9.0,
    replans=1,
    planning_seconds=0.0,
    seconds=0.0,
)


def test_a_job_runs_all_shedders_on_the_same_events():
    """There are levels, so `local` is one of them; the hash keeps its share of keys."""
    experiment = StrataExperiment(name="test", data=("chain",), loads=(2.0,), duration=4.0)
    rows = {row.shedder: row for row in run_job(experiment.jobs[0])}

    assert list(rows) == list(KeyShedder)
    assert len({row.unshed for row in rows.values()}) == 1
    none, hashed = rows[KeyShedder.NONE], rows[KeyShedder.HASH]
    assert none.results == none.unshed
    assert hashed.kept / none.kept == pytest.approx(0.45, abs=0.15)
    assert rows[KeyShedder.GLOBAL].kept < none.kept
    assert none.before is None


def test_results_are_compared_at_equal_work():
    """A hash with 40 results of 25 events would have had 80 of 50."""
    hashed = replace(ROW, shedder=KeyShedder.HASH, results=40, kept=25)
    random = replace(ROW, shedder=KeyShedder.RANDOM, results=48)
    ((data, load, group),) = group_rows([ROW, hashed, random])

    assert (data, load) == ("half", 2.0)
    assert group.over_hash == pytest.approx(0.75)
    assert group.over(KeyShedder.RANDOM) == pytest.approx(1.25)
    assert group.over(KeyShedder.LOCAL) is None
    assert group.left(KeyShedder.GLOBAL) == pytest.approx(0.6)
    assert group.recovered == pytest.approx(0.9)
    text = "\n".join(strata_lines([ROW, hashed, random]))
    assert "`global` over `random`: at least 1.250" in text
    assert "`local`" not in text


def test_phases_switch_in_the_middle_of_a_longer_run():
    """What is found from 20 observations after it on is compared with what was before."""
    job = StrataExperiment(name="test", data=("phases",), duration=20.0).jobs[0]
    assert (job.duration, job.warm_up) == (80.0, 20.0)

    # four per second from 20 s to 40 s, then nothing for 20 observations, then two per second
    times = np.concatenate([np.arange(20, 40, 0.25), np.arange(60, 80, 0.5)])

    assert rates_around_switch(job, times) == pytest.approx((4.0, 2.0))
    others = replace(job, data="half")
    assert rates_around_switch(others, times) == (None, None)

"""A bound by percentile holds on stationary, bursty and Borg streams, at hardly any cost."""

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.data_sets import BALANCED, BORG_HALVES, BORG_ODD_EVEN, BURSTY, with_trace
from experiments.run import RunSetting, run
from experiments.shedders import ShedderSettings
from shedlight.engines.simulator.shedders import Shedder

SETS = (BALANCED, BURSTY, BORG_HALVES)


def compare(data, load, seed, duration, shedder=Shedder.GLOBAL):
    """Give the share over a p95 of 3 s, and the results by it and by a mean of 3 s."""
    drawn = data.draw(load, duration, seed)
    results, over = {}, 0.0
    for percentile in (95, None):
        setting = RunSetting(duration=duration, percentile=percentile)
        done = run(drawn, shedder, ShedderSettings(), setting, seed=seed)
        results[percentile] = sum(map(len, done.results.values()))
        if percentile is not None:
            over = float((done.times_in_node > setting.bound + 1e-6).mean())
    return over, results[95], results[None]


@pytest.mark.parametrize("load", [1.2, 3.0])
@pytest.mark.parametrize("data", SETS, ids=lambda d: d.name)
def test_at_most_five_in_a_hundred_take_longer(data, load):
    """At any load, and with nearly the results that a bound of the mean leaves."""
    over, kept, by_mean = compare(data, load, seed=1, duration=20.0)

    assert over <= 0.05
    assert kept >= 0.9 * by_mean


def check_sets(sets):
    """Hold all data sets to it, at more loads and with more seeds."""
    for data in sets:
        for shedder in (Shedder.GLOBAL, Shedder.LOCAL, Shedder.RANDOM):
            for load in (1.2, 1.5, 2.0, 3.0):
                rows = [compare(data, load, seed, 60.0, shedder) for seed in range(5)]
                over, kept, by_mean = (np.array(column) for column in zip(*rows, strict=True))
                assert over.max() <= 0.05, (data.name, shedder, load)
                assert kept.sum() >= 0.85 * by_mean.sum(), (data.name, shedder, load)


@pytest.mark.soak
def test_it_holds_for_minutes_with_every_shedder():
    """The long version, on streams that are generated."""
    check_sets((*SETS, BORG_ODD_EVEN))


@pytest.mark.soak
def test_it_holds_on_the_borg_trace():
    """The long version, where there is a trace."""
    folder = Path(os.environ.get("SHEDLIGHT_DATA", "nowhere"))
    if not (folder / "borg2019").is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")

    check_sets(with_trace((BORG_HALVES, BORG_ODD_EVEN), folder, strict=False))

"""Streams like the Google traces: their statistics are those of the traces.

These are compared with what is stated of the traces, and, with the real ones in the folder that
SHEDLIGHT_DATA names, with what is measured there.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.borg.read import cluster_files, read_source
from shedlight.generate.borg_like import (
    CLUSTERS,
    MAX_BURST,
    BorgLike,
    burst_sizes,
    make_borg_like,
)

SEEDS = range(8)
MONTH = 31 * 24 * 60
QUANTILES = (25, 50, 75, 90, 99)
STATED = {"mean": 7.8, "median": 4, "p99": 52, "largest": 6_925}


def per_minute(times):
    """Count the events of each minute, from 0 to the last event; times in microseconds."""
    return np.bincount(times // 60_000_000)


@pytest.fixture(scope="module")
def months():
    """Draw some months; a row is the counts per minute of one."""
    drawn = (make_borg_like(BorgLike(seed=seed))["time"].to_numpy() for seed in SEEDS)
    return np.stack([padded(per_minute(times))[:MONTH] for times in drawn])


@pytest.fixture(scope="module")
def real():
    """Read the counts per minute of the real clusters; a row is a cluster."""
    folder = Path(os.environ.get("SHEDLIGHT_DATA", "nowhere"), "borg2019")
    if not folder.is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")
    traces = (read_source(folder, cluster_files([number])) for number in range(1, 9))
    return np.stack([padded(per_minute(one.events["time"].to_numpy())) for one in traces])


def padded(counts):
    """Add the minutes without events at the end; the traces last up to 9 minutes longer."""
    return np.pad(counts, (0, MONTH + 9 - len(counts)))


def test_months_are_as_bursty_as_stated(months):
    """The mean of several months is within three standard errors, or a tenth, of the trace.

    The largest minute hangs on a single burst: it is compared by its order of magnitude.
    """
    means = months.mean(axis=1)
    medians, tails = np.percentile(months, [50, 99], axis=1)

    assert_close(means, STATED["mean"])
    assert_close(medians, STATED["median"])
    assert_close(tails, STATED["p99"])
    assert STATED["largest"] / 4 <= np.median(months.max(axis=1)) <= STATED["largest"] * 4
    assert (months.max(axis=1) <= 2 * MAX_BURST).all()


def assert_close(values, stated):
    """Compare the mean over the seeds."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - stated) <= max(3 * error, stated / 10)


def test_months_are_as_bursty_as_the_real_one(months, real):
    """Quantiles, and the share of minutes without events, within a quarter or one event."""
    measured = np.percentile(real.sum(axis=0), QUANTILES)
    drawn = np.percentile(months, QUANTILES, axis=1).mean(axis=1)

    assert (np.abs(drawn - measured) <= np.maximum(1, measured / 4)).all()
    assert (months == 0).mean() == pytest.approx((real.sum(axis=0) == 0).mean(), abs=0.03)


def test_what_is_stated_is_what_is_real(real):
    """The numbers in the module and above are measured."""
    total = real.sum(axis=0)

    assert total.mean() == pytest.approx(STATED["mean"], abs=0.05)
    assert np.percentile(total, [50, 99]).tolist() == [STATED["median"], STATED["p99"]]
    assert total.max() == STATED["largest"]
    assert real.mean(axis=1) == pytest.approx([one.per_minute for one in CLUSTERS], abs=0.003)


def test_clusters_differ_as_the_real_ones(real):
    """In the share of minutes without events, to a tenth."""
    for number in range(1, 9):
        spec = (BorgLike(clusters=(number,), seed=seed) for seed in SEEDS)
        idle = [
            (padded(per_minute(make_borg_like(one)["time"].to_numpy())) == 0) for one in spec
        ]
        assert np.mean(idle) == pytest.approx((real[number - 1] == 0).mean(), abs=0.1)


def test_types_are_equally_frequent():
    """A quarter each; a binomial count is within 6 standard deviations."""
    types = make_borg_like(BorgLike(seed=3))["type"].to_numpy()

    counts = np.bincount(types)
    assert len(counts) == 4
    assert np.abs(counts - len(types) / 4).max() <= 6 * np.sqrt(len(types) * 3 / 16)


def test_a_stream_is_in_order_and_its_seed_gives_it():
    """With the columns of a trace."""
    one, same, other = (make_borg_like(BorgLike(seed=seed, days=1)) for seed in (1, 1, 2))

    times = one["time"].to_numpy()
    assert one.column_names == ["time", "id", "type", "key"]
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 24 * 3_600 * 1_000_000
    assert one == same
    assert one != other


def test_a_cluster_is_the_same_alone_and_among_others():
    """So that two sources of one seed are one world."""
    alone = make_borg_like(BorgLike(clusters=(3,), seed=1, days=2))
    among = make_borg_like(BorgLike(clusters=(2, 3), seed=1, days=2), first_id=50)

    of_three = set(alone["key"].to_pylist())
    kept = [row for row in among.to_pylist() if row["key"] in of_three]
    assert [(row["time"], row["key"]) for row in kept] == [
        (row["time"], row["key"]) for row in alone.to_pylist()
    ]
    assert among["id"].to_pylist()[0] == 50


def test_time_is_compressed():
    """A day at 1,000 times the pace is 86.4 s."""
    day = make_borg_like(BorgLike(seed=1, days=1))
    fast = make_borg_like(BorgLike(seed=1, days=1, compression=1_000))

    assert fast["time"].to_pylist() == [time // 1_000 for time in day["time"].to_pylist()]


def test_sizes_of_bursts_have_a_heavy_tail():
    """Ten times as large is about 10^1.1 times as seldom, well below the largest."""
    sizes, shares = burst_sizes()

    assert shares.sum() == pytest.approx(1)
    assert shares[sizes >= 10].sum() / shares[sizes >= 100].sum() == pytest.approx(
        10**1.1, rel=0.02
    )


@pytest.mark.parametrize("change", [{"clusters": ()}, {"clusters": (0,)}, {"clusters": (9,)}])
def test_clusters_that_are_not_there_are_refused(change):
    """There are eight."""
    with pytest.raises(ValueError, match="clusters are 1 to 8, got"):
        BorgLike(seed=1, **change)

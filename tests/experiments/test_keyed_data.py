"""The data sets of keyed streams."""

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.keyed_data import (
    DATA_SETS,
    HALF,
    PHASES,
    RARE,
    SECONDS_PER_EVENT,
    YIELDS,
    ZIPF,
    BorgFail,
    read_fails,
)
from shedlight.errors import InputError


@pytest.fixture(scope="module")
def trace():
    """Name the folder of the real trace, where there is one."""
    folder = Path(os.environ.get("SHEDLIGHT_DATA", "nowhere"))
    if not (folder / "borg2019").is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")
    return folder


def _columns(data, load=2.0, duration=200.0, seed=1):
    events = data.draw(load, duration, seed).events
    return {name: events[name].to_numpy() for name in ("time", "type", "key")}


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_load_is_what_is_asked_of_the_bottleneck(name):
    """Busy seconds per second, if nothing is shed; events come in order of time."""
    run = DATA_SETS[name].draw(2.0, 100.0, 1)
    times = run.events["time"].to_numpy()

    assert len(times) * SECONDS_PER_EVENT / 100.0 == pytest.approx(2.0, rel=0.05)
    assert np.ptp(times) / 1e6 / run.pace == pytest.approx(100.0, rel=0.05)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_same_seed_draws_the_same(name):
    """Another salt gives keys other names, and changes nothing else."""
    one, same, salted = (DATA_SETS[name].draw(1.5, 20.0, 3, salt) for salt in (0, 0, 1))

    assert one.events.equals(same.events)
    assert one.events.drop_columns(["key"]).equals(salted.events.drop_columns(["key"]))
    assert not one.events["key"].equals(salted.events["key"])


def test_keys_are_as_skewed_as_is_said():
    """The first of Zipf's has some 20 %; one of the others has half."""
    for data, least, most in ((ZIPF, 0.15, 0.25), (HALF, 0.48, 0.52)):
        _, counts = np.unique(_columns(data)["key"], return_counts=True)
        assert least < counts.max() / counts.sum() < most


def test_yields_differ_tenfold_and_change_places():
    """By the share of events that close."""
    columns = _columns(YIELDS)
    keys = np.unique(columns["key"])
    closers = np.array([columns["type"][columns["key"] == key].mean() for key in keys])
    assert np.median(closers[closers > 0.3]) == pytest.approx(0.5, abs=0.05)
    assert closers[closers < 0.3].mean() == pytest.approx(0.05, abs=0.01)

    columns = _columns(PHASES)
    is_late = columns["time"] > 100e6
    rich = np.isin(columns["key"], keys[closers > 0.3])
    shares = [columns["type"][rich & when].mean() for when in (~is_late, is_late)]
    assert shares == pytest.approx([0.5, 0.05], abs=0.02)


def test_rare_conditions_are_rare():
    """One in fifty."""
    assert _columns(RARE)["type"].mean() == pytest.approx(0.02, abs=0.005)


def test_a_trace_that_is_too_short_is_an_error(trace):
    """With what to do."""
    with pytest.raises(InputError, match="lower the load or the duration"):
        BorgFail(folder=trace).draw(100.0, 1e6, 1)


def test_a_folder_without_the_trace_is_an_error(tmp_path):
    """The file is named."""
    with pytest.raises(InputError, match=r"cluster_3\.parquet is missing"):
        read_fails(tmp_path)


def test_the_trace_has_collections_that_fail(trace):
    """Both kinds of events, in order of time, in many collections."""
    events = read_fails(trace)

    assert (np.diff(events["time"].to_numpy()) >= 0).all()
    assert set(np.unique(events["type"].to_numpy())) == {0, 1}
    assert len(np.unique(events["key"].to_numpy())) > 300

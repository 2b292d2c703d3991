"""The example under overload: its feeder, and its application."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from shedlight.engines.event_files import read_events
from shedlight.engines.tables import run_application
from shedlight.graph import load_application

EXAMPLE = Path(__file__).parent.parent / "examples" / "overload"


def _module(path):
    spec = importlib.util.spec_from_file_location(f"overload_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


feed = _module(EXAMPLE / "feed.py")


class Clock:
    """A clock that goes on when somebody sleeps, and that notes what could be seen then."""

    def __init__(self, folder):
        self.now, self.folder, self.seen = 100.0, folder, []

    def __call__(self):
        """Say how late it is."""
        return self.now

    def sleep(self, seconds):
        """Note what is there, and let time go by."""
        self.seen.append([path.name for path in self.folder.iterdir()])
        self.now += seconds


def _fed(stream, folder, duration, **options):
    clock = Clock(folder)
    files = list(feed.run(stream, folder, duration, clock=clock, sleep=clock.sleep, **options))
    return files, clock


def test_a_payment_depends_on_the_seed_and_its_number_alone():
    """Any part of the stream is the same whichever way it is made."""
    stream = feed.Feed(rate=1_000)
    whole = feed.payments(stream, 0, 5_000)
    assert feed.payments(stream, 1_234, 2_345) == whole.slice(1_234, 1_111)
    other = feed.payments(feed.Feed(rate=1_000, seed=2), 0, 5_000)
    assert other["time_us"] == whole["time_us"]
    assert np.mean(other["amount"].to_numpy() == whole["amount"].to_numpy()) < 0.01


def test_a_rate_changes_the_times_only():
    """The same payments come, faster or slower, evenly in time."""
    slow, fast = (feed.payments(feed.Feed(rate=rate), 0, 1_000) for rate in (100, 500))
    assert slow.drop_columns("time_us") == fast.drop_columns("time_us")
    assert slow["time_us"].to_pylist() == [10_000 * k for k in range(1_000)]
    assert fast["time_us"].to_pylist() == [2_000 * k for k in range(1_000)]


def test_types_have_their_shares_and_amounts_their_range():
    """A transfer is nine tenths of a deposit, so its largest is too."""
    table = feed.payments(feed.Feed(rate=1_000), 0, 100_000).to_pandas()
    for event_type, share, largest in zip(feed.TYPES, feed.SHARES, feed.LARGEST, strict=True):
        amounts = table.amount[table.kind == event_type]
        assert len(amounts) / len(table) == pytest.approx(share, abs=0.01)
        assert amounts.mean() == pytest.approx(largest / 2, rel=0.02)
        assert amounts.between(0, largest).all()


def test_a_step_changes_rate_and_shares_from_its_moment_on():
    """Before the step the stream is as it would be without it."""
    step = feed.Step(at=2.0, factor=3.0, shares=(0.0, 0.0, 1.0))
    stream = feed.Feed(rate=1_000, step=step)
    assert [stream.number_at(second) for second in (0, 1, 2, 3, 4)] == [
        0,
        1_000,
        2_000,
        5_000,
        8_000,
    ]
    table = feed.payments(stream, 0, 8_000)
    calm = feed.payments(feed.Feed(rate=1_000), 0, 2_000)
    assert table.slice(0, 2_000) == calm
    assert set(table["kind"].slice(2_000).to_pylist()) == {"transfer"}
    times = table["time_us"].to_numpy()
    assert (np.diff(times) > 0).all()
    assert times[2_000] == 2_000_000
    assert times[-1] == pytest.approx(4_000_000, abs=400)


def test_every_payment_is_in_one_file_after_it_happened(tmp_path):
    """A file has what happened in its half second, and appears at its end."""
    stream = feed.Feed(rate=1_000, step=feed.Step(at=1.3, factor=2.0))
    files, clock = _fed(stream, tmp_path / "in", 2.2)
    assert clock.now == pytest.approx(102.2)
    assert [file.count for file in files] == [500, 500, 700, 1_000, 400]
    assert read_events(tmp_path / "in") == feed.payments(stream, 0, 3_100)
    for i, file in enumerate(files):
        times = pa.parquet.read_table(file.path)["time_us"].to_numpy()
        assert i * 500_000 <= times[0]
        assert times[-1] < (i + 1) * 500_000


def test_a_feeder_goes_on_where_another_stopped(tmp_path):
    """The two of them leave no gap and repeat nothing."""
    stream = feed.Feed(rate=997)
    _fed(stream, tmp_path, 1.0)
    _fed(stream, tmp_path, 1.5, begin=1.0)
    assert read_events(tmp_path) == feed.payments(stream, 0, stream.number_at(2.5))


def test_nothing_but_complete_files_is_ever_seen(tmp_path):
    """Between two files there is nothing that is half done."""
    files, clock = _fed(feed.Feed(rate=2_000), tmp_path, 3.0)
    names = [file.path.name for file in files]
    assert [sorted(seen) for seen in clock.seen] == [names[:i] for i in range(len(names))]


def test_a_file_has_a_hidden_name_until_it_is_complete(tmp_path, monkeypatch):
    """What a feeder leaves when it dies is not read as events."""

    def fails(_, path):
        Path(path).write_bytes(b"PAR1")
        raise OSError("the disk is full")

    monkeypatch.setattr(feed.pa.parquet, "write_table", fails)
    with pytest.raises(OSError, match="disk is full"):
        _fed(feed.Feed(rate=100), tmp_path, 1.0)
    assert [path.name[0] for path in tmp_path.iterdir()] == ["."]


def test_a_feeder_that_is_behind_does_not_wait(tmp_path):
    """It catches up, and says how late each file was."""
    clock = Clock(tmp_path)
    files = feed.run(
        feed.Feed(rate=100), tmp_path, 2.0, every=0.5, clock=clock, sleep=clock.sleep
    )
    next(files)
    clock.now += 1.2
    assert [file.lag for file in files] == pytest.approx([0.7, 0.2, 0.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: feed.Feed(rate=0),
        lambda: feed.Feed(rate=1, shares=(0.5, 0.5)),
        lambda: feed.Feed(rate=1, shares=(0.5, 0.6, -0.1)),
        lambda: feed.Step(at=-1),
        lambda: feed.Step(factor=0),
    ],
)
def test_what_cannot_be_fed_is_refused(make):
    """Rates are positive, and shares are shares."""
    with pytest.raises(ValueError, match=r"must be|is at 0 s"):
        make()


def test_the_script_feeds_in_real_time(tmp_path):
    """The rate is met, and a mistake is reported as one of the call."""
    words = [sys.executable, EXAMPLE / "feed.py", tmp_path, "--rate", "5000"]
    done = subprocess.run(
        [*words, "--duration", "1"], capture_output=True, text=True, check=True
    )
    assert "5,000 payments, 5,000/s" in done.stdout
    assert len(read_events(tmp_path)) == 5_000
    bad = subprocess.run(
        [*words, "--shares", "1,1,1"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2
    assert "add up to 1" in bad.stderr


@pytest.fixture(scope="module")
def loaded():
    """Give the application and what was said about it."""
    return load_application(EXAMPLE / "app.yaml")


def test_the_application_has_no_warnings(loaded):
    """It is an example, so there is nothing to say about it."""
    assert not loaded.warnings


@pytest.fixture(scope="module")
def found(loaded):
    """Run the application over three seconds of payments."""
    stream = feed.Feed(rate=8_000)
    return run_application(
        loaded.application, {"payments": feed.payments(stream, 0, stream.number_at(3))}
    )


def test_results_are_many(found):
    """There are results at every operator, and the core loses none."""
    flows, cases = (found[name].complex_events for name in ("flows", "cases"))
    assert all(len(table) > 3_000 for table in flows.values())
    assert len(cases["Mule"]) == len(flows["Passed"]) // 2
    assert len(cases["Ring"]) == len(flows["Skimmed"]) // 8


def test_no_cap_is_reached(found):
    """No partial match is closed but by a match or its window."""
    assert all(one.evicted == one.dropped == one.late == 0 for one in found.values())


def test_a_match_is_what_its_pattern_says(found):
    """Amounts and times of matches hold against their conditions."""
    table = feed.payments(feed.Feed(rate=8_000), 0, 24_000)
    amount, time = table["amount"].to_numpy(), table["time_us"].to_numpy()
    for name, part, most in (("Passed", 1.0, 0.0003), ("Skimmed", 0.9, 0.0005)):
        matches = found["flows"].complex_events[name]
        first, second = (matches[column].to_numpy() for column in ("deposit", "payout"))
        apart, together = amount[second] - part * amount[first], amount[second] + amount[first]
        assert (np.abs(apart) < most * together).all()
        assert (time[second] - time[first] <= 6_000_000).all()
        assert len(np.unique(first)) == len(first)


def test_results_are_compared_with_those_of_the_same_payments(tmp_path, monkeypatch):
    """All that there are, sink by sink; and what is left if a sink got every other one."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    recall = importlib.import_module("recall")
    application = load_application(EXAMPLE / "app.yaml").application
    table = feed.payments(feed.Feed(rate=4_000), 0, 12_000)
    feed.write(table, tmp_path / "payments.parquet")
    done = run_application(application, {"payments": table})["cases"].complex_events

    unshed = recall.unshed_results(application, tmp_path)

    assert {name: len(found) for name, found in unshed.items()} == {
        "mules": len(done["Mule"]),
        "rings": len(done["Ring"]),
    }
    assert min(map(len, unshed.values())) > 10
    every_other = unshed["mules"].take(np.arange(0, len(unshed["mules"]), 2))
    (tmp_path / "mules").mkdir()
    feed.write(every_other, tmp_path / "mules" / "part.parquet")
    mules, rings = recall.compare_sinks(application, tmp_path, unshed).values()
    assert (mules.results, mules.same) == (len(every_other), len(every_other))
    assert mules.recall == len(every_other) / len(done["Mule"])
    assert (mules.precision, mules.precision_by_overlap) == (1, 1)
    assert (rings.results, rings.recall, rings.precision) == (0, 0, None)

"""The Google cluster traces: every public form of them is read.

The files here are small and written by the tests. With the folder of the real ones in the
environment variable SHEDLIGHT_DATA, those are read too.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from experiments.borg.files import Flaw
from experiments.borg.read import (
    CLUSTERS_BY_HALVES,
    CLUSTERS_ODD_AND_EVEN,
    GRID_2011,
    MACHINES_BY_HALVES_2011,
    FilePart,
    Reading,
    cluster_files,
    read_source,
    read_sources,
)
from tests.experiments.traces import (
    events_of,
    flaws_of,
    instance,
    write_clusters,
    write_lines,
)

ALL = (FilePart("*"),)


@pytest.fixture
def real():
    """Give the folder of the real traces."""
    folder = os.environ.get("SHEDLIGHT_DATA")
    if not folder or not Path(folder, "borg2019").is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")
    return Path(folder)


# ---------------------------------------------------------------------------------------------
# Forms of files.


def test_parquet_files_are_split_over_two_sources(tmp_path):
    """Clusters 1 to 4 and 5 to 8; each source is in order, ids are unique over both."""
    write_clusters(tmp_path)

    first, second = read_sources(tmp_path, CLUSTERS_BY_HALVES)

    assert events_of(first)[:3] == [(10, 1, 1), (20, 2, 2), (30, 3, 3)]
    assert first.events.column_names == ["time", "id", "type", "key"]
    assert first.events["time"].to_pylist() == [10, 20, 30, 40, 100, 200, 300, 400]
    assert second.events["id"].to_pylist() == list(range(8, 16))


def test_files_can_be_split_in_any_way(tmp_path):
    """Odd and even, or by a list of patterns."""
    write_clusters(tmp_path)

    odd, even = read_sources(tmp_path, CLUSTERS_ODD_AND_EVEN)
    some = read_source(tmp_path, (FilePart("cluster_[78].parquet"), *cluster_files([1])))

    assert odd.events["time"].to_pylist()[:4] == [10, 30, 50, 70]
    assert even.events["time"].to_pylist()[:4] == [20, 40, 60, 80]
    assert some.events["time"].to_pylist() == [10, 70, 80, 100, 700, 800]


@pytest.mark.parametrize("name", ["a/instance_events-0.json.gz", "a/instance_events-0.json"])
def test_json_lines_of_2019_are_read(tmp_path, name):
    """As they are in the public buckets, a folder per cell."""
    write_lines(tmp_path / name, instance(30, 6), instance(20, 5, 6))

    trace = read_source(tmp_path, (FilePart("a/instance_events-*"),))

    assert events_of(trace) == [(20, 1, 5), (30, 2, 6)]


def test_the_public_sample_is_read_by_its_column_of_clusters(tmp_path):
    """It has arrays over two lines and machines that are written as floats."""
    write_lines(
        tmp_path / "borg_traces_data.csv",
        ",time,instance_events_type,machine_id,cpu_usage_distribution,cluster,event",
        '0,0,2,10,"[1\n 2]",1,FAIL',
        '1,50,3,11.0,"[1\n 2]",1,FINISH',
        '2,40,3,12,"[1\n 2]",2,SCHEDULE',
        '3,30,3,390182758345,"[]",3,LOST',
    )
    part = FilePart("borg_traces_data.csv", clusters=(1, 3))

    trace = read_source(tmp_path, (part,))

    assert events_of(trace) == [(30, 1, 390182758345), (50, 3, 11)]
    assert flaws_of(trace) == [("borg_traces_data.csv", 1, Flaw.BEFORE)]


def test_task_events_of_2011_are_read_without_names(tmp_path):
    """13 fields; a task that only waits has no machine."""
    write_lines(
        tmp_path / "task_events" / "part-00000-of-00500.csv.gz",
        "600000000,,3418309,0,4155527081,1,user,3,9,0.1,0.07,0.0004,0",
        "700000000,2,3418309,1,,0,user,3,9,,,,0",
    )

    trace = read_source(tmp_path, (FilePart("task_events/*"),))

    assert events_of(trace) == [(600_000_000, 1, 4155527081)]
    assert flaws_of(trace) == [("task_events/part-00000-of-00500.csv.gz", 2, Flaw.NO_MACHINE)]


def test_task_usage_of_2011_is_read_with_its_cpu(tmp_path):
    """20 fields; the first is the start of the measurement, the sixth the CPU rate."""
    row = "600000000,900000000,3418309,0,{},{}" + ",0" * 14
    write_lines(tmp_path / "task_usage.csv", row.format(5, 0.25), row.format(6, ""))

    trace = read_source(tmp_path, ALL)

    assert events_of(trace) == [(600_000_000, 1, 5), (600_000_000, 2, 6)]
    assert trace.events["cpu"].to_pylist()[0] == 0.25
    assert np.isnan(trace.events["cpu"].to_pylist()[1])


# ---------------------------------------------------------------------------------------------
# Types and times.


def test_types_are_the_machine_modulo_a_number(tmp_path):
    """4 if not said otherwise."""
    write_lines(tmp_path / "a.json", instance(1, 10), instance(2, 11))

    four = read_source(tmp_path, ALL)
    three = read_source(tmp_path, ALL, Reading(types=3))

    assert four.events["type"].to_pylist() == [2, 3]
    assert three.events["type"].to_pylist() == [1, 2]


def test_time_is_compressed(tmp_path):
    """All sources alike: they stay in step."""
    write_clusters(tmp_path)

    first, second = read_sources(tmp_path, CLUSTERS_BY_HALVES, Reading(compression=10))

    assert first.events["time"].to_pylist() == [1, 2, 3, 4, 10, 20, 30, 40]
    assert second.events["time"].to_pylist() == [5, 6, 7, 8, 50, 60, 70, 80]


def write_grid(folder, machines=2_000):
    """Write an hour of 2011: all machines report at 0 and at 5 minutes."""
    times = np.repeat([0, GRID_2011], machines)
    names = np.tile(np.arange(1, machines + 1), 2)
    table = pa.table({"time_us": times, "machine_id": names, "cpu": np.full(len(times), 0.5)})
    pyarrow.parquet.write_table(table, folder / "machine_cpu_hour.parquet")


def test_a_grid_is_spread_inside_its_intervals(tmp_path):
    """A machine is at the same place in each; in each tenth there is about a tenth of them.

    Of 2,000 machines, 200 with a standard deviation of 13.4; 5 of these are 67.
    """
    write_grid(tmp_path)

    trace = read_source(tmp_path, ALL, Reading(grid=GRID_2011))

    times, machines = (trace.events[name].to_numpy() for name in ("time", "key"))
    assert not trace.flaws
    assert (np.diff(times) >= 0).all()
    first, second = times[:2_000], times[2_000:]
    assert first[np.argsort(machines[:2_000])].tolist() == (
        (second - GRID_2011)[np.argsort(machines[2_000:])].tolist()
    )
    counts, _ = np.histogram(first, 10, (0, GRID_2011))
    assert np.abs(counts - 200).max() <= 67


def test_machines_are_split_over_two_sources(tmp_path):
    """Each is in one of them; about a half: 1,000 with a standard deviation of 22.4."""
    write_grid(tmp_path)

    first, second = read_sources(tmp_path, MACHINES_BY_HALVES_2011, Reading(grid=GRID_2011))

    one, other = (set(trace.events["key"].to_pylist()) for trace in (first, second))
    assert not one & other
    assert len(one | other) == 2_000
    assert abs(len(one) - 1_000) <= 5 * 22.4


# ---------------------------------------------------------------------------------------------
# The real traces.


def test_the_real_2019_traces_are_read_without_a_flaw(real):
    """349,420 events in eight clusters, four types of equal shares to a hundredth."""
    traces = read_sources(real / "borg2019", CLUSTERS_BY_HALVES, Reading(strict=True))

    types = np.concatenate([trace.events["type"].to_numpy() for trace in traces])
    assert [len(trace.events) for trace in traces] == [185_754, 163_666]
    assert np.bincount(types) / len(types) == pytest.approx([0.25] * 4, abs=0.01)


def test_the_real_2011_hour_is_spread(real):
    """All 149,283 measurements of 12 intervals; no second has more than 1% of an interval."""
    reading = Reading(grid=GRID_2011, strict=True)
    traces = read_sources(real / "borg2011", MACHINES_BY_HALVES_2011, reading)

    times = np.concatenate([trace.events["time"].to_numpy() for trace in traces])
    assert len(times) == 149_283
    assert np.bincount(times // 1_000_000).max() < 124

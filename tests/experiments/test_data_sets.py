"""The data sets of the experiments: loads, excerpts of a trace, and their descriptions."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from experiments.data_sets import (
    BALANCED,
    BORG_HALVES,
    BORG_ODD_EVEN,
    BURSTY,
    EXAMPLE,
    MIRRORED,
    SPARSE,
    STEPS,
    describe_data_sets,
    with_trace,
)
from experiments.running_example import SERVICE, capacity
from shedlight.errors import InputError

EVERY = (BALANCED, MIRRORED, EXAMPLE, SPARSE, BURSTY, STEPS, BORG_HALVES, BORG_ODD_EVEN)
Q21, Q22 = SERVICE.seconds.values()


@pytest.fixture(scope="module")
def trace():
    """Read the real trace, where there is one."""
    folder = Path(os.environ.get("SHEDLIGHT_DATA", "nowhere"))
    if not (folder / "borg2019").is_dir():
        pytest.skip("SHEDLIGHT_DATA does not name a folder with borg2019 in it")
    return folder


def asked(drawn, duration):
    """Say how busy the bottleneck would be with all of source 2."""
    counts = np.bincount(drawn.tables["s2"]["type"].to_numpy(), minlength=4)
    return (Q21 * counts[[0, 1]].sum() + Q22 * counts[[1, 2, 3]].sum()) / duration


@pytest.mark.parametrize(
    "data", [one for one in EVERY if one is not BURSTY], ids=lambda d: d.name
)
@pytest.mark.parametrize("load", [1.2, 3.0])
def test_a_load_is_what_it_says(data, load):
    """Of steps too, whose factors have a mean of 1."""
    assert asked(data.draw(load, 40.0, 1), 40.0) == pytest.approx(load, rel=0.06)


def test_bursts_have_the_load_on_average():
    """In a minute there are three of them, more or less."""
    loads = [asked(BURSTY.draw(2.0, 100.0, seed), 100.0) for seed in range(20)]

    assert sum(loads) / len(loads) == pytest.approx(2.0, rel=0.1)
    assert max(loads) > 1.1 * min(loads)


@pytest.mark.parametrize("data", EVERY, ids=lambda d: d.name)
def test_streams_are_in_order_from_zero_on_with_ids_apart(data):
    """And the same seed gives the same streams, another gives others."""
    drawn, again, other = (data.draw(2.0, 20.0, seed) for seed in (1, 1, 2))

    for name, table in drawn.tables.items():
        times = table["time"].to_numpy()
        assert (np.diff(times) >= 0).all()
        assert times[0] >= 0
        assert times[-1] < 20e6
        assert table.equals(again.tables[name])
        assert not table.equals(other.tables[name])
    first, second = (set(table["id"].to_pylist()) for table in drawn.tables.values())
    assert not first & second
    assert (drawn.compression is None) == (not data.name.startswith("borg"))


def test_a_piece_of_a_trace_has_both_sources_of_the_same_time(tmp_path):
    """Source 1 has an event every second, source 2 two: compressed, that stays so."""
    for number in range(1, 9):
        gap = 1_000_000 if number <= 4 else 500_000
        times = np.arange(1, 4_001) * gap * 4 + number
        columns = {"time_us": times, "machine_id": np.arange(1, 4_001)}
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"cluster_{number}.parquet")
    (halves,) = with_trace((BORG_HALVES,), tmp_path, strict=False)

    drawn = halves.draw(1.0, 10.0, 3)

    sizes = [len(table) for table in drawn.tables.values()]
    assert sizes[1] == round(capacity((0.25,) * 4) * 10)
    assert sizes[0] == pytest.approx(sizes[1] / 2, abs=8)
    assert drawn.compression == pytest.approx(1_250 / 10, rel=0.01)


def test_a_trace_that_is_too_short_is_refused(tmp_path):
    """With how much there is and how much it takes."""
    for number in range(1, 9):
        columns = {"time_us": [10 * number], "machine_id": [number]}
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"cluster_{number}.parquet")
    (halves,) = with_trace((BORG_HALVES,), tmp_path, strict=False)

    with pytest.raises(
        InputError, match="source 2 has 4 events, and a load of 2 for 10 s takes"
    ):
        halves.draw(2.0, 10.0, 1)


def test_the_public_sample_is_split_by_its_column(tmp_path):
    """One file with all clusters; what is malformed is counted and named."""
    lines = ["time,machine_id,cluster,event"]
    lines += [f"{10 * number},{100 + number},{number},FAIL" for number in range(1, 9)]
    lines += ["0,7,1,FAIL", "50,,5,FAIL"]
    (tmp_path / "borg_traces_data.csv").write_text("\n".join(lines) + "\n")

    halves = replace(BORG_HALVES, folder=tmp_path)

    assert [len(one.events) for one in halves.traces()] == [4, 4]
    assert describe_data_sets((BALANCED, halves)) == (
        "borg-halves: 8 events of the trace; malformed rows left out: 2",
        "  has time 0: it was so before the trace began: 1",
        "  has no machine: 1",
        "  borg_traces_data.csv: row 9 has time 0: it was so before the trace began",
        "  borg_traces_data.csv: row 10 has no machine",
    )
    (strict,) = with_trace((BORG_HALVES,), tmp_path, strict=True)
    with pytest.raises(InputError, match="row 9 has time 0"):
        describe_data_sets((strict,))


def test_that_something_stands_in_is_said():
    """Nobody should take it for the trace."""
    assert describe_data_sets((BALANCED, BORG_HALVES)) == (
        "borg-halves: streams like the trace stand in; --data reads the trace",
    )


def test_the_real_trace_is_cut_anywhere(trace):
    """Its load is exact, for a piece is as long as it takes."""
    data = with_trace((BORG_HALVES, BORG_ODD_EVEN), trace, strict=True)

    for one in data:
        drawn = [one.draw(3.0, 60.0, seed) for seed in (1, 2)]
        assert [asked(piece, 60.0) for piece in drawn] == pytest.approx([3.0, 3.0], rel=0.03)
        assert drawn[0].compression != drawn[1].compression
        assert 2_000 < (drawn[0].compression or 0) < 60_000
    assert "malformed rows left out: 0" in describe_data_sets(data)[0]

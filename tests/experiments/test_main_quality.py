"""`python -m experiments quality`, `latency` and `all`: what they print, with which status."""

import json
import re
import sys
from dataclasses import replace
from typing import NamedTuple

import pytest

from experiments import __main__ as experiments_main
from experiments import latency, quality
from experiments.data_sets import BALANCED, BORG_HALVES, STEPS
from experiments.latency import STEADY_STATE, LatencyExperiment
from experiments.quality import QualityExperiment, QualityRow
from experiments.results_file import read_results
from experiments.run import RunSetting
from tests.experiments.points import PNG, TINY
from tests.experiments.traces import write_lines

SMALL = QualityExperiment(
    name="small",
    data=(BALANCED, BORG_HALVES),
    loads=(2.0,),
    seeds=(1,),
    setting=RunSetting(duration=4.0, warm_up=2.0),
)
BRIEF = LatencyExperiment(
    name="brief",
    data=(STEPS,),
    timeline=RunSetting(duration=4.0, warm_up=1.0),
    loads=(2.0,),
    steady_state=replace(STEADY_STATE, duration=10.0, warm_up=5.0),
    seeds=(1,),
)


class Done(NamedTuple):
    """What a call did."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def reproduce(capsys, monkeypatch):
    """Run `python -m experiments` on small experiments, in this process."""
    monkeypatch.setattr(experiments_main, "QUICK", TINY)
    monkeypatch.setattr(quality, "QUICK", SMALL)
    monkeypatch.setattr(latency, "QUICK", BRIEF)

    def run(*arguments):
        call = ["experiments", *map(str, arguments), "--quick"]
        monkeypatch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as stopped:
            experiments_main.main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    return run


def test_quality_says_what_stood_in_and_prints_its_tables(reproduce, tmp_path):
    """Where the files are is on standard error."""
    done = reproduce("quality", "--output", tmp_path, "--jobs", 1)

    lines = done.stdout.splitlines()
    assert lines[0] == "borg-halves: streams like the trace stand in; --data reads the trace"
    assert any(line.startswith("balanced ") for line in lines)
    assert any(line.startswith("borg-halves ") for line in lines)
    csv, png = tmp_path / "small.csv", tmp_path / "small.png"
    assert re.fullmatch(rf"small: 12 rows in \d+ s -> {csv}, {png}\n", done.stderr)
    assert png.read_bytes().startswith(PNG)
    assert done.status == 0
    read = read_results(csv, QualityRow)
    assert read.made_with["trace"] == "streams like it"
    assert {"seed", "shedlight", "highspy", "numpy", "python"} <= set(read.made_with)


def test_latency_prints_both_parts_and_names_all_files(reproduce, tmp_path):
    """The timelines, and the steady state."""
    done = reproduce("latency", "--output", tmp_path, "--jobs", 1)

    assert "Over 4 s, with a bound of 3 s on average" in done.stdout
    assert "A stationary stream and a bound of 0.1 s" in done.stdout
    names = ["brief-steady-state.csv", "brief-steady-state.png", "brief.csv", "brief.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all(name in done.stderr for name in names)
    assert done.status == 0


def test_all_runs_all_three_and_is_one_object_in_json(reproduce, tmp_path):
    """With the rows of all of them."""
    done = reproduce("all", "--output", tmp_path, "--jobs", 1, "--json")

    printed = json.loads(done.stdout)
    assert list(printed) == ["quality", "latency", "scalability"]
    assert len(printed["quality"]["rows"]) == 12
    assert printed["quality"]["rows"][0]["shedder"] == "none"
    assert len(printed["latency"]["steady_state"]) == 3
    assert len(printed["scalability"]["rows"]) == 56
    assert done.status == 0


def test_malformed_rows_of_a_trace_are_counted_and_named(reproduce, tmp_path):
    """And are an error only if that is asked for."""
    rows = [f"{1000 * i},{i},{1 + i % 8},FAIL" for i in range(1, 20_000)]
    rows[3] = "4000,,5,FAIL"
    write_lines(tmp_path / "borg_traces_data.csv", "time,machine_id,cluster,event", *rows)
    where = ("quality", "--output", tmp_path, "--jobs", 1, "--data", tmp_path)

    done = reproduce(*where)
    strict = reproduce(*where, "--strict")

    assert done.stdout.splitlines()[:3] == [
        "borg-halves: 19,998 events of the trace; malformed rows left out: 1",
        "  has no machine: 1",
        "  borg_traces_data.csv: row 4 has no machine",
    ]
    assert done.status == 0
    assert strict.status == 1
    assert "borg_traces_data.csv: row 4 has no machine" in strict.stderr


def test_a_folder_without_the_trace_is_said_before_anything_is_run(reproduce, tmp_path):
    """One sentence, status 1."""
    done = reproduce("all", "--data", tmp_path / "nowhere", "--output", tmp_path)

    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == (
        f"experiments: {tmp_path / 'nowhere'}: there is no such folder; docs/reproduce.md says "
        "what to get\n"
    )

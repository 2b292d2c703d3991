"""The examples: their events, matches, plans and simulations, and what their pages say of them.

The matches are held against the slow reference, key by key, and some against a few lines of
plain Python that know nothing of patterns. The patterns of the comparison are read, too.
"""

import csv
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shedlight.cli.main import main
from shedlight.engines.event_files import read_events
from shedlight.graph import load_application
from shedlight.language import parse_pattern
from tests.reference import Event, match, selected

ROOT = Path(__file__).parents[1]
EXAMPLES = ("cluster", "fraud", "sensors")
EVENTS, SEED = 20_000, 1
TIMES = {"cluster": "time_us", "fraud": "time_ms", "sensors": "time"}
IDS = {"cluster": "event_id", "fraud": "payment", "sensors": "reading"}
COMPARISON = (ROOT / "docs" / "comparison.md").read_text("utf-8")


@pytest.fixture(scope="module", params=EXAMPLES)
def folder(request, tmp_path_factory):
    """Copy an example and make its events."""
    there = tmp_path_factory.mktemp("examples") / request.param
    shutil.copytree(ROOT / "examples" / request.param, there)
    generator(request.param)["write"](there / "data", EVENTS, SEED)
    return there


@pytest.fixture
def shell(capfd, monkeypatch):
    """Run a command in a folder: ours in this process, others in a shell."""

    def run(command, folder):
        words = shlex.split(command)
        if words[0] not in {"shedlight", "python"}:
            there = ["/bin/sh", "-c", command]
            return subprocess.run(
                there, cwd=folder, capture_output=True, text=True, check=True
            ).stdout
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", words if words[0] == "shedlight" else words[1:])
        capfd.readouterr()
        if words[0] == "python":
            runpy.run_path(words[1], run_name="__main__")
        else:
            with pytest.raises(SystemExit) as stopped:
                main()
            assert not stopped.value.code
        return capfd.readouterr().out

    return run


def generator(example):
    """Load a generator without running it."""
    return runpy.run_path(str(ROOT / "examples" / example / "generate.py"))


def frame(folder):
    """Read the events that were generated, with their time in microseconds as `at`."""
    events = read_events(next((folder / "data").iterdir())).to_pandas()
    times = events[TIMES[folder.name]]
    micros = times.astype("datetime64[us]") if folder.name == "sensors" else times
    events["at"] = micros.astype(int) * (1_000 if folder.name == "fraud" else 1)
    if folder.name == "sensors":
        events["state"] = np.select(
            [
                (events.sensor == "temperature") & (events.value > 75),
                (events.sensor == "vibration") & (events.value > 4.5),
            ],
            ["hot", "shaking"],
            events.sensor,
        )
    return events.sort_values(["at", IDS[folder.name]], kind="stable")


def rows_of(folder):
    """Read the expected matches by pattern."""
    found = defaultdict(list)
    with (folder / "expected.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found[row["pattern"]].append(row)
    return found


def taken(rows):
    """Give the time and the ids of the events of matches, in order."""
    return sorted((micros(row["time"]), tuple(json.loads(row["events"]))) for row in rows)


def micros(text):
    """Read a time, in microseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


# ---------------------------------------------------------------------------------------------
# Events.


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_generator_makes_as_many_events_as_are_asked_for_and_the_same_by_seed(example):
    """Ids are distinct; another seed makes others."""
    made = generator(example)
    make = next(made[name] for name in made if name.startswith("make_"))
    one, same, other = make(5_000, 3), make(5_000, 3), make(5_000, 4)
    assert one.equals(same)
    assert not one.equals(other)
    assert len(one) == 5_000
    assert len(set(one[IDS[example]].to_pylist())) == 5_000


@pytest.mark.parametrize("example", ["cluster", "sensors"])
def test_events_come_in_order(example):
    """Those of payments are late by design, and none so late as to be lost."""
    made = generator(example)
    make = next(made[name] for name in made if name.startswith("make_"))
    times = make(5_000, 3)[TIMES[example]].to_pylist()
    assert times == sorted(times)


def test_payments_are_late_by_less_than_is_allowed():
    """The application allows for half a second."""
    times = generator("fraud")["make_payments"](5_000, 3)["time_ms"].to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() < 500


# ---------------------------------------------------------------------------------------------
# Matches.


def test_the_matches_are_as_expected(folder, shell):
    """To the byte."""
    shell("shedlight match app.yaml --output again.csv", folder)
    assert (folder / "again.csv").read_bytes() == (folder / "expected.csv").read_bytes()


def test_nothing_is_late_or_beyond_a_cap(folder, monkeypatch, capsys):
    """Losses would be reported."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["shedlight", "match", "app.yaml", "--limit", "1"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if "compiling" not in line]) == 1


def test_the_reference_finds_the_expected_matches(folder):
    """Key by key, also those of operators that read complex events; and what is selected."""
    application = load_application(folder / "app.yaml").application
    expected = rows_of(folder)
    events = source_events(folder)
    checked = set()
    for spec in application.operators.values():
        reads_source = spec.inputs[0].operator is None
        names = [stream.name for stream in spec.inputs]
        offered = events if reads_source else complex_events(names, expected)
        for name, pattern in spec.patterns.items():
            (key,) = (one.column for one in pattern.partition_by)
            found = matches_by_key(pattern, offered, key)
            assert sorted((m.time, ids(m)) for m in found) == taken(expected[name]), name
            values = {(m.time, ids(m)): selected(pattern, m) for m in found}
            assert_selected(values, expected[name])
            checked.add(name)
    assert checked == set(expected)


def source_events(folder):
    """Give the events of the source to the reference."""
    name = IDS[folder.name]
    columns = frame(folder).astype(object).where(lambda one: one.notna(), None)
    return [
        Event(int(row["at"]), 0, (int(row[name]),), row) for row in columns.to_dict("records")
    ]


def complex_events(names, expected):
    """Give the complex events of patterns to the reference, numbers as numbers."""
    found = [
        Event(
            micros(row["time"]),
            names.index(name),
            (row["id"],),
            {"source": name}
            | {column: number_or_text(row[column]) for column in row}
            | {"time": micros(row["time"])},
        )
        for name in names
        for row in expected[name]
    ]
    return sorted(found, key=lambda event: (event.time, event.input, event.id))


def number_or_text(text):
    """Read what a cell of a CSV file holds."""
    try:
        return float(text)
    except ValueError:
        return text or None


def matches_by_key(pattern, events, key):
    """Match the events of each key by themselves, as PARTITION BY says."""
    by_key = defaultdict(list)
    for event in events:
        by_key[event.values[key]].append(event)
    return [one for group in by_key.values() for one in match(pattern, group)]


def ids(found):
    """Give the ids of the events of a match."""
    return tuple(event.id[0] for event in found.events)


def assert_selected(values, rows):
    """Compare what is selected with the columns of the file."""
    for row in rows:
        wanted = values[micros(row["time"]), tuple(json.loads(row["events"]))]
        for name, value in wanted.items():
            got = number_or_text(row[name])
            if isinstance(value, str):
                assert got == value, name
            else:
                assert got == pytest.approx(float(value)), name


@pytest.mark.parametrize("folder", ["cluster"], indirect=True)
def test_lost_tasks_are_those_evicted_and_not_placed_again(folder):
    """Without patterns: is there a placement of the task in the 15 s after?"""
    events = frame(folder)
    placed = events[events.event == "SCHEDULE"].groupby("task")["at"].apply(list).to_dict()
    lost = [
        (one.at + 15_000_000, (one.event_id,))
        for one in events[events.event == "EVICT"].itertuples()
        if not any(one.at <= at <= one.at + 15_000_000 for at in placed.get(one.task, []))
    ]
    assert sorted(lost) == taken(rows_of(folder)["Lost"])


@pytest.mark.parametrize("folder", ["cluster"], indirect=True)
def test_no_task_finishes_between_the_failures_of_a_crash_loop(folder):
    """Nor are they of different machines, or more than 30 s apart."""
    events = frame(folder).set_index("event_id")
    finished = events[events.event == "FINISH"].groupby("machine")["at"].apply(list).to_dict()
    for row in rows_of(folder)["CrashLoop"]:
        three = events.loc[json.loads(row["events"])]
        begin, end = three["at"].iloc[0], three["at"].iloc[-1]
        assert set(three.event) == {"FAIL"}
        assert len(set(three.machine)) == 1
        assert end - begin <= 30_000_000
        assert not any(begin < at < end for at in finished.get(three.machine.iloc[0], []))


@pytest.mark.parametrize("folder", ["fraud"], indirect=True)
def test_two_countries_are_found_by_a_plain_loop(folder):
    """The oldest payment of the last three minutes that was elsewhere, each used once."""
    found = []
    payments = frame(folder).query("in_shop")
    for _, of_card in payments.groupby("card"):
        waiting: list[Any] = []
        for one in of_card.itertuples():
            waiting = [w for w in waiting if one.at - w.at <= 180_000_000]
            partner = next((w for w in waiting if w.country != one.country), None)
            if partner:
                waiting.remove(partner)
                found.append((one.at, (partner.payment, one.payment)))
            else:
                waiting.append(one)
    assert sorted(found) == taken(rows_of(folder)["TwoCountries"])


@pytest.mark.parametrize("folder", ["fraud"], indirect=True)
def test_probing_sums_the_small_payments(folder):
    """What is reported can be recomputed from the payments that it names."""
    amounts = frame(folder).set_index("payment")["amount"]
    for row in rows_of(folder)["Probing"]:
        *small, big = amounts.loc[json.loads(row["events"])]
        assert max(small) < 2
        assert big > max(400, 300 * small[-1])
        assert int(row["probes"]) == len(small) >= 3
        assert float(row["probed"]) == pytest.approx(sum(small))


@pytest.mark.parametrize("folder", ["sensors"], indirect=True)
def test_machines_are_silent_where_heartbeats_are_far_apart(folder):
    """And after their last heartbeat, as the file ends there."""
    beats = frame(folder).query("sensor == 'heartbeat'")
    silent = []
    for _, of_machine in beats.groupby("machine"):
        times, numbers = of_machine["at"].tolist(), of_machine["reading"].tolist()
        gaps = [after - before for before, after in pairwise(times)] + [np.inf]
        silent += [
            (at + 25_000_000, (number,))
            for at, number, gap in zip(times, numbers, gaps, strict=True)
            if gap > 25_000_000
        ]
    assert sorted(silent) == taken(rows_of(folder)["Silent"])
    assert len(silent) > len(set(beats.machine))


@pytest.mark.parametrize("folder", ["sensors"], indirect=True)
def test_aggregates_are_those_of_the_readings(folder):
    """COUNT, FIRST and MAX, recomputed."""
    values = frame(folder).set_index("reading")["value"]
    for row in rows_of(folder)["Overheating"]:
        *hot, shaking = values.loc[json.loads(row["events"])]
        assert int(row["hot_readings"]) == len(hot) >= 3
        assert min(hot) > 75
        assert shaking > 4.5
        reported = [float(row[name]) for name in ("first_temperature", "peak", "vibration")]
        assert reported == pytest.approx([hot[0], max(hot), shaking])


# ---------------------------------------------------------------------------------------------
# Checks, plans and simulations.


def test_the_application_is_understood_without_a_warning(folder, shell):
    """Each has a bound on some node and none on another."""
    said = shell("shedlight check app.yaml", folder)
    assert "\nno warnings\n" in said
    assert "bound 2 s" in said
    assert "no bound, sheds nothing" in said


def test_a_plan_keeps_every_limit(folder, shell):
    """The node with a bound is asked for about twice what it can do."""
    said = json.loads(shell("shedlight plan app.yaml --snapshot snapshot.json --json", folder))
    assert said["status"] == "optimal"


def test_the_bound_is_missed_without_shedding(folder, shell):
    """At twice what the node can do; that shedding keeps it, the page of the example says."""
    command = "shedlight simulate app.yaml --load 2 --snapshot snapshot.json --seed 1"
    said = json.loads(shell(f"{command} --shedder none --duration 60s --json", folder))
    (node,) = (one for one in said["nodes"].values() if one["bound"])
    assert node["asked"] == pytest.approx(2, rel=0.02)
    assert node["mean"] > node["bound"]


# ---------------------------------------------------------------------------------------------
# Pages.


def test_the_page_shows_what_is_printed(folder, shell):
    """Every command of it, in a fresh copy; `...` stands for lines that are left out."""
    text = (folder / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    assert len(commands) == 6
    for one in commands:
        command, _, shown = one.partition("\n")
        printed = without_chance(shell(command, folder))
        assert re.fullmatch(as_expression(without_chance(shown)), printed), printed
    assert re.search("keeps its bound of 2 s on average", block)


def without_chance(text):
    """Leave out how long a plan took, and how far `uniq` indents."""
    untimed = re.sub(r"solved in \S+ m?s", "", text)
    return re.sub(r"^ +(?=\d+ \")", "", untimed, flags=re.MULTILINE)


def as_expression(shown):
    """Let `...` on a line of its own stand for any lines."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    return "(?:.*\n)*".join(map(re.escape, parts))


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_fits_a_screen(example):
    """Seventy lines, and no line too wide for it."""
    lines = (ROOT / "examples" / example / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 130


def patterns_of_the_comparison():
    """Find the patterns of the page: in its blocks, and in cells that begin with SELECT."""
    blocks = re.findall(r"```\n(SELECT .*?)```", COMPARISON, re.DOTALL)
    return blocks + re.findall(r"`(SELECT [^`]+)`", COMPARISON)


@pytest.mark.parametrize("text", patterns_of_the_comparison())
def test_every_pattern_of_the_comparison_is_understood(text):
    """Without a warning, too."""
    assert not parse_pattern(text).warnings


def test_the_comparison_has_patterns():
    """So that the test above cannot pass by finding none."""
    assert len(patterns_of_the_comparison()) >= 20


SCRIPTS = [*(ROOT / "examples").glob("*/*.py"), *(ROOT / "scripts").glob("*.py")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_script_imports_is_there(script, monkeypatch):
    """It is read, and not run."""
    monkeypatch.syspath_prepend(str(script.parent))
    before = set(sys.modules)
    try:
        runpy.run_path(str(script), run_name="imported")
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(script.parent)):  # others may have one of that name
                del sys.modules[name]

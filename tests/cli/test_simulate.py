"""`shedlight simulate`: what it prints and writes, and what it says when it cannot."""

import json
import runpy
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from experiments.results_file import read_results
from shedlight.cli.main import main
from shedlight.control.planning_input import PlanningInput, planning_input_text
from shedlight.engines.event_files import read_events
from shedlight.engines.simulator.scenario_run import NodeRow, SinkRow
from shedlight.graph import load_application
from shedlight.model.snapshot_file import read_snapshot
from shedlight.page.report import report_page
from shedlight.runlog.aggregate import run_totals
from shedlight.runlog.follow import read_run
from shedlight.runlog.records import MicroBatchRecord

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "paper"
APP, SNAPSHOT = EXAMPLE / "app.yaml", EXAMPLE / "snapshot.json"
QUICK = ("--stream", "balanced", "--snapshot", SNAPSHOT, "--duration", "20 s")
FILES = {"nodes.csv", "sinks.csv", "decisions.jsonl", "latency.parquet", "simulation.png"}
FILES |= {"log.jsonl"}


class Done(NamedTuple):
    """What a call did."""

    status: int
    output: str
    errors: str


@pytest.fixture
def simulate(capsys, monkeypatch):
    """Run `shedlight simulate` on the paper's example as the shell would."""

    def run(*arguments, app=APP):
        words = ["shedlight", "simulate", app, *arguments]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        monkeypatch.chdir(ROOT)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        output, errors = capsys.readouterr()
        said = errors.splitlines(keepends=True)
        errors = "".join(line for line in said if not line.startswith("compiling the matcher"))
        return Done(int(stopped.value.code or 0), output, errors)

    return run


def _app(folder, *changes):
    text = APP.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "app.yaml"
    path.write_text(text)
    return path


def test_the_examples_of_the_docs_are_what_is_printed(simulate):
    """With the very options that stand there; of the second the beginning is shown."""
    text = (ROOT / "docs" / "simulating.md").read_text()
    first, second = (line.split() for line in text.splitlines() if line.startswith("    shedl"))
    _, whole, _, beginning, _ = text.split("```\n")
    for command in (first, second):
        assert command[:3] == ["shedlight", "simulate", "examples/paper/app.yaml"]
    assert simulate(*first[3:]).output == whole
    assert simulate(*second[3:]).output.startswith(beginning)


@pytest.mark.parametrize("shedder", ["global", "local", "random", "utility"])
def test_every_shedder_keeps_the_bound_and_nothing_does_not(simulate, shedder):
    """At twice what the node can do; the counts of events add up."""
    done = simulate(*QUICK, "--shedder", shedder, "--json")
    value = json.loads(done.output)
    edge = value["nodes"]["edge-2"]
    assert edge["asked"] == pytest.approx(2.0, rel=0.02)
    assert edge["mean"] <= edge["bound"] == 3
    assert edge["mean"] == pytest.approx(edge["queueing"] + edge["processing"])
    assert edge["p95"] <= edge["p99"]
    for counts in value["operators"].values():
        assert counts.pop("arrived") == sum(counts.values())
    assert all(sink["results"] <= sink["unshed"] for sink in value["sinks"].values())


def test_without_shedding_all_is_found_and_the_bound_is_missed(simulate):
    """The queue grows and grows."""
    done = simulate(*QUICK, "--shedder", "none", "--load", "3")
    assert "edge-2 MISSES its bound of 3 s on average" in done.output
    assert done.output.count("100.0%") == 10  # five measures of two sinks


P95 = ("{bound: 3 s}", "{bound: {p95: 500 ms}}")


def test_a_bound_by_percentile_is_judged_by_the_events_that_took_longer(simulate, tmp_path):
    """With the share that was shed, and what was not admitted."""
    app = _app(tmp_path, P95)
    kept = simulate(*QUICK, "--load", "3", app=app)
    missed = simulate(*QUICK, "--load", "3", "--shedder", "none", app=app)
    node = json.loads(simulate(*QUICK, "--load", "3", "--json", app=app).output)["nodes"][
        "edge-2"
    ]

    over = f"{node['over'] / node['events']:.1%} of the events took longer"
    assert f"edge-2 keeps its bound of 500 ms at p95: {over}" in kept.output
    assert "% of the relevant events were shed, and " in kept.output
    assert "edge-2 MISSES its bound of 500 ms at p95: " in missed.output
    assert (node["bound"], node["percentile"], node["exempt"]) == (0.5, 95, 0)
    assert 0 < node["not_admitted"] <= node["shed"]
    assert node["over"] <= 0.05 * node["events"]


def test_what_is_exempt_from_a_percentile_is_said(simulate, tmp_path):
    """With how much of it took longer."""
    watches = (
        "SEQ(E4.type = 0, E5.type = 0, E6.type = 1)",
        "SEQ(E4.type = 0, NOT(E5.type = 1))",
    )
    app = _app(tmp_path, P95, watches, ("SELECT E4, E5, E6 WHERE SEQ", "SELECT E4 WHERE SEQ"))
    done = simulate(*QUICK, "--load", "3", app=app)

    assert "exempt at edge-2, for protected closures: w2.Q21; " in done.output
    assert " events took longer than the bound" in done.output


def test_the_same_seed_writes_the_same_bytes(simulate, tmp_path):
    """All files, the picture too; another seed does not."""
    for name, seed in (("one", "1"), ("other", "1"), ("third", "2")):
        done = simulate(*QUICK, "--seed", seed, "--output", tmp_path / name)
        assert done.status == 0
    for name in FILES:
        first, same, third = (
            (tmp_path / each / name).read_bytes() for each in ("one", "other", "third")
        )
        assert first == same, name
        assert first != third, name
    assert {file.name for file in (tmp_path / "one").iterdir()} == FILES


def test_the_rows_say_what_the_summary_says(simulate, tmp_path):
    """Events, results, latency and plans."""
    value = json.loads(simulate(*QUICK, "--json", "--output", tmp_path).output)
    nodes = read_results(tmp_path / "nodes.csv", NodeRow).rows
    sinks = read_results(tmp_path / "sinks.csv", SinkRow).rows
    events = pq.read_table(tmp_path / "latency.parquet").to_pandas()
    counts = value["operators"]
    mine = [row for row in nodes if row.node == "edge-2"]
    assert sum(row.processed for row in mine) == counts["w2"]["processed"]
    assert sum(row.shed for row in mine) == counts["w2"]["shed"]
    for name, sink in value["sinks"].items():
        assert sum(row.results for row in sinks if row.sink == name) == sink["results"]
    there = events[events["node"] == "edge-2"]
    assert len(events) == sum(one["processed"] for one in counts.values())
    spent = there["queueing"] + there["processing"]
    assert spent.mean() == pytest.approx(value["nodes"]["edge-2"]["mean"])
    assert spent.quantile(0.99) == pytest.approx(value["nodes"]["edge-2"]["p99"], rel=0.01)
    assert (there["queueing"] >= 0).all()
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    plans = [row for row in map(json.loads, lines) if row["replanned"]]
    assert plans == value["plans"]


def test_the_log_of_a_simulation_is_that_of_a_run(simulate, tmp_path):
    """The web UI and the report have the same numbers from it as the summary."""
    value = json.loads(simulate(*QUICK, "--json", "--output", tmp_path).output)
    recorded = read_run(tmp_path)
    totals = run_totals(recorded.records)
    assert recorded.headers[0].simulated
    assert totals.plans == len(value["plans"]) > 0
    used = [row.plan for row in recorded.records if isinstance(row, MicroBatchRecord)]
    assert (used[0], used[-1]) == (None, totals.plans)
    for name, node in value["nodes"].items():
        found = totals.nodes[name]
        assert found.mean_latency == pytest.approx(node["mean"])
        assert value["states"].get(name, "OK").startswith(found.status)
    counts = value["operators"]
    assert totals.nodes["edge-2"].kept == counts["w2"]["processed"]
    assert totals.nodes["edge-2"].shed == counts["w2"]["shed"]
    assert totals.nodes["edge-2"].irrelevant == counts["w2"]["unused"]
    for name, stream in recorded.headers[0].sinks.items():
        assert totals.patterns[stream].matches == value["sinks"][name]["results"]
    page = report_page(recorded)
    assert '"simulated":true' in page
    assert '"partial_matches":null' in page


@pytest.mark.parametrize(
    "stream", ["skewed", "bursty", "drifting", "sparse", "step", "borg-like"]
)
def test_every_stream_makes_the_load(simulate, stream):
    """By its rate, or if it is sparse by longer processing times, which need a long bound."""
    arguments = (*QUICK, "--json", "--stream", stream, "--load", "1.5", "--bound", "60 s")
    value = json.loads(simulate(*arguments).output)
    assert value["nodes"]["edge-2"]["asked"] == pytest.approx(1.5, rel=0.05)


def test_processing_times_are_measured_unless_they_are_given(simulate):
    """Of the node with a bound alone; the others are fast enough."""
    arguments = ("--stream", "balanced", "--duration", "2 s", "--json")
    service = json.loads(simulate(*arguments).output)["service"]
    assert service["distribution"] == "measured"
    assert set(service["processing_time"]) == {"w2.Q21", "w2.Q22"}
    assert all(1e-6 < seconds < 1 for seconds in service["processing_time"].values())


def test_files_are_fed_as_fast_as_makes_the_load(simulate, tmp_path):
    """What they are, not how fast: the same events at twice the pace."""
    app = _app(tmp_path)
    runpy.run_path(str(EXAMPLE / "generate.py"))["write"](tmp_path / "data", 3_000, seed=1)
    times = ("--snapshot", SNAPSHOT, "--json", "--interval", "20 s")
    recorded = json.loads(simulate(*times, app=app).output)
    pressed = json.loads(simulate(*times, "--load", "2", app=app).output)
    assert recorded["pace"] == 1
    assert recorded["nodes"]["edge-2"]["asked"] == pytest.approx(0.08, rel=0.2)
    assert pressed["nodes"]["edge-2"]["asked"] == pytest.approx(2, rel=0.02)
    assert pressed["operators"]["w2"]["arrived"] == 3_000
    assert len(read_events(tmp_path / "data" / "s2")) == 3_000
    short = json.loads(simulate(*times, "--duration", "10 s", app=app).output)
    assert short["duration"] == 10
    assert short["operators"]["w2"]["arrived"] < 300


def test_the_example_of_the_readme_finds_without_shedding_what_match_finds(
    tmp_path, monkeypatch, capsys
):
    """Events arrive faster and keep their times; squeezed they would be others."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["shedlight", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        assert not stopped.value.code
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    call("new", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    matches = [json.loads(line) for line in call("match", "app.yaml", "--json").splitlines()]
    times = [
        word
        for name in ("GuessedPassword", "SuddenOrder")
        for word in ("--processing-time", f"accounts.{name}=20us")
    ]
    load = ("simulate", "app.yaml", "--load", "2", "--shedder", "none", "--json", *times)
    simulated = json.loads(call(*load))
    on_spark = json.loads(call(*load, "--costs", "spark"))
    squeezed = json.loads(call(*load, "--squeeze"))

    of = {"alarms": "GuessedPassword", "orders": "SuddenOrder"}
    counts = {k: sum(row["pattern"] == name for row in matches) for k, name in of.items()}
    assert simulated["pace"] > 10
    for sink, number in counts.items():
        assert simulated["sinks"][sink]["unshed"] == number > 100
        assert on_spark["sinks"][sink]["unshed"] == number
        assert squeezed["sinks"][sink]["unshed"] != number
    assert on_spark["micro_batch"] == {
        "main": {"fixed": 0.6, "reading": 1.5e-6, "carrying": 3e-6}
    }
    assert (simulated["micro_batch"], simulated["squeeze"]) == ({}, False)
    assert squeezed["squeeze"]


@pytest.mark.soak
def test_costs_are_those_of_a_run(simulate, tmp_path):
    """Its last planning input: what micro-batches cost, and what patterns took."""
    snapshot = json.loads(SNAPSHOT.read_text())
    snapshot["micro_batch"] = {"edge-2": {"a": 0.25, "b_in": 1e-4}}
    snapshot["transport"] = {"edge-2": 2e-4}
    application = load_application(APP).application
    (tmp_path / "snapshot.json").write_text(json.dumps(snapshot))
    observed = PlanningInput(
        time=1.0,
        interval=2.0,
        application=application,
        snapshot=read_snapshot(tmp_path / "snapshot.json", application),
    )
    (tmp_path / "log.planning.json").write_text(planning_input_text(observed))
    arguments = ("--stream", "balanced", "--duration", "60 s", "--costs", tmp_path)

    done = simulate(*arguments)
    value = json.loads(simulate(*arguments, "--json").output)

    assert "micro-batches of edge-2, as in the run " in done.output
    assert (
        "250 ms, and 100 us to read an event, 200 us to carry one that is kept" in done.output
    )
    assert "edge-2 keeps its bound of 3 s on average" in done.output
    edge = value["nodes"]["edge-2"]
    assert edge["asked"] == pytest.approx(2.0, rel=0.02)
    assert 0.5 < edge["busy"] <= 1.05 * edge["limit"] < 1
    assert value["service"]["processing_time"]["w2.Q21"] == pytest.approx(0.004)
    assert value["service"]["distribution"] == "constant"
    log = tmp_path / "log.jsonl"
    log.write_text("")
    assert simulate(*arguments[:-1], log).output.replace(
        "log.jsonl", ""
    ) == done.output.replace(f"{tmp_path}:", f"{tmp_path}/:")


BAD_COSTS = {
    "nothing there": ("nowhere", 2, "--costs 'nowhere' is not there; give 'spark', or the"),
    "no run": ("docs", 1, "a run writes it when it has observed its nodes"),
}


@pytest.mark.parametrize("name", BAD_COSTS)
def test_costs_that_are_not_there_are_told(simulate, name):
    """With what to do."""
    costs, status, message = BAD_COSTS[name]
    done = simulate(*QUICK, "--costs", costs)
    assert (done.status, done.output) == (status, "")
    assert message in " ".join(done.errors.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the planning input of the run cannot be read"),
        ('{"version": 1}', "it is of version 1, not 2"),
    ],
)
def test_a_run_that_cannot_be_read_is_told(simulate, tmp_path, text, message):
    """A file that is broken, or of another version."""
    (tmp_path / "log.planning.json").write_text(text)
    done = simulate(*QUICK, "--costs", tmp_path)
    assert done.status == 1
    assert message in done.errors


def test_costs_of_another_application_are_told(simulate, tmp_path):
    """By the node that is missing."""
    application = load_application(APP).application
    observed = PlanningInput(
        time=1.0,
        interval=2.0,
        application=application,
        snapshot=read_snapshot(SNAPSHOT, application),
    )
    (tmp_path / "log.planning.json").write_text(planning_input_text(observed))
    done = simulate(*QUICK, "--costs", tmp_path)
    assert done.status == 1
    assert "has no costs of node 'edge-2', only of: none; simulate what was run" in done.errors


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ("--shedder", "best"),
            2,
            "cannot be chosen; known: global, local, none, random, utility",
        ),
        ((*QUICK, "--load", "0"), 2, "--load must be above 0, got 0"),
        ((*QUICK, "--load", "-2"), 2, "--load must be above 0, got -2"),
        ((*QUICK, "--squeeze"), 2, "generated ones come at a rate: leave it out"),
        (("--squeeze",), 2, "--squeeze says how events of files make the --load; give --load"),
        ((*QUICK, "--costs", "spark", "--latency", "mg1"), 2, "leave one of the two out"),
        ((*QUICK, "--costs", "spark", "--shedder", "utility"), 2, "micro-batches do not"),
        ((*QUICK, "--costs", "spark", "--service", "measured"), 2, "a micro-batch has none"),
        ((*QUICK, "--costs", "spark", "--bound", "500 ms"), 1, "even if it is empty"),
        ((*QUICK, "--duration", "0 s"), 2, "--duration must be longer than zero"),
        ((*QUICK, "--duration", "soon"), 2, "is 'soon', which is no time"),
        ((*QUICK, "--interval", "0 s"), 2, "--interval must be longer than zero"),
        ((*QUICK, "--aim", "2"), 2, "--aim must be above 0 and at most 1"),
        ((*QUICK, "--bound", "1 ms"), 1, "the least feasible bound is more than 0.012"),
        ((*QUICK, "--service", "measured"), 2, "leave one of the two out"),
        ((*QUICK, "--input", "s1=x.csv"), 2, "give --stream or --input"),
        ((*QUICK, "--processing-time", "w2.Q23=1 ms"), 2, "did you mean 'w2.Q22'?"),
        ((*QUICK, "--processing-time", "w2.Q21=0 s"), 2, "longer than zero"),
        ((*QUICK, "--duration", "30 d"), 1, "events, and 50,000,000 is the most"),
        (("--snapshot", SNAPSHOT), 1, "or generate events by --stream balanced"),
        (("--input", "s3=x.csv"), 1, "known: s1, s2"),
        (
            ("--stream", "balanced", "--processing-time", "w2.Q21=4 ms"),
            1,
            "the processing time of w2.Q22 is missing",
        ),
    ],
)
def test_what_cannot_be_simulated_is_said(simulate, arguments, status, message):
    """In one sentence with what to do."""
    done = simulate(*arguments)
    assert message in " ".join(done.errors.replace("│", " ").split())
    assert done.status == status
    assert "Traceback" not in done.errors


def test_an_application_without_a_bound_has_nothing_to_simulate(simulate, tmp_path):
    """It says where to write one."""
    done = simulate(*QUICK, app=_app(tmp_path, ("{bound: 3 s}", "{}")))
    assert done.status == 1
    assert "write 'bound: 3 s' at a node" in done.errors


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("E1.type = 0", "E1.cpu > 0.5", "w1 asks for 'cpu > 0.5'"),
        ("E1.type = 0", "E1.event = 'FAIL'", "patterns ask for event and type"),
        ("SELECT E1, E2, E3 WHERE SEQ", "SELECT E1.cpu AS x WHERE SEQ", ""),
    ],
)
def test_types_that_cannot_be_generated_are_named(simulate, tmp_path, old, new, message):
    """What is selected but never read does not matter."""
    done = simulate(*QUICK, app=_app(tmp_path, (old, new)))
    assert message in done.errors
    assert done.status == (1 if message else 0)


def test_strata_are_for_planned_shedders_and_keyed_patterns(simulate):
    """What they cannot do is said."""
    done = simulate(*QUICK, "--strata", "--shedder", "random")
    assert done.status == 2
    assert "--strata are planned, and --shedder random does not plan" in done.errors
    done = simulate(*QUICK, "--strata")
    assert done.status == 1
    assert "no operator of 'borg' has strata" in done.errors

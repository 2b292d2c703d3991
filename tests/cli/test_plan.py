"""`shedlight plan`: what it prints, and what it says when it cannot plan."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shedlight.cli.main import main
from tests.planning.closures import ALARM_LOAD, ALARMS

EXAMPLE = Path(__file__).parents[2] / "examples" / "paper"
APP, SNAPSHOT = EXAMPLE / "app.yaml", EXAMPLE / "snapshot.json"
KEYS = {"status", "keep", "rates", "sinks", "objective", "busy", "prices", "solve_seconds"}


class Done(NamedTuple):
    """What a call did."""

    status: int
    output: str
    errors: str


@pytest.fixture
def plan(capsys, monkeypatch):
    """Run `shedlight plan` on the paper's example as the shell would."""

    def run(*arguments, app=APP, snapshot=SNAPSHOT):
        words = ["shedlight", "plan", app, "--snapshot", snapshot, *arguments]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    return run


def _changed(folder, change):
    snapshot: dict[str, Any] = json.loads(SNAPSHOT.read_text())
    change(snapshot)
    path = folder / "snapshot.json"
    path.write_text(json.dumps(snapshot))
    return path


def _app(folder, *changes):
    text = APP.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "app.yaml"
    path.write_text(text)
    return path


def test_the_words_say_what_is_kept_and_what_comes_of_it(plan):
    """For people to read."""
    done = plan()
    assert done.status == 0
    lines = done.output.splitlines()
    assert lines[0].startswith("optimal plan for edge-2 (bound 3 s on average) by M/G/1 at")
    assert "  w2.Q21  type=0 100.0%, type=1 100.0%" in lines
    assert any(line.startswith("  edge-2  124.0%") for line in lines)
    assert any(line.startswith("  w2.Q22 -> w4") for line in lines)


LINK = """
channels:
  format: kafka
  options: {kafka.bootstrap.servers: "localhost:9092"}
  links: {edge-2 -> core: 1 kB/s}
nodes:
"""


def test_a_link_has_a_row_and_a_price(plan, tmp_path):
    """In words and in JSON."""

    def change(snapshot):
        snapshot["event_bytes"] = {"w2.Q21": 60, "w2.Q22": 80}

    asked = {
        "app": _app(tmp_path, ("\nnodes:\n", LINK)),
        "snapshot": _changed(tmp_path, change),
    }
    row = next(line for line in plan(**asked).output.splitlines() if "edge-2 -> core" in line)
    assert "  900 B/s  900 B/s" in row, "as planned, and the limit"
    assert row.endswith("events/s")
    found = json.loads(plan("--json", **asked).output)
    link = found["links"]["edge-2 -> core"]
    assert link["predicted"] == pytest.approx(link["limit"]) == 900
    assert link["unshed"] > 900
    assert found["prices"]["edge-2 -> core"] > 0


def test_json_has_the_keys_that_machines_rely_on(plan):
    """And they agree with each other."""
    done = plan("--json", "--no-fill", "--latency", "mm1", "--aim", "1")
    value = json.loads(done.output)
    assert set(value) >= KEYS
    assert value["status"] == "optimal"
    keep = value["keep"]["w2"]
    assert value["rates"]["w2.Q21"] == pytest.approx(
        min(60 * keep["Q21"]["type=0"] / 2, 30 * keep["Q21"]["type=1"])
    )
    assert value["sinks"]["sink1"] == pytest.approx(min(19.9, value["rates"]["w2.Q21"]))
    assert value["objective"] == pytest.approx(sum(value["sinks"].values()))
    busy = value["busy"]["edge-2"]
    assert busy["predicted"] <= busy["limit"] * (1 + 1e-6)
    assert busy["limit"] == pytest.approx(170 * 3 / (1 + 170 * 3))
    assert set(value["prices"]) == {"edge-2"}


def test_everything_is_kept_if_it_fits(plan, tmp_path):
    """There is nothing to plan."""

    def quick(snapshot):
        snapshot["processing_time"] = {"w2.Q21": 0.002, "w2.Q22": 0.004}

    done = plan(snapshot=_changed(tmp_path, quick))
    assert done.status == 0
    assert done.output.startswith("everything fits within the bounds and is kept")


def test_bound_objective_and_bottleneck_are_heeded(plan):
    """A tighter bound leaves less; a local plan brings the sinks less."""
    wide = json.loads(plan("--json", "--latency", "mm1").output)
    tight = json.loads(plan("--json", "--latency", "mm1", "--bound", "4 ms").output)
    assert tight["busy"]["edge-2"]["limit"] < wide["busy"]["edge-2"]["limit"]
    assert tight["prices"]["edge-2"] > 0
    arguments = ("--json", "--bound", "4 ms", "--bottleneck", "edge-2", "--latency", "mm1")
    local = json.loads(plan(*arguments, "--objective", "local", "--no-fill").output)
    assert sum(local["sinks"].values()) < sum(tight["sinks"].values())
    assert local["objective"] == pytest.approx(
        local["rates"]["w2.Q21"] + local["rates"]["w2.Q22"]
    )


def test_wishes_that_cannot_be_met_end_with_status_1_and_a_remedy(plan, tmp_path):
    """Which to relax, and by how much."""
    app = _app(
        tmp_path,
        ("path: out/sink2", "path: out/sink2, min_rate: 1000"),
    )
    done = plan("--json", app=app)
    assert done.status == 1
    value = json.loads(done.output)
    assert value["status"] == "infeasible"
    assert "sink 'sink2' asks for at least 1000 events/s; 6 can be had" in value["remedies"][0]
    assert "lower its min_rate by 99.4%" in done.errors


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--bottleneck", "edge-3"), 1, "did you mean 'edge-2'?"),
        (("--bottleneck", "core"), 1, "node 'core' has no bound"),
        (("--bound", "1 ms"), 1, "least feasible bound is more than 0.012 s"),
        (("--bound", "soon"), 2, "is 'soon', which is no time"),
        (("--bound", "0 s"), 2, "--bound must be longer than zero"),
        (("--aim", "1.5"), 2, "--aim must be above 0 and at most 1"),
        (("--latency", "md1"), 2, "'md1' cannot be chosen; known: mg1, micro-batch, mm1"),
    ],
)
def test_what_cannot_be_planned_is_said(plan, arguments, status, message):
    """In one sentence, with the status that fits."""
    done = plan(*arguments)
    assert done.status == status
    assert message in " ".join(done.errors.replace("│", " ").split())
    assert "Traceback" not in done.errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["rates"]["s1"].update({"type=0": -1}), "type=0"),
        (lambda s: s["rates"]["s1"].update({"type=0": float("nan")}), "type=0"),
        (lambda s: s["rates"]["s1"].update({"type=0": None}), "type=0"),
        (lambda s: s["rates"].pop("s2"), "s2"),
        (lambda s: s["rates"]["s1"].update({"typ=0": 1}), "did you mean 'type=0'"),
        (lambda s: s["processing_time"].update({"w2.Q21": 0}), "w2.Q21"),
        (lambda s: s["processing_time"].update({"w9.Q21": 1}), "w9.Q21"),
        (lambda s: s["processing_time"].pop("w2.Q22"), "processing time of w2.Q22 is missing"),
    ],
)
def test_bad_snapshots_are_refused_with_the_place(plan, tmp_path, change, message):
    """Never a traceback, never a plan."""
    done = plan(snapshot=_changed(tmp_path, change))
    assert done.status == 1
    assert message in done.errors
    assert "Traceback" not in done.errors
    assert not done.output


def test_the_example_of_the_docs_is_what_is_printed(plan):
    """But for the time it took."""
    text = (EXAMPLE.parent.parent / "docs" / "planning.md").read_text()
    shown = text.split("```\n")[1].splitlines()
    printed = plan().output.splitlines()
    assert shown[0].split("solved in")[0] == printed[0].split("solved in")[0]
    assert shown[1:] == printed[1 : len(shown)]


def test_what_becomes_of_watchers_is_said(plan, tmp_path):
    """On, off or a share of the keys; and what the closure would have needed."""
    app, snapshot = tmp_path / "alarms.yaml", tmp_path / "snapshot.json"
    app.write_text(ALARMS)
    snapshot.write_text(json.dumps(ALARM_LOAD))
    done = plan(app=app, snapshot=snapshot)
    reason = "with w1.Q whole, it takes 1.2 s of work a second at edge, which has 0.887"
    assert f"\nprotected closures\n  w2.alarm  off  {reason}\n" in done.output

    value = json.loads(plan("--json", app=app, snapshot=snapshot).output)
    assert value["watchers"] == {"w2.alarm": {"keep": 0.0, "key": None, "reason": reason}}

    app.write_text(ALARMS.replace("WITHIN 1 s", "WITHIN 1 s PARTITION BY host"))
    value = json.loads(plan("--json", app=app, snapshot=snapshot).output)
    assert value["watchers"]["w2.alarm"]["key"] == "host"
    assert 0 < value["watchers"]["w2.alarm"]["keep"] < 1

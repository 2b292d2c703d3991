"""What-if and apply through the interface of the web UI."""

import json

import pytest

from shedlight.control.override import Override
from shedlight.control.planning_input import planning_input_path, read_planning_input
from shedlight.control.what_if import what_if
from shedlight.engines.spark.control.override_store import OVERRIDE, read_override
from tests.page.client import BEARER, PageClient, posted
from tests.page.rehearsal import BOUND, BUSY


@pytest.fixture
def page(recorded_run):
    """Have a page of a run that is over."""
    return PageClient(recorded_run / "log.jsonl")


@pytest.fixture
def live(live_run):
    """Have a page of a run that is under way."""
    return PageClient(live_run.path)


def with_token(body):
    """Make the arguments of a POST with the token."""
    found = posted(body)
    return found | {"headers": found["headers"] | BEARER}


def test_what_is_answered_is_what_the_planner_says(page, recorded_run):
    """From the planning input that the run wrote next to its log."""
    text = planning_input_path(recorded_run / "log.jsonl").read_text()
    override = Override({"edge-2": 8.0}, {"k3": 5.0})
    expected = what_if(read_planning_input(text), override, 1.5)
    body = {"bounds": {"edge-2": 8.0}, "weights": {"k3": 5.0}, "load": 1.5}
    found = page.get("/api/what-if", **posted(body))
    assert found["feasible"]
    assert found["nodes"]["edge-2"]["bound"] == 8.0
    assert found["nodes"]["edge-2"]["load"] == pytest.approx(expected.loads["edge-2"])
    assert {k: v["forecast"] for k, v in found["sinks"].items()} == pytest.approx(
        expected.forecast_sinks
    )
    assert {k: v["current"] for k, v in found["sinks"].items()} == pytest.approx(
        expected.current_sinks
    )
    after = {str(stream): one.shares for stream, one in expected.shares.items()}
    for change in found["changes"]:
        assert change["after"] == pytest.approx(after[change["pattern"]][change["type"]])
    assert "would change" in found["summary"]


def test_changes_come_largest_first(page):
    """By how far the share moves."""
    found = page.get("/api/what-if", **posted({"weights": {"k3": 50.0}}))
    moves = [abs(one["after"] - one["before"]) for one in found["changes"]]
    assert moves == sorted(moves, reverse=True)
    assert len(moves) > 1


def test_without_a_change_all_stays(page):
    """The active plan is the answer."""
    found = page.get("/api/what-if", **posted({}))
    assert found["changes"] == []
    assert found["summary"] == "the active plan would stay; the sinks would get as much as now"


def test_a_bound_that_cannot_be_kept_is_said(page):
    """With the least that could be."""
    found = page.get("/api/what-if", **posted({"bounds": {"edge-2": 0.1}}))
    assert not found["feasible"]
    assert found["nodes"]["edge-2"]["status"] == "INFEASIBLE"
    assert "the least feasible bound" in found["nodes"]["edge-2"]["advice"]
    assert found["sinks"]["k3"]["forecast"] is None


@pytest.mark.parametrize("text", [None, "", "{}", '{"version": 9}', "\ud800"])
def test_without_planning_input_it_cannot_be_planned(tmp_path, text):
    """Before the first decision, or if the file is not ours."""
    log = tmp_path / "log.jsonl"
    log.touch()
    if text is not None:
        planning_input_path(log).write_bytes(text.encode("utf-8", "surrogatepass"))
    said = PageClient(log).error("/api/what-if", 409, **posted({}))
    assert str(tmp_path) not in said


def test_a_run_with_too_many_types_says_so(tmp_path):
    """Its planning input has their number in place of them."""
    log = tmp_path / "log.jsonl"
    log.touch()
    planning_input_path(log).write_text('{"version": 2, "omitted_numbers": 30000}')
    said = PageClient(log).error("/api/what-if", 409, **posted({}))
    assert "30000 numbers of event types" in said


def test_a_run_that_is_over_cannot_be_changed(page, recorded_run):
    """And says so."""
    body = with_token({"bounds": {"edge-2": 5.0}})
    assert "the run is over" in page.error("/api/apply", 409, **body)
    assert not (recorded_run / OVERRIDE).exists()


def test_what_is_applied_is_taken_up_by_the_run(live, live_run):
    """At its next second; the log says so, and the web UI with it."""
    before = live_run.memory.shares
    reply = live.get("/api/apply", **with_token({"bounds": {"edge-2": 9.0}}))
    assert reply["applied"]
    assert "the bound of node 'edge-2' is 9 s" in reply["summary"]
    assert live_run.memory.application.nodes["edge-2"].bound == BOUND
    for _ in range(4):
        live_run.second(BUSY)
    assert live_run.memory.application.nodes["edge-2"].bound == 9.0
    assert live_run.memory.shares != before
    again = PageClient(live_run.path)
    assert again.get("/api/run")["nodes"]["edge-2"]["bound"] == 9.0
    assert "as was asked for" in json.dumps(again.get("/api/decisions"))


def test_overrides_add_up(live, live_run):
    """A weight after a bound leaves the bound."""
    live.get("/api/apply", **with_token({"bounds": {"edge-2": 9.0}}))
    live.get("/api/apply", **with_token({"weights": {"k3": 4.0}}))
    assert read_override(live_run.folder / OVERRIDE) == Override({"edge-2": 9.0}, {"k3": 4.0})


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "names no bound and no weight"),
        ({"bounds": {"nobody": 1.0}}, "there is no node 'nobody'"),
        ({"bounds": {"core": 1.0}}, "has no bound"),
        ({"bounds": {"edge-2": 0.0}}, "bounds.edge-2: it must be above 0"),
        ({"bounds": {"edge-2": float("nan")}}, "finite number"),
        ({"weights": {"nobody": 1.0}}, "there is no sink 'nobody'"),
        ({"weights": {"k3": -1.0}}, "weights.k3: it must be 0 or more"),
        ({"load": 2.0}, "load: there is no such setting"),
    ],
)
def test_what_cannot_be_applied_is_an_error(live, live_run, body, what):
    """Nothing is left for the run."""
    status = 404 if "nobody" in str(body) else 422
    assert what in live.error("/api/apply", status, **with_token(body))
    assert not (live_run.folder / OVERRIDE).exists()

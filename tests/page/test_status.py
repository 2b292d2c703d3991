"""What the web UI answers about a run: what is run, its status, its past."""

import json
import re

import pytest

from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.page.keep_rows import MAX_KEEP_ROWS
from shedlight.page.status import explain_load
from shedlight.runlog.aggregate import STARTING, STATUSES
from tests.page.client import PageClient, to_close
from tests.page.rehearsal import BEGAN, BOUND, BUSY, QUIET, Rehearsal
from tests.runlog.logs import HOSTILE, batch, decision, header, hostile_run, text


@pytest.fixture
def page(recorded_run):
    """Have a page of the recorded run."""
    return PageClient(recorded_run / "log.jsonl", clock=lambda: BEGAN + 100)


def written(tmp_path, *rows):
    """Have a page of a log."""
    log = tmp_path / "log.jsonl"
    log.write_text(text(*rows))
    return PageClient(log, clock=lambda: 200.0)


def test_it_answers_what_is_run(page):
    """As the log began."""
    run = page.get("/api/run")
    assert (run["application"], run["started"], run["timed"]) == ("paper", BEGAN, True)
    assert (run["live"], run["can_apply"]) == (False, False)
    assert run["nodes"]["edge-2"] == {"bound": BOUND, "percentile": None}
    assert run["operators"]["w3"] == {
        "node": "core",
        "inputs": ["w1.Q11", "w2.Q21"],
        "patterns": ["Q31"],
    }
    assert run["sinks"]["k4"] == {"input": "w4.Q41", "weight": 2.0}


def test_it_answers_the_status(page):
    """A node that sheds is the bottleneck, and keeps its bound."""
    status = page.get("/api/status")
    assert (status["status"], status["bottleneck"]) == ("SHEDDING", "edge-2")
    assert status["stale_seconds"] == pytest.approx(40)
    node = status["nodes"]["edge-2"]
    assert node["rate"] == pytest.approx(BUSY, rel=1e-3)
    assert node["headroom"] == pytest.approx(BOUND - node["latency"]["mean"])
    assert node["headroom"] > 0
    assert node["shed_share"] == pytest.approx(1 - node["kept_rate"] / node["rate"], rel=1e-3)
    assert status["nodes"]["edge-1"]["shed_share"] == status["nodes"]["core"]["shed_share"] == 0


def test_flows_are_of_every_edge(page):
    """From sources to sinks, each with its rate and what is shed behind it."""
    edges = {(one["origin"], one["target"]): one for one in page.get("/api/status")["edges"]}
    assert list(edges) == [
        ("s1", "w1"),
        ("s2", "w2"),
        ("w1", "w3"),
        ("w2", "w3"),
        ("w1", "w4"),
        ("w2", "w4"),
        ("w3", "k3"),
        ("w4", "k4"),
    ]
    assert edges["s2", "w2"]["rate"] == pytest.approx(BUSY, rel=1e-3)
    assert 0.5 < edges["s2", "w2"]["shed_share"] < 1
    assert edges["s1", "w1"]["shed_share"] == 0


def test_sinks_get_what_was_predicted(page):
    """The model of the rehearsal is the model that predicts."""
    for sink in page.get("/api/status")["sinks"].values():
        assert sink["observed"] == pytest.approx(sink["predicted"], rel=0.01)


def test_what_is_shed_most_comes_first(page):
    """By events per second."""
    rows = page.get("/api/status")["keep_rows"]
    volumes = [one["rate"] * (1 - one["share"]) for one in rows]
    assert volumes == sorted(volumes, reverse=True)
    assert all(one["price"] > 0 and one["reason"] for one in rows)


def test_latency_goes_back_from_the_last_micro_batch(page):
    """Also long after the run."""
    whole = page.get("/api/series", params={"node": "edge-2"})
    assert whole["bound"] == BOUND
    assert len(whole["time"]) == 60
    assert all(len(whole[one]) == 60 for one in ("mean", "p50", "p95", "p99"))
    last = page.get("/api/series", params={"node": "edge-2", "seconds": 9.5})
    assert last["time"] == whole["time"][-10:]


def test_a_long_run_has_no_more_points_than_fit(tmp_path):
    """And its peak is among them."""
    rows = [batch(1000.0 + i, mean=9.0 if i == 777 else 1.0) for i in range(3000)]
    page = written(tmp_path, header(999.0), *rows)
    found = page.get("/api/series", params={"node": "edge", "seconds": 1e6})
    assert len(found["time"]) == 600
    assert max(found["p99"]) == 27.0


def test_decisions_are_newest_first(page):
    """With their reasons."""
    found = page.get("/api/decisions", params={"limit": 3})
    assert [one["time"] - BEGAN for one in found] == [59, 57, 55]
    every = page.get("/api/decisions")
    (plan,) = (one for one in every if one["replanned"])
    assert "of its limit" in plan["reason"]


def test_before_there_is_a_log_all_is_empty(tmp_path):
    """The page can be opened before the first line is written."""
    page = PageClient(tmp_path / "log.jsonl")
    status = page.get("/api/status")
    assert (status["status"], status["time"], status["nodes"], status["live"]) == (
        STARTING,
        None,
        {},
        False,
    )
    assert page.get("/api/run")["operators"] == {}
    assert page.get("/api/decisions") == []


def test_a_restart_of_the_engine_goes_on_in_the_log(tmp_path):
    """The nodes are starting again, and the curve goes on."""
    run = Rehearsal(tmp_path)
    to_close.append(run.log)
    clock = [BEGAN]
    page = PageClient(run.path, clock=lambda: clock[0])
    for _ in range(5):
        run.second(QUIET)
    assert page.get("/api/status")["nodes"]["core"]["status"] == "OK"
    again = Rehearsal(tmp_path, run.clock + 60)
    to_close.append(again.log)
    clock[0] += 70
    assert page.get("/api/status")["status"] == STARTING
    again.second(QUIET)
    clock[0] += 1
    assert page.get("/api/status")["nodes"]["core"]["status"] == "OK"
    assert len(page.get("/api/series", params={"node": "core"})["time"]) == 6


def test_a_run_is_live_as_long_as_somebody_holds_its_checkpoint(tmp_path):
    """However idle it is."""
    run = Rehearsal(tmp_path)
    to_close.append(run.log)
    clock = [BEGAN + 3600]
    page = PageClient(run.path, clock=lambda: clock[0])
    with lock_checkpoint(tmp_path):
        assert not page.get("/api/run")["can_apply"]  # it has not decided anything yet
        run.second(QUIET)
        assert page.get("/api/run")["can_apply"]
    clock[0] += 60
    assert not page.get("/api/run")["live"]
    assert not page.get("/api/run")["can_apply"]


def test_a_log_alone_is_live_if_it_grows(tmp_path):
    """Of a run whose checkpoint is elsewhere nothing can be changed."""
    log = tmp_path / "log.jsonl"
    log.write_text(text(header(100.0)))
    assert PageClient(log, clock=lambda: 110.0).get("/api/run")["live"]
    later = PageClient(log, clock=lambda: 1000.0).get("/api/run")
    assert (later["live"], later["can_apply"]) == (False, False)


def test_hostile_text_is_json_and_without_control_characters(tmp_path):
    """It is for the browser to show it as text."""
    log = tmp_path / "log.jsonl"
    log.write_text(text(header(100.0)))
    page = PageClient(log, clock=lambda: 200.0)
    for record in hostile_run().records:
        page.view.add(record)
    for path in ("/api/run", "/api/status", "/api/decisions"):
        reply = page.ask(path)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
    status = page.get("/api/status")
    assert status["nodes"][HOSTILE]["status"] in STATUSES
    texts = [status["nodes"][HOSTILE]["advice"], status["keep_rows"][0]["type"]]
    assert all("\u202e" not in one and "\n" not in one for one in texts)
    assert page.get("/api/series", params={"node": HOSTILE})["node"] == HOSTILE


def test_half_a_surrogate_pair_can_be_answered(tmp_path):
    """JSON can write it, UTF-8 cannot."""
    page = written(tmp_path, header(100.0, application="\ud800"), decision(101.0, "\udfff"))
    for path in ("/api/run", "/api/status", "/api/decisions", "/metrics"):
        assert page.ask(path).status_code == 200


def test_ten_thousand_types_are_bounded(tmp_path):
    """In what is answered, and in the labels of metrics."""
    labels = [f"type={i}" for i in range(10_000)]
    shares = {"flows.P": dict.fromkeys(labels, 0.5)}
    rates = {"flows.P": {one: float(i) for i, one in enumerate(labels)}}
    patterns = {"flows.P": {"kept": 5, "types": dict.fromkeys(labels, 3)}}
    page = written(
        tmp_path,
        header(100.0),
        batch(101.0, patterns=patterns),
        decision(102.0, shares=shares, rates=rates, omitted_shares=7),
    )
    status = page.get("/api/status")
    assert len(status["keep_rows"]) == MAX_KEEP_ROWS
    assert status["omitted_rows"] == 10_000 - MAX_KEEP_ROWS + 7
    assert status["keep_rows"][0]["type"] == "type=9999"
    metrics = page.ask("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert len(re.findall(r"type=\"type=", metrics.text)) == 20
    assert len(metrics.text) < 20_000


def test_a_sink_has_what_the_unshed_sample_says_of_it(tmp_path):
    """Without what is not to be seen; a run without a sample says nothing."""
    said = {"keys": 80, "recall": 0.5, "recall_low": 0.4, "recall_high": 0.6, "rate": 3.0}
    for sample, recall in (({}, None), ({"out": said | {"unknown": HOSTILE}}, 0.5)):
        page = written(tmp_path, header(100.0), batch(101.0, unshed_sample=sample))
        answer = page.get("/api/status")["sinks"]["out"]["unshed_sample"]
        assert (answer or {}).get("recall") == recall
        assert "\u202e" not in (answer or {}).get("unknown", "")


def test_an_override_in_the_log_changes_bounds_and_weights(tmp_path):
    """One that was rejected does not."""
    rejected = {"record": "override", "time": 103.0, "bounds": {"edge": 9.0}, "rejected": "no"}
    override = {
        "record": "override",
        "time": 102.0,
        "bounds": {"edge": 5.0},
        "weights": {"out": 3.0},
    }
    page = written(tmp_path, header(100.0), batch(101.0), override, rejected)
    assert page.get("/api/run")["nodes"]["edge"]["bound"] == 5.0
    assert page.get("/api/status")["sinks"]["out"]["weight"] == 3.0


def test_nothing_says_where_on_the_machine_it_is(page, recorded_run):
    """No path in any answer, errors included."""
    paths = (
        "/",
        "/api/run",
        "/api/status",
        "/api/decisions",
        "/metrics",
        "/openapi.json",
        "/no",
    )
    replies = [page.ask(path).text for path in (*paths, "/static/../app.py", "/static/no")]
    assert all(str(recorded_run.parent.parent) not in one for one in replies)
    assert all("site-packages" not in one and "Traceback" not in one for one in replies)
    assert json.loads(page.ask("/openapi.json").text)["info"]["title"] == "Shedlight"


def test_what_watchers_need_is_the_reason_of_a_share(tmp_path):
    """What is whole for a watcher, what is shed by its key, and which watcher is off."""
    closures = {
        "flows.On": {"watches": ["flows.A"], "members": ["flows.A"]},
        "flows.Off": {"watches": ["payments"]},
        "flows.Keyed": {"watches": ["flows.B"], "members": ["flows.B"], "key": "host"},
    }
    shares = {"On": 0.5, "A": 1.0, "Off": 0.0, "Keyed": 0.4, "B": 0.4, "C": 0.0}
    page = written(
        tmp_path,
        header(100.0, closures=closures),
        batch(101.0),
        decision(102.0, shares={f"flows.{n}": {"type=0": each} for n, each in shares.items()}),
    )
    reasons = {row["pattern"]: row["reason"] for row in page.get("/api/status")["keep_rows"]}
    assert reasons["flows.A"] == "kept whole, for flows.On watches it"
    assert reasons["flows.Off"].startswith("off, for what it watches cannot all be kept")
    assert reasons["flows.B"] == reasons["flows.Keyed"]
    assert reasons["flows.B"].startswith("the same host are kept in all that flows.Keyed")
    assert reasons["flows.C"].startswith("other types bring more")
    assert page.get("/api/run")["closures"]["flows.Keyed"]["key"] == "host"


@pytest.mark.parametrize(
    ("load", "shed", "pressure", "said"),
    [
        (1.2, 0.5, None, "takes 120% of the time that the bound allows, more than there is"),
        (0.5, 0.9, 0.4, "until the backlog is worked off all shares are lowered to 40%"),
        (0.5, 0.9, 1.0, "there is room, so that the next plan may keep more"),
        (0.95, 0.9, 0.4, "takes 95% of the time that the bound allows"),
    ],
)
def test_what_is_shed_and_the_load_are_said_together(load, shed, pressure, said):
    """Much may be shed of a node that is half idle: it says why."""
    assert explain_load(load, shed, pressure, "events").endswith(said)


def test_a_node_without_a_bound_explains_nothing(page):
    """It has no limit that a load would be of."""
    nodes = page.get("/api/status")["nodes"]
    assert nodes["core"]["explanation"] == ""
    assert "of the relevant events" in nodes["edge-2"]["explanation"]

"""Metrics for Prometheus: names, values, labels, and the text they are written as."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shedlight.runlog.aggregate import RunTotals, run_totals
from shedlight.runlog.exposition import Family, Sample, exposition
from shedlight.runlog.prometheus import families
from tests.runlog.exposition import parse
from tests.runlog.logs import HOSTILE, batch, decision, header, hostile_run, run

DASHBOARDS = Path(__file__).parents[2] / "dashboards"


def parsed(log, **options):
    """Read what is written of a run."""
    return parse(exposition(families(run_totals(log.records), **options)))


@pytest.fixture
def log():
    """Have a run that sheds."""
    shares = {"flows.P": {"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.0}}
    types = {"a": 10, "b": 60, "c": 30, "d": 10}
    pattern = {"kept": 40, "seconds": 0.5, "found": 2, "partial_matches": 4, "types": types}
    return run(
        header(9.0),
        batch(10.0),
        batch(12.0, kept=40, mean=3.0, patterns={"flows.P": pattern}, refused={"s": 2}),
        decision(12.0, state="SHEDDING", shares=shares, replanned=True),
    )


def test_counters_add_up_and_gauges_are_the_last(log):
    """Two micro-batches: 200 events, 140 kept; the last took half of its 2 seconds."""
    samples, kinds = parsed(log)
    edge = (("node", "edge"),)

    assert samples["shedlight_events_total", edge] == 200
    assert samples["shedlight_events_shed_total", edge] == 60
    assert samples["shedlight_node_utilisation_ratio", edge] == 0.5
    assert samples["shedlight_node_latency_bound_seconds", edge] == 2
    assert samples["shedlight_pattern_matches_total", (("pattern", "flows.P"),)] == 3
    assert samples["shedlight_plan_changes_total", ()] == 1
    assert samples["shedlight_source_refused_total", (("source", "s"),)] == 2
    assert all((kind == "counter") == name.endswith("_total") for name, kind in kinds.items())


def test_latency_is_a_summary(log):
    """Quantiles of the last micro-batch; the sum and the count give the mean of any time."""
    samples, kinds = parsed(log)
    name, edge = "shedlight_node_latency_seconds", ("node", "edge")

    assert kinds[name] == "summary"
    assert samples[name, (edge, ("quantile", "0.95"))] == 6
    assert samples[f"{name}_sum", (edge,)] == 100 * 1.0 + 40 * 3.0
    assert samples[f"{name}_count", (edge,)] == 140


def test_a_node_is_in_one_of_its_states(log):
    """A series for each state that there is, so that none goes stale as 1."""
    samples, _ = parsed(log)

    found = {dict(k)["state"]: v for (n, k), v in samples.items() if n.endswith("node_state")}
    assert found == {"OK": 0, "SHEDDING": 1, "BOUND-AT-RISK": 0, "INFEASIBLE": 0}


def test_nothing_is_labelled_with_types_unless_asked(log):
    """There may be any number of them."""
    samples, _ = parsed(log)

    assert not any("type" in dict(labels) for _, labels in samples)


def test_the_types_that_come_most_often_are_told_and_the_others_together(log):
    """Of the rest, 10 events are of a (0.5) and 10 of d (0): 0.25 of them is kept."""
    samples, _ = parsed(log, most_types=2)

    name = "shedlight_pattern_type_keep_ratio"
    found = {dict(labels)["type"]: v for (n, labels), v in samples.items() if n == name}
    assert found == {"b": 0.25, "c": 1.0, "other": 0.25}


def test_a_type_that_is_called_other_is_with_the_others():
    """No series is there twice."""
    log = run(decision(5.0, shares={"f.P": {"other": 0.5, "x": 1.0, "y": 0.0}}))

    samples, _ = parsed(log, most_types=2)
    assert sum("type" in dict(labels) for _, labels in samples) == 2


def test_a_thousand_types_are_not_a_thousand_series():
    """The number asked for, and one."""
    log = run(decision(5.0, shares={"f.P": {f"t{n}": 0.5 for n in range(1000)}}))

    samples, _ = parsed(log, most_types=10)
    assert sum("type" in dict(labels) for _, labels in samples) == 11


def test_hostile_names_are_values_of_labels():
    """Quotes, backslashes and ends of lines are escaped, and come back as they were."""
    samples, _ = parsed(hostile_run(), most_types=5)

    assert samples["shedlight_events_total", (("node", HOSTILE),)] == 100


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False))
def test_every_text_and_number_can_be_written(text, number):
    """And is read as what it was."""
    family = Family("a_total", "counter", text, (Sample(number, {"x": text}),))

    samples, _ = parse(exposition([family]))
    assert samples == {("a_total", (("x", text),)): number}


def test_half_a_character_does_not_stop_the_metrics():
    """JSON can hold half a surrogate pair; UTF-8 cannot."""
    text = exposition(families(run_totals(run(batch(5.0, "a\ud800")).records)))

    assert text.encode()


def test_a_run_that_has_only_begun_has_metrics():
    """Nothing is known, and that is written without fault."""
    samples, _ = parse(exposition(families(RunTotals())))

    assert samples["shedlight_plan_changes_total", ()] == 0


def names_in(expression):
    """Find the metrics in an expression."""
    return set(re.findall(r"\bshedlight_[a-z_]+", expression))


def known():
    """Name what may be asked for."""
    found = set()
    for family in families(RunTotals(), most_types=1):
        found.add(family.name)
        if family.kind == "summary":
            found |= {f"{family.name}_sum", f"{family.name}_count"}
    return found


def test_the_dashboard_asks_for_metrics_that_there_are():
    """Every expression, and it has some."""
    dashboard = json.loads((DASHBOARDS / "grafana.json").read_text())
    asked = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", ())]
    asked += [
        v["query"]["query"]
        for v in dashboard["templating"]["list"]
        if "query" in v and isinstance(v["query"], dict)
    ]

    assert len(asked) >= 10
    for expression in asked:
        assert names_in(expression), expression
        assert names_in(expression) <= known()


def test_the_panels_of_the_dashboard_do_not_overlap():
    """Each place in the grid is taken once, and ids are unique."""
    panels = json.loads((DASHBOARDS / "grafana.json").read_text())["panels"]
    taken = set[tuple[int, int]]()
    for panel in panels:
        at = panel["gridPos"]
        places = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not places & taken
        taken |= places
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_alerts_ask_for_metrics_that_there_are():
    """And each says what is the matter and what to do."""
    groups = yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert names_in(rule["expr"]), rule
        assert names_in(rule["expr"]) <= known()
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"warning", "critical"}

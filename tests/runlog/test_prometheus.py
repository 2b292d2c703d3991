"""Metrics for Prometheus: names, values, labels, and the text they are written as."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from shedlight.runlog.aggregate import RunTotals, run_totals
from shedlight.runlog.prometheus import RunCollector, metrics_text
from shedlight.runlog.records import MicroBatchRecord, parse_record, sample_record
from shedlight.shedding.estimate import Estimate, SinkEstimate
from tests.runlog.logs import HOSTILE, batch, decision, header, hostile_run, run

DASHBOARDS = Path(__file__).parents[2] / "dashboards"


def parse(text):
    """Read samples: {(name, ((label, value), ...)): number}; and the type of each metric."""
    samples, types = {}, {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation
        types[family.name] = family.type
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} is there twice"
            samples[key] = sample.value
    return samples, types


def parsed(log, **options):
    """Read what is written of a run."""
    return parse(metrics_text(run_totals(log.records), **options))


@pytest.fixture
def log():
    """Have a run that sheds."""
    shares = {"flows.P": {"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.0}}
    types = {"a": 10, "b": 60, "c": 30, "d": 10}
    pattern = {"kept": 40, "seconds": 0.5, "matches": 2, "partial_matches": 4, "types": types}
    return run(
        header(9.0),
        batch(10.0),
        batch(12.0, kept=40, mean=3.0, patterns={"flows.P": pattern}, malformed={"s": 2}),
        decision(12.0, status="SHEDDING", shares=shares, replanned=True),
    )


def test_counters_add_up_and_gauges_are_the_last(log):
    """Two micro-batches: 200 events, 140 kept; the last took half of its 2 seconds."""
    samples, types = parsed(log)
    edge = (("node", "edge"),)

    assert samples["shedlight_events_total", edge] == 200
    assert samples["shedlight_events_shed_total", edge] == 60
    assert samples["shedlight_node_utilisation_ratio", edge] == 0.5
    assert samples["shedlight_node_latency_bound_seconds", (*edge, ("of", "mean"))] == 2
    assert samples["shedlight_pattern_matches_total", (("pattern", "flows.P"),)] == 3
    assert samples["shedlight_plan_changes_total", ()] == 1
    assert samples["shedlight_source_malformed_records_total", (("source", "s"),)] == 2
    assert types["shedlight_events"] == "counter"


def test_names_are_conventional(log):
    """Counters end in `_total`, and what has a unit in the base unit; nothing else does."""
    for name, metric_type in parsed(log, max_types=1)[1].items():
        assert name.startswith("shedlight_")
        assert not re.search(r"_(ms|minutes|kb|mb|percent|count|sum|bucket)$", name)
        if metric_type == "counter":  # the parser takes `_total` off
            assert (
                f"# TYPE {name}_total counter"
                in metrics_text(run_totals(log.records), max_types=1).decode()
            )
        else:
            assert not name.endswith("_total")


def test_latency_is_a_histogram(log):
    """100 events at 1 to 3 s and 40 at 3 to 9 s, as slow as the quantile they are below."""
    samples, types = parsed(log)
    name, edge = "shedlight_node_latency_seconds", ("node", "edge")

    assert types[name] == "histogram"
    assert samples[f"{name}_sum", (edge,)] == 100 * 1.0 + 40 * 3.0
    assert samples[f"{name}_count", (edge,)] == 140
    below = {dict(k)["le"]: v for (n, k), v in samples.items() if n == f"{name}_bucket"}
    assert below["0.5"] == 0
    assert below["1.0"] == 50
    assert below["2.0"] == 50 + 45
    assert below["3.0"] == 50 + 45 + 5 + 20
    assert below["7.5"] == 100 + 20 + 18
    assert below["10.0"] == below["+Inf"] == 140


def test_few_events_are_in_the_lower_buckets():
    """One event is at the median, not at all quantiles; no event is nowhere."""
    samples, _ = parsed(run(batch(10.0, kept=1), batch(11.0, kept=0, events=0)))

    name = "shedlight_node_latency_seconds_bucket"
    assert samples[name, (("le", "1.0"), ("node", "edge"))] == 1
    assert samples[name, (("le", "+Inf"), ("node", "edge"))] == 1


def test_a_node_has_one_status(log):
    """A series for each status that there is, so that none goes stale as 1."""
    samples, _ = parsed(log)

    found = {dict(k)["status"]: v for (n, k), v in samples.items() if n.endswith("node_status")}
    others = {"STARTING": 0, "OK": 0, "BOUND-AT-RISK": 0, "INFEASIBLE": 0}
    assert found == {"SHEDDING": 1} | others


def test_a_node_without_a_micro_batch_is_starting(log):
    """Also after a restart, whatever it was before."""
    again = run_totals([*log.records, *run(header(20.0)).records])
    for totals in (run_totals(run(header(1.0)).records), again):
        samples, _ = parse(metrics_text(totals))
        status = {
            dict(k)["status"]
            for (n, k), v in samples.items()
            if n.endswith("node_status") and v
        }
        assert status == {"STARTING"}


def test_irrelevant_events_are_no_shed_events():
    """Of 100 events a pattern can take 70, and 60 of these were kept."""
    edge = (("node", "edge"),)
    samples, _ = parsed(run(header(9.0), batch(10.0, kept=60, relevant_events=70)))
    assert samples["shedlight_events_shed_total", edge] == 10
    assert samples["shedlight_events_irrelevant_total", edge] == 30
    mixed, _ = parsed(run(header(9.0), batch(10.0, kept=60)))
    assert mixed["shedlight_events_shed_total", edge] == 40
    assert ("shedlight_events_irrelevant_total", edge) not in mixed


def test_nothing_is_labelled_with_types_unless_asked(log):
    """There may be any number of them."""
    samples, _ = parsed(log)

    assert not any("type" in dict(labels) for _, labels in samples)


def test_the_types_that_come_most_often_are_told_and_the_others_together(log):
    """Of the rest, 10 events are of a (0.5) and 10 of d (0): 0.25 of them is kept."""
    samples, _ = parsed(log, max_types=2)

    name = "shedlight_pattern_type_keep_ratio"
    found = {dict(labels)["type"]: v for (n, labels), v in samples.items() if n == name}
    assert found == {"b": 0.25, "c": 1.0, "other": 0.25}


def test_a_type_that_is_called_other_is_with_the_others():
    """No series is there twice."""
    log = run(decision(5.0, shares={"f.P": {"other": 0.5, "x": 1.0, "y": 0.0}}))

    samples, _ = parsed(log, max_types=2)
    assert sum("type" in dict(labels) for _, labels in samples) == 2


def test_a_thousand_types_are_not_a_thousand_series():
    """The number asked for, and one."""
    log = run(decision(5.0, shares={"f.P": {f"t{n}": 0.5 for n in range(1000)}}))

    samples, _ = parsed(log, max_types=10)
    assert sum("type" in dict(labels) for _, labels in samples) == 11


def test_hostile_names_are_values_of_labels():
    """Quotes, backslashes and ends of lines are escaped, and come back as they were."""
    samples, _ = parsed(hostile_run(), max_types=5)

    assert samples["shedlight_events_total", (("node", HOSTILE),)] == 100


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1e15))
def test_every_name_and_number_can_be_written(name, number):
    """And is read as what it was."""
    log = run(header(4.0, bounds={name: number}, operators={}))

    samples, _ = parsed(log)
    labels = (("node", name), ("of", "mean"))
    assert samples["shedlight_node_latency_bound_seconds", labels] == number


def test_half_a_character_does_not_stop_the_metrics():
    """JSON can hold half a surrogate pair; UTF-8 cannot."""
    samples, _ = parsed(run(batch(5.0, "a\ud800")))

    assert samples["shedlight_micro_batches_total", (("node", "a?"),)] == 1


def test_a_run_that_has_only_begun_has_metrics():
    """Nothing is known, and that is written without fault."""
    samples, _ = parse(metrics_text(RunTotals()))

    assert samples["shedlight_plan_changes_total", ()] == 0


def names_in(expression):
    """Find the metrics in an expression."""
    return set(re.findall(r"\bshedlight_[a-z_]+", expression))


def known():
    """Name what may be asked for."""
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
    return {
        family.name + ending
        for family in RunCollector(RunTotals(), max_types=1).collect()
        for ending in endings.get(family.type, [""])
    }


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


def test_what_the_unshed_sample_says_is_there_where_it_is_known():
    """A sink of which nothing is known has no numbers, and no guess."""
    known = SinkEstimate(
        keys=80,
        recall=Estimate(0.5, 0.4, 0.6),
        rate=Estimate(12.0, 10.0, 15.0),
        heavy_hitters=2,
        heavy_work=0.25,
        heavy_results=7,
    )
    unknown = SinkEstimate(keys=3, unknown="3 of the sample's keys have results, 50 are needed")
    said = {"alarms": sample_record(known), "rest": sample_record(unknown)}
    record = MicroBatchRecord(time=12.0, node="edge", unshed_sample=said)
    assert parse_record(record.model_dump_json()) == record

    samples, _ = parse(metrics_text(run_totals([record])))
    mine = {
        name: value for (name, labels), value in samples.items() if ("sink", "alarms") in labels
    }
    assert mine == {
        "shedlight_sink_sample_keys": 80,
        "shedlight_sink_recall_ratio": 0.5,
        "shedlight_sink_recall_low_ratio": 0.4,
        "shedlight_sink_recall_high_ratio": 0.6,
        "shedlight_sink_unshed_rate": 12,
        "shedlight_sink_unshed_rate_low": 10,
        "shedlight_sink_unshed_rate_high": 15,
        "shedlight_sink_heavy_hitters": 2,
    }
    others = {name for name, labels in samples if ("sink", "rest") in labels}
    assert others == {"shedlight_sink_sample_keys", "shedlight_sink_heavy_hitters"}

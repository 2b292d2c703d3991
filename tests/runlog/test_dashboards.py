"""The dashboard and the alerts in a real Prometheus: each query answers, each alert fires.

Debian has it: `apt-get install --no-install-recommends prometheus`.
"""

import json
import shutil
import socket
import subprocess
import time
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from shedlight.runlog.aggregate import run_totals
from shedlight.runlog.prometheus import metrics_text
from tests.page.conftest import page_of
from tests.page.rehearsal import BUSY, QUIET, rehearse
from tests.runlog.logs import header, run

pytestmark = pytest.mark.soak

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
SCRAPED_S = 15.0
"""How long the metrics of the run are read, once a second, before the queries are asked."""


def program(name):
    """Find a program of Prometheus, or skip."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}: apt-get install --no-install-recommends prometheus")
    return path


@contextmanager
def prometheus(target, folder):
    """Have a Prometheus that reads the metrics of a page and the alerts; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    scrape = {"job_name": "shedlight", "static_configs": [{"targets": [target]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(DASHBOARDS / "alerts.yml")],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def test_every_query_of_the_dashboard_answers(tmp_path):
    """Over a run that comes to shed; only what the run does not have may be empty."""
    going = rehearse(tmp_path / "state", quiet=5, busy=0)
    client = httpx.Client(trust_env=False)
    with closing(client), closing(going.log), page_of(going.folder) as served:
        target = f"127.0.0.1:{served.port}"
        with prometheus(target, tmp_path) as address:
            end = time.monotonic() + SCRAPED_S
            while time.monotonic() < end:
                going.second(BUSY if end - time.monotonic() < SCRAPED_S / 2 else QUIET)
                time.sleep(0.5)  # two seconds of the run in one
            empty, failed = [], []
            for query in dashboard_queries():
                reply = client.get(f"{address}/api/v1/query", params={"query": query}).json()
                if reply["status"] != "success":
                    failed.append((query, reply))
                elif not reply["data"]["result"]:
                    empty.append(query)
            rules = client.get(f"{address}/api/v1/rules").json()["data"]["groups"]

    assert failed == []
    # nobody is late, nothing is malformed, and the plan did not change in the last seconds
    allowed = ("late_events", "malformed_records", "plan_changes_total[5s]) > 0")
    assert [query for query in empty if not any(one in query for one in allowed)] == []
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}


def dashboard_queries():
    """Give all queries, with the variables that Grafana puts in."""
    dashboard = json.loads((DASHBOARDS / "grafana.json").read_text())
    asked = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", ())]
    asked += [a["expr"] for a in dashboard["annotations"]["list"] if "expr" in a]
    variables = {"$__rate_interval": "5s", "$__interval": "5s", "$node": ".*", "$pattern": ".*"}
    for name, value in variables.items():
        asked = [each.replace(name, value) for each in asked]
    assert not any("$" in each for each in asked)
    return asked


AT_EDGE = 'job="shedlight",instance="one",node="edge"'
FIRING = {
    "ShedlightBoundBroken": {
        f"shedlight_node_latency_seconds_sum{{{AT_EDGE}}}": "0+300x60",
        f"shedlight_node_latency_seconds_count{{{AT_EDGE}}}": "0+100x60",
        f'shedlight_node_latency_bound_seconds{{{AT_EDGE},of="mean"}}': "2x60",
    },
    "ShedlightPercentileBoundBroken": {
        f"shedlight_events_over_bound_total{{{AT_EDGE}}}": "0+20x60",
        f"shedlight_events_kept_total{{{AT_EDGE}}}": "0+100x60",
        f"shedlight_node_over_bound_allowed_ratio{{{AT_EDGE}}}": "0.05x60",
    },
    "ShedlightInfeasible": {f'shedlight_node_status{{{AT_EDGE},status="INFEASIBLE"}}': "1x60"},
    "ShedlightBoundAtRisk": {
        f'shedlight_node_status{{{AT_EDGE},status="BOUND-AT-RISK"}}': "1x60"
    },
    "ShedlightShedsMost": {
        f"shedlight_events_shed_total{{{AT_EDGE}}}": "0+90x60",
        f"shedlight_events_kept_total{{{AT_EDGE}}}": "0+10x60",
        f'shedlight_node_status{{{AT_EDGE},status="SHEDDING"}}': "1x60",
    },
    "ShedlightStalled": {
        f"shedlight_last_micro_batch_timestamp_seconds{{{AT_EDGE}}}": "0x60",
    },
    "ShedlightPlanFlaps": {
        'shedlight_plan_changes_total{job="shedlight",instance="one"}': "0+5x60"
    },
    "ShedlightMalformedRecords": {
        'shedlight_source_malformed_records_total{job="shedlight",source="s"}': "0+1x60"
    },
}
"""Which series make each alert fire, a sample a minute."""


def test_every_alert_fires_and_none_without_a_cause(tmp_path):
    """Each by its own series; the metrics that these name are those of a run."""
    alerts = yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())
    rules = {rule["alert"]: rule for group in alerts["groups"] for rule in group["rules"]}
    assert set(rules) == set(FIRING)
    known = metrics_text(run_totals(run(header(1.0)).records)).decode()
    cases = []
    for name, series in FIRING.items():
        assert all(
            f" {each.partition('{')[0].removesuffix('_sum').removesuffix('_count')}" in known
            for each in series
        ), series
        cases.append(
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > 0',
                        "eval_time": "50m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                    {
                        "expr": f'ALERTS{{alertname!="{name}",alertstate="firing"}}',
                        "eval_time": "50m",
                        "exp_samples": [],
                    },
                ],
            }
        )
    file = tmp_path / "cases.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(DASHBOARDS / "alerts.yml")],
                "evaluation_interval": "1m",
                "tests": cases,
            }
        )
    )
    done = subprocess.run(
        [program("promtool"), "test", "rules", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""What a run shed comes back by `shedlight recover`: all matches, and none twice."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.event_files import read_events
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.delivered import delivered_ids
from shedlight.engines.tables import prepare_operator, run_application, run_operator
from shedlight.graph import Stream, load_application
from shedlight.shedding.shares import PatternShares
from shedlight.why.run_record import shed_rows
from tests.cli.test_main import shedlight  # noqa: F401  # a fixture

pytestmark = pytest.mark.spark

APPLICATION = """
name: lossy
unshed_sample: 5%
sources:
  s: {{format: parquet, path: "{folder}/in", time: at, id: [n]}}
nodes: {{edge: {{}}, core: {{}}}}
operators:
  w:
    node: edge
    input: [s]
    patterns:
      P: SELECT a.n AS one WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 ms
      Q: SELECT a.n AS one WHERE SEQ(a.type = 2, NOT(x.type = 3), b.type = 0) WITHIN 1 ms
      K: SELECT a.n AS one WHERE SEQ(a.type = 1, b.type = 2) WITHIN 4 ms PARTITION BY key
  v:
    node: core
    input: [w.P]
    patterns: {{R: "SELECT a.one WHERE SEQ(a.source = 'P', b.source = 'P') WITHIN 1 ms"}}
sinks:
  p: {{input: w.P, format: parquet, path: "{folder}/out/p"}}
  q: {{input: w.Q, format: csv, path: "{folder}/out/q", options: {{header: true}}}}
  r: {{input: v.R, format: json, path: "{folder}/out/r"}}
  k: {{input: w.K, format: json, path: "{folder}/out/k"}}
"""


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory):
    """Run an application that keeps half of what two of its patterns use, or of their keys."""
    folder = tmp_path_factory.mktemp("lossy")
    (folder / "in").mkdir()
    draw, rows = np.random.default_rng(5), np.arange(3000)
    columns = {"n": rows, "at": rows * 40, "type": draw.integers(0, 4, len(rows))}
    columns["key"] = draw.integers(0, 60, len(rows))
    pq.write_table(pa.table(columns), folder / "in" / "1.parquet")
    (folder / "app.yaml").write_text(APPLICATION.format(folder=folder))
    application = load_application(folder / "app.yaml").application
    half = {
        Stream("P", "w"): PatternShares({}, default_share=0.5),
        Stream("K", "w"): PatternShares({}, by_key=True, default_share=0.5),
    }
    state = str(folder / "state" / "lossy")
    run_on_spark(application, spark, checkpoint=state, shares=half, deliver=True)
    return folder, application


def ids_of(sink):
    """Give the ids that a sink has."""
    return delivered_ids(sink).to_pylist()


def test_delivered_and_recovered_are_all_matches(run, shedlight):  # noqa: F811
    """Of each sink, also of one downstream; what was not shed is not recovered."""
    folder, application = run
    done = shedlight(*("recover", folder / "app.yaml", "--output", folder / "missed"), "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["from"] == "the beginning of the stored events"
    assert summary["first_shed"]["edge"]["micro_batch"] == 0
    matches = run_application(application, {"s": read_events(folder / "in")})
    for name, sink in application.sinks.items():
        found = matches[sink.input.operator].complex_events[sink.input.name]
        wanted = set(found["id"].to_pylist())
        missed = read_events(folder / "missed" / f"{name}.parquet")["id"].to_pylist()
        delivered = ids_of(sink)
        assert len(set(delivered + missed)) == len(delivered + missed), "no id twice"
        assert wanted <= {*delivered, *missed}
        assert set(missed) <= wanted
        assert bool(missed) == (name != "q")
        assert 0 < len(wanted & set(delivered)) == summary["sinks"][name]["delivered"]


@pytest.mark.parametrize("name", ["P", "K"])
def test_what_was_shed_is_told_from_the_record(run, name):
    """What is left of the events has the matches that were delivered, and no others."""
    folder, application = run
    events = read_events(folder / "in")
    operator, tables = prepare_operator(application, {"s": events}, "w")
    paths, stream = CheckpointPaths(folder / "state" / "lossy"), Stream(name, "w")
    shed = shed_rows(application, paths, stream, operator, tables)[0]
    assert {(each.node, each.plan, each.share) for each in shed.sheddings} == {("edge", 1, 0.5)}
    assert all(each.is_certain for each in shed.sheddings)

    kept = tables[0].filter(pa.array(shed.of_row < 0))
    assert 0 < len(kept) < len(events)
    found = run_operator(operator, [kept]).complex_events[name]
    assert sorted(found["id"].to_pylist()) == sorted(ids_of(application.sinks[name.lower()]))


def test_why_says_what_was_shed(run, shedlight):  # noqa: F811
    """By which plan, with what can be done; not without the state of the run."""
    folder, application = run
    events = read_events(folder / "in")
    operator, tables = prepare_operator(application, {"s": events}, "w")
    paths = CheckpointPaths(folder / "state" / "lossy")
    shed = shed_rows(application, paths, Stream("P", "w"), operator, tables)[0]
    row = int(np.flatnonzero(shed.of_row >= 0)[0])
    ask = ("why", folder / "app.yaml", "--pattern", "P", "--event", row)
    done = shedlight(*ask, "--checkpoint", folder / "state" / "lossy")
    assert done.returncode == 0, done.stderr
    assert f"event {row} (" in done.stdout
    assert "was shed by plan 1 in micro-batch 0 of node edge, which keeps 50.0%" in done.stdout
    assert "shed" not in shedlight(*ask).stdout
    assert "has no run in it" in shedlight(*ask, "--checkpoint", folder).stderr


def test_a_stretch_is_told_and_written_as_asked(run, shedlight, tmp_path):  # noqa: F811
    """To one file for one sink, with what is in the stretch alone."""
    folder, _ = run
    file = tmp_path / "missed.jsonl"
    asked = ("--sink", "p", "--since", "20000", "--until", "60000")
    done = shedlight("recover", folder / "app.yaml", "--output", file, *asked)
    assert done.returncode == 0, done.stderr
    first, shed, _, row = done.stdout.splitlines()
    assert first.endswith("without shedding, from the beginning of the stored events")
    assert shed.startswith("node edge has shed since micro-batch 0, 20")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert row.split()[0] == "p"
    assert row.split()[3] == f"{len(rows):,}"
    assert all(
        "1970-01-01T00:00:00.02" <= each["time"] <= "1970-01-01T00:00:00.06" for each in rows
    )
    assert rows
    assert "if it goes on from its checkpoint" in done.stderr


def test_what_cannot_be_is_told(run, shedlight, tmp_path):  # noqa: F811
    """Another application, no run, one file for several sinks, a sink that is not there."""
    folder, _ = run
    app = folder / "app.yaml"
    text = app.read_text()
    other = tmp_path / "app.yaml"
    other.write_text(text.replace("a.type = 0, b", "a.type = 3, b"))
    state = ("--checkpoint", folder / "state" / "lossy")
    cases = [
        ((other, *state), "was of other patterns:\n  before: operators.w.P"),
        ((other,), "has no run in it; name the folder of its state by --checkpoint"),
        ((app, "--sink", "nobody"), "there is no sink 'nobody'"),
        ((app, "--delivered", "p=nowhere"), "there is no such file or folder"),
        ((app, "--delivered", "nowhere"), "does not say of which sink it is"),
    ]
    for arguments, problem in cases:
        done = shedlight("recover", *arguments, "--output", tmp_path / "missed")
        assert done.returncode == 1
        assert problem in done.stderr
    done = shedlight("recover", app, "--output", tmp_path / "missed.csv")
    assert "is one file, and there are the sinks p, q, r, k" in done.stderr
    assert not list(tmp_path.glob("missed*"))

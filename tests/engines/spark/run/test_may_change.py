"""What is asked before a checkpoint goes on with another application; nothing runs."""
# ruff: noqa: SLF001  # a step at a time, for all of them together take Spark

import json
from contextlib import nullcontext
from os.path import basename
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run import change, streaming
from shedlight.engines.spark.run.deployment import Deployment, UserStreams
from shedlight.engines.spark.run.fingerprint import (
    CheckpointRecord,
    describe,
    fingerprint_lines,
)
from shedlight.engines.spark.run.sharding import Sharding
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.engines.spark.support.versions import Versions
from shedlight.errors import InputError, StateError
from shedlight.graph import Stream, load_application, with_schemas
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import UserCall
from shedlight.shedding.shares import PatternShares, Shares, sheddable

SOURCE = {"format": "parquet", "path": "in", "time": "time", "id": ["id"]}
FIND = "SELECT a.id AS one WHERE a.type = 0"


def made(*operators, late=True):
    """Make an application whose operators, each on a node of its own, read one source."""
    more = {"late": {"format": "parquet", "path": "late"}} if late else {}
    row = {
        "name": "change",
        "sources": {"s": SOURCE | more},
        "nodes": {f"on_{name}": {} for name in operators},
        "operators": {
            name: {"node": f"on_{name}", "input": ["s"], "patterns": {name.upper(): FIND}}
            for name in operators
        },
        "sinks": {
            name: {"input": f"{name}.{name.upper()}", "format": "parquet", "path": name}
            for name in operators
        },
    }
    return load_application(json.dumps(row)).application


def test_the_side_output_of_late_events_reads_what_it_has_begun_to_read(tmp_path):
    """Spark numbers what a query reads, and does not go on if it is something else."""
    paths = CheckpointPaths(tmp_path)
    earlier: Any = SimpleNamespace(paths=paths, application=made("w"))
    change._check_late(earlier, made("w", "x"))  # it has not begun

    offsets = tmp_path / "deliveries" / "s.late" / "offsets"
    assert offsets.parent == paths.delivery("s.late")
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n{}")
    change._check_late(earlier, made("w"))
    change._check_late(earlier, made("w", "x", late=False))
    for others in (("w", "x"), ("x",)):
        found = f"was begun with other operators than {', '.join(others)}; have those that"
        with pytest.raises(StateError, match=found):
            change._check_late(earlier, made(*others))

    earlier.application = made("w", "x", late=False)  # it came with no side output
    with pytest.raises(StateError, match="or leave `late` of s out"):
        change._check_late(earlier, made("w", "x"))


def test_a_file_that_lacks_a_column_changes_nothing(tmp_path, monkeypatch):
    """It is said when the new queries are made, before the change is on record."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1], "time": [2]}), tmp_path / "in" / "1.parquet")
    monkeypatch.chdir(tmp_path)
    columns = dict.fromkeys(["id", "time", "type"], DataType.BIGINT)
    own = with_schemas(made("w"), {"s": columns})
    monkeypatch.setattr(streaming, "can_double", lambda _: False)
    monkeypatch.setattr(streaming, "Deployment", lambda *_, **__: SimpleNamespace(own=own))
    run = SimpleNamespace(_options=Options(), _spark=None, _node=None)
    given = tmp_path, UserStreams(), made("w")
    Live._make_deployment(run, *given, is_earlier=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"1\.parquet lacks the column 'type'"):
        Live._make_deployment(run, *given)  # type: ignore[arg-type]


def test_the_application_of_before_has_its_functions():
    """Though no pattern of the new one calls them, and whatever Spark calls one."""
    row = written_with_functions("SELECT a.id AS one WHERE risk(a.name) = twice(a.id)")
    columns = {"id": DataType.BIGINT, "time": DataType.BIGINT, "name": DataType.STRING}
    before = with_schemas(load_application(row).application, {"s": columns})
    record = CheckpointRecord(
        lines=(), sharding=Sharding(2), application=json.loads(json.dumps(describe(before, ())))
    )
    now = with_schemas(
        load_application(written_with_functions(FIND.replace("type", "id"))).application,
        {"s": columns},
    )
    assert not now.sources["s"].columns
    again = with_schemas(change.recorded_application(record, now), {"s": columns})
    read = again.sources["s"].columns.values()
    calls = {each.name: each.function for each in read if isinstance(each, UserCall)}
    assert calls["risk"].call is basename
    assert (calls["twice"].call, calls["twice"].returns) == ("bround", DataType.STRING)


def written_with_functions(pattern):
    """Write an application with functions of the user."""
    functions = {
        "risk": {"python": "os.path:basename", "returns": "string"},
        "twice": {"spark": "bround", "returns": "string"},
    }
    patterns = {"w": {"node": "n", "input": ["s"], "patterns": {"P": pattern}}}
    sinks = {"k": {"input": "w.P", "format": "parquet", "path": "k"}}
    row = {"name": "f", "functions": functions, "sources": {"s": SOURCE}, "nodes": {"n": {}}}
    return json.dumps(row | {"operators": patterns, "sinks": sinks})


def test_a_node_without_sources_has_nothing_to_be_seen(tmp_path):
    """It may have been killed before its last micro-batch was noted, and is not held up."""
    row = json.loads(written_with_functions(FIND))
    row["nodes"]["m"] = {}
    row["operators"]["v"] = {"node": "m", "input": ["w.P"], "patterns": {"Q": FIND}}
    row["operators"]["v"]["patterns"]["Q"] = "SELECT a.one AS one WHERE a.one = 1"
    row["sinks"]["k"]["input"] = "v.Q"
    application = load_application(json.dumps(row)).application
    plans = SimpleNamespace(active=ActivePlan(1, after=3))
    earlier: Any = SimpleNamespace(
        paths=CheckpointPaths(tmp_path),
        chains=Sharding(2).chains(application),
        nodes=dict.fromkeys("nm", SimpleNamespace(plans=plans)),
    )
    for node in "nm":
        commits = tmp_path / node / "query" / "commits"
        commits.mkdir(parents=True)
        (commits / "4").touch()
    assert not change._is_seen(earlier, "n")
    assert change._is_seen(earlier, "m")


def test_a_micro_batch_that_fails_is_said(monkeypatch):
    """And not that sources gave nothing."""
    failed = SimpleNamespace(
        isActive=False, stop=lambda: None, exception=lambda: ValueError("a row is malformed")
    )
    writer = SimpleNamespace(trigger=lambda **_: SimpleNamespace(start=lambda: failed))
    monkeypatch.setattr(change, "outbox_writer", lambda *_: writer)
    monkeypatch.setattr(change, "with_query_conf", lambda *_: nullcontext())
    monkeypatch.setattr(change, "to_user_error", lambda error: StateError(f"so: {error}"))
    with pytest.raises(StateError, match="so: a row is malformed"):
        change._run_once(None, SimpleNamespace(nodes={"n": None}), "n")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shares", [{}, None, {Stream("P", "w"): PatternShares({}, by_key=True)}]
)
def test_what_was_begun_ends_with_the_shedder_that_it_began_with(tmp_path, monkeypatch, shares):
    """Buffered events carry who keeps them, whatever shedder is asked for now."""
    row = json.loads(written_with_functions(FIND))
    row["nodes"]["n"] = {"bound": "3 s"}
    application = load_application(json.dumps(row)).application
    taken: list[Shares] = []
    monkeypatch.setattr(streaming, "can_double", lambda _: False)
    monkeypatch.setattr(streaming, "Deployment", lambda *given, **_: taken.append(given[3]))
    run = SimpleNamespace(_options=Options(shares=shares), _spark=None, _node=None)
    for may in (sheddable(application), {}):
        lines = fingerprint_lines(application, may)
        record = CheckpointRecord(lines=lines, sharding=Sharding(2))
        given = tmp_path, UserStreams(), application, record
        Live._make_deployment(run, *given, is_earlier=True)  # type: ignore[arg-type]
        assert taken[-1].keys() == may.keys()
    assert taken[0] == (shares or sheddable(application))


@pytest.mark.parametrize(("plan", "pressure"), [(None, 1.0), ({}, 0.25)])
def test_pressure_ends_with_the_controller(tmp_path, plan, pressure):
    """Where shares are for good nobody would take it back."""
    store = PlanStore(tmp_path)
    store.activate(ActivePlan(store.publish({}, {}), pressure=0.25, after=7))
    query = SimpleNamespace(
        plans=store, own_shares=dict, publish=lambda shares: store.publish(shares, {})
    )
    fixed = {Stream("P", "w"): PatternShares({}, default_share=0.5)}
    changed = SimpleNamespace(
        nodes={"n": query}, record=SimpleNamespace(versions=Versions(number=2))
    )
    changed._shares, changed._plan = fixed, plan
    changed._carried = lambda *_: {}
    Deployment.begin(changed)  # type: ignore[arg-type]
    active = store.active
    assert active is not None
    assert (active.plan, active.version, active.pressure, active.after) == (2, 2, pressure, 7)

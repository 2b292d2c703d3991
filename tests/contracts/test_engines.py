"""The contract of engines: tables, simulator and Spark find the same, and shed the same.

One application has a sink for everything that a pattern can be. Each engine runs it with shares
of one, if it has shares, and with a plan; what its sinks get is compared sink by sink.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.tables import run_application
from shedlight.graph import Stream, load_application
from shedlight.shedding.shares import PatternShares, Shares
from tests.contracts.engines import (
    Case,
    Engine,
    simulator_engine,
    spark_engine,
    tables_engine,
)
from tests.engines.spark.runs import Row, in_order

APPLICATION = """
name: contract
sources:
  events: {format: parquet, path: events, time: time, id: id}
  unordered: {format: parquet, path: unordered, time: time, id: id, lateness: 200 ms}
nodes: {split: {}, whole: {}}
operators:
  keys:
    node: split
    input: events
    patterns:
      Pair: >-
        SELECT a.key AS key, b.x AS x WHERE SEQ(a.type = 0, b.type = 1) AND b.x > a.x
        WITHIN 2 s PARTITION BY key
      Unbroken: >-
        SELECT a.key AS key WHERE SEQ(a.type = 0, NOT(n.type = 2), b.type = 3)
        WITHIN 2 s PARTITION BY key
  stream:
    node: whole
    input: events
    patterns:
      Missing: SELECT a.id AS first WHERE SEQ(a.type = 0, NOT(b.type = 1)) WITHIN 50 ms
      Shared: SELECT a.id AS first WHERE SEQ(a.type = 2, b.type = 3) WITHIN 60 ms REUSE
      Counted: SELECT a.id AS first WHERE AND(a.type = 2, b.type = 3) WITHIN 5 EVENTS
      Repeated: SELECT SUM(b.x) AS x WHERE SEQ(a.type = 0, b.type = 1 {2,3}) WITHIN 300 ms
  late:
    node: whole
    input: unordered
    patterns:
      Ordered: SELECT a.id AS first WHERE SEQ(a.type = 0, b.type = 1) WITHIN 150 ms
  joined:
    node: whole
    input: [keys.Pair, stream.Counted]
    patterns:
      Rising: SELECT a.x AS x WHERE SEQ(a.source = 'Pair', b.source = 'Pair') AND b.x > a.x
        WITHIN 500 ms
      Both: SELECT a.key AS key WHERE AND(a.source = 'Pair', b.source = 'Counted') WITHIN 1 s
sinks:
  keyed: {input: keys.Pair, format: parquet, path: out/keyed}
  keyed-timed-out: {input: keys.Pair, timed_out: true, format: parquet, path: out/keyed-late}
  not-in-between: {input: keys.Unbroken, format: parquet, path: out/unbroken}
  absence: {input: stream.Missing, format: parquet, path: out/missing}
  reuse: {input: stream.Shared, format: parquet, path: out/shared}
  count-window: {input: stream.Counted, format: parquet, path: out/counted}
  count-window-timed-out:
    {input: stream.Counted, timed_out: true, format: parquet, path: out/counted-late}
  repetition: {input: stream.Repeated, format: parquet, path: out/repeated}
  late-events: {input: late.Ordered, format: parquet, path: out/ordered}
  second-level: {input: joined.Rising, format: parquet, path: out/rising}
  second-level-timed-out:
    {input: joined.Rising, timed_out: true, format: parquet, path: out/rising-late}
  two-inputs: {input: joined.Both, format: parquet, path: out/both}
"""
SINKS = tuple(load_application(APPLICATION).application.sinks)
CUTS = (250,)
LATENESS = 200_000
PLAN: Shares = {
    Stream("Pair", "keys"): PatternShares({"type=0": 0.7, "type=1": 0.7}, by_key=True),
    Stream("Unbroken", "keys"): PatternShares({"type=0": 0.6, "type=2": 1.0, "type=3": 0.8}),
    Stream("Missing", "stream"): PatternShares({"type=0": 0.5, "type=1": 1.0}),
    Stream("Shared", "stream"): PatternShares({"type=2": 0.5}, default_share=0.9),
    Stream("Counted", "stream"): PatternShares({}, default_share=1.0),  # all, or it is off
    Stream("Repeated", "stream"): PatternShares({"type=1": 0.8}),
    Stream("Ordered", "late"): PatternShares({"type=0": 0.4, "type=1": 0.9}),
    Stream("Rising", "joined"): PatternShares({"source=Pair": 0.6}),
    Stream("Both", "joined"): PatternShares({"source=Pair": 0.5, "source=Counted": 0.9}),
}
SHARES: Mapping[str, Shares | None] = {
    "none": None,
    "one": dict.fromkeys(PLAN, PatternShares({}, default_share=1.0)),
    "plan": PLAN,
}


def _events(seed: int, first_id: int = 0, until: int = 12_000_000) -> pa.Table:
    """Draw 50 events a second, in order of time."""
    rng = np.random.default_rng(seed)
    number = until // 20_000
    columns = {
        "time": np.sort(rng.choice(until, number, replace=False)),
        "id": np.arange(first_id, first_id + number),
        "type": rng.integers(0, 4, number),
        "key": rng.integers(0, 6, number),
        "x": rng.random(number),
    }
    return pa.table(columns)


def _unordered(*, with_late: bool) -> pa.Table:
    """Delay events by less than the lateness; some are late, but come after a cut.

    Within a micro-batch there is no order of arrival, so there no event is late on Spark.
    """
    table = _events(2)
    delays = np.random.default_rng(3).integers(0, LATENESS, len(table))
    order = np.argsort(table["time"].to_numpy() + delays, kind="stable")
    (cut,) = CUTS
    table = table.take(pa.array(order))
    late = _events(4, first_id=10_000, until=1_000_000) if with_late else table.slice(0, 0)
    return pa.concat_tables([table.slice(0, cut), late, table.slice(cut)]).combine_chunks()


def _case(engine: Engine, *, cut: bool = False, shares: Shares | None = None) -> Case:
    unordered = _unordered(with_late=engine.takes_late_events)
    return Case(
        application=load_application(APPLICATION).application,
        tables={"events": _events(1), "unordered": unordered},
        cuts=CUTS if cut else (),
        shares=shares,
    )


@pytest.fixture(
    scope="module",
    params=["tables", "simulator", pytest.param("spark", marks=pytest.mark.spark)],
)
def engine(request, tmp_path_factory):
    """Give every engine in turn."""
    if request.param == "spark":
        spark = request.getfixturevalue("spark")
        return spark_engine(spark, lambda: tmp_path_factory.mktemp("contract"))
    return {"tables": tables_engine, "simulator": simulator_engine}[request.param]()


_RUNS: dict[tuple[str, str], Mapping[str, list[Row]]] = {}


@pytest.fixture
def run(engine, request):
    """Run the application once with each shares, in whatever order tests ask for it."""

    def run_once(shares: str) -> Mapping[str, list[Row]]:
        key = (request.node.callspec.params["engine"], shares)
        if key not in _RUNS:
            _RUNS[key] = engine.run(_case(engine, cut=True, shares=SHARES[shares]))
        return _RUNS[key]

    return run_once


@cache
def _expected(*, shed: bool = False) -> Mapping[str, list[Row]]:
    """Run all at once; of the engines for tables and simulation, the first that can."""
    engine = simulator_engine() if shed else tables_engine()
    return engine.run(_case(engine, shares=PLAN if shed else None))


def test_events_are_late_and_out_of_order():
    """Else there would be nothing to agree on."""
    case = _case(tables_engine())
    times = case.tables["unordered"]["time"].to_numpy()
    assert (times[1:] < times[:-1]).sum() > 100
    assert run_application(case.application, case.tables)["late"].late == 50


def _identities(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["time"], row["id"]) for row in in_order(rows)]


@pytest.mark.parametrize("sink", SINKS)
def test_matches_are_the_same_however_events_are_cut(run, engine, sink):
    """Also with a share of one; with the same values where there are any."""
    rows = run("one" if engine.sheds else "none")[sink]

    assert len(rows) > 5
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert _identities(rows) == _identities(_expected()[sink])
    if engine.selects:
        assert in_order(rows) == in_order(_expected()[sink])


def test_a_plan_keeps_the_same_events(run, engine):
    """Whatever the engine and the cut: an event is kept by the hash of its id or key."""
    if not engine.sheds:
        pytest.skip("it has no shares")
    for sink, rows in run("plan").items():
        assert _identities(rows) == _identities(_expected(shed=True)[sink]), sink
        if sink == "count-window":
            assert _identities(rows) == _identities(_expected()[sink])
        elif sink == "second-level":  # what times out of it would be invented: it is off
            assert not rows
        elif "timed-out" not in sink:
            assert 0 < len(rows) < len(_expected()[sink]), sink

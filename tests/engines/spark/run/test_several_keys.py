"""Patterns of different keys on one node: each key has its own chain."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.support.placement import operator_chains
from shedlight.graph import load_application
from shedlight.shedding.shares import PatternShares
from tests.engines.spark.runs import locally, on_spark, with_files

TEXT = """
name: keys
sources:
  s: {{format: parquet, path: s, time: time, id: [n], malformed: {{format: json, path: {bad}}}}}
nodes: {{edge: {{bound: 1 s}}, core: {{}}}}
operators:
  users:
    node: edge
    input: [s]
    patterns: {{U: "SELECT b.n AS n WHERE SEQ(a.x = 0, b.x = 1) WITHIN 9 s PARTITION BY user"}}
  cards:
    node: edge
    input: [s]
    patterns:
      C: SELECT b.n AS m, b.card WHERE SEQ(a.x = 1, b.x = 2) WITHIN 9 s PARTITION BY card
      D: SELECT b.n AS n WHERE SEQ(a.x = 2, NOT(c.x = 1), b.x = 0) WITHIN 9 s PARTITION BY card
  all:
    node: edge
    input: [s, cards.C]
    patterns:
      A: SELECT b.m AS m WHERE SEQ(a.x = 0, b.source = 'C') WITHIN 3 s
      B: SELECT b.n AS n WHERE SEQ(a.x = 0, b.x = 0) WITHIN 3 s PARTITION BY user
  last:
    node: core
    input: [users.U, cards.C]
    patterns: {{L: "SELECT a.n AS n WHERE SEQ(a.source = 'U', b.source = 'C') WITHIN 5 s"}}
sinks:
  d: {{input: cards.D, format: parquet, path: d}}
  a: {{input: all.A, format: parquet, path: a}}
  b: {{input: all.B, format: parquet, path: b}}
  l: {{input: last.L, format: parquet, path: l}}
"""


def _application(folder="bad"):
    return load_application(TEXT.format(bad=folder)).application


def _events(number=300):
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "time": np.cumsum(rng.integers(1, 900_000, number)),
            "n": np.arange(number),
            "user": rng.integers(0, 5, number),
            "card": [f"c{i}" for i in rng.integers(0, 4, number)],
            "x": rng.integers(0, 3, number),
        }
    )


def test_each_key_has_its_own_chain():
    """But where one operator reads another, or has patterns of several keys."""
    chains = operator_chains(_application(), "edge", 2)
    found = [[spec.name for spec in chain.operators] for chain in chains]
    assert found == [["users"], ["cards", "all"]]
    assert [list(chain.shards) for chain in chains] == [[0, 1], [2]]


def test_several_keys_are_simulated():
    """Without shedding what `match` finds, and with it less."""
    application, tables = _application(), {"s": _events()}
    expected = locally(application, tables)
    simulated = simulate(application, tables, Service(seconds={}))
    for sink, rows in expected.items():
        assert rows
        ids = sorted(str(row["id"]) for row in rows)
        assert sorted(simulated.sinks[sink]["id"].to_pylist()) == ids


@pytest.mark.soak
@pytest.mark.spark
def test_several_keys_on_one_node_of_spark(spark, tmp_path):
    """What `match` finds; and by keys, what the simulator sheds."""
    application, tables = _application(tmp_path / "bad"), {"s": _events()}
    files = with_files(application, tables, tmp_path, cuts=[140])
    assert on_spark(spark, files, tmp_path) == locally(application, tables)
    shares = {
        stream: PatternShares({}, by_key=True, default_share=0.6)
        for spec in (application.operators["users"], application.operators["cards"])
        for stream in spec.outputs
    }
    simulated = simulate(application, tables, Service(seconds={}), shares=shares)
    found = on_spark(spark, files, tmp_path / "shed", shares)
    for sink, rows in found.items():
        ids = sorted(str(row["id"]) for row in rows)
        assert ids == sorted(simulated.sinks[sink]["id"].to_pylist())
    assert 0 < len(found["l"]) < len(locally(application, tables)["l"])

"""Applications on Spark find what they find without it, however their events are cut."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.finite import _in_one_batch
from shedlight.engines.spark.step.state_files import MIN_FILE_BYTES
from shedlight.graph import (
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern
from shedlight.matching.compile import predicates
from shedlight.shedding.shares import PatternShares
from tests import strategies
from tests.engines.applications import drawn_events, paper_application
from tests.engines.spark.runs import locally, on_spark, with_files
from tests.kernel import table_of

pytestmark = pytest.mark.spark


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.soak), 7])
def partitioned(spark, request):
    """Shuffle to one and seven partitions."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", request.param)
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", before)


def _paper_events():
    return {f"s{i}": drawn_events(20, 20, i) for i in (1, 2)}


def _identities(rows):
    return [(row["time"], row["id"]) for row in rows]


def test_with_a_plan_spark_and_simulator_shed_the_same_events(spark, tmp_path):
    """By ids: in the JVM those of sources, and those of complex events too."""
    application, tables = paper_application(), _paper_events()
    shares = {
        Stream("Q11", "w1"): PatternShares({"type=0": 0.7, "type=1": 1.0}),
        Stream("Q21", "w2"): PatternShares({"type=0": 0.5}),
        Stream("Q22", "w2"): PatternShares({"type=1": 0.8, "type=2": 0.6, "type=3": 1.0}),
        Stream("Q41", "w4"): PatternShares({"source=Q12": 0.5, "source=Q22": 0.9}),
    }
    simulated = simulate(application, tables, Service(seconds={}), shares=shares)

    files = with_files(application, tables, tmp_path)
    found = on_spark(spark, files, tmp_path, shares)

    for name, rows in found.items():
        expected = sorted(_identities(simulated.sinks[name].to_pylist()))
        assert _identities(rows) == expected
        assert 0 < len(rows) < len(locally(application, tables)[name])


def _source(name):
    return Source(name=name, format="parquet", path=name, time="at", id=("id0", "id1"))


def _random_application(patterns):
    """Two sources, and an operator for each pattern that reads both."""
    names = [f"P{number}" for number in range(len(patterns))]
    return build_application(
        "random",
        [_source("s0"), _source("s1")],
        [Node(name="n")],
        [
            OperatorSpec(
                name=f"w{name}",
                node="n",
                inputs=(Stream("s0"), Stream("s1")),
                patterns={name: pattern},
            )
            for name, pattern in zip(names, patterns, strict=True)
        ],
        [Sink(name=n, input=Stream(n, f"w{n}"), format="parquet", path=n) for n in names],
    )


@settings(
    max_examples=1,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(strategies.patterns(), min_size=12, max_size=12),
    strategies.ready_streams(25, 40),
    st.lists(st.integers(1, 20), min_size=1, max_size=2),
)
def test_random_patterns_find_what_they_find_without_spark(spark, patterns, events, cuts):
    """The whole language, a dozen patterns at once, cut anywhere."""
    application = _random_application(patterns)
    tables = {f"s{i}": table_of([one for one in events if one.input == i]) for i in (0, 1)}
    expected = locally(application, tables)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = on_spark(spark, with_files(application, tables, folder, cuts), folder)
    assert _plain(found) == _plain(expected)


@settings(
    max_examples=1,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(strategies.patterns(), min_size=12, max_size=12),
    strategies.ready_streams(30, 60),
    st.lists(st.sampled_from([0.0, 0.4, 0.8, 1.0, None]), min_size=12, max_size=12),
)
def test_random_patterns_shed_what_the_simulator_sheds(spark, patterns, events, shares):
    """Windows of events count what is shed; patterns without a share keep everything."""
    application = _random_application(patterns)
    tables = {f"s{i}": table_of([one for one in events if one.input == i]) for i in (0, 1)}
    plan = {
        Stream(f"P{i}", f"wP{i}"): PatternShares({}, default_share=share)
        for i, share in enumerate(shares)
        if share is not None
    }
    simulated = simulate(application, tables, Service(seconds={}), shares=plan)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = on_spark(spark, with_files(application, tables, folder), folder, plan)
    for name, rows in found.items():
        assert _identities(rows) == sorted(_identities(simulated.sinks[name].to_pylist()))


def _plain(found):
    """Make the two zeros one, and let NaN be NaN."""
    return {
        name: [
            repr({k: v + 0.0 if isinstance(v, float) else v for k, v in row.items()})
            for row in rows
        ]
        for name, rows in found.items()
    }


def _keyed_application():
    """Keyed patterns on one node, and on another node two operators, one reading the other."""
    keyed = "SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s PARTITION BY key"
    joined = "SELECT a.key AS key, b.time AS at WHERE SEQ(a.key > 0, b.key > 0) WITHIN 5 s"
    chained = "SELECT a.at AS first WHERE a.key > 3"
    return build_application(
        "keyed",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="edge"), Node(name="core")],
        [
            _operator("w1", "edge", Stream("s"), K=keyed),
            _operator("w2", "core", Stream("K", "w1"), J=joined),
            _operator("w3", "core", Stream("J", "w2"), C=chained),
        ],
        [
            Sink(name="k", input=Stream("K", "w1"), format="parquet", path="k"),
            Sink(name="c", input=Stream("C", "w3"), format="parquet", path="c"),
        ],
    )


def _operator(name, node, stream, **patterns):
    parsed = {key: parse_pattern(text).pattern for key, text in patterns.items()}
    return OperatorSpec(name=name, node=node, inputs=(stream,), patterns=parsed)


def _keyed_events():
    table = drawn_events(50, 20, 3, types=3)
    keys = np.random.default_rng(5).integers(0, 9, len(table))
    return {"s": table.append_column("key", pa.array(keys))}


def test_keys_in_several_groups_are_put_in_order_downstream(partitioned, tmp_path):
    """Each shard sends its watermark; the node downstream waits for the last of them."""
    application, tables = _keyed_application(), _keyed_events()
    expected = locally(application, tables)
    assert all(map(len, expected.values()))

    files = with_files(application, tables, tmp_path, [300, 500])
    found = on_spark(partitioned, files, tmp_path, shards=7)

    assert found == expected


def test_by_key_and_within_a_node_spark_and_simulator_shed_the_same(spark, tmp_path):
    """Whole keys before they are sent anywhere, and complex events that never leave a node."""
    application, tables = _keyed_application(), _keyed_events()
    shares = {
        Stream("K", "w1"): PatternShares({"type=0": 0.6, "type=1": 0.6}, by_key=True),
        Stream("C", "w3"): PatternShares({}, default_share=0.5),
    }
    simulated = simulate(application, tables, Service(seconds={}), shares=shares)

    files = with_files(application, tables, tmp_path)
    found = on_spark(spark, files, tmp_path, shares)

    for name, rows in found.items():
        assert _identities(rows) == sorted(_identities(simulated.sinks[name].to_pylist()))
        assert 0 < len(rows) < len(locally(application, tables)[name])


def _mixed_application(lateness):
    """One operator over two sources that have different columns and ids."""
    text = "SELECT a.name AS name, b.x AS x WHERE SEQ(a.name = 'p', b.x > 2.5) WITHIN 1 ms"
    more = "SELECT a.x AS x WHERE AND(a.x < 2.5, b.name != 'p') WITHIN 1 ms"
    patterns = {"P": parse_pattern(text).pattern, "M": parse_pattern(more).pattern}
    s1 = Source(name="s1", format="parquet", path="s1", time="at", id=("n",), lateness=lateness)
    s2 = Source(name="s2", format="parquet", path="s2", time="when", id=("code", "number"))
    inputs = (Stream("s1"), Stream("s2"))
    return build_application(
        "mixed",
        [s1, s2],
        [Node(name="n")],
        [OperatorSpec(name="w", node="n", inputs=inputs, patterns=patterns)],
        [
            Sink(name=name, input=Stream(name, "w"), format="parquet", path=name)
            for name in patterns
        ],
    )


def _mixed_events():
    rng = np.random.default_rng(7)
    at = np.arange(400) * 50 + rng.integers(-200, 200, 400)
    first = {"at": at, "n": np.arange(400), "name": rng.choice(["p", "q", "r"], 400)}
    when = np.sort(rng.integers(0, 20_000, 300))
    second = {
        "when": pa.array(when).cast(pa.timestamp("us", tz="UTC")),
        "code": rng.choice(["a", "b"], 300),
        "number": np.arange(300, dtype=np.int32),
        "x": rng.uniform(0, 5, 300),
    }
    return {"s1": pa.table(first), "s2": pa.table(second)}


def test_inputs_with_other_columns_and_out_of_order(spark, tmp_path):
    """What an input has not is null; within the lateness, order does not matter."""
    application, tables = _mixed_application(lateness=400), _mixed_events()
    expected = locally(application, tables)
    assert all(map(len, expected.values()))
    found = on_spark(spark, with_files(application, tables, tmp_path, [110, 250]), tmp_path)
    assert found == expected


def test_types_too_many_to_list_are_shed_in_python(spark, tmp_path, monkeypatch):
    """The events are those that the JVM would keep, but they travel first."""
    application, tables = _mixed_application(lateness=400), _mixed_events()
    ordered = {**tables, "s1": tables["s1"].sort_by("at")}
    shares = {Stream("P", "w"): PatternShares({}, default_share=0.6)}
    expected = simulate(application, ordered, Service(seconds={}), shares=shares).sinks
    monkeypatch.setattr(predicates, "MAX_SIGNATURES", 1)
    found = on_spark(spark, with_files(application, ordered, tmp_path), tmp_path, shares)
    for name, rows in found.items():
        assert _identities(rows) == sorted(_identities(expected[name].to_pylist()))


@pytest.mark.parametrize(
    "min_state_bytes", [0, pytest.param(MIN_FILE_BYTES, marks=pytest.mark.soak)]
)
def test_a_run_that_failed_goes_on_where_it_was(spark, tmp_path, monkeypatch, min_state_bytes):
    """The second of three files cannot be read at first; nothing is lost, nothing is twice.

    From files of its state and from Spark's rows.
    """
    monkeypatch.setattr(node_query, "MIN_FILE_BYTES", min_state_bytes)
    application, tables = _keyed_application(), _keyed_events()
    files = with_files(application, tables, tmp_path, [300, 500])
    second = tmp_path / "in" / "s" / "0001.parquet"
    good, times = second.read_bytes(), (second.stat().st_atime, second.stat().st_mtime)
    second.write_bytes(b"damaged")
    os.utime(second, times)
    with pytest.raises(StreamingQueryException):
        on_spark(spark, files, tmp_path)

    second.write_bytes(good)
    os.utime(second, times)
    assert on_spark(spark, files, tmp_path) == locally(application, tables)


@pytest.mark.parametrize(
    ("path", "is_small"),
    [
        ("{0}", True),
        ("file:{0}", True),
        ("{0}/*.parquet", False),
        ("hdfs://host:8020/in", False),
    ],
)
def test_only_what_is_seen_to_be_small_gets_its_end_at_once(tmp_path, path, is_small):
    """Else events that are read after the end of their source would be late."""
    (tmp_path / "a.parquet").write_bytes(b"events")
    source = Source(
        name="s", format="parquet", path=path.format(tmp_path), time="time", id=("id",)
    )
    assert _in_one_batch(source) == is_small

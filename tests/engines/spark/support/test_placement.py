"""Which operators of a node run in which shards."""

import pytest

from shedlight.engines.spark.support.placement import node_order, operator_chains
from shedlight.errors import ApplicationError
from shedlight.graph import Node, OperatorSpec, Source, Stream, build_application
from shedlight.graph.topology import longest_windows
from shedlight.language import parse_pattern
from tests.engines.applications import paper_application


def _operator(name, node, *inputs, key=""):
    text = "SELECT a.x AS x, a.key AS key WHERE SEQ(a.x = 0, b.x = 1) WITHIN 2 s"
    pattern = parse_pattern(text + (f" PARTITION BY {key}" if key else "")).pattern
    return OperatorSpec(name=name, node=node, inputs=inputs, patterns={f"Q{name}": pattern})


def _application(*operators):
    sources = [
        Source(name=name, format="parquet", path=name, time="t", id=("id",)) for name in "st"
    ]
    nodes = [Node(name=name) for name in ("n", "m")]
    return build_application("app", sources, nodes, operators, [])


def _names(chains):
    return [
        ([spec.name for spec in placement.operators], list(placement.shards))
        for placement in chains
    ]


def test_operators_that_do_not_touch_run_side_by_side():
    """The paper's joins read different streams, so each has a shard of its own."""
    assert _names(operator_chains(paper_application(), "core", 2)) == [
        (["w3"], [0]),
        (["w4"], [1]),
    ]


def test_operators_that_share_a_stream_share_groups():
    """Directly, or by way of a third."""
    application = _application(
        _operator("a", "n", Stream("s")),
        _operator("b", "n", Stream("t")),
        _operator("c", "n", Stream("s"), Stream("t")),
    )
    assert _names(operator_chains(application, "n", 2)) == [(["a", "b", "c"], [0])]


def test_a_common_key_has_several_groups():
    """Also where operators read each other, if complex events have the key of their events."""
    keyed = _operator("a", "n", Stream("s"), key="key")
    other = _operator("b", "n", Stream("t"), key="x")
    apart = _application(keyed, other)
    assert _names(operator_chains(apart, "n", 3)) == [(["a"], [0, 1, 2]), (["b"], [3, 4, 5])]

    chained = _application(keyed, _operator("b", "n", Stream("Qa", "a"), key="key"))
    assert _names(operator_chains(chained, "n", 3)) == [(["a", "b"], [0, 1, 2])]
    assert _names(operator_chains(chained, "n", 2, 5)) == [(["a", "b"], [5, 6])]


@pytest.mark.parametrize(
    ("pattern", "shards"),
    [
        ("SELECT a.key, b.x AS x WHERE SEQ(a.x = 0, b.x = 1)", 3),
        ("SELECT b.key AS key WHERE AND(a.x = 0, b.x = 1 {2})", 3),
        ("SELECT EACH * WHERE SEQ(a.x = 0, b.x = 1)", 3),
        ("SELECT EACH key WHERE SEQ(a.x = 0, b.x = 1)", 3),
        ("SELECT a.x AS key WHERE SEQ(a.x = 0, b.x = 1)", 1),
        ("SELECT a.key AS other WHERE SEQ(a.x = 0, b.x = 1)", 1),
        ("SELECT a.key + 0 AS key WHERE SEQ(a.x = 0, b.x = 1)", 1),
        ("SELECT b.key AS key WHERE SEQ(a.x = 0, b.x = 1?, c.x = 2)", 1),
        ("SELECT b.key AS key WHERE SEQ(a.x = 0, OR(b.x = 1, c.x = 2))", 1),
        ("SELECT COUNT(a) AS key WHERE SEQ(a.x = 0, b.x = 1)", 1),
    ],
)
def test_operators_that_read_each_other_share_a_key_if_it_is_selected(pattern, shards):
    """By its own name, and never null where the key of its events is not."""
    parsed = parse_pattern(f"{pattern} WITHIN 5 s PARTITION BY key").pattern
    feeding = OperatorSpec(name="a", node="n", inputs=(Stream("s"),), patterns={"Qa": parsed})
    reading = _operator("b", "n", Stream("Qa", "a"), key="key")
    (chain,) = operator_chains(_application(feeding, reading), "n", 3)
    assert len(chain.shards) == shards


def test_operators_of_other_keys_have_chains_of_their_own():
    """Unless one reads the other; who has the same keys shares a chain."""
    keyed = _operator("a", "n", Stream("s"), key="key")
    other = _operator("b", "n", Stream("s"), key="x")
    plain = _operator("c", "n", Stream("s"))
    again = _operator("d", "n", Stream("s"), Stream("t"), key="key")
    chains = operator_chains(_application(keyed, other, plain, again), "n", 2)
    assert _names(chains) == [(["b"], [0, 1]), (["c"], [2]), (["a", "d"], [3, 4])]

    reader = _operator("e", "n", Stream("Qa", "a"), key="x")
    chains = operator_chains(_application(keyed, other, reader), "n", 2)
    assert _names(chains) == [(["b"], [0, 1]), (["a", "e"], [2])]


def test_nodes_come_after_those_that_feed_them_or_are_refused():
    """A node is one query, so two of them cannot feed each other."""
    assert node_order(paper_application()) == ("edge-1", "edge-2", "core")
    circle = _application(
        _operator("a", "n", Stream("s")),
        _operator("b", "m", Stream("Qa", "a")),
        _operator("c", "n", Stream("Qb", "b")),
    )
    with pytest.raises(ApplicationError, match="nodes feed each other"):
        node_order(circle)


def test_the_longest_window_of_a_key_is_that_of_all_patterns():
    """Patterns of one key change their epochs together."""
    assert longest_windows(paper_application()) == {"": 2_000_000}

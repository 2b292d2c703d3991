"""Links of limited capacity in application files, and what can be wrong with them."""

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import explain, load_application

TEXT = """
name: linked
sources:
  s: {{format: csv, path: in, time: t, id: [n], schema: {{t: bigint, n: bigint, k: bigint}}}}
channels:
  format: kafka
  options: {{kafka.bootstrap.servers: "localhost:9092"}}
  links: {links}
nodes: {{edge-1: {{bound: 3 s}}, edge-2: {{}}, core: {{bound: 3 s}}}}
operators:
  w1: {{node: edge-1, input: [s], patterns: {{P: "{pattern}"}}}}
  w2: {{node: edge-2, input: [s], patterns: {{P2: "{pattern}"}}}}
  w3:
    node: core
    input: [w1.P, w2.P2]
    patterns: {{Q: "SELECT p.n WHERE SEQ(p.source = 'P', q.source = 'P2') WITHIN 1 s"}}
sinks: {{k: {{input: w3.Q, format: csv, path: out}}}}
"""


PATTERN = "SELECT a.n WHERE SEQ(a.k = 0, b.k = 1) WITHIN 1 s"


def _load(links):
    return load_application(TEXT.format(links=links, pattern=PATTERN))


@pytest.mark.parametrize(
    ("written", "rate"),
    [("2 MB/s", 2e6), ("1.5 kB/s", 1500), ("300B/s", 300), ("0.5 GB/s", 5e8)],
)
def test_a_link_has_bytes_per_second(written, rate):
    """The edge is written as in a graph."""
    application = _load(f"{{edge-1 -> core: {written}}}").application
    assert application.channels.links == {("edge-1", "core"): rate}


def test_check_says_what_a_link_takes():
    """With the unit that suits it."""
    text = explain(_load("{edge-1 -> core: 2500 kB/s}").application)
    assert "  link edge-1 -> core: at most 2.5 MB/s" in text


WRONG = {
    "{edge-3 -> core: 2 MB/s}": "edge-3 -> core names the unknown node 'edge-3'; known: core,",
    "{edge-1 -> edge-2: 2 MB/s}": "is no link, for edge-2 reads nothing that edge-1 finds",
    "{core -> edge-1: 2 MB/s}": "known: edge-1 -> core, edge-2 -> core",
    "{edge-2 -> core: 2 MB/s}": "needs a bound at edge-2, for without one nothing is shed",
    "{edge-1 -> core: 2}": "be bytes per second, more than none, such as '2 MB/s', got '2'",
    "{edge-1 -> core: 0 MB/s}": "more than none, such as '2 MB/s', got '0 MB/s'",
    "{edge-1 core: 2 MB/s}": "has 'edge-1 core'; write two nodes, as in edge-2 -> core",
}


@pytest.mark.parametrize(("links", "said"), WRONG.items())
def test_what_is_wrong_with_a_link_is_said(links, said):
    """With what there is instead."""
    with pytest.raises(ApplicationError) as error:
        _load(links)
    assert str(error.value).startswith("line 8: channels.links")
    assert said.rstrip() in str(error.value)

"""Which sinks an unshed sample of keys can speak of."""

import pytest

from shedlight.graph import Stream, load_application
from shedlight.graph.closures import find_closures
from shedlight.graph.sampled import find_sampled_sinks

A, B, C, D = Stream("A", "w"), Stream("B", "w"), Stream("C", "v"), Stream("D", "v")
TEXT = """\
name: keyed
sources: {{s: {{format: parquet, path: s, time: t, id: n}}}}
nodes: {{edge: {{bound: 3 s}}, core: {{}}}}
operators:
  w:
    node: edge
    input: s
    {shed_by}
    patterns:
      A: SELECT {a} WHERE SEQ(x.type = 0, y.type = 1) WITHIN 10 s PARTITION BY user
      B: SELECT z.user AS user WHERE SEQ(z.type = 2, q.type = {b} WITHIN 10 s PARTITION BY user
  v:
    node: core
    input: [w.A, w.B]
    patterns:
      C: SELECT p.user WHERE SEQ(p.source = 'A', r.source = 'B') WITHIN 1 min {c}
      D: SELECT o.user WHERE o.source = 'A' AND o.user > 0 {c}
sinks:
  c: {{input: v.C, format: parquet, path: c}}
  d: {{input: v.D, format: parquet, path: d}}
  b: {{input: w.B, format: parquet, path: b}}
"""


def sampled(a="x.user AS user", b="3)", c="PARTITION BY user", shed_by=""):
    """Find what the sample can speak of in an application with such patterns."""
    application = load_application(TEXT.format(a=a, b=b, c=c, shed_by=shed_by)).application
    return find_sampled_sinks(application, find_closures(application))


@pytest.mark.parametrize("shed_by", ["", "shed_by: event"])
@pytest.mark.parametrize("a", ["x.user AS user", "LAST(y.user) AS user"])
def test_a_key_is_followed_to_the_sources(a, shed_by):
    """However others are shed, the sample's keys are whole."""
    found = sampled(a=a, shed_by=shed_by)
    assert found.patterns == {"c": (A, B, C), "d": (A, D), "b": (B,)}
    assert found.unknown == {}
    assert set(found.groups) == {A, B, C, D}
    assert len(set(found.groups.values())) == 1


def test_a_pattern_without_a_key_is_not_known():
    """A sink before it is."""
    found = sampled(c="")
    assert found.patterns == {"b": (B,)}
    assert found.unknown == {
        "c": "v.C has no PARTITION BY",
        "d": "v.D has no PARTITION BY",
    }
    assert set(found.groups) == {B}


def test_a_key_that_is_another_attribute_upstream_is_not_known():
    """The user downstream is the shop of the event."""
    found = sampled(a="x.shop AS user")
    problem = "w.A is not partitioned by what becomes user of v.C"
    assert found.unknown == {"c": problem, "d": problem.replace("v.C", "v.D")}
    assert set(found.groups) == {B}


def test_protected_closures_are_not_sampled():
    """They keep whole keys by thresholds, of which the sample knows nothing."""
    found = sampled(b="3, NOT(u.type = 4))")
    assert found.patterns == {"d": (A, D)}
    assert found.unknown == {
        "c": "w.B is in a protected closure",
        "b": "w.B is in a protected closure",
    }

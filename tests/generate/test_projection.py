"""Columns that nobody reads are left out of a simulation, and no others."""

import pyarrow as pa

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.tables import run_application
from shedlight.generate.projection import project_columns
from shedlight.graph import Stream, load_application
from tests.engines.applications import drawn_events

APPLICATION = """
name: levels
sources: {s: {format: parquet, path: s, time: time, id: id}}
nodes: {n: {}}
operators:
  w:
    node: n
    input: s
    patterns:
      P: SELECT a.x AS x, b.x AS unread WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s
  v:
    node: n
    input: w.P
    patterns:
      Q: SELECT a.unread WHERE SEQ(a.source = 'P', b.source = 'P')CONDITION WITHIN 2 s
sinks: {k: {input: v.Q, format: parquet, path: k}}
"""
RISING = " AND b.x > a.x"


def _application(condition):
    return load_application(APPLICATION.replace("CONDITION", condition)).application


def test_a_condition_across_events_reads_its_columns_upstream():
    """Of the complex events that are compared, and of the source that they have it from."""
    projected, read = project_columns(_application(RISING))

    assert read[Stream("P", "w")].names == {"source", "x"}
    assert [item.name for item in projected.operators["w"].patterns["P"].select] == ["x"]
    assert read[Stream("s")].names == {"type", "x"}
    unconditional, read = project_columns(_application(""))
    assert "x" not in read[Stream("s")].names
    assert [i.name for i in unconditional.operators["w"].patterns["P"].select] == ["nothing"]


def test_a_condition_on_upstream_columns_holds_in_a_simulation():
    """Two complex events are compared by what their pattern selected."""
    events = drawn_events(40, 20, 2)
    x = [(7 * i) % 31 for i in range(len(events))]
    tables = {"s": events.append_column("x", pa.array(x))}
    identities = {}
    for condition in ("", RISING):
        application = _application(condition)
        found = simulate(application, tables, Service(seconds={}), interval=7.0).sinks["k"]
        expected = run_application(application, tables)["v"].complex_events["Q"]
        identities[condition] = set(found["id"].to_pylist())
        assert len(expected) > 10
        assert identities[condition] == set(expected["id"].to_pylist())
    assert identities[""] != identities[RISING]


TWO_IDS = """
name: two-ids
sources:
  s: {format: parquet, path: s, time: time, id: number}
  t: {format: parquet, path: t, time: time, id: id}
nodes: {n: {}}
operators:
  w:
    node: n
    input: s
    patterns:
      P: SELECT b.number AS number WHERE SEQ(a.type = 0, b.type = 1) WITHIN 9 s
  v:
    node: n
    input: [w.P, s, t]
    patterns:
      Q: SELECT a WHERE SEQ(a.source = 'P', b.type = 2, c.type = 3) WITHIN 9 s
sinks: {k: {input: v.Q, format: parquet, path: k}}
"""


def test_identities_are_those_of_match_where_inputs_have_the_id_columns_of_each_other():
    """A selected column that is called as an id elsewhere, and a source that has both."""
    application = load_application(TWO_IDS).application
    events = drawn_events(60, 20, 4)
    texts = pa.array(map(str, range(len(events))), pa.string())
    both = events.set_column(1, "id", texts).append_column("number", events["id"])
    tables = {"s": both.drop_columns(["id"]), "t": both}
    expected = run_application(application, tables)["v"].complex_events["Q"]

    found = simulate(application, tables, Service(seconds={}), interval=7.0).sinks["k"]

    assert len(expected) > 5
    assert set(found["id"].to_pylist()) == set(expected["id"].to_pylist())

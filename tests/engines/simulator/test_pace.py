"""Events that are fed faster than they were recorded: with their own times, or squeezed."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.scenario import replay_scenario, shorten_windows
from shedlight.engines.tables import run_application
from shedlight.graph import Stream
from shedlight.language import parse_pattern
from shedlight.model.spark_costs import Costs
from tests.engines.applications import drawn_events, paper_application

SERVICE = Service(seconds={Stream("Q21", "w2"): 0.002, Stream("Q22", "w2"): 0.004})


def ids(table):
    """Give the ids of complex events in order."""
    return sorted(table["id"].to_pylist()) if len(table) else []


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.2, 400.0),
    st.floats(0.3, 20.0),
    st.sampled_from([None, Costs(0.3, 1e-4, 1e-4)]),
)
def test_events_that_only_arrive_faster_match_as_they_are(seed, pace, interval, costs):
    """At any pace, in queues and in micro-batches: the results are those of `match`."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(60, 10, seed + i) for i in (1, 2)}
    expected = run_application(application, tables)

    found = simulate(
        application,
        tables,
        SERVICE,
        interval=interval,
        pace=pace,
        squeeze=False,
        costs=None if costs is None else dict.fromkeys(application.nodes, costs),
    )

    for sink in application.sinks.values():
        events = expected[str(sink.input.operator)].complex_events[sink.input.name]
        assert ids(found.sinks[sink.name]) == ids(events)
    assert all(counts.late == counts.expired == 0 for counts in found.counts.values())


def test_squeezed_events_share_windows_with_more_of_them():
    """And so there is more to be found: windows of 2 s with four times as many events."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(3, 60, i) for i in (1, 2)}
    kept, squeezed = (
        simulate(application, tables, SERVICE, pace=4.0, squeeze=squeeze)
        for squeeze in (False, True)
    )
    assert len(squeezed.sinks["k3"]) > 1.5 * len(kept.sinks["k3"]) > 0


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_load_is_reached_either_way(squeeze):
    """In as many events and as much less time."""
    tables = {f"s{i}": drawn_events(60, 20, i) for i in (1, 2)}
    scenario, unshed = replay_scenario(
        paper_application(), tables, SERVICE, load=3.0, duration=None, seed=1, squeeze=squeeze
    )
    assert unshed.demand["edge-2"] == pytest.approx(3.0, rel=0.02)
    assert scenario.events == sum(map(len, tables.values()))
    assert scenario.duration == pytest.approx(20 / scenario.pace, rel=0.05)


def test_plans_are_made_for_windows_as_long_as_they_take():
    """A window of 2 s of events that come four times as fast is over after half a second."""
    application = paper_application()
    shortened = shorten_windows(application, 4.0)
    for name, spec in application.operators.items():
        for pattern, text in spec.patterns.items():
            window = shortened.operators[name].patterns[pattern].within
            assert text.within is not None
            assert window is not None
            assert window.length == text.within.length // 4 == 500_000
    assert shorten_windows(application, 1.0) == application


def test_windows_of_events_stay():
    """They are as long as their events take."""
    application = paper_application()
    spec = application.operators["w1"]
    pattern = parse_pattern("SELECT a.type WHERE SEQ(a, b) WITHIN 5 EVENTS").pattern
    changed = {**spec.patterns, "Q11": pattern}
    operators = {**application.operators, "w1": replace(spec, patterns=changed)}
    counted = replace(application, operators=operators)
    assert shorten_windows(counted, 7.0).operators["w1"].patterns["Q11"] == pattern


def test_an_empty_source_has_no_pace():
    """Nothing arrives, whatever its pace."""
    empty = drawn_events(60, 1, 1).slice(0, 0)
    tables = {"s1": empty, "s2": pa.table(empty.to_pydict(), schema=empty.schema)}
    found = simulate(paper_application(), tables, SERVICE, pace=3.0, squeeze=False)
    assert all(not counts.arrived for counts in found.counts.values())

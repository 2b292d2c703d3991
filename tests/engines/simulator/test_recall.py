"""Recall and precision: against sets of events, worked out in plain Python."""

import pyarrow as pa
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.recall import compare_results
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, paper_application
from tests.engines.simulator.recall_by_sets import recall_by_sets

SHARES = {
    Stream("Q21", "w2"): PatternShares({"type=0": 0.95}),
    Stream("Q22", "w2"): PatternShares({"type=1": 0.95, "type=2": 1.0, "type=3": 1.0}),
}


def _outputs(shares):
    """Simulate the paper's example; both sources number their events from 0 on."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(20, 30, i) for i in (1, 2)}
    for name, table in tables.items():
        ids = pa.array(range(len(table)))
        tables[name] = table.set_column(table.column_names.index("id"), "id", ids)
    streams = [stream for stream in application.streams if stream.operator]
    done = simulate(
        application,
        tables,
        Service(seconds=dict.fromkeys(streams, 1e-6)),
        shares=shares,
        with_outputs=True,
    )
    return done.outputs


def test_they_are_what_sets_of_events_say():
    """At two levels; of what is lost, and of what is paired anew."""
    application, shed, unshed = paper_application(), _outputs(SHARES), _outputs({})

    compared = compare_results(application, shed, unshed)

    for name, sink in application.sinks.items():
        recall = compared[name]
        expected = recall_by_sets(shed, unshed, sink.stream)
        assert (recall.results, recall.unshed) == (expected.results, expected.unshed)
        assert 0 < recall.same < recall.unshed
        assert (recall.recall, recall.precision) == (expected.recall, expected.precision)
        assert recall.recall_by_overlap == expected.recall_by_overlap
        assert recall.precision_by_overlap == expected.precision_by_overlap


def test_nothing_shed_is_nothing_lost():
    """Every measure is one."""
    outputs = _outputs({})
    for recall in compare_results(paper_application(), outputs, outputs).values():
        measures = (recall.recall, recall.precision)
        assert (*measures, recall.recall_by_overlap, recall.precision_by_overlap) == (1,) * 4


def _table(*events):
    ids = ["-".join(map(str, each)) for each in events]
    listed = pa.array(events, pa.list_(pa.int64()))
    return pa.table({"id": pa.array(ids, pa.string()), "events": listed})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([(1, 2)], [(1, 2)], (1, 1, 1)),
        ([(1, 3)], [(1, 2)], (0, 1, 1)),  # half of it
        ([(1, 3, 4)], [(1, 2)], (0, 0, 0)),  # less than half of ours
        ([(1, 2, 3)], [(1, 2, 4), (3, 5, 6)], (0, 1, 1)),
        ([], [(1, 2)], (0, 0, 0)),
        ([(1, 2)], [], (0, 0, 0)),
    ],
)
def test_at_least_half_of_both(ours, theirs, expected):
    """Same, overlapping and covered; without results there is no share of them."""
    application = paper_application()
    sink = next(iter(application.sinks.values()))
    compared = compare_results(
        application,
        {sink.stream: _table(*ours)} if ours else {},
        {sink.stream: _table(*theirs)} if theirs else {},
    )
    recall = compared[sink.name]
    assert (recall.same, recall.overlapping, recall.covered) == expected
    assert (recall.recall is None) == (not theirs)
    assert (recall.precision is None) == (not ours)

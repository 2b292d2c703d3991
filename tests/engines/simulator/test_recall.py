"""Recall and precision: against sets of events, worked out in plain Python."""

import pyarrow as pa
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.recall import compare_results
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, paper_application

SHARES = {
    Stream("Q21", "w2"): PatternShares({"type=0": 0.95}),
    Stream("Q22", "w2"): PatternShares({"type=1": 0.95, "type=2": 1.0, "type=3": 1.0}),
}


def _outputs(shares):
    application = paper_application()
    tables = {f"s{i}": drawn_events(20, 30, i) for i in (1, 2)}
    streams = [stream for stream in application.streams if stream.operator]
    done = simulate(
        application,
        tables,
        Service(seconds=dict.fromkeys(streams, 1e-6)),
        shares=shares,
        with_outputs=True,
    )
    return done.outputs


def _events(outputs):
    """Say of which events of sources each complex event is made, by its id."""
    found: dict[str, frozenset[object]] = {}
    for table in outputs.values():  # upstream first
        for row in table.to_pylist():
            parts = (found.get(each, frozenset([each])) for each in row["events"])
            found[row["id"]] = frozenset().union(*parts)
    return found


def _overlap(one, other):
    return 2 * len(one & other) >= max(len(one), len(other))


def test_they_are_what_sets_of_events_say():
    """At two levels; of what is lost, and of what is paired anew."""
    application, shed, unshed = paper_application(), _outputs(SHARES), _outputs({})

    compared = compare_results(application, shed, unshed)

    ours, theirs = _events(shed), _events(unshed)
    for name, sink in application.sinks.items():
        mine = [ours[i] for i in shed[sink.stream]["id"].to_pylist()]
        others = [theirs[i] for i in unshed[sink.stream]["id"].to_pylist()]
        recall = compared[name]
        assert (recall.results, recall.unshed) == (len(mine), len(others))
        assert 0 < recall.same < recall.unshed
        assert recall.same == len(set(mine) & set(others))
        assert recall.overlapping == sum(any(_overlap(m, o) for o in others) for m in mine)
        assert recall.covered == sum(any(_overlap(m, o) for m in mine) for o in others)
        assert recall.recall == recall.same / len(others)
        assert recall.precision == recall.same / len(mine)
        assert recall.recall_by_overlap == recall.covered / len(others)
        assert recall.precision_by_overlap == recall.overlapping / len(mine)


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

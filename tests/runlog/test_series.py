"""How a node went over time, and sums."""

import pytest

from shedlight.runlog.aggregate import run_totals
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord
from shedlight.runlog.series import MAX_POINTS, NodeSeries, merge_points, split_evenly
from tests.runlog.logs import batch, decision, header, run


def series_of(*rows, timed=True):
    """Make the series of node edge from the records of a log."""
    series = NodeSeries()
    for record in run(*rows).records:
        match record:
            case MicroBatchRecord():
                series.add_batch(record, timed=timed)
            case DecisionRecord():
                series.add_decision(record, "edge")
    return series


def test_rates_are_over_the_time_since_the_micro_batch_before():
    """200 events in 4 seconds, of which the micro-batch took one."""
    first, second = series_of(batch(10.0), batch(14.0, events=200, kept=50)).points

    assert (first.rate, first.busy) == (100.0, 1.0)
    assert (second.rate, second.kept_rate, second.kept, second.busy) == (50.0, 12.5, 0.25, 0.25)


def test_what_is_kept_is_a_share_of_the_relevant_events():
    """Irrelevant ones are not shed."""
    (point,) = series_of(batch(10.0, events=100, kept=30, relevant_events=40)).points
    assert point.kept == 0.75


def test_no_events_have_no_share():
    """Nothing was kept of nothing: a gap in the line, not a zero."""
    (point,) = series_of(batch(10.0, events=0, kept=0)).points
    assert (point.kept, point.mean) == (None, None)


def test_a_node_has_its_loads_and_statuses():
    """A status is listed when it becomes another; a point has the load decided last."""
    series = series_of(
        batch(9.5),
        decision(10.0),
        batch(10.5),
        decision(11.0, status="SHEDDING"),
        decision(12.0, status="SHEDDING"),
    )
    assert [point.load for point in series.points] == [None, 0.5]
    assert series.statuses == [(10.0, "OK"), (11.0, "SHEDDING")]


def test_the_past_gets_coarser_and_keeps_its_peaks_and_sums():
    """Of 20,000 micro-batches at most 3,000 points are kept; the last are as they were."""
    rows = [batch(10.0 + i, events=i, kept=0 if i != 7 else 1, mean=9.0) for i in range(20_000)]
    points = series_of(*rows).points

    assert MAX_POINTS / 2 < len(points) <= MAX_POINTS
    assert sum(point.rate * point.span for point in points) == pytest.approx(sum(range(20_000)))
    assert sum(point.span for point in points) == pytest.approx(20_000)
    assert max(point.p99 or 0.0 for point in points) == 27.0
    assert [point.span for point in points[-1000:]] == [1.0] * 1000
    assert points[-1].time == 20_009.0
    assert points == sorted(points, key=lambda point: point.time)


def test_neighbours_are_put_together_by_how_long_they_were():
    """A rate of 100 for a second and one of 50 for four are 60 together."""
    first, second = series_of(batch(10.0), batch(14.0, events=200, kept=0)).points
    both = merge_points([first, second])
    assert (both.time, both.span, both.rate, both.mean, both.kept) == (
        14.0,
        5.0,
        60.0,
        1.0,
        0.5,
    )


def test_the_mean_latency_is_of_events_not_of_micro_batches():
    """10 events at 4 s and 90 at 1 s: 1.3 s; one micro-batch is above the bound of 2 s."""
    node = run_totals(
        run(header(9.0), batch(10.0, kept=10, mean=4.0), batch(11.0, kept=90)).records
    ).nodes["edge"]

    assert node.mean_latency == pytest.approx(1.3)
    assert (node.over, node.timed_batches, node.worst) == (1, 2, (4.0, 10.0))


def test_latency_says_nothing_if_all_events_were_there_before():
    """As `shedlight run --once` has it."""
    log = run(header(9.0, timed=False), batch(10.0))

    assert run_totals(log.records).nodes["edge"].mean_latency is None
    assert series_of(batch(10.0), timed=False).points[0].mean is None


def test_patterns_are_summed_up():
    """Matches add up, partial matches are those of the last micro-batch."""
    log = run(batch(10.0, matches=3), batch(11.0, matches=4))

    pattern = run_totals(log.records).patterns["flows.P"]

    assert (pattern.kept, pattern.matches, pattern.seconds, pattern.partial_matches) == (
        200,
        7,
        1.0,
        4,
    )


def test_each_node_sees_all_malformed_records():
    """Two nodes read the source: 5 are not 10."""
    log = run(batch(10.0, "a", malformed={"s": 5}), batch(10.0, "b", malformed={"s": 5}))

    assert run_totals(log.records).malformed == {"s": 5}


@pytest.mark.parametrize("number", [0, 1, 599, 600, 601, 7200])
def test_points_are_split_without_losing_any(number):
    """In order, and in no more chunks than asked for."""
    chunks = list(split_evenly(range(number), 600))

    assert [item for chunk in chunks for item in chunk] == list(range(number))
    assert len(chunks) <= 600

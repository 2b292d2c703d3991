"""How a run went over time, and its sums."""

import pytest

from shedlight.runlog.aggregate import run_totals
from shedlight.runlog.series import (
    decision_entries,
    keep_share_rows,
    match_series,
    node_series,
    split_evenly,
)
from tests.runlog.logs import batch, decision, header, run


def test_rates_are_over_the_time_since_the_micro_batch_before():
    """200 events in 4 seconds, of which the micro-batch took one."""
    log = run(header(9.0), batch(10.0), batch(14.0, events=200, kept=50))

    first, second = node_series(log.records)["edge"].points

    assert (first.rate, first.utilisation) == (100.0, 1.0)
    assert (second.rate, second.kept_rate, second.batch.kept_share) == (50.0, 12.5, 0.25)
    assert second.utilisation == 0.25


def test_a_new_start_is_no_long_micro_batch():
    """Between two runs nobody was there to read."""
    log = run(header(9.0), batch(10.0), header(1000.0), batch(1001.0))

    assert [p.rate for p in node_series(log.records)["edge"].points] == [100.0, 100.0]


def test_no_events_have_no_share():
    """Nothing was kept of nothing: a gap in the line, not a zero."""
    log = run(batch(10.0, events=0, kept=0))

    (point,) = node_series(log.records)["edge"].points
    assert (point.batch.kept_share, point.latency) == (None, {})


def test_a_node_has_its_loads_and_statuses():
    """A status is listed when it becomes another."""
    log = run(
        header(9.0),
        batch(10.0),
        decision(10.0),
        decision(11.0, status="SHEDDING"),
        decision(12.0, status="SHEDDING"),
    )

    series = node_series(log.records)["edge"]

    assert series.loads == [(10.0, 0.5), (11.0, 0.5), (12.0, 0.5)]
    assert series.statuses == [(10.0, "OK"), (11.0, "SHEDDING")]


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
    assert node_series(log.records)["edge"].points[0].latency == {}


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
    assert match_series(log.records) == {"flows.P": [(10.0, 3.0), (11.0, 7.0)]}


def test_each_node_sees_all_malformed_records():
    """Two nodes read the source: 5 are not 10."""
    log = run(batch(10.0, "a", malformed={"s": 5}), batch(10.0, "b", malformed={"s": 5}))

    assert run_totals(log.records).malformed == {"s": 5}


def test_shares_are_told_with_their_range_and_last_change():
    """Those that are kept least come first."""
    log = run(
        decision(10.0, shares={"f.P": {"a": 0.5, "b": 0.2}}),
        decision(11.0, shares={"f.P": {"a": 0.1, "b": 0.2}}),
        decision(12.0, shares={"f.P": {"a": 0.1, "b": 0.2}}),
    )

    first, second = keep_share_rows(log.decisions)

    assert (first.type, first.current, first.lowest, first.highest) == ("a", 0.1, 0.1, 0.5)
    assert (first.changed, second.type, second.changed) == (11.0, "b", 10.0)


def test_a_type_that_the_last_plan_does_not_name_has_no_share_now():
    """The log names only some types."""
    log = run(decision(10.0, shares={"f.P": {"a": 0.5}}), decision(11.0))

    assert [one.current for one in keep_share_rows(log.decisions)] == [None]


def test_decisions_that_change_nothing_are_put_together():
    """A new plan or a new status has a line of its own."""
    log = run(
        decision(1.0),
        decision(2.0),
        decision(3.0, "too much", status="SHEDDING", replanned=True),
        decision(4.0, status="SHEDDING"),
        decision(5.0, status="SHEDDING"),
        decision(6.0),
    )

    found = decision_entries(log.decisions)

    assert [(one.decision.time, one.last.time, one.number) for one in found] == [
        (1.0, 2.0, 2),
        (3.0, 3.0, 1),
        (4.0, 5.0, 2),
        (6.0, 6.0, 1),
    ]
    assert [dict(one.changes) for one in found] == [
        {},
        {"edge": "SHEDDING"},
        {},
        {"edge": "OK"},
    ]


@pytest.mark.parametrize("number", [0, 1, 599, 600, 601, 7200])
def test_points_are_split_without_losing_any(number):
    """In order, and in no more chunks than asked for."""
    chunks = list(split_evenly(range(number), 600))

    assert [item for chunk in chunks for item in chunk] == list(range(number))
    assert len(chunks) <= 600

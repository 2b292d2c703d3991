"""Totals of a run: bounds of the mean and of percentiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.graph.application import PERCENTILES
from shedlight.runlog.aggregate import held_latency, run_totals, share_over
from shedlight.runlog.prometheus import metrics_text
from shedlight.runlog.records import parse_record, run_header
from tests.graph.applications import loaded
from tests.runlog.logs import batch, header, run

sizes = st.lists(st.floats(0, 100), min_size=3, max_size=3).map(sorted)


def totals(*batches, percentile=95, bound=2.0):
    """Add up micro-batches of a node with a bound by percentile."""
    log = run(header(1.0, bound=bound, percentiles={"edge": percentile}), *batches)
    return run_totals(log.records).nodes["edge"]


def test_the_log_says_of_what_a_bound_is():
    """And what is read is what was written."""
    nodes = loaded(("bound: 3 s", "bound: {p95: 3 s}"))
    written = run_header(nodes, 1.0)

    assert (written.bounds["edge"], written.percentiles) == (3.0, {"edge": 95})
    assert parse_record(written.model_dump_json()) == written
    assert run_header(loaded(), 1.0).percentiles == {}


def test_a_percentile_is_held_against_its_bound_and_not_the_mean():
    """A p95 of twice the mean is above 2 s where the mean is 1.5 s."""
    node = totals(batch(10.0, mean=0.5), batch(11.0, mean=1.5))

    assert (node.over, node.timed_batches, node.worst) == (1, 2, (3.0, 11.0))
    assert not node.keeps_bound
    assert totals(batch(10.0, mean=0.5)).keeps_bound
    assert totals(batch(10.0, mean=1.5), percentile=50).keeps_bound


def test_a_micro_batch_that_keeps_nothing_is_not_within_the_bound():
    """There is no latency of what was shed."""
    node = totals(batch(10.0, kept=0, relevant_events=100))

    assert (node.empty_batches, node.timed_batches, node.keeps_bound) == (1, 0, False)
    assert totals(batch(10.0, kept=0, relevant_events=0)).empty_batches == 0


@given(sizes, st.floats(0, 100), st.floats(0, 100))
def test_fewer_events_take_longer_than_a_longer_bound(latencies, one, other):
    """And where a quantile is the bound, what it says."""
    latency = dict(zip(("p50", "p95", "p99"), latencies, strict=True))
    short, long = sorted((one, other))

    assert 0 <= share_over(latency, long, 1.0) <= share_over(latency, short, 1.0) <= 1
    if latencies[0] < latencies[1] < latencies[2]:
        assert share_over(latency, latencies[1], 1.0) == pytest.approx(0.05)


@given(sizes, st.sampled_from(PERCENTILES))
def test_a_percentile_that_is_not_logged_is_at_most_what_is_held(latencies, percentile):
    """The next one that is logged."""
    latency = dict(zip(("p50", "p95", "p99"), latencies, strict=True))
    held = held_latency(latency, percentile, 1.0)

    assert held in latencies
    assert held >= max(value for name, value in latency.items() if int(name[1:]) <= percentile)


def test_metrics_say_of_what_a_bound_is():
    """With how many events took longer, and how many may."""
    log = run(header(1.0, percentiles={"edge": 95}), batch(10.0, mean=1.5))
    text = metrics_text(run_totals(log.records)).decode()

    assert 'shedlight_node_latency_bound_seconds{node="edge",of="p95"} 2.0' in text
    assert 'shedlight_node_over_bound_allowed_ratio{node="edge"} 0.05' in text
    assert 'shedlight_events_over_bound_total{node="edge"} 35.0' in text

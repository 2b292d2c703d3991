"""The simulator against queueing theory, and against the other engine."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator import ServedEvents, Service, ServiceDistribution, simulate
from shedlight.engines.simulator.fifo_server import serve_in_order
from shedlight.engines.tables import run_application
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, paper_application

ALONE = Stream("Q", "w")


def _single():
    """One node that takes each event by itself."""
    return build_application(
        "one",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=1.0)],
        [
            OperatorSpec(
                name="w",
                node="n",
                inputs=(Stream("s"),),
                patterns={"Q": parse_pattern("SELECT a.type WHERE a.type = 0").pattern},
            )
        ],
        [Sink(name="k", input=ALONE, format="parquet", path="k")],
    )


def _mean_time(simulation):
    spent = sum(sum(one.latency.values()) for one in simulation.intervals)
    return spent / sum(sum(one.processed.values()) for one in simulation.intervals)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
@pytest.mark.parametrize(
    "distribution", [ServiceDistribution.CONSTANT, ServiceDistribution.EXPONENTIAL]
)
def test_the_mean_time_in_a_node_is_that_of_theory(load, distribution):
    """M/M/1 and M/D/1 at three loads, within the confidence interval of ten runs."""
    rate, mean = 100.0, load / 100.0
    times = []
    for seed in range(10):
        service = Service(seconds={ALONE: mean}, distribution=distribution)
        tables = {"s": drawn_events(rate, 400, seed, types=1)}
        times.append(_mean_time(simulate(_single(), tables, service, interval=50.0, seed=seed)))
    waiting = (
        load
        * mean
        / (1 - load)
        * (1.0 if distribution is ServiceDistribution.EXPONENTIAL else 0.5)
    )
    error = 4 * np.std(times, ddof=1) / np.sqrt(len(times)) + 1e-5
    assert abs(np.mean(times) - (mean + waiting)) <= error


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 2)), min_size=1), st.integers(0, 50))
def test_a_server_can_be_stopped_anywhere(events, cut):
    """Serving in two parts is serving at once; nobody leaves before it has come."""
    arrivals = np.sort([a for a, _ in events])
    service = np.array([s for _, s in events])
    whole, free = serve_in_order(arrivals, service, 0.0)
    first, between = serve_in_order(arrivals[:cut], service[:cut], 0.0)
    second, end = serve_in_order(arrivals[cut:], service[cut:], between)
    assert np.array_equal(whole, np.concatenate([first, second]))
    assert free == end
    assert (whole >= arrivals + service - 1e-12).all()


def test_littles_law():
    """The mean number in a node is the rate of arrivals times the mean time there."""
    table = drawn_events(50, 200, 3, types=1)
    rng = np.random.default_rng(5)
    arrivals = table["time"].to_numpy() / 1e6
    leave, _ = serve_in_order(arrivals, rng.exponential(0.015, len(arrivals)), 0.0)
    end = leave.max()
    moments = np.linspace(0, end, 20_001)
    inside = np.searchsorted(arrivals, moments) - np.searchsorted(np.sort(leave), moments)
    rate = len(arrivals) / end
    assert inside.mean() == pytest.approx(rate * (leave - arrivals).mean(), rel=0.02)


@pytest.mark.parametrize("interval", [0.7, 5.0, 1000.0])
def test_without_shedding_it_finds_what_the_other_engine_finds(interval):
    """However long the intervals are."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(60, 30, i) for i in (1, 2)}
    service = Service(seconds={Stream("Q21", "w2"): 0.001})
    found = simulate(application, tables, service, interval=interval)
    expected = run_application(application, tables)
    for sink in application.sinks.values():
        events = expected[str(sink.input.operator)].complex_events[sink.input.name]
        assert len(events) > 10
        assert sorted(found.sinks[sink.name]["id"].to_pylist()) == sorted(
            events["id"].to_pylist()
        )


def _plan():
    return {
        Stream("Q21", "w2"): PatternShares({"type=0": 0.5, "type=1": 0.6}),
        Stream("Q22", "w2"): PatternShares({"type=1": 0.3, "type=2": 0.3, "type=3": 0.3}),
    }


def test_counts_add_up_and_two_runs_agree():
    """Every event is kept or shed; the same seed gives the same, to the byte."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(80, 20, i) for i in (1, 2)}
    service = Service(seconds={Stream("Q21", "w2"): 0.004, Stream("Q22", "w2"): 0.008})
    one, other = (
        simulate(application, tables, service, shares=_plan(), seed=7) for _ in range(2)
    )
    assert one.intervals == other.intervals
    assert all(one.sinks[k].equals(other.sinks[k]) for k in one.sinks)
    arrived = sum(sum(i.arrivals["w2"][Stream("s2")].values()) for i in one.intervals)
    assert arrived == len(tables["s2"])
    kept = {s: sum(sum(i.kept[s].values()) for i in one.intervals) for s in _plan()}
    offered = np.bincount(tables["s2"]["type"].to_numpy(), minlength=4)
    assert kept[Stream("Q22", "w2")] == pytest.approx(0.3 * offered[1:].sum(), rel=0.15)
    assert all(counts.late == counts.expired == 0 for counts in one.counts.values())


def test_an_overloaded_node_falls_behind_and_a_shed_one_does_not():
    """At twice what it can do."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(100, 60, i) for i in (1, 2)}
    service = Service(seconds={Stream("Q21", "w2"): 0.016, Stream("Q22", "w2"): 0.016})
    behind = simulate(application, tables, service, interval=5.0)
    kept = simulate(application, tables, service, interval=5.0, shares=_plan())
    backlog = [i.backlog["edge-2"] for i in behind.intervals[:-1]]
    assert backlog[-1] > 30
    assert backlog == sorted(backlog)
    assert max(i.backlog["edge-2"] for i in kept.intervals) < 3


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.5, 4.0),
    st.dictionaries(st.sampled_from(["type=0", "type=1", "type=2", "type=3"]), st.floats(0, 1)),
)
def test_every_event_is_accounted_for_once(seed, interval, shares):
    """Processed, shed, unused, late, duplicate or expired; those processed are reported."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(40, 5, i + seed, types=6) for i in (1, 2)}
    again = tables["s2"].slice(3, 20)
    tables["s2"] = pa.concat_tables([tables["s2"], again])
    service = Service(seconds={Stream("Q21", "w2"): 0.004, Stream("Q22", "w2"): 0.008})
    served: list[ServedEvents] = []
    done = simulate(
        application,
        tables,
        service,
        interval=interval,
        shares={stream: PatternShares(shares) for stream in _plan()},
        seed=seed,
        on_served=served.append,
    )
    for name, one in done.counts.items():
        fates = (one.processed, one.shed, one.unused, one.late, one.duplicates, one.expired)
        assert one.arrived == sum(fates)
        assert one.processed == sum(len(s.time) for s in served if s.operator == name)
    assert done.counts["w2"].arrived == len(tables["s2"])
    assert done.counts["w2"].duplicates == len(again)
    assert done.counts["w2"].shed == sum(i.shed["edge-2"] for i in done.intervals)
    spent = sum(float((s.queueing + s.processing).sum()) for s in served if s.node == "edge-2")
    assert spent == pytest.approx(sum(i.latency["edge-2"] for i in done.intervals))
    assert all((s.queueing >= 0).all() for s in served)


def test_measured_times_are_drawn_from_what_was_measured():
    """Scaled to the mean that is asked for; the same samples give the same."""
    service = Service(
        seconds={ALONE: 0.004},
        distribution=ServiceDistribution.MEASURED,
        samples={ALONE: (1.0, 2.0, 5.0)},
    )
    served: list[ServedEvents] = []
    for _ in range(2):
        simulate(
            _single(), {"s": drawn_events(50, 40, 1, types=1)}, service, on_served=served.append
        )
    half = len(served) // 2
    first, second = (
        np.concatenate([s.processing for s in part]) for part in (served[:half], served[half:])
    )
    assert np.array_equal(first, second)
    assert np.allclose(np.unique(first), [0.0015, 0.003, 0.0075])
    with pytest.raises(ValueError, match=r"no processing times of w\.Q were measured"):
        Service(seconds={ALONE: 1.0}, distribution=ServiceDistribution.MEASURED)


def test_pace_is_how_fast_events_come():
    """Twice as fast is twice the load, in half the time."""
    tables = {"s": drawn_events(50, 40, 1, types=1)}
    service = Service(seconds={ALONE: 0.001}, distribution=ServiceDistribution.CONSTANT)
    slow, fast = (simulate(_single(), tables, service, pace=pace) for pace in (1.0, 2.0))
    assert len(fast.intervals) == pytest.approx(len(slow.intervals) / 2, abs=1)
    busy = [sum(i.busy["n"] for i in one.intervals) for one in (slow, fast)]
    assert busy[0] == pytest.approx(busy[1])


def test_what_nobody_reads_is_left_out_and_what_is_read_is_not():
    """The results are the same events, whatever is selected."""
    texts = {
        "whole": ("SELECT a, b", "SELECT x WHERE AND(x.source = 'Q', y.a.type = 0)"),
        "one": ("SELECT a.type AS t, b.id AS other", "SELECT * WHERE AND(x.t = 0, y.t = 0)"),
        "each": ("SELECT EACH type", "SELECT x.type WHERE AND(x.type = 0, y.type = 1)"),
    }
    for first, second in texts.values():
        application = _chained(f"{first} WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s", second)
        tables = {"s": drawn_events(40, 20, 2)}
        found = simulate(application, tables, Service(seconds={}), interval=7.0).sinks["k"]
        expected = run_application(application, tables)["v"].complex_events["R"]
        assert len(expected) > 10
        assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())


def _chained(first, second):
    """One operator behind another."""
    return build_application(
        "two",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=1.0)],
        [
            OperatorSpec(
                name=name, node="n", inputs=(stream,), patterns={q: parse_pattern(text).pattern}
            )
            for name, q, stream, text in (
                ("w", "Q", Stream("s"), first),
                ("v", "R", ALONE, f"{second} WITHIN 2 s"),
            )
        ],
        [Sink(name="k", input=Stream("R", "v"), format="parquet", path="k")],
    )

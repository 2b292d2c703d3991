"""The simulator against queueing theory, and against the other engine."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.application import run_application
from shedlight.engines.simulator import Service, ServiceKind, simulate
from shedlight.engines.simulator.queueing import served
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern
from shedlight.shedding.shares import PatternShares

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


def _paper():
    """Two sources, two operators of two patterns, two operators that join them."""
    sources = [
        Source(name=n, format="parquet", path=n, time="time", id=("id",)) for n in ("s1", "s2")
    ]
    texts = {
        "1": "SEQ(a.type = 0, b.type = 0, c.type = 1)",
        "2": "AND(a.type = 1, b.type = 2, c.type = 3)",
    }

    def edge(i):
        patterns = {
            f"Q{i}{j}": parse_pattern(f"SELECT a.type WHERE {text} WITHIN 2 s").pattern
            for j, text in texts.items()
        }
        return OperatorSpec(
            name=f"w{i}", node=f"edge-{i}", inputs=(Stream(f"s{i}"),), patterns=patterns
        )

    def join(i, j):
        text = f"AND(a.source = 'Q1{j}', b.source = 'Q2{j}')"
        return OperatorSpec(
            name=f"w{i}",
            node="core",
            inputs=(Stream(f"Q1{j}", "w1"), Stream(f"Q2{j}", "w2")),
            patterns={
                f"Q{i}1": parse_pattern(f"SELECT a.time AS at WHERE {text} WITHIN 2 s").pattern
            },
        )

    return build_application(
        "paper",
        sources,
        [Node(name="edge-1"), Node(name="edge-2", bound=1.0), Node(name="core")],
        [edge(1), edge(2), join(3, 1), join(4, 2)],
        [
            Sink(name=f"k{i}", input=Stream(f"Q{i}1", f"w{i}"), format="parquet", path=f"k{i}")
            for i in (3, 4)
        ],
    )


def _events(rate, seconds, seed, types=4):
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate, int(rate * seconds))
    times = np.unique((np.cumsum(gaps) * 1e6).astype(np.int64))
    return pa.table(
        {
            "time": times,
            "id": np.arange(len(times)) + seed * 10**9,
            "type": rng.integers(0, types, len(times)),
        }
    )


def _mean_time(simulation):
    spent = sum(sum(one.latency.values()) for one in simulation.intervals)
    return spent / sum(sum(one.processed.values()) for one in simulation.intervals)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("kind", ServiceKind)
def test_the_mean_time_in_a_node_is_that_of_theory(load, kind):
    """M/M/1 and M/D/1 at three loads, within the confidence interval of ten runs."""
    rate, mean = 100.0, load / 100.0
    times = []
    for seed in range(10):
        service = Service(seconds={ALONE: mean}, kind=kind)
        tables = {"s": _events(rate, 400, seed, types=1)}
        times.append(_mean_time(simulate(_single(), tables, service, interval=50.0, seed=seed)))
    waiting = load * mean / (1 - load) * (1.0 if kind is ServiceKind.EXPONENTIAL else 0.5)
    error = 4 * np.std(times, ddof=1) / np.sqrt(len(times)) + 1e-5
    assert abs(np.mean(times) - (mean + waiting)) <= error


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 2)), min_size=1), st.integers(0, 50))
def test_a_server_can_be_stopped_anywhere(events, cut):
    """Serving in two parts is serving at once; nobody leaves before it has come."""
    arrivals = np.sort([a for a, _ in events])
    service = np.array([s for _, s in events])
    whole, free = served(arrivals, service, 0.0)
    first, between = served(arrivals[:cut], service[:cut], 0.0)
    second, end = served(arrivals[cut:], service[cut:], between)
    assert np.array_equal(whole, np.concatenate([first, second]))
    assert free == end
    assert (whole >= arrivals + service - 1e-12).all()


def test_littles_law():
    """The mean number in a node is the rate of arrivals times the mean time there."""
    table = _events(50, 200, 3, types=1)
    rng = np.random.default_rng(5)
    arrivals = table["time"].to_numpy() / 1e6
    leave, _ = served(arrivals, rng.exponential(0.015, len(arrivals)), 0.0)
    end = leave.max()
    moments = np.linspace(0, end, 20_001)
    inside = np.searchsorted(arrivals, moments) - np.searchsorted(np.sort(leave), moments)
    rate = len(arrivals) / end
    assert inside.mean() == pytest.approx(rate * (leave - arrivals).mean(), rel=0.02)


@pytest.mark.parametrize("interval", [0.7, 5.0, 1000.0])
def test_without_shedding_it_finds_what_the_other_engine_finds(interval):
    """However long the intervals are."""
    application = _paper()
    tables = {f"s{i}": _events(60, 30, i) for i in (1, 2)}
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
    application = _paper()
    tables = {f"s{i}": _events(80, 20, i) for i in (1, 2)}
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
    assert one.late == {"w1": 0, "w2": 0, "w3": 0, "w4": 0}


def test_an_overloaded_node_falls_behind_and_a_shed_one_does_not():
    """At twice what it can do."""
    application = _paper()
    tables = {f"s{i}": _events(100, 60, i) for i in (1, 2)}
    service = Service(seconds={Stream("Q21", "w2"): 0.016, Stream("Q22", "w2"): 0.016})
    behind = simulate(application, tables, service, interval=5.0)
    kept = simulate(application, tables, service, interval=5.0, shares=_plan())
    backlog = [i.backlog["edge-2"] for i in behind.intervals[:-1]]
    assert backlog[-1] > 30
    assert backlog == sorted(backlog)
    assert max(i.backlog["edge-2"] for i in kept.intervals) < 3

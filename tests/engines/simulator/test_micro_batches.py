"""Nodes that work by micro-batches: what these take, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.control.controller import ControlSettings
from shedlight.engines.simulator import ServedEvents, Service, ServiceDistribution, simulate
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.engines.tables import run_application
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.spark_costs import Costs
from shedlight.planning.plan import PlanSettings
from tests.engines.applications import drawn_events, edge_application, paper_application

COSTS = Costs(fixed=0.5, reading=0.001, carrying=0.002)
WORK = Service(seconds={Stream("Q", "w"): 0.01}, distribution=ServiceDistribution.CONSTANT)
MICRO_BATCHES = ControlSettings(
    plan_settings=PlanSettings(target=Target(latency=LatencyModel.MICRO_BATCH))
)


def chained(bound=None):
    """Two operators on a node, and a third behind them on another."""
    texts = {
        "w": (Stream("s"), "n", "Q", "SEQ(a.type = 0, b.type = 1) WITHIN 1 s"),
        "v": (Stream("Q", "w"), "n", "R", "SEQ(a, b) WITHIN 5 s"),
        "u": (Stream("R", "v"), "m", "T", "SEQ(a, b) WITHIN 9 s"),
    }
    return build_application(
        "three",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=bound), Node(name="m")],
        [
            OperatorSpec(
                name=name,
                node=node,
                inputs=(stream,),
                patterns={q: parse_pattern(f"SELECT a.time AS at WHERE {text}").pattern},
            )
            for name, (stream, node, q, text) in texts.items()
        ],
        [Sink(name="k", input=Stream("T", "u"), format="parquet", path="k")],
    )


def served_at(times, types, **options):
    """Give when events of these times and types were served at the first operator."""
    table = pa.table(
        {"time": [round(t * 1e6) for t in times], "id": range(len(times)), "type": types}
    )
    served: list[ServedEvents] = []
    simulate(
        chained(), {"s": table}, WORK, costs={"n": COSTS}, on_served=served.append, **options
    )
    rows = [
        (round(one.arrival[i], 6), round(one.queueing[i], 6), round(one.processing[i], 6))
        for one in served
        if one.operator == "w"
        for i in range(len(one.time))
    ]
    return sorted(rows)


def test_a_micro_batch_reads_what_has_arrived_and_ends_as_a_whole():
    """An event is ready when a later one is there, so the first one only reads: 0.501 s.

    The next one begins then, reads two and matches two in 0.5 + 2 x 0.001 + 2 x 0.012 s. One
    that comes later begins a third. At the end of the source the last event is ready.
    """
    found = served_at([0.0, 0.1, 0.3, 5.0], [0, 0, 0, 0])

    assert found == [
        (0.0, 0.501, 0.526),
        (0.1, 0.401, 0.526),
        (0.3, 4.7, 0.513),
        (5.0, 0.513, 0.512),
    ]


def test_what_no_pattern_takes_is_read_and_costs_no_more():
    """Events of type 7: 0.5 + 3 x 0.001 s to read them, and 0.012 s for the other."""
    assert served_at([0.0, 0.1, 0.2, 0.3], [7, 0, 7, 7]) == [(0.1, 0.401, 0.515)]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 3.0), st.sampled_from([0.3, 2.0, 50.0]))
def test_without_shedding_all_is_found_however_micro_batches_fall(seed, fixed, interval):
    """What `match` finds, through two nodes and joins; nothing is late."""
    for application in (chained(), paper_application()):
        tables = {
            name: drawn_events(60, 12, seed + i) for i, name in enumerate(application.sources)
        }
        costs = {name: Costs(fixed, 1e-3, 2e-3) for name in application.nodes}
        found = simulate(application, tables, WORK, interval=interval, costs=costs)
        expected = run_application(application, tables)

        for sink in application.sinks.values():
            events = expected[str(sink.input.operator)].complex_events[sink.input.name]
            assert len(events) > 2
            ids = sorted(found.sinks[sink.name]["id"].to_pylist())
            assert ids == sorted(events["id"].to_pylist())
        for counts in found.counts.values():
            fates = (counts.processed, counts.shed, counts.unused)
            assert counts.arrived == sum(fates)


def test_operators_of_a_node_share_its_micro_batch():
    """What the first finds the second has at once; the other node gets it at the end."""
    tables = {"s": drawn_events(40, 30, 3)}
    served: list[ServedEvents] = []
    simulate(chained(), tables, WORK, costs={"n": COSTS, "m": COSTS}, on_served=served.append)
    ends = {
        name: {
            round(float(x), 6)
            for one in served
            if one.operator == name
            for x in one.arrival + one.queueing + one.processing
        }
        for name in "wvu"
    }
    arrivals = {
        round(float(x), 6) for one in served if one.operator == "u" for x in one.arrival
    }

    assert len(ends["v"]) > 5
    at_the_end = {max(ends["v"])}  # inputs end operator by operator
    assert ends["v"] - at_the_end <= ends["w"]
    assert arrivals <= ends["v"]


@pytest.mark.parametrize("percentile", [None, 95])
@pytest.mark.parametrize("load", [1.5, 3.0])
def test_a_bound_is_kept_as_on_spark(load, percentile):
    """With most of the time that it leaves in use; without shedding it is missed."""
    application = edge_application()
    node = Node(name="edge-2", bound=4.0, percentile=percentile)
    application = replace(application, nodes={"edge-2": node})
    seconds = dict.fromkeys(application.operators["w2"].outputs, 0.008)
    service = Service(seconds=seconds, distribution=ServiceDistribution.CONSTANT)
    each = 5 / 4 * 0.008 + COSTS.carrying + COSTS.reading  # five uses of four types
    tables = {"s2": drawn_events(load / each, 80, 5)}

    def run(policy):
        costs = {"edge-2": COSTS}
        return simulate(application, tables, service, interval=2.0, policy=policy, costs=costs)

    shed, unshed = run(ControllerPolicy(application, MICRO_BATCHES)), run(None)

    later = [i for i in shed.intervals[10:-1] if i.processed["edge-2"]]
    times = [i.latency["edge-2"] / i.processed["edge-2"] for i in later]
    assert len(later) > 12
    assert 2.0 < np.mean(times) < 4.0
    assert max(times) < 4.4
    assert max(i.backlog["edge-2"] for i in unshed.intervals) > 10
    for sink in application.sinks:
        assert 0 < len(shed.sinks[sink]) <= len(unshed.sinks[sink])


def test_two_runs_agree():
    """To the byte."""
    application = chained(bound=2.0)
    tables = {"s": drawn_events(200, 20, 1)}
    one, other = (
        simulate(
            application,
            tables,
            WORK,
            interval=2.0,
            policy=ControllerPolicy(application, MICRO_BATCHES),
            costs={"n": COSTS},
            unshed_sample=0.1,
        )
        for _ in range(2)
    )
    assert one.intervals == other.intervals
    assert one.sinks["k"].equals(other.sinks["k"])

"""Random applications as models, for laws that planning must keep."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from shedlight.graph.application import Stream
from shedlight.model.latency import LatencyModel, Target, node_limit
from shedlight.model.model import Model, NodeModel, OperatorModel, PatternModel, SinkModel
from shedlight.model.rates import with_capacities
from shedlight.model.selectivity.demand import MatchDemand, Split, plain_demand

RATES = st.floats(0.5, 200).map(lambda x: round(x, 3))
SECONDS = st.floats(1e-4, 2e-2).map(lambda x: float(f"{x:.3g}"))


def pattern(operator, name, uses, demand, seconds=None, **more):
    """Make a plain pattern: what it needs of each use, and how long each event takes."""
    timed: dict[str, Any] = {}
    if seconds is not None:
        times = np.broadcast_to(np.asarray(seconds, float), len(uses)).copy()
        timed = {"seconds": times, "moments": 2 * times**2}
    return PatternModel(
        stream=Stream(name, operator),
        demand=plain_demand(np.asarray(uses), np.asarray(demand, float)),
        **timed,
        **more,
    )


def application(nodes, operators, sinks):
    """Put a model together."""
    return Model(
        nodes={one.name: one for one in nodes},
        operators={one.name: one for one in operators},
        sinks={one.name: one for one in sinks},
    )


def with_bound(model, node, bound):
    """Change the bound of a node."""
    nodes = dict(model.nodes)
    nodes[node] = replace(nodes[node], bound=bound)
    return replace(model, nodes=nodes)


@st.composite
def demand_of(draw, types, *, plain=False):
    """Draw what a pattern needs of so many types: plain, with choices, or with ORs."""
    uses = sorted(draw(st.sets(st.integers(0, types - 1), min_size=1, max_size=types)))
    counts = draw(st.lists(st.integers(1, 3), min_size=len(uses), max_size=len(uses)))
    if plain or draw(st.integers(0, 2)):
        return plain_demand(np.array(uses), np.array(counts, float))
    branch_count = 1
    splits: list[Split] = []
    for _ in range(draw(st.integers(0, 2))):
        branches = draw(st.integers(2, 3))
        times = float(draw(st.integers(1, 2)))
        splits.append(
            Split(
                draw(st.integers(0, branch_count - 1)),
                times,
                tuple(range(branch_count, branch_count + branches)),
            )
        )
        branch_count += branches
    inner = {split.branch for split in splits}
    leaves: list[tuple[int, float]] = []
    entries: set[tuple[int, int]] = set()
    for branch in range(branch_count):
        least = 0 if branch in inner else 1
        for _ in range(draw(st.integers(least, 2))):
            accepted = draw(
                st.sets(st.integers(0, len(uses) - 1), min_size=1, max_size=len(uses))
            )
            entries |= {(len(leaves), use) for use in accepted}
            leaves.append((branch, float(draw(st.integers(1, 3)))))
    pairs = np.array(sorted(entries), np.int64).reshape(-1, 2)
    return MatchDemand(
        np.array(uses),
        np.zeros(len(uses), np.bool_),
        np.array([branch for branch, _ in leaves], np.int64),
        np.array([need for _, need in leaves]),
        pairs[:, 0],
        pairs[:, 1],
        tuple(splits),
    )


@st.composite
def models(draw, *, plain=False, most_operators=4, bounded=1):
    """Draw an application whose operators read sources and each other's complex events."""
    nodes = [
        NodeModel(name=f"n{i}", bound=draw(st.floats(0.05, 5)) if i < bounded else None)
        for i in range(draw(st.integers(bounded, 3)))
    ]
    operators: list[OperatorModel] = []
    streams: list[Stream] = []
    for number in range(draw(st.integers(1, most_operators))):
        name = f"w{number}"
        types = draw(st.integers(1, 4))
        sources, feeds = {}, {}
        if not streams or draw(st.booleans()):
            sources["s"] = np.array(draw(st.lists(RATES, min_size=types, max_size=types)))
        if streams and (not sources or draw(st.booleans())):
            for stream in draw(st.lists(st.sampled_from(streams), min_size=1, unique=True)):
                spread = np.zeros(types)
                spread[draw(st.integers(0, types - 1))] = draw(st.sampled_from([1.0, 0.5]))
                feeds[stream] = spread
        node = nodes[number % bounded] if number < bounded else draw(st.sampled_from(nodes))
        patterns = []
        for q in range(draw(st.integers(1, 3))):
            demand = draw(demand_of(types, plain=plain))
            times = np.full(len(demand.uses), draw(SECONDS))
            patterns.append(
                PatternModel(
                    stream=Stream(f"q{number}{q}", name),
                    demand=demand,
                    seconds=times,
                    moments=2 * times**2,
                    calibration=draw(st.sampled_from([1.0, 1.0, 0.7])),
                )
            )
        operators.append(
            OperatorModel(
                name=name,
                node=node.name,
                types=tuple(f"type={i}" for i in range(types)),
                sources=sources,
                feeds=feeds,
                patterns=tuple(patterns),
            )
        )
        streams += [one.stream for one in patterns]
    read = {stream for one in operators for stream in one.feeds}
    sinks = [
        SinkModel(name=f"k{i}", stream=stream, weight=draw(st.sampled_from([1.0, 2.0, 0.5])))
        for i, stream in enumerate(streams)
        if stream not in read or draw(st.integers(0, 3)) == 0
    ]
    return with_capacities(application(nodes, operators, sinks))


TARGETS = st.builds(
    Target,
    latency=st.sampled_from([LatencyModel.MM1, LatencyModel.MG1, LatencyModel.MICRO_BATCH]),
    aim=st.sampled_from([1.0, 0.9]),
)


def limits_of(model, target):
    """Find the limits of all nodes that have one."""
    found = {node.name: node_limit(model, node, target) for node in model.nodes.values()}
    return {name: limit for name, limit in found.items() if limit is not None}

"""An application like the paper's, and events for it."""

import numpy as np
import pyarrow as pa

from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern


def paper_application():
    """Two sources, two operators of two patterns, two operators that join them."""
    return build_application(
        "paper",
        [_source(1), _source(2)],
        [Node(name="edge-1"), Node(name="edge-2", bound=1.0), Node(name="core")],
        [_edge(1), _edge(2), _join(3, 1), _join(4, 2)],
        [_sink(f"k{i}", Stream(f"Q{i}1", f"w{i}")) for i in (3, 4)],
    )


def edge_application():
    """The bottleneck of these, alone."""
    return build_application(
        "edge",
        [_source(2)],
        [Node(name="edge-2", bound=1.0)],
        [_edge(2)],
        [_sink(f"k{j}", Stream(f"Q2{j}", "w2")) for j in (1, 2)],
    )


def _source(i):
    return Source(name=f"s{i}", format="parquet", path=f"s{i}", time="time", id=("id",))


def _edge(i):
    texts = {
        "1": "SEQ(a.type = 0, b.type = 0, c.type = 1)",
        "2": "AND(a.type = 1, b.type = 2, c.type = 3)",
    }
    patterns = {
        f"Q{i}{j}": parse_pattern(f"SELECT a.type WHERE {text} WITHIN 2 s").pattern
        for j, text in texts.items()
    }
    return OperatorSpec(
        name=f"w{i}", node=f"edge-{i}", inputs=(Stream(f"s{i}"),), patterns=patterns
    )


def _join(i, j):
    text = f"AND(a.source = 'Q1{j}', b.source = 'Q2{j}')"
    return OperatorSpec(
        name=f"w{i}",
        node="core",
        inputs=(Stream(f"Q1{j}", "w1"), Stream(f"Q2{j}", "w2")),
        patterns={
            f"Q{i}1": parse_pattern(f"SELECT a.time AS at WHERE {text} WITHIN 2 s").pattern
        },
    )


def _sink(name, stream):
    return Sink(name=name, input=stream, format="parquet", path=name)


def drawn_events(rate, seconds, seed, types=4):
    """Draw events at a rate, of types that are equally frequent."""
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


def stepped_events(phases, seed):
    """Draw events in phases: seconds, rate, and how frequent each type is."""
    rng = np.random.default_rng(seed)
    times, types, start = [], [], 0.0
    for seconds, rate, frequencies in phases:
        number = rng.poisson(rate * seconds)
        times.append(start + np.sort(rng.uniform(0, seconds, number)))
        types.append(rng.choice(len(frequencies), number, p=frequencies))
        start += seconds
    at, first = np.unique((np.concatenate(times) * 1e6).astype(np.int64), return_index=True)
    return pa.table(
        {
            "time": at,
            "id": np.arange(len(at)) + seed * 10**9,
            "type": np.concatenate(types)[first],
        }
    )

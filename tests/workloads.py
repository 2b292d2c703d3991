"""Small workloads of one overloaded node, dense and sparse, to find the best plans for.

Rates are of Poisson streams. All are applications of the paper's form or parts of it, so that
the shares of all types at the overloaded node can be searched by brute force.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern

_BOUND = 10.0
_WINDOW = 2
_EVENTS = 12_000
"""How many events of the overloaded node's source a run has."""


@dataclass(frozen=True)
class Workload:
    """An application of one overloaded node, and its streams.

    Attributes:
        name: Its name.
        application: The application.
        node: The overloaded node.
        rates: Events per second of each type from each source.
        times: Relative processing times of the patterns there.
        load: How much is asked of the node, over what it can do.
        window: The window of all patterns, in seconds.
    """

    name: str
    application: Application
    node: str
    rates: Mapping[str, tuple[float, ...]]
    times: Mapping[Stream, float]
    load: float
    window: float

    @property
    def seconds(self) -> float:
        """How long a run is."""
        return _EVENTS / sum(self.rates[self._source])

    @property
    def _source(self) -> str:
        specs = self.application.operators.values()
        return next(s.inputs[0].name for s in specs if s.node == self.node)

    @property
    def per_window(self) -> float:
        """Events of the rarest type of the node's source per window."""
        return min(self.rates[self._source]) * self.window

    @cached_property
    def changed(self) -> frozenset[Stream]:
        """The patterns whose output a plan for the node can change."""
        found: set[Stream] = set()
        for spec in self.application.operators.values():
            if spec.node == self.node or not found.isdisjoint(spec.inputs):
                found.update(spec.outputs)
        return frozenset(found)

    @cached_property
    def processing_time(self) -> Mapping[Stream, float]:
        """Seconds per event, so that the node is asked for `load` busy seconds per second."""
        rates = np.array(self.rates[self._source])
        asked = sum(
            time * float(rates[list(_types(self.application, stream))].sum())
            for stream, time in self.times.items()
        )
        return {stream: time * self.load / asked for stream, time in self.times.items()}

    def events(self, seed: int) -> dict[str, pa.Table]:
        """Draw the events of all sources."""
        return {
            name: _drawn(rates, self.seconds, seed, number)
            for number, (name, rates) in enumerate(self.rates.items())
        }


def _types(application: Application, stream: Stream) -> tuple[int, ...]:
    """List the types that a pattern of a workload uses, as its text says."""
    text = str(application.operators[str(stream.operator)].patterns[stream.name])
    return tuple(i for i in range(10) if f"type = {i}" in text)


def _drawn(rates: tuple[float, ...], seconds: float, seed: int, number: int) -> pa.Table:
    rng = np.random.default_rng([seed, number])
    counts = rng.poisson(np.array(rates) * seconds)
    times = rng.random(int(counts.sum())) * seconds
    order = np.argsort(times, kind="stable")
    return pa.table(
        {
            "time": (times[order] * 1e6).astype(np.int64),
            "id": np.arange(len(order)) + (number + 2 * seed) * 10**9,
            "type": np.repeat(np.arange(len(rates)), counts)[order],
        }
    )


_SEQ = "SEQ(a.type = 0, b.type = 0, c.type = 1)"
_AND = "AND(a.type = 1, b.type = 2, c.type = 3)"


def workloads() -> tuple[Workload, ...]:
    """List the workloads: the paper's graph at several rates, and three other graphs."""
    equal, cheap = (1.0, 1.0, 1.0, 1.0), (1.0, 2.0)
    return (
        _papers("balanced, 2 per window", 1.0, equal, equal, cheap),
        _papers("balanced, 6 per window", 3.0, equal, equal, cheap),
        _papers("balanced, 40 per window", 20.0, equal, equal, cheap),
        _papers("skewed, 2 per window", 1.0, (4, 2, 1, 1), (3, 1.5, 2, 2), cheap),
        _papers("skewed, 20 per window", 10.0, (4, 2, 1, 1), (3, 1.5, 2, 2), cheap),
        _papers("starved join, 2 per window", 1.0, (1, 1, 3, 3), (4, 2, 1, 1), (1, 1)),
        _papers("starved join, 20 per window", 10.0, (1, 1, 3, 3), (4, 2, 1, 1), (1, 1)),
        _two("weights, 3 per window", 1.5),
        _alternatives("alternatives, 20 per window", 10.0),
        _line("line, 4 per window", 2.0),
    )


def _papers(
    name: str,
    rate: float,
    first: tuple[float, ...],
    second: tuple[float, ...],
    times: tuple[float, float],
) -> Workload:
    """Make a workload of the paper's application with edge-2 overloaded."""
    joins = {
        f"w{i + 2}": (
            "core",
            [f"w1.Q1{i}", f"w2.Q2{i}"],
            {f"Q{i + 2}1": f"AND(a.source = 'Q1{i}', b.source = 'Q2{i}')"},
        )
        for i in (1, 2)
    }
    application = _application(
        ("s1", "s2"),
        {
            "w1": ("edge-1", ["s1"], {"Q11": _SEQ, "Q12": _AND}),
            "w2": ("edge-2", ["s2"], {"Q21": _SEQ, "Q22": _AND}),
            **joins,
        },
        {"w3.Q31": 1.0, "w4.Q41": 1.0},
        "edge-2",
    )
    rates = {
        "s1": tuple(rate * one for one in first),
        "s2": tuple(rate * one for one in second),
    }
    spent = {Stream("Q21", "w2"): times[0], Stream("Q22", "w2"): times[1]}
    return Workload(name, application, "edge-2", rates, spent, 2.0, _WINDOW)


def _two(name: str, rate: float) -> Workload:
    """Two patterns that share a type, the rarer one worth twice as much."""
    application = _application(
        ("s1",),
        {
            "w": (
                "edge",
                ["s1"],
                {
                    "P": "SEQ(a.type = 0, b.type = 1)",
                    "Q": "AND(a.type = 1, b.type = 2, c.type = 3)",
                },
            )
        },
        {"w.P": 1.0, "w.Q": 2.0},
        "edge",
    )
    spent = {Stream("P", "w"): 1.0, Stream("Q", "w"): 1.0}
    rates = {"s1": (rate, rate, rate, 2 * rate)}
    return Workload(name, application, "edge", rates, spent, 2.0, _WINDOW)


def _alternatives(name: str, rate: float) -> Workload:
    """A pattern with an OR, and a plain one."""
    either = "SEQ(a.type = 0, b.type = 1), SEQ(c.type = 2, d.type = 3, e.type = 3)"
    application = _application(
        ("s1",),
        {"w": ("edge", ["s1"], {"P": f"OR({either})", "Q": "AND(a.type = 0, b.type = 3)"})},
        {"w.P": 1.0, "w.Q": 1.0},
        "edge",
    )
    spent = {Stream("P", "w"): 1.0, Stream("Q", "w"): 2.0}
    rates = {"s1": (rate, 2 * rate, rate, 2 * rate)}
    return Workload(name, application, "edge", rates, spent, 1.8, _WINDOW)


def _line(name: str, rate: float) -> Workload:
    """Two patterns whose matches must follow each other downstream."""
    application = _application(
        ("s1",),
        {
            "w": (
                "edge",
                ["s1"],
                {
                    "P": "SEQ(a.type = 0, b.type = 1)",
                    "Q": "SEQ(a.type = 2, b.type = 3)",
                },
            ),
            "v": ("core", ["w.P", "w.Q"], {"R": "SEQ(a.source = 'P', b.source = 'Q')"}),
        },
        {"v.R": 1.0},
        "edge",
    )
    spent = {Stream("P", "w"): 1.0, Stream("Q", "w"): 2.0}
    rates = {"s1": (rate, rate, 1.5 * rate, rate)}
    return Workload(name, application, "edge", rates, spent, 1.6, _WINDOW)


def _application(
    sources: tuple[str, ...],
    operators: Mapping[str, tuple[str, list[str], Mapping[str, str]]],
    sinks: Mapping[str, float],
    overloaded: str,
) -> Application:
    """Put an application together: operators by node, inputs and patterns; weights of sinks."""
    nodes = dict.fromkeys(node for node, _, _ in operators.values())
    return build_application(
        "workload",
        [
            Source(name=one, format="parquet", path=one, time="time", id=("id",))
            for one in sources
        ],
        [Node(name=one, bound=_BOUND if one == overloaded else None) for one in nodes],
        [
            OperatorSpec(
                name=name,
                node=node,
                inputs=tuple(map(_stream, inputs)),
                patterns={
                    pattern: parse_pattern(
                        f"SELECT a.time AS at WHERE {text} WITHIN {_WINDOW} s"
                    ).pattern
                    for pattern, text in patterns.items()
                },
            )
            for name, (node, inputs, patterns) in operators.items()
        ],
        [
            Sink(name=one, input=_stream(one), format="parquet", path=one, weight=weight)
            for one, weight in sinks.items()
        ],
    )


def _stream(text: str) -> Stream:
    operator, _, name = text.rpartition(".")
    return Stream(name, operator or None)

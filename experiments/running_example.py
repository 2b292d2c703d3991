"""The application of the paper's experiments: two edges that find patterns, a core that joins.

Source 1 is observed at edge-1 and source 2 at edge-2, each for SEQ(0; 0; 1) and AND(1, 2, 3).
The core joins what both edges found of a pattern, and each join has a sink. Only edge-2 takes
time, so it is the bottleneck; it is the only node with a bound.
"""

from collections.abc import Sequence

from shedlight.engines.simulator import Service
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

BOTTLENECK = "edge-2"
BOUND = 3.0
"""Seconds that an event may spend at the bottleneck, on average."""
WINDOW = 10.0
"""Of all patterns, in seconds."""
SERVICE = Service(seconds={Stream("Q21", "w2"): 0.002, Stream("Q22", "w2"): 0.004})
"""How long the bottleneck takes for an event and pattern: exponential, of these means."""

_PATTERNS = {
    "1": "SEQ(a.type = 0, b.type = 0, c.type = 1)",
    "2": "AND(a.type = 1, b.type = 2, c.type = 3)",
}
_USES = {Stream("Q21", "w2"): (0, 1), Stream("Q22", "w2"): (1, 2, 3)}
"""The types that each pattern at the bottleneck uses."""


def running_example(
    bound: float = BOUND, window: float = WINDOW, percentile: int | None = None
) -> Application:
    """Build the application, for streams with the columns of generated ones.

    Args:
        bound: Of the bottleneck, in seconds.
        window: Of all patterns, in seconds.
        percentile: Of which percentile of latency the bound is; None: of the mean.
    """
    sources = [
        Source(name=name, format="parquet", path=name, time="time", id=("id",))
        for name in ("s1", "s2")
    ]
    bottleneck = Node(name=BOTTLENECK, bound=bound, percentile=percentile)
    nodes = [Node(name="edge-1"), bottleneck, Node(name="core")]
    within = f"WITHIN {window * 1e3:g} ms"
    operators = [
        *(_edge(number, within) for number in ("1", "2")),
        *(_join(f"w{2 + int(pattern)}", pattern, within) for pattern in _PATTERNS),
    ]
    sinks = [
        Sink(
            name=f"sink{n}", input=Stream(f"Q{2 + n}1", f"w{2 + n}"), format="parquet", path="x"
        )
        for n in (1, 2)
    ]
    return build_application("running-example", sources, nodes, operators, sinks)


def capacity(shares: Sequence[float]) -> float:
    """Say how many events per second the bottleneck can process, if none is shed.

    Args:
        shares: Of the types 0 to 3 at source 2.

    Example:
        >>> capacity((0.25, 0.25, 0.25, 0.25))
        250.0
    """
    seconds = (
        SERVICE.seconds[stream] * sum(shares[number] for number in numbers)
        for stream, numbers in _USES.items()
    )
    return 1 / sum(seconds)


def _edge(number: str, within: str) -> OperatorSpec:
    patterns = {
        f"Q{number}{name}": parse_pattern(f"SELECT a.type WHERE {text} {within}").pattern
        for name, text in _PATTERNS.items()
    }
    return OperatorSpec(
        name=f"w{number}",
        node=f"edge-{number}",
        inputs=(Stream(f"s{number}"),),
        patterns=patterns,
    )


def _join(name: str, pattern: str, within: str) -> OperatorSpec:
    first, second = f"Q1{pattern}", f"Q2{pattern}"
    text = (
        f"SELECT a.time AS at WHERE AND(a.source = '{first}', b.source = '{second}') {within}"
    )
    return OperatorSpec(
        name=name,
        node="core",
        inputs=(Stream(first, "w1"), Stream(second, "w2")),
        patterns={f"Q{name.removeprefix('w')}1": parse_pattern(text).pattern},
    )

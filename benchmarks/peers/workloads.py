"""The workloads that peers are given: each as we write it, and as a user of Siddhi would.

Flink's patterns are in `FlinkPeer.java`, by the same names. All say the same: every opening
event waits for the next that fits (`REUSE` in Shedlight, `every` in Siddhi, `followedBy` and no
skip strategy in Flink).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

RATE = 1_000  # events per second of event time
TYPES, KEYS = 10, 100
_STREAM = "@app:playback\ndefine stream Events (id long, type int, key int, x double);\n"
_BEGIN, _END = "partition with (key of Events) begin\n", "end;\n"


@dataclass(frozen=True, slots=True)
class Workload:
    """Patterns over so many events."""

    name: str
    events: int
    window: int  # in seconds
    texts: tuple[str, ...]  # the patterns
    siddhi: str  # the application
    flink: bool = True  # whether Flink CEP has such a pattern


def events_of(workload: Workload) -> pa.Table:
    """Draw the events of a workload: a thousand a second, ten types, a hundred keys."""
    rng = np.random.default_rng(1)
    size = workload.events
    return pa.table(
        {
            "time": np.arange(size) * (1_000_000 // RATE),
            "id": np.arange(size),
            "type": rng.integers(0, TYPES, size),
            "key": rng.integers(0, KEYS, size),
            "x": rng.random(size) * 100,
        }
    )


def _workload(
    name: str, events: int, window: int, where: str, siddhi: str, *, flink: bool = True
) -> Workload:
    """Make a workload of one pattern."""
    keyed = name.endswith("by key")
    partition = " PARTITION BY key" if keyed else ""
    text = f"SELECT a.id AS first WHERE {where} WITHIN {window} s{partition} REUSE"
    query = f"from {siddhi} within {window} sec\nselect e1.id as first\ninsert into Found;\n"
    application = _STREAM + (_BEGIN + query + _END if keyed else query)
    return Workload(name, events, window, (text,), application, flink)


def _thresholds(patterns: int, events: int, window: int) -> Workload:
    """Make a workload of many patterns, each with a threshold of its own."""
    limits = [90 + 10 * i / patterns for i in range(patterns)]
    texts = [
        f"SELECT a.id AS first WHERE SEQ(a.type = 0 AND a.x > {limit!r}, b.type = 1) "
        f"WITHIN {window} s REUSE"
        for limit in limits
    ]
    queries = [
        f"from every e1=Events[type == 0 and x > {limit!r}] -> e2=Events[type == 1] "
        f"within {window} sec\nselect e1.id as first\ninsert into Found;\n"
        for limit in limits
    ]
    return Workload("thresholds", events, window, tuple(texts), _STREAM + "".join(queries))


_PAIR = "SEQ(a.type = 0, b.type = 1)"
_FIRST, _SECOND = "every e1=Events[type == 0]", "e2=Events[type == 1]"

WORKLOADS = (
    _workload(
        "sequence",
        500_000,
        1,
        "SEQ(a.type = 0, b.type = 1, c.type = 2)",
        f"{_FIRST} -> {_SECOND} -> e3=Events[type == 2]",
    ),
    _workload(
        "sequence by key",
        500_000,
        10,
        "SEQ(a.type = 0, b.type = 1, c.type = 2)",
        f"{_FIRST} -> {_SECOND} -> e3=Events[type == 2]",
    ),
    _workload(
        "not in between by key",
        500_000,
        10,
        "SEQ(a.type = 0, NOT(n.type = 2), b.type = 1)",
        f"{_FIRST} -> not Events[type == 2] and {_SECOND}",
    ),
    _workload(
        "within a distance",
        20_000,
        10,
        f"{_PAIR} AND abs(b.x - a.x) < 0.01",
        f"{_FIRST} -> e2=Events[type == 1 and x - e1.x < 0.01 and e1.x - x < 0.01]",
    ),
    _workload(
        "higher",
        20_000,
        10,
        f"{_PAIR} AND b.x > a.x + 99.0",
        f"{_FIRST} -> e2=Events[type == 1 and x > e1.x + 99.0]",
    ),
    _workload(
        "equal",
        20_000,
        10,
        f"{_PAIR} AND b.key = a.key",
        f"{_FIRST} -> e2=Events[type == 1 and key == e1.key]",
    ),
    _thresholds(100, 50_000, 1),
)

PAIR_BY_KEY = _workload(
    "pair by key", 500_000, 10, _PAIR, f"{_FIRST} -> {_SECOND}", flink=False
)
"""What is compared with Spark's own ways."""

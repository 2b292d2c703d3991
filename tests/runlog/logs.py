"""Small logs, written as they are read in the tests."""

import json

from shedlight.runlog.follow import LineParser, Run
from shedlight.runlog.records import LOG_FORMAT

HOSTILE = '<script>alert("x")</script>\'&\\\n\u202e'
"""A name as somebody would choose it who means no good."""


def batch(time, node="edge", *, events=100, kept=100, mean=1.0, matches=1, **more):
    """Make a row of a micro-batch that took a second."""
    latency = {"mean": mean, "p50": mean, "p95": 2 * mean, "p99": 3 * mean} if kept else {}
    pattern = {"kept": kept, "seconds": 0.5, "matches": matches, "partial_matches": 4}
    return {
        "record": "micro_batch",
        "time": time,
        "node": node,
        "number": 0,
        "seconds": 1.0,
        "events": events,
        "kept": kept,
        "lag": mean,
        "latency": latency,
        "state_bytes": 1000,
        "patterns": {"flows.P": pattern},
    } | more


def decision(time, reason="all is well", *, status="OK", shares=None, **more):
    """Make a row of a decision."""
    return {
        "record": "decision",
        "time": time,
        "reason": reason,
        "replanned": False,
        "seconds": 0.01,
        "loads": {"edge": 0.5},
        "advice": {},
        "statuses": {"edge": status},
        "shares": shares or {},
    } | more


def header(time, bound=2.0, **more):
    """Make the row that a log begins with."""
    return {
        "record": "run",
        "format": LOG_FORMAT,
        "time": time,
        "application": "demo",
        "version": "0.1",
        "timed": True,
        "bounds": {"edge": bound},
        "sources": ["payments"],
        "operators": {"flows": {"node": "edge", "inputs": ["payments"], "patterns": ["P"]}},
        "sinks": {"out": "flows.P"},
    } | more


def text(*rows):
    """Write rows as a log."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def run(*rows):
    """Make a run of rows."""
    parser = LineParser()
    records = parser.feed(text(*rows).encode())
    return Run(tuple(records), parser.skipped, parser.unknown)


def hostile_run():
    """Make a run in which every text is hostile."""
    bad = HOSTILE
    return run(
        header(
            100.0,
            application=bad,
            version=bad,
            bounds={bad: 2.0},
            sources=[bad],
            operators={bad: {"node": bad, "inputs": [bad], "patterns": [bad]}},
            sinks={bad: bad},
        ),
        batch(
            101.0,
            bad,
            malformed={bad: 3},
            late={bad: 2},
            patterns={bad: {"kept": 1, "matches": 1, "types": {bad: 5}}},
        ),
        decision(
            102.0,
            bad,
            replanned=True,
            statuses={bad: bad},
            advice={bad: bad},
            loads={bad: 3.0},
            shares={bad: {bad: 0.5}},
        ),
    )

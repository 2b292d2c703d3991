"""Logs of runs that never were: with names that mean no good, and of any size."""

import random
from typing import Any

from tests.runlog.logs import batch, decision, header, text

HOSTILE = "<img src=x onerror=alert(1)>"


def hostile_log(path, bad=HOSTILE):
    """Write the log of a run in which every name and every text means no good."""
    path.write_text(hostile_text(bad), encoding="utf-8")


def hostile_text(bad):
    """Write the records of a start of such a run."""
    patterns = {
        f"{bad}.{bad}": {"kept": 60, "seconds": 0.1, "matches": 3, "partial_matches": 1}
    }
    return text(
        header(
            100.0,
            application=bad,
            version=bad,
            bounds={bad: 2.0},
            sources=[f"src{bad}"],
            operators={bad: {"node": bad, "inputs": [f"src{bad}"], "patterns": [bad]}},
            sinks={bad: f"{bad}.{bad}"},
        ),
        batch(101.0, bad, kept=60, patterns=patterns, unshed_sample={bad: {"unknown": bad}}),
        decision(
            102.0,
            f"because {bad}",
            replanned=True,
            statuses={bad: "SHEDDING"},
            advice={bad: f"do {bad}"},
            loads={bad: 0.9},
            shares={f"{bad}.{bad}": {f"type = '{bad}'": 0.5}},
        ),
    )


class LargeRun:
    """A run of an application with so many operators, joined at random, on so many nodes."""

    def __init__(self, number, nodes, seed=4):
        self._draw = random.Random(seed)
        self._operators: dict[str, dict[str, Any]] = {}
        self._nodes = nodes
        streams: list[str] = []
        for place in range(number):
            inputs = [self._draw.choice(["clicks", "orders"])] if place < nodes else []
            known = min(len(streams), self._draw.choice((1, 1, 2)))
            inputs += self._draw.sample(streams[-12:], known)
            kind = self._draw.choice(("late-parcels", "spikes", "returns-within-a-week", "op"))
            name = f"{kind}{place}"
            self._operators[name] = {
                "node": f"node-{place * nodes // number}",
                "inputs": list(dict.fromkeys(inputs)),
                "patterns": ["P"],
            }
            streams.append(f"{name}.P")
        self._sinks = {f"sink-{place}": stream for place, stream in enumerate(streams[-6:])}

    def header(self, time):
        """Make the record of its start."""
        return header(
            time,
            bounds={f"node-{n}": 2.0 if n % 2 else None for n in range(self._nodes)},
            sources=["clicks", "orders"],
            operators=self._operators,
            sinks=self._sinks,
        )

    def second(self, time):
        """Make a micro-batch of each node."""
        recall = {"recall": 1.0, "recall_low": 0.99, "recall_high": 1.0}
        rows = []
        for node in (f"node-{n}" for n in range(self._nodes)):
            mine = {n: one for n, one in self._operators.items() if one["node"] == node}
            patterns = {
                f"{name}.P": {
                    "kept": 60,
                    "offered": 100,
                    "seconds": 0.1,
                    "matches": self._draw.randrange(1000),
                }
                for name in mine
            }
            arrived = {
                name: {stream: self._draw.randrange(100, 1000) for stream in one["inputs"]}
                for name, one in mine.items()
            }
            said = dict.fromkeys(self._sinks, recall)
            mean = self._draw.uniform(0.5, 1.5)
            more = {"patterns": patterns, "arrived": arrived, "unshed_sample": said}
            rows.append(batch(time, node, kept=60, mean=mean, **more))
        return rows

    def decision(self, time):
        """Make a decision."""
        statuses = ("OK", "SHEDDING", "BOUND-AT-RISK")
        return decision(
            time,
            statuses={f"node-{n}": statuses[n % 3] for n in range(self._nodes)},
            loads={f"node-{n}": 0.3 + 0.25 * n % 1.3 for n in range(self._nodes)},
            replanned=True,
        )


def large_log(path, number, nodes):
    """Write the log of three seconds of a large run."""
    run = LargeRun(number, nodes)
    rows = [row for second in (101.0, 102.0, 103.0) for row in run.second(second)]
    path.write_text(text(run.header(100.0), *rows, run.decision(104.0)), encoding="utf-8")

"""The log of a run: a line of JSON for every micro-batch and every decision.

It is what the page, the report and anybody with a JSON reader can look at afterwards. Types are
many, so only those that come most often are told one by one.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from shedlight.control.controller import Decision
from shedlight.engines.spark.progress import NodeBatch

MOST_TYPES = 50
"""How many types are told one by one, for each operator and input."""


class RunLog:
    """Writes the log of a run.

    Args:
        path: The file; lines are added to what is there. It is made with the first of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._late = Late()

    def batch(self, batch: NodeBatch, used: Mapping[str, Any]) -> None:
        """Write down a micro-batch, and what it used."""
        self._late.take(batch)
        self._write(batch_row(batch) | {"late": self._late.at()} | dict(used))

    def decision(self, decision: Decision) -> None:
        """Write down a decision."""
        self._write(decision_row(decision))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self._file.flush()


def batch_row(batch: NodeBatch) -> dict[str, Any]:
    """Write a micro-batch as a row."""
    latency = {}
    number = sum(one.number for one in batch.passed.values())
    if number:
        mean = sum(one.number * one.mean for one in batch.passed.values()) / number
        latency["mean"] = batch.end - mean / 1e6
        for place, name in enumerate(("p50", "p95", "p99")):
            oldest = min(one.quantiles[place] for one in batch.passed.values())
            latency[name] = batch.end - oldest / 1e6
    return {
        "kind": "batch",
        "time": batch.end,
        "node": batch.node,
        "number": batch.number,
        "seconds": batch.seconds,
        "events": batch.events,
        "kept": batch.kept,
        "lag": None if batch.newest is None else batch.end - batch.newest,
        "latency": latency,
        "state": sum(group.state for group in batch.groups),
        "refused": dict(batch.refused),
        "patterns": patterns_of(batch),
    }


def patterns_of(batch: NodeBatch) -> dict[str, dict[str, float]]:
    """Add up what the groups counted of each pattern."""
    found: dict[str, dict[str, float]] = {}
    for group in batch.groups:
        for operator, tally in group.operators.items():
            for name, one in tally.patterns.items():
                sums = found.setdefault(f"{operator}.{name}", dict.fromkeys(_COUNTED, 0))
                sums["kept"] += sum(one.kept.values())
                for counted in _COUNTED[1:]:
                    sums[counted] += getattr(one, counted)
    return found


_COUNTED = ("kept", "seconds", "found", "machines")


class Late:
    """Counts late events; each group says how many it has had since the beginning."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, int], int] = {}

    def take(self, batch: NodeBatch) -> None:
        """Take in what the groups say that had something to do."""
        for group in batch.groups:
            for name, tally in group.operators.items():
                self._groups[name, group.group] = tally.late

    def at(self) -> dict[str, int]:
        """Say how many there were at each operator, as far as its groups have spoken."""
        found: dict[str, int] = {}
        for (name, _), number in self._groups.items():
            found[name] = found.get(name, 0) + number
        return found


def decision_row(decision: Decision) -> dict[str, Any]:
    """Write a decision as a row."""
    entry = decision.entry
    return {
        "kind": "decision",
        "time": entry.time or time.time(),
        "reason": decision.reason,
        "replanned": entry.replanned,
        "seconds": entry.seconds,
        "loads": {name: float(load) for name, load in entry.loads.items()},
        "remedies": {n: one.remedy for n, one in decision.states.items() if one.remedy},
        "states": {name: str(one.state) for name, one in decision.states.items()},
        "shares": {
            str(stream): dict(
                sorted(one.shares.items(), key=lambda item: -item[1])[:MOST_TYPES]
            )
            for stream, one in decision.shares.items()
        },
    }

"""The log of a run: a line of JSON for how it began, every micro-batch, decision and wish.

It is what the page, the report and anybody with a JSON reader can look at afterwards. Types are
many, so only those are told one by one that come most often, or of which most is shed.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from shedlight.control.controller import Decision, Memory
from shedlight.control.observation import offered_to
from shedlight.control.planning_input import planning_input_of, planning_input_text
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.override_store import (
    OverrideOutcome,
    planning_input_path,
    write_atomically,
)
from shedlight.engines.spark.control.type_counts import (
    TypeCatalog,
    arrived_row,
    offered_rows,
    relevant_events,
)
from shedlight.model.snapshot import ByType

MOST_SHARES = 50
"""How many shares of a pattern are told one by one."""
_MOST_IN_ALL = 500


class RunLog:
    """Writes the log of a run.

    Args:
        path: The file; lines are added to what is there. It is made with the first of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._late = LateEventCounter()

    def begin(self, row: Mapping[str, Any]) -> None:
        """Write down what is run, as `dashboard.run_row` has it."""
        self._write(row)

    def batch(
        self, batch: MicroBatchReport, used: Mapping[str, Any], known: TypeCatalog | None = None
    ) -> None:
        """Write down a micro-batch, what it used, and what is known of its types."""
        self._late.take(batch)
        self._write(batch_row(batch, known) | {"late": self._late.at()} | dict(used))

    def decision(self, decision: Decision, memory: Memory | None = None) -> None:
        """Write down a decision, and leave the situation of the controller beside the log."""
        self._write(decision_row(decision, memory))
        situation = None if memory is None else planning_input_of(memory)
        if situation is None:
            return
        with suppress(OSError):  # nobody but the page misses it
            write_atomically(
                planning_input_path(self._path), planning_input_text(situation) or ""
            )

    def wish(self, heard: OverrideOutcome) -> None:
        """Write down a wish."""
        self._write(
            {
                "kind": "wish",
                "time": heard.time,
                "bounds": dict(heard.wish.bounds),
                "weights": dict(heard.wish.weights),
                "refused": heard.refused,
            }
        )

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


def batch_row(batch: MicroBatchReport, known: TypeCatalog | None = None) -> dict[str, Any]:
    """Write a micro-batch as a row."""
    patterns: dict[str, dict[str, Any]] = dict(patterns_of(batch))
    if known is not None:
        for name, row in offered_rows(batch, known).items():
            patterns[name] = patterns.get(name, {}) | row
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
        "relevant_events": None if known is None else relevant_events(batch, known),
        "lag": None if batch.newest is None else batch.end - batch.newest,
        "latency": latency,
        "state": sum(shard.state for shard in batch.shards),
        "refused": dict(batch.refused),
        "arrived": arrived_row(batch),
        "patterns": patterns,
    }


def patterns_of(batch: MicroBatchReport) -> dict[str, dict[str, float]]:
    """Add up what the shards counted of each pattern."""
    found: dict[str, dict[str, float]] = {}
    for shard in batch.shards:
        for operator, metrics in shard.operators.items():
            for name, one in metrics.patterns.items():
                sums = found.setdefault(f"{operator}.{name}", dict.fromkeys(_COUNTED, 0))
                sums["kept"] += sum(one.kept.values())
                for counted in _COUNTED[1:]:
                    sums[counted] += getattr(one, counted)
    return found


_COUNTED = ("kept", "seconds", "found", "partial_matches")


class LateEventCounter:
    """Counts late events; each shard says how many it has had since the beginning."""

    def __init__(self) -> None:
        self._shards: dict[tuple[str, int], int] = {}

    def take(self, batch: MicroBatchReport) -> None:
        """Take in what the shards say that had something to do."""
        for shard in batch.shards:
            for name, metrics in shard.operators.items():
                self._shards[name, shard.shard] = metrics.late

    def at(self) -> dict[str, int]:
        """Say how many there were at each operator, as far as its shards have spoken."""
        found: dict[str, int] = {}
        for (name, _), number in self._shards.items():
            found[name] = found.get(name, 0) + number
        return found


def decision_row(decision: Decision, memory: Memory | None = None) -> dict[str, Any]:
    """Write a decision as a row.

    Args:
        decision: The decision.
        memory: What the controller remembers; None: how often types come is not known.
    """
    plan = decision.plan
    usual = None if memory is None else memory.smoothed.mean
    most = min(MOST_SHARES, _MOST_IN_ALL // max(1, len(decision.shares)))
    shares: dict[str, ByType] = {}
    rates: dict[str, ByType] = {}
    for stream, one in decision.shares.items():
        seen = {} if usual is None else offered_to(usual, str(stream.operator))
        told = _shed_most(one.shares, seen)[:most]
        shares[str(stream)] = {label: one.shares[label] for label in told}
        rates[str(stream)] = {label: float(seen[label]) for label in told if label in seen}
    all_shares = sum(len(one.shares) for one in decision.shares.values())
    return {
        "kind": "decision",
        "time": decision.time or time.time(),
        "reason": decision.reason,
        "replanned": plan is not None,
        "seconds": decision.seconds,
        "loads": {name: float(load) for name, load in decision.loads.items()},
        "remedies": {n: one.advice for n, one in decision.health.items() if one.advice},
        "states": {name: str(one.status) for name, one in decision.health.items()},
        "shares": shares,
        "rates": rates,
        "more": all_shares - sum(map(len, shares.values())),
        "sinks": {name: float(rate) for name, rate in decision.sinks.items()},
        "prices": {} if plan is None else {n: float(one) for n, one in plan.prices.items()},
    }


def _shed_most(shares: ByType, seen: ByType) -> list[str]:
    """Order types: those first of which most events are shed, then those that come often."""

    def key(label: str) -> tuple[float, float, float, str]:
        rate = seen.get(label, 0.0)
        return -rate * (1 - shares[label]), -rate, shares[label], label

    return sorted(shares, key=key)

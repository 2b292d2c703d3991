"""The log of a run: a line of JSON for each start, micro-batch, decision and override.

The web UI, the report and anybody with a JSON reader can look at it afterwards. Types are many,
so only those are logged one by one that arrive most often, or of which most is shed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from shedlight.control.controller import Memory
from shedlight.control.planning_input import (
    planning_input_of,
    planning_input_path,
    planning_input_text,
)
from shedlight.engines.spark.control import type_counts
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.override_store import OverrideOutcome
from shedlight.engines.spark.shed.type_catalog import Catalogs
from shedlight.engines.spark.support.atomic_file import open_private, write_atomically
from shedlight.engines.spark.support.tolerance import FailureLog
from shedlight.runlog import records


class RunLog:
    """Writes the log of a run: adds lines to a file, which is made with the first of them.

    A record that cannot be written is lost, whole, and the run goes on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._failures = FailureLog()

    def write(self, record: records.Record) -> None:
        """Write down a record."""
        with self._failures.tolerate(f"writing to {self._path}", _RECORD_LOST):
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open_private(self._path)
            _append_line(self._file, record.model_dump_json().encode() + b"\n")

    def write_planning_input(self, memory: Memory) -> None:
        """Write what the next plan is made from next to the log, if anything is known yet."""
        planning_input = planning_input_of(memory)
        if planning_input is None:
            return
        with suppress(OSError):  # nobody but the web UI misses it
            path = planning_input_path(self._path)
            write_atomically(path, planning_input_text(planning_input))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


_RECORD_LOST = "the run goes on; what it would have logged is lost until it can be written"


def _append_line(file: BinaryIO, line: bytes) -> None:
    """Add a line to a file; if there is no room for all of it, then none of it."""
    size, written = file.seek(0, os.SEEK_END), 0
    try:
        while written < len(line):
            written += file.write(line[written:])
    except OSError:
        file.truncate(size)
        raise


class BatchRecorder:
    """Makes the log records of micro-batches; it remembers how many events were late.

    Each shard says how many late events it has had since the checkpoint was begun, and only
    those shards speak that had something to do.
    """

    def __init__(self) -> None:
        self._late: dict[tuple[str, int], int] = {}

    def record(
        self,
        report: MicroBatchReport,
        catalogs: Catalogs | None = None,
        plan: int | None = None,
        pressure: float | None = None,
    ) -> records.MicroBatchRecord:
        """Make the record of a micro-batch, by type if the types of its node are known."""
        latency = {}
        if report.kept:
            sketches = report.kept_arrivals.values()
            mean = sum(sketch.number * sketch.mean for sketch in sketches) / report.kept
            latency["mean"] = report.end - mean / 1e6
            for name, share in (("p50", 0.5), ("p95", 0.05), ("p99", 0.01)):
                oldest = min(sketch.at(share) for sketch in sketches)
                latency[name] = report.end - oldest / 1e6
        return records.MicroBatchRecord(
            time=report.end,
            node=report.node,
            number=report.number,
            seconds=report.seconds,
            events=report.events,
            kept=report.kept,
            relevant_events=None
            if catalogs is None
            else type_counts.relevant_events(report, catalogs),
            lag=None if report.newest is None else report.end - report.newest,
            latency=latency,
            state_bytes=sum(shard.state for shard in report.shards),
            malformed=dict(report.malformed),
            late=self._late_events(report),
            arrived=type_counts.arrived_row(report),
            patterns=pattern_records(report, catalogs),
            plan=plan,
            pressure=pressure,
            unshed_sample={
                sink: records.sample_record(estimate)
                for sink, estimate in report.unshed_sample.items()
            },
        )

    def _late_events(self, report: MicroBatchReport) -> dict[str, int]:
        for shard in report.shards:
            for name, metrics in shard.operators.items():
                self._late[name, shard.shard] = metrics.late
        totals: dict[str, int] = {}
        for (name, _), number in self._late.items():
            totals[name] = totals.get(name, 0) + number
        return totals


def pattern_records(
    report: MicroBatchReport, catalogs: Catalogs | None = None
) -> dict[str, records.PatternRecord]:
    """Add up what the shards counted of each pattern."""
    rows: dict[str, dict[str, Any]] = {}
    for shard in report.shards:
        for operator, metrics in shard.operators.items():
            for name, counted in metrics.patterns.items():
                row = rows.setdefault(f"{operator}.{name}", dict.fromkeys(_COUNTED, 0))
                row["kept"] += sum(counted.kept.values())
                row["seconds"] += counted.seconds
                row["matches"] += counted.found
                row["partial_matches"] += counted.partial_matches
                row["cancelled"] += counted.cancelled
    if catalogs is not None:
        for name, offered in type_counts.offered_rows(report, catalogs).items():
            rows[name] = rows.get(name, {}) | offered
    return {name: records.PatternRecord(**row) for name, row in rows.items()}


_COUNTED = ("kept", "seconds", "matches", "partial_matches", "cancelled")


def override_record(outcome: OverrideOutcome) -> records.OverrideRecord:
    """Make the log record of what became of an override."""
    return records.OverrideRecord(
        time=outcome.time,
        bounds=dict(outcome.active.bounds),
        weights=dict(outcome.active.weights),
        rejected=outcome.rejected,
    )

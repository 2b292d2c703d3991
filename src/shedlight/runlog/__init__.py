"""The log of a run: its records, how it is followed, and what they add up to."""

from shedlight.runlog.aggregate import RunTotals, run_totals
from shedlight.runlog.follow import Follower, Run, find_log, read_run
from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    PatternRecord,
    Record,
    RunHeader,
    parse_record,
    run_header,
)

__all__ = [
    "DecisionRecord",
    "Follower",
    "MicroBatchRecord",
    "OverrideRecord",
    "PatternRecord",
    "Record",
    "Run",
    "RunHeader",
    "RunTotals",
    "find_log",
    "parse_record",
    "read_run",
    "run_header",
    "run_totals",
]

"""The log of a run: its records, how it is followed, and what they add up to."""

from shedlight.runlog.follow import Follower, Run, follow, log_of, read_run
from shedlight.runlog.parsing import header_of, record_of
from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OverrideRecord,
    PatternRecord,
    Record,
    RunHeader,
    run_row,
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
    "follow",
    "header_of",
    "log_of",
    "read_run",
    "record_of",
    "run_row",
]

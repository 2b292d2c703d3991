"""The log of a run: its records, how it is followed, and what they add up to."""

from shedlight.runlog.follow import Follower, Run, follow, log_of, read_run
from shedlight.runlog.parsing import header_of, record_of
from shedlight.runlog.records import (
    Batch,
    Decision,
    Header,
    PatternBatch,
    Record,
    Wish,
    run_row,
)

__all__ = [
    "Batch",
    "Decision",
    "Follower",
    "Header",
    "PatternBatch",
    "Record",
    "Run",
    "Wish",
    "follow",
    "header_of",
    "log_of",
    "read_run",
    "record_of",
    "run_row",
]

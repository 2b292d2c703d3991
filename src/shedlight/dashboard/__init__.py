"""The dashboard: the log of a run -> what is known of it -> a report, metrics, a page."""

from shedlight.dashboard.html_report import report_page
from shedlight.dashboard.parsing import header_of, record_of
from shedlight.dashboard.reading import Follower, Run, follow, log_of, read_run
from shedlight.dashboard.records import (
    Batch,
    Decision,
    Header,
    PatternBatch,
    Record,
    Wish,
    run_row,
)
from shedlight.dashboard.words import sentences

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
    "report_page",
    "run_row",
    "sentences",
]

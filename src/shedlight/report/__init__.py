"""A page about a run, made from its log."""

from shedlight.report.html_report import report_page
from shedlight.report.narrative import sentences

__all__ = ["report_page", "sentences"]

"""Reports of a run, made from its log: a page of HTML, sentences, the summary at its end."""

from shedlight.report.html_report import report_page
from shedlight.report.narrative import sentences

__all__ = ["report_page", "sentences"]

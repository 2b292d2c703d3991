"""Totals of a run: what is added up, and the sentence about it."""

import pytest

from tests.page.client import PageClient
from tests.page.rehearsal import BOUND
from tests.runlog.logs import batch, decision, header, text


def totals_of(folder, *rows):
    """Ask for the totals of a log."""
    log = folder / "log.jsonl"
    log.write_text(text(*rows))
    return PageClient(log, clock=lambda: 1e6).get("/api/totals")


def test_a_run_that_is_over_has_totals(recorded_run):
    """The same as the records add up to, and bounds that held."""
    found = PageClient(recorded_run / "log.jsonl").get("/api/totals")
    edge = found["nodes"]["edge-2"]
    assert (edge["bound"], edge["keeps_bound"]) == (BOUND, True)
    assert edge["events"] == edge["kept"] + edge["shed"] + edge["irrelevant"]
    assert edge["shed"] > 0
    assert found["sinks"]["k4"]["complex_events"] > 0
    assert found["ended"] - found["began"] == pytest.approx(60)
    assert found["summary"].endswith("All bounds held, taken over the whole run.")


def test_a_bound_that_did_not_hold_is_said(tmp_path):
    """By the name of the node; the worst micro-batch has its time."""
    found = totals_of(tmp_path, header(100.0), batch(101.0), batch(102.0, mean=9.0))
    assert found["summary"].endswith("Over its bound, taken over the whole run: edge.")
    assert (found["nodes"]["edge"]["worst"], found["nodes"]["edge"]["worst_time"]) == (9, 102)


def test_what_was_shed_and_what_is_irrelevant_are_told_apart(tmp_path):
    """Where the log does; else it is not known."""
    rows = (header(100.0), batch(101.0, kept=60, relevant_events=80))
    found = totals_of(tmp_path, *rows)
    assert (found["nodes"]["edge"]["shed"], found["nodes"]["edge"]["irrelevant"]) == (20, 20)
    assert "25% of the relevant events shed" in found["summary"]
    mixed = totals_of(tmp_path, header(100.0), batch(101.0, kept=60))
    assert mixed["nodes"]["edge"]["irrelevant"] is None
    assert "40% of the events, irrelevant ones among them, shed" in mixed["summary"]


def test_recall_is_that_of_the_unshed_sample(tmp_path):
    """With its interval; late and malformed records are counted."""
    said = {"keys": 80, "recall": 0.5, "recall_low": 0.4, "recall_high": 0.6, "rate": 3.0}
    row = batch(
        101.0, unshed_sample={"out": said}, late={"flows": 3}, malformed={"payments": 2}
    )
    found = totals_of(tmp_path, header(100.0), row)
    sample = found["sinks"]["out"]["unshed_sample"]
    assert [sample[k] for k in ("recall_low", "recall", "recall_high")] == [0.4, 0.5, 0.6]
    assert (found["late"], found["malformed"]) == ({"flows": 3}, {"payments": 2})


def test_a_run_without_a_micro_batch_has_nothing_to_add_up(tmp_path):
    """Nor has one whose events were there before a latency."""
    assert "nothing to add up" in totals_of(tmp_path, header(100.0))["summary"]
    found = totals_of(tmp_path, header(100.0, timed=False), batch(101.0), decision(102.0))
    assert found["summary"].endswith("so there is no latency to speak of.")

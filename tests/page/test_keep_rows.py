"""The plan of any moment: its shares and reasons, and what led to it."""

import pytest

from tests.page.client import PageClient
from tests.page.rehearsal import BEGAN
from tests.runlog.logs import batch, decision, header, text


@pytest.fixture
def page(tmp_path):
    """Have a page of a run with two plans."""
    log = tmp_path / "log.jsonl"
    plans = [
        decision(110.0, "first", shares={"flows.P": {"a": 1.0}}),
        decision(
            120.0,
            "second",
            replanned=True,
            status="SHEDDING",
            advice={"edge": "do\u202e this"},
            prices={"edge": 5.0},
            shares={"flows.P": {"a": 0.25}},
            rates={"flows.P": {"a": 40.0}},
        ),
        decision(130.0, "third", shares={"flows.P": {"a": 0.25}}),
    ]
    log.write_text(text(header(100.0), batch(101.0), *plans))
    return PageClient(log, clock=lambda: 1e6)


@pytest.mark.parametrize(
    ("time", "reason", "share", "price"),
    [
        (110, "first", 1.0, None),
        (119.9, "first", 1.0, None),
        (120, "second", 0.25, 5.0),
        (999, "third", 0.25, 5.0),
    ],
)
def test_the_plan_of_a_moment_is_that_of_the_decision_before(page, time, reason, share, price):
    """With its shares, and the prices of the plan that it goes on with."""
    found = page.get("/api/plan", params={"time": time})
    assert found["reason"] == reason
    (row,) = found["keep_rows"]
    assert (row["share"], row["price"]) == (share, price)


def test_the_latest_plan_is_that_of_the_status(recorded_run):
    """Row by row."""
    page = PageClient(recorded_run / "log.jsonl")
    found = page.get("/api/plan", params={"time": BEGAN + 1e6})
    status = page.get("/api/status")
    assert found["keep_rows"] == status["keep_rows"]
    assert found["omitted_rows"] == status["omitted_rows"]


def test_texts_of_a_plan_are_without_control_characters(page):
    """They come from events."""
    assert "\u202e" not in page.get("/api/plan", params={"time": 125})["advice"]["edge"]


def test_before_the_first_decision_there_is_no_plan(page, tmp_path):
    """It says from when on there is one."""
    assert "is of 1970-01-01 00:01:50 UTC; ask" in page.error(
        "/api/plan", 404, params={"time": 50}
    )
    (tmp_path / "log.jsonl").write_text(text(header(100.0)))
    page = PageClient(tmp_path / "log.jsonl")
    assert "nothing has been decided yet" in page.error("/api/plan", 404, params={"time": 50})
    for time in ("nan", "inf", "-1", "x"):
        page.error("/api/plan", 422, params={"time": time})

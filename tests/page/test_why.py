"""Why a pattern did not match, asked from the web UI: with the token, of stored events."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from shedlight.graph import load_application
from shedlight.page import why
from shedlight.page.run_view import RunPaths
from shedlight.page.server import Address, PageServer
from shedlight.runlog.records import run_header
from tests.page.browsing import chromium, looking
from tests.page.client import BEARER, TOKEN, PageClient, posted

EVENTS = """id,time,user,kind,amount
1,2026-01-05T10:00:00Z,ann,failed login,
2,2026-01-05T10:00:30Z,ann,transfer,40
3,2026-01-05T10:01:00Z,bob,failed login,
4,2026-01-05T10:12:30Z,bob,transfer,900
"""
APPLICATION = """
name: bank
sources: {logins: {format: csv, path: events.csv, time: time, id: [id]}}
nodes: {n: {}}
operators:
  cards:
    node: n
    input: [logins]
    patterns:
      Taken: SELECT a.user, b.amount
             WHERE SEQ(a.kind = 'failed login', b.kind = 'transfer' AND b.amount > 100)
             WITHIN 10 min PARTITION BY user
sinks: {out: {input: cards.Taken, format: parquet, path: out}}
"""
QUESTION = {"pattern": "cards.Taken", "key": "ann"}


@pytest.fixture
def bank(tmp_path):
    """Have an application, its events, and the log of a run of it."""
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "app.yaml").write_text(APPLICATION)
    header = run_header(load_application(tmp_path / "app.yaml").application, 1.8e9)
    (tmp_path / "log.jsonl").write_text(header.model_dump_json() + "\n")
    return RunPaths(tmp_path / "log.jsonl", None, tmp_path / "app.yaml")


def ask(paths, question, **headers):
    """Ask the web UI; give its reply."""
    page = PageClient(paths.log, paths=paths)
    more = posted(question)
    more["headers"] |= headers
    page.get("/api/run")
    return page.ask("/api/why", **more)


def test_the_answer_is_that_of_the_command(bank):
    """For a key, and for a key around a time."""
    lines = ask(bank, QUESTION, **BEARER).json()["lines"]
    assert "   condition: b.amount > 100 does not hold for event 2: b.amount is 40" in lines
    at = {"pattern": "cards.Taken", "key": "bob", "time": 1767607950.0}
    lines = ask(bank, at, **BEARER).json()["lines"]
    assert any(line.startswith("   window: event 3 and event 4 are 11.5 min") for line in lines)


def test_what_the_command_says_against_a_question_is_the_error(bank):
    """A key is never an option; and it is not said where on the machine the application is."""
    reply = ask(bank, QUESTION | {"key": "--help"}, **BEARER)
    assert reply.status_code == 409
    assert "no event has user = '--help'" in reply.json()["error"]
    bank.application.with_name("events.csv").unlink()
    reply = ask(bank, QUESTION, **BEARER)
    assert "events.csv" in reply.json()["error"]
    assert str(bank.log.parent) not in reply.text


@pytest.mark.parametrize(
    ("question", "status", "says"),
    [
        ({"pattern": "cards.Token", "key": "ann"}, 404, "did you mean 'cards.Taken'?"),
        ({"pattern": "cards.Taken"}, 422, "a key, a time, or both"),
        ({"pattern": "cards.Taken", "time": "now"}, 422, "it must be a number"),
    ],
)
def test_questions_that_cannot_be_asked(bank, question, status, says):
    """A sentence each."""
    reply = ask(bank, question, **BEARER)
    assert (reply.status_code, says in reply.json()["error"]) == (status, True), reply.text


def test_events_are_shown_to_nobody_without_the_token(bank):
    """On this machine too; and without an application file there are none."""
    assert ask(bank, QUESTION).status_code == 401
    reply = ask(replace(bank, application=None), QUESTION, **BEARER)
    assert "--application app.yaml" in reply.json()["error"]


def test_it_is_asked_in_the_browser(bank):
    """The answer reads as in the terminal."""
    server = PageServer(bank, Address(port=0, token=TOKEN))
    with (
        chromium() as browser,
        server.in_background(),
        looking(browser, server.link, expected=("401",)) as page,
    ):
        page.get_by_label("Key", exact=True).fill("ann")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#why-answer")).to_contain_text("No answer: what is asked about")
        page.locator("#why-token").fill(TOKEN)
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#why-answer")).to_contain_text("b.amount is 40")


def test_an_answer_that_takes_too_long_is_given_up(bank, monkeypatch):
    """Its process is gone, and it is said what can be done."""
    monkeypatch.setattr(why, "TIMEOUT_S", 0.01)
    reply = ask(bank, QUESTION, **BEARER)
    assert reply.status_code == 409
    assert "too many events to answer" in reply.json()["error"]

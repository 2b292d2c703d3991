"""`shedlight why`: what it prints, of files and of applications."""

import json

import pytest

from tests.cli.test_main import ROOT, shedlight  # noqa: F401  # a fixture
from tests.console import follow

PATTERN = (
    "SELECT a.x WHERE SEQ(a.type = 'A', b.type = 'B' AND b.x > 3) WITHIN 5 s PARTITION BY who"
)
EVENTS = (
    "n,time,type,x,who\n1,0,A,1,ann\n2,1000000,B,2,ann\n3,2000000,A,1,bob\n4,9000000,B,5,bob\n"
)
APPLICATION = f"""
name: small
sources:
  events: {{format: csv, path: events, time: time, id: n}}
nodes: {{edge: {{}}}}
operators:
  pairs:
    node: edge
    input: [events]
    patterns:
      pair: "{PATTERN}"
sinks:
  out: {{input: pairs.pair, format: json, path: out}}
"""


@pytest.fixture
def files(tmp_path):
    """A file of events, and an application that reads it."""
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "some.csv").write_text(EVENTS, encoding="utf-8")
    (tmp_path / "app.yaml").write_text(APPLICATION, encoding="utf-8")
    return tmp_path


def test_the_page_shows_what_is_printed(tmp_path):
    """Its commands are run, and their output compared."""
    assert follow(ROOT / "docs" / "why.md", tmp_path) == 2


def test_an_application_and_a_pattern_have_the_same_answer(shedlight, files):  # noqa: F811
    """But for the name of the pattern; in JSON the cause, the values and what to do."""
    of_application = shedlight("why", files / "app.yaml", "--key", "ann", "--json")
    inputs = ("--input", files / "events" / "some.csv", "--id", "n")
    of_pattern = shedlight("why", "--pattern", PATTERN, *inputs, "--key", "ann", "--json")
    first, second = json.loads(of_application.stdout), json.loads(of_pattern.stdout)
    assert (first.pop("pattern"), second.pop("pattern")) == ("pair", "P1")
    assert first["candidates"] == second["candidates"]
    (obstacle,) = first["candidates"][0]["obstacles"]
    assert (obstacle["cause"], obstacle["condition"]) == ("condition", "b.x > 3")
    assert (obstacle["event"], obstacle["values"]) == (2, {"b.x": 2})


def test_an_event_and_a_time_are_ways_to_ask(shedlight, files):  # noqa: F811
    """Both lead to the event that came too late."""
    for question in (
        ("--event", "4"),
        ("--at", "9000000"),
        ("--since", "1970-01-01T00:00:09Z"),
    ):
        done = shedlight("why", files / "app.yaml", *question)
        assert "window: event 3 and event 4 are 7 s apart; WITHIN 5 s" in done.stdout
        assert "WITHIN 7 s or more is long enough" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "say what to ask about"),
        (("--key", "an"), 1, "did you mean 'ann'"),
        (("--key", "ann,1"), 1, "PARTITION BY who"),
        (("--event", "77"), 1, "no event has the id '77'"),
        (("--event", "1", "--pattern", "pear"), 1, "did you mean 'pair'"),
        (("--at", "noon"), 2, "'noon' is no time"),
        (("--at", "1", "--since", "1"), 2, "one of the two"),
        (("--event", "1", "--key", "bob"), 1, "together"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(shedlight, files, arguments, status, message):  # noqa: F811
    """It says what is wrong, and what there is."""
    done = shedlight("why", files / "app.yaml", *arguments)
    assert done.returncode == status
    assert message in " ".join(done.stderr.replace("│", " ").split())

"""Events from the future in `match` and `simulate`: left out, counted and said."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from shedlight.cli.main import main

PAIR = "SELECT b.x WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"
LINES = """time,type,x
2026-01-05T09:00:00Z,A,1
{future},B,2
2026-01-05T09:00:01Z,B,3
2026-01-05T09:00:02Z,A,4
2026-01-05T09:00:03Z,B,5
"""
YEAR_9999 = "9999-12-31T23:59:59Z"
APP = f"""
name: app
sources: {{s: {{format: csv, path: events.csv, time: time, id: x}}}}
nodes: {{main: {{bound: 2 s}}}}
operators: {{o: {{node: main, input: [s], patterns: {{P: "{PAIR}"}}}}}}
sinks: {{out: {{input: o.P, format: json, path: out}}}}
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command in a folder with events; give what it printed and said."""
    (tmp_path / "events.csv").write_text(LINES.format(future=YEAR_9999), "utf-8")
    (tmp_path / "app.yaml").write_text(APP, "utf-8")

    def run(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["shedlight", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        output, errors = capsys.readouterr()
        assert not stopped.value.code, errors
        return output, errors

    return run


@pytest.mark.parametrize(
    ("words", "name", "setting"),
    [
        (("app.yaml",), "s", "`max_jump` of the source"),
        (("--pattern", PAIR, "--input", "events.csv"), "events.csv", "--max-jump"),
    ],
)
def test_match_finds_what_it_finds_without_them(call, words, name, setting):
    """They would have made all after them late; it says so, and what to do."""
    output, errors = call("match", *words, "--json")

    assert output.count("\n") == 2
    assert (
        f"{name}: 1 event is left out, with a time more than 1 d in the future; put times "
        f"right, or allow for more by {setting}\n"
    ) in errors
    assert "late" not in errors


def test_whoever_allows_for_them_has_them(call, tmp_path):
    """Then what comes after them is late."""
    future = (datetime.now(UTC) + timedelta(days=399)).isoformat()
    (tmp_path / "events.csv").write_text(LINES.format(future=future), "utf-8")
    pattern = ("--pattern", PAIR, "--input", "events.csv")
    output, errors = call("match", *pattern, "--max-jump", "400 days", "--json")
    assert (output, errors.count("left out")) == ("", 0)
    assert "3 late events were not matched" in errors


def test_simulate_leaves_them_out(call):
    """It would have waited for eight thousand years."""
    _, errors = call("simulate", "app.yaml", "--processing-time", "o.P=1 ms", "--json")
    assert "s: 1 event is left out" in errors

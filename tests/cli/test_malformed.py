"""Malformed records in `match` and `simulate`: left out, counted, said and written."""

import sys

import pytest

from shedlight.cli.main import main
from shedlight.engines.event_files import read_events

PAIR = "SELECT b.x WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"
LINES = (
    '{"n": 1, "at": "2026-01-05T09:00:00Z", "type": "A", "x": 1}\n'
    '{"n": 2, "at": "soon", "type": "A", "x": 2}\n'
    '{"n": null, "at": "2026-01-05T09:00:01Z", "type": "B", "x": 3}\n'
    '{"n": 4, "at": null, "type": "B", "x": 4}\n'
    '{"n": 5, "at": "2026-01-05T09:00:02Z", "type": "B", "x": 5}\n'
)
APP = """
name: app
sources:
  events:
    {{format: json, path: events.jsonl, time: at, id: n{malformed}}}
nodes: {{main: {{bound: 2 s}}}}
operators:
  o: {{node: main, input: [events], patterns: {{P: "{pattern}"}}}}
sinks:
  out: {{input: o.P, format: json, path: out}}
"""
PROBLEMS = ["'at' is no time in ISO-8601", "'n' is null", "'at' is null"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command in a folder with events; give its status, output and errors."""
    (tmp_path / "events.jsonl").write_text(LINES, "utf-8")

    def run(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["shedlight", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        output, errors = capsys.readouterr()
        return int(stopped.value.code or 0), output, errors

    return run


def _app(folder, malformed=""):
    text = APP.format(malformed=malformed, pattern=PAIR)
    (folder / "app.yaml").write_text(text, "utf-8")


def test_match_counts_what_it_leaves_out_and_shows_the_first(call, tmp_path):
    """If the source has a place for it, as on Spark; of each source in a line."""
    _app(tmp_path, ", malformed: {format: json, path: bad}")

    status, output, errors = call("match", "app.yaml", "--json")

    assert (status, output.count("\n")) == (0, 1)
    assert '"events": [1, 5]' in output
    assert "2 events, 1 matches in " in errors
    assert errors.endswith(
        "source events: 3 malformed records left out, first: 'at' is no time in ISO-8601: "
        '{"n": 2, "at": "soon", "type": "A", "x": 2}; --malformed FILE writes them all\n'
    )


def test_they_are_written_as_the_side_output_has_them(call, tmp_path):
    """With an option where the file has no place for them; else they are an error."""
    _app(tmp_path)

    failed, _, error = call("match", "app.yaml")
    status, _, errors = call("match", "app.yaml", "--malformed", "bad.jsonl")

    assert failed == 1
    assert "'at' is null in 1 of 5 events" in error
    assert status == 0
    assert ": {" in errors
    assert errors.endswith(" -> bad.jsonl\n")
    rows = read_events(tmp_path / "bad.jsonl").to_pylist()
    assert [row["problem"] for row in rows] == PROBLEMS
    assert {row["source"] for row in rows} == {"source events"}
    assert rows[1]["record"].startswith('{"n": null, "at": "2026-01-05T09:00:01')


@pytest.mark.parametrize("ids", [("--id", "n"), ()])
def test_patterns_without_an_application_have_the_option_too(call, ids, tmp_path):
    """Without ids a row is told by its number in the file, malformed ones counted."""
    words = ("match", "--pattern", PAIR, "--input", "events.jsonl", "--time", "at", *ids)

    failed, _, error = call(*words)
    status, output, _ = call(*words, "--malformed", "bad.csv", "--json")

    assert failed == 1
    assert "leave those events out" in error
    assert status == 0
    assert ('"events": [1, 5]' if ids else '"events": [1, 3]') in output
    assert len(read_events(tmp_path / "bad.csv")) == (3 if ids else 2)


def test_without_malformed_records_nothing_is_said(call, tmp_path):
    """The file that is asked for is there, and empty."""
    (tmp_path / "events.jsonl").write_text(LINES.splitlines()[0] + "\n", "utf-8")
    _app(tmp_path)

    status, _, errors = call("match", "app.yaml", "--malformed", "bad.parquet")

    assert status == 0
    assert "malformed" not in errors
    assert read_events(tmp_path / "bad.parquet").column_names == ["source", "problem", "record"]
    assert call("match", "app.yaml", "--malformed", "bad.xlsx")[0] == 1


def test_a_simulation_leaves_them_out_too(call, tmp_path):
    """And says so."""
    _app(tmp_path, ", malformed: {format: json, path: bad}")
    (tmp_path / "events.jsonl").write_text(LINES * 1, "utf-8")

    status, output, errors = call("simulate", "app.yaml", "--processing-time", "o.P=1ms")

    assert status == 0, errors
    assert "app: 2 events" in output
    assert "source events: 3 malformed records left out, first: " in errors


BROKEN = {
    "events.jsonl": LINES[: LINES.index("\n") + 1] + "nonsense\n[1]\n" + LINES.splitlines()[-1],
    "events.csv": "n,at,type,x\n1,2026-01-05T09:00:00Z,A,1\nnonsense\n"
    '5,2026-01-05T09:00:02Z,B,5\n"[1]",7\n',
}


@pytest.mark.parametrize("name", BROKEN)
def test_lines_that_cannot_be_parsed_are_malformed_records(call, name, tmp_path):
    """As on Spark; where they have no place, the first is named as an editor counts lines."""
    (tmp_path / name).write_text(BROKEN[name], "utf-8")
    words = ("match", "--pattern", PAIR, "--input", name, "--time", "at", "--id", "n")
    text_format = name.partition(".")[2].removesuffix("l").upper()

    failed, _, error = call(*words)
    status, output, errors = call(*words, "--malformed", "bad.jsonl", "--json")

    assert failed == 1
    line = 2 if text_format == "JSON" else 3
    assert f"{name}: line {line} cannot be parsed as {text_format}: 'nonsense'; put" in error
    assert (status, output.count("\n")) == (0, 1)
    assert '"events": [1, 5]' in output
    assert f"{name}: 2 malformed records left out, first: a record cannot be parsed" in errors
    rows = read_events(tmp_path / "bad.jsonl").to_pylist()
    assert {row["problem"] for row in rows} == {f"a record cannot be parsed as {text_format}"}
    assert rows[0]["record"] == "nonsense"


def test_an_application_leaves_them_out_where_its_source_says_so(call, tmp_path):
    """And with the other malformed records they are of the source."""
    _app(tmp_path, ", malformed: {format: json, path: bad}")
    (tmp_path / "events.jsonl").write_text(LINES + "{\n", "utf-8")

    status, output, errors = call("match", "app.yaml", "--json")

    assert (status, output.count("\n")) == (0, 1)
    assert "source events: 4 malformed records left out, first: a record cannot be" in errors

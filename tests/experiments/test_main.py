"""`python -m experiments`: what it prints, where, and with which status."""

import json
import re
import sys
from dataclasses import replace
from typing import NamedTuple

import pytest

from experiments import __main__ as experiments_main
from experiments.results_file import read_results
from experiments.scalability import ProgramForm, Status, TimedSolve
from tests.experiments.points import PNG, TINY, a_point


class Done(NamedTuple):
    """What a call did."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def reproduce(capsys, monkeypatch):
    """Run `python -m experiments scalability --quick` on the tiny grid."""
    monkeypatch.setattr(experiments_main, "QUICK", TINY)

    def run(*arguments):
        call = ["experiments", "scalability", "--quick", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as stopped:
            experiments_main.main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    return run


def test_a_table_is_printed_and_the_files_are_named(reproduce, tmp_path):
    """A line per size on standard output; where the files are on standard error."""
    done = reproduce("--output", tmp_path)

    lines = re.sub(r"\d+\.\d{3}", "0.000", done.stdout).splitlines()
    assert re.split(" {2,}", lines[0].strip()) == [
        "types",
        "queries",
        "share",
        "paper's, s",
        "reduced, s",
        "ratio",
        "whole plan, s",
    ]
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["10", "2", "0.5", "0.000"],
        ["10", "2", "1", "0.000"],
    ]
    assert len(lines) == 9
    csv, png = tmp_path / "tiny.csv", tmp_path / "tiny.png"
    assert re.fullmatch(rf"tiny: 56 rows in \d+ s -> {csv}, {png}\n", done.stderr)
    assert png.read_bytes().startswith(PNG)
    assert done.status == 0


def test_json_has_the_rows_of_the_file(reproduce, tmp_path):
    """And what they were made with."""
    done = reproduce("--output", tmp_path, "--json")

    printed = json.loads(done.stdout)
    read = read_results(tmp_path / "tiny.csv", TimedSolve)
    assert printed["made_with"] == read.made_with
    assert [row["seconds"] for row in printed["rows"]] == [row.seconds for row in read.rows]
    assert printed["rows"][0]["program"] == "paper"


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(
    reproduce, tmp_path
):
    """One sentence, status 1; below a file there can be no folder."""
    file = tmp_path / "file"
    file.touch()

    done = reproduce("--output", file / "folder")

    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == (
        f"experiments: {file / 'folder' / 'tiny.csv'}: cannot be written: Not a directory; "
        "give a folder that can be written to\n"
    )


def test_a_call_that_is_not_understood_has_status_2(reproduce):
    """As for all verbs."""
    assert reproduce("--slow").status == 2


def test_different_optima_are_an_error(reproduce, tmp_path, monkeypatch):
    """The files are there to look at, and the status says that something is wrong."""
    wrong = [a_point(1.0, program=program) for program in ProgramForm]
    wrong[0] = replace(wrong[0], objective=8.0)
    monkeypatch.setattr(experiments_main, "measure", lambda _: iter(wrong))

    done = reproduce("--output", tmp_path)

    assert done.status == 1
    assert "different optima at 100 types, 10 queries and a share of 1 (1 sizes" in done.stderr
    assert (tmp_path / "tiny.csv").exists()


def test_what_has_no_answer_is_shown_by_the_limit(reproduce, tmp_path, monkeypatch):
    """More than 30 s against 0.5 s is more than 60 times."""
    rows = [
        a_point(None),
        *(a_point(0.5, program=p) for p in (ProgramForm.REDUCED, ProgramForm.PLAN)),
    ]
    monkeypatch.setattr(experiments_main, "measure", lambda _: iter(rows))

    done = reproduce("--output", tmp_path)

    assert re.split(" {2,}", done.stdout.splitlines()[1].strip()) == [
        "100",
        "10",
        "1",
        "> 30",
        "0.500",
        "> 60",
        "0.500",
    ]


def test_what_was_skipped_is_marked(reproduce, tmp_path, monkeypatch):
    """More than the limit is then a conclusion, not a measurement."""
    skipped = replace(a_point(None), status=Status.SKIPPED)
    rows = [
        skipped,
        *(a_point(0.5, program=p) for p in (ProgramForm.REDUCED, ProgramForm.PLAN)),
    ]
    monkeypatch.setattr(experiments_main, "measure", lambda _: iter(rows))

    lines = reproduce("--output", tmp_path).stdout.splitlines()

    assert "  *> 30  " in lines[1]
    assert lines[2].startswith("* not tried: ")

"""`shedlight report`: what it prints and writes, and its status."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from shedlight.cli.main import main
from tests.runlog.logs import batch, decision, header, text

APPLICATION = Path(__file__).parents[2] / "examples/overload/app.yaml"


class Done(NamedTuple):
    """What a call did."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def report(tmp_path, capsys, monkeypatch):
    """Run `shedlight report` in a folder of its own."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["shedlight", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    return run


def test_a_page_is_written_and_the_summary_printed(report, tmp_path):
    """The sentences on standard output are those on the page."""
    (tmp_path / "log.jsonl").write_text(text(header(9.0), batch(10.0), decision(10.0)))

    done = report("log.jsonl")

    assert (done.returncode, done.stderr) == (0, "-> report.html\n")
    assert "Node edge kept its bound" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Node edge kept its bound" in page


def test_the_application_gives_the_bounds_that_a_log_has_not(report, tmp_path):
    """Logs of older runs do not say them."""
    (tmp_path / "log.jsonl").write_text(text(batch(10.0)))

    done = report(".", "--application", APPLICATION, "--output", "a.html")

    assert done.returncode == 0
    assert "The run of overload" in done.stdout
    assert "the bound is 3.0 s" in done.stdout
    assert (tmp_path / "a.html").exists()


def test_what_is_no_log_is_said_without_a_traceback(report, tmp_path):
    """Status 1, and nothing is written."""
    (tmp_path / "x.csv").write_text("a,b\n")

    done = report("x.csv")

    assert done.returncode == 1
    assert done.stderr.startswith("shedlight: x.csv: it is no log of a run")
    assert not (tmp_path / "report.html").exists()


def test_the_log_is_never_written_over(report, tmp_path):
    """It is the only one."""
    log = tmp_path / "log.jsonl"
    log.write_text(text(batch(10.0)))

    done = report("log.jsonl", "--output", "log.jsonl")

    assert done.returncode == 1
    assert "it is the log itself" in done.stderr
    assert log.read_text() == text(batch(10.0))


def test_a_page_that_cannot_be_written_is_said(report, tmp_path):
    """With what to do."""
    (tmp_path / "log.jsonl").write_text(text(batch(10.0)))

    done = report("log.jsonl", "--output", "no/such/folder.html")

    assert done.returncode == 1
    assert "cannot be written: No such file or directory" in done.stderr

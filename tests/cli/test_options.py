"""Arguments that several commands have."""

import sys

import pytest
import typer

from shedlight.cli.main import main
from shedlight.cli.options import time_of


@pytest.mark.parametrize("text", ["--5", "-", "\u00b2", "1" + "0" * 20, "1e3", ""])
def test_what_is_no_time_is_said(text):
    """Though it has digits alone, or is a number that is too long."""
    with pytest.raises(typer.BadParameter, match=r"--since: .* is no time; a time is"):
        time_of("--since", text)


def test_times_are_read_in_all_forms():
    """Numbers are microseconds."""
    assert time_of("--since", "-5") == -5
    assert time_of("--since", "1700000000000000") == 1_700_000_000_000_000
    assert time_of("--since", "1970-01-01T00:00:01Z") == 1_000_000


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            "run a.yaml --shedder globel",
            "'globel' cannot be chosen; known: global, local, none",
        ),
        ("run a.yaml --shedder globel", "did you mean 'global'?"),
        ("simulate a.yaml --stream balancd", "did you mean 'balanced'?"),
        ("simulate a.yaml --load much", "'--load': 'much' is no number; write it as in 0.5"),
        ("why --limit 1.5", "'--limit': '1.5' is no whole number"),
        ("why --limit 0", "it must be 1 or more"),
        ("serve log.jsonl --port 99999", "it must be 65535 or less"),
    ],
)
def test_a_value_that_cannot_be_is_said_with_what_can(call, says, capsys, monkeypatch):
    """Not in the words of a library."""
    monkeypatch.setattr(sys, "argv", ["shedlight", *call.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert stopped.value.code == 2
    assert says in said
    assert "Input should" not in said
    assert "Value error" not in said

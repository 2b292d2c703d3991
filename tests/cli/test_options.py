"""Arguments that several commands have."""

import pytest
import typer

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

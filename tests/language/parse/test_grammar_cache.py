"""Parser tables are kept between runs, and made anew where what was kept is of no use."""

import subprocess
import sys

import pytest

CODE = """
import lark.lark
from shedlight.language import parse_pattern
made = []
build = lark.lark.Lark._build_parser
lark.lark.Lark._build_parser = lambda self: (made.append(1), build(self))[1]
print(parse_pattern("select a where seq(a.x = 1; b.x = 2) within 3 sec").pattern, len(made))
"""
READ = "SELECT a WHERE SEQ(a.x = 1, b.x = 2) WITHIN 3 s"


def _read(cache):
    """Read a pattern in a process of its own, and say whether tables were made for it."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    text, _, made = done.stdout.strip().rpartition(" ")
    assert text == READ
    return made == "1"


def test_tables_are_made_once(tmp_path):
    """And what is there but cannot be read is replaced."""
    assert _read(tmp_path / "cache")
    assert not _read(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(b"no tables")
    assert _read(tmp_path / "cache")
    assert not _read(tmp_path / "cache")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_cannot_be_made_is_done_without(place, tmp_path):
    """The tables are then made in every run."""
    (tmp_path / "file").touch()
    assert _read(tmp_path / place)

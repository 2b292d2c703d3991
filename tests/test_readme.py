"""The front page: it is short, leads somewhere, and every block of it works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import ROOT, blocks, follow

PAGE = ROOT / "README.md"
TEXT = PAGE.read_text("utf-8")


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_every_command_prints_what_the_page_shows(tmp_path):
    """From top to bottom, in an empty folder."""
    assert follow(PAGE, tmp_path) == 4


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_the_first_block_prints_what_stands_below_it(tmp_path):
    """As a program of its own, with the environment activated, without settings of ours."""
    (python,) = (block for block in blocks(PAGE) if block.language == "python")
    (tmp_path / "first.py").write_text(python.text, "utf-8")

    activated = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": activated}
    environment.pop("PYSPARK_PYTHON", None)  # workers are the python3 that is found first

    done = subprocess.run(
        ["python", "first.py"],  # noqa: S607  # as a user does
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    shown = [line[2:] for line in python.text.splitlines() if line.startswith("# ")]
    assert done.stdout.split() == "\n".join(shown).split(), done.stderr


def test_what_to_install_is_there():
    """Its targets are run by whoever runs this test; that they are there is seen without."""
    (install,) = (block for block in blocks(PAGE) if block.language == "sh")
    targets = re.findall(r"^make (\w+)", install.text, re.MULTILINE)
    targets += re.findall(r"`make (\w+)`", TEXT)
    assert {"setup", "test"} <= set(targets)
    make = shutil.which("make")
    assert make
    for target in targets:
        subprocess.run([make, "--dry-run", target], cwd=ROOT, capture_output=True, check=True)
    assert ". .venv/bin/activate" in install.text


def test_all_blocks_are_run():
    """One in another language would be run by nobody."""
    assert {block.language for block in blocks(PAGE)} == {"sh", "console", "python"}


def test_it_is_short():
    """Two at most, and no line too wide for it."""
    lines = TEXT.splitlines()
    assert len(lines) <= 95
    assert max(map(len, lines)) <= 130


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)\s]+)\)", TEXT))
def test_links_lead_somewhere(target):
    """Within the repository; pictures, too."""
    assert (ROOT / target).exists()


def test_every_page_is_linked():
    """A page that nobody finds need not be written."""
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in TEXT

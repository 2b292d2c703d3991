"""The front page: it fits a screen, leads somewhere, and every block of it works."""

import re
import runpy
import shutil
import subprocess

import pytest

from tests.console import ROOT, blocks, follow

PAGE = ROOT / "README.md"
TEXT = PAGE.read_text("utf-8")


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_every_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    """From top to bottom, in an empty folder; then the Python, in the folder that they made."""
    assert follow(PAGE, tmp_path) == 4

    (python,) = (block for block in blocks(PAGE) if block.language == "python")
    (tmp_path / "five_lines.py").write_text(python.text, "utf-8")
    monkeypatch.chdir(tmp_path / "shop")
    runpy.run_path(str(tmp_path / "five_lines.py"))
    assert capsys.readouterr().out == "396 sudden orders\n"


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


def test_it_fits_a_screen():
    """A long one, and no line too wide for it."""
    lines = TEXT.splitlines()
    assert len(lines) <= 75
    assert max(map(len, lines)) <= 130


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)\s]+)\)", TEXT))
def test_links_lead_somewhere(target):
    """Within the repository; pictures, too."""
    assert (ROOT / target).exists()


def test_every_page_is_linked():
    """A page that nobody finds need not be written."""
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in TEXT

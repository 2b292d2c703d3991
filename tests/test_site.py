"""The documentation site: every page has its place, and `make docs` follows its links."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
HOOK = (ROOT / "scripts" / "site.py").read_text("utf-8")


def pages_of(nav):
    """List the pages of the navigation in order."""
    for entry in nav:
        for place in entry.values():
            if isinstance(place, str):
                yield place
            else:
                yield from pages_of(place)


def test_every_page_of_the_docs_is_in_the_navigation_once():
    """And every example; what else is there comes from the root."""
    pages = list(pages_of(CONFIG["nav"]))
    assert len(pages) == len(set(pages))
    written = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert written <= set(pages)
    added = set(pages) - written
    examples = {f"examples/{p.parent.name}.md" for p in ROOT.glob("examples/*/README.md")}
    at_root = {"index.md", "architecture.md", "changelog.md", "contributing.md"}
    assert added == examples | at_root | {"examples/index.md", "examples/notebook.md"}
    assert all(f'"{page}"' in HOOK or "/{name}.md" in HOOK for page in added)


def test_every_example_is_listed():
    """With a link to its folder."""
    text = (ROOT / "examples" / "README.md").read_text("utf-8")
    folders = {p.name for p in (ROOT / "examples").iterdir() if p.is_dir()}
    assert set(re.findall(r"^\| \[(\w+)\]", text, re.MULTILINE)) == folders


def test_broken_links_end_the_build():
    """Of pages, of anchors, and of what is not in the navigation."""
    assert CONFIG["strict"]
    assert all(
        level == "warn" for kind in CONFIG["validation"].values() for level in kind.values()
    )


@pytest.mark.soak
def test_the_site_is_built_and_asks_nobody_else(tmp_path):
    """No page loads anything from elsewhere: no font, script, style or picture."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    loaded = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//")
    for page in pages:
        assert not loaded.search(page.read_text("utf-8")), page.name
    for style in tmp_path.rglob("*.css"):
        assert not re.search(
            r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text("utf-8")
        )

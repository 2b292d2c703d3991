"""ARCHITECTURE.md: its files are there, and each hop of its walks is a function."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "shedlight"
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
WALKS = dict(re.findall(r"## (The life of an? \w+)\n(.*?)(?=\n## )", PAGE, re.DOTALL))
HOP = re.compile(r"^(\d+)\. `([\w/]+\.py)` `([\w.]+)`(?:, its `(\w+)`)?", re.MULTILINE)


@cache
def functions(path: str) -> frozenset[str]:
    """List the functions of a file: those of classes after the class, inner ones alone."""
    names = set()
    for node in ast.walk(ast.parse((SRC / path).read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            methods = (part for part in node.body if isinstance(part, ast.FunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return frozenset(names)


@pytest.mark.parametrize("name", WALKS)
def test_every_hop_of_a_walk_is_a_function(name):
    """Numbered through; the page says how many hops and files there are."""
    hops = HOP.findall(WALKS[name])

    wrong = [
        f"{number}. {path} {function} {inner}"
        for number, path, function, inner in hops
        if not {function, *filter(None, [inner])} <= functions(path)
    ]
    assert wrong == []
    assert [int(number) for number, *_ in hops] == list(range(1, len(hops) + 1))
    files = {path for _, path, *_ in hops}
    assert f"{len(hops)} hops in {len(files)} files" in WALKS[name]


def test_every_file_and_package_that_it_names_is_there():
    """By its path from the package, or from the root; within a section by its folder."""
    names = set(re.findall(r"`([\w/]+(?:\.(?:py|md|lark)|/))`", PAGE))
    folders = ("language", "matching", "matching/kernel", "engines/spark")
    places = [ROOT, SRC, *(SRC / folder for folder in folders)]
    missing = [name for name in names if not any((place / name).exists() for place in places)]
    assert missing == []


def test_every_package_has_a_row():
    """A stage that is not on the map is not found."""
    packages = {path.name for path in SRC.iterdir() if (path / "__init__.py").exists()}
    assert {name for name in packages if f"`{name}/`" not in PAGE} == set()

"""The documentation says what is there: all of it, and nothing else.

Its examples are run as doctests; here is what they cannot see.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

import shedlight
from shedlight.automaton.automaton import MOST_STATES
from shedlight.automaton.matcher import MOST_MACHINES
from shedlight.automaton.threads import MOST_THREADS
from shedlight.errors import LanguageError
from shedlight.language import build, parse_expression
from shedlight.language.columns import Column, arrow_of, evaluate
from shedlight.language.expression import KEYWORDS, Expression, Fold
from shedlight.language.functions import FUNCTIONS
from shedlight.language.kind import TYPE_NAMES
from shedlight.language.rules import RESERVED
from shedlight.language.shape import (
    MOST_DEPTH,
    MOST_ELEMENTS,
    MOST_LEVELS,
    MOST_NODES,
    MOST_REPEAT,
)
from shedlight.language.syntax import MOST_CHARACTERS
from shedlight.language.window import UNITS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LANGUAGE, PAPER, GLOSSARY = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("language.md", "paper.md", "glossary.md")
)
CODE = re.compile(r"`([^`]+)`")
BAR = re.compile(r"(?<= )\|(?= )")


def rows(text: str, *header: str) -> list[list[str]]:
    """Read all tables of a page whose header begins so; a row is its cells."""
    found: list[list[str]] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in BAR.split(line.strip("|"))])
            continue
        if table and tuple(table[0][: len(header)]) == header:
            found += table[2:]
        table = []
    assert found, header
    return found


def section(text: str, heading: str) -> str:
    """Give what stands under a heading, up to the next one like it."""
    level, _, _ = heading.partition(" ")
    return re.split(rf"^{level} ", text.partition(f"\n{heading}\n")[2], flags=re.MULTILINE)[0]


# ---------------------------------------------------------------------------------------------
# The language.


@pytest.mark.parametrize("word", sorted(KEYWORDS) + sorted(fold.value for fold in Fold))
def test_every_keyword_and_aggregate_is_explained(word):
    """They stand in capitals, in a sentence or in a list of them."""
    assert re.search(rf"\b{word.upper()}\b", LANGUAGE)


def test_the_functions_are_those_that_there_are():
    """No function is left out or made up."""
    named = [CODE.findall(row[0])[0].partition("(")[0] for row in rows(LANGUAGE, "function")]
    assert sorted(named) == sorted(FUNCTIONS)


def test_the_units_are_those_that_there_are():
    """No unit of a window is left out or made up."""
    named = [name for row in rows(LANGUAGE, "unit") for name in CODE.findall(row[1])]
    assert sorted(named) == sorted([*UNITS, "event", "events"])


def test_the_kinds_are_those_that_can_be_named():
    """And structs, which have no values of their own."""
    named = [CODE.findall(row[0])[0] for row in rows(LANGUAGE, "kind")]
    assert sorted(named) == sorted([*TYPE_NAMES, "struct"])


def test_the_casts_are_those_that_there_are():
    """All pairs are tried; to its own kind a value can always be cast."""
    named = {
        (CODE.findall(row[0])[0], CODE.findall(row[1])[0]) for row in rows(LANGUAGE, "from")
    }
    pairs = [(one, other) for one, other in product(TYPE_NAMES, repeat=2) if one != other]
    assert named == {pair for pair in pairs if can_be_cast(*pair)}


def can_be_cast(source: str, target: str) -> bool:
    """Say whether the language takes a cast."""
    try:
        parse_expression(f"CAST(x AS {target})", {"x": TYPE_NAMES[source]})
    except LanguageError:
        return False
    return True


def shown_values() -> list[tuple[str, str]]:
    """List the examples of the tables with what they are said to be."""
    tables = ("operators", "remarks"), ("from", "to"), ("function", "what")
    cells = [row[-2:] for header in tables for row in rows(LANGUAGE, *header)]
    return [(CODE.findall(one)[0], CODE.findall(other)[0]) for one, other in cells if one]


@pytest.mark.parametrize(("example", "result"), shown_values())
def test_the_examples_in_tables_are_right(example, result):
    """Both sides are expressions; 3 and 3.0 are not the same."""
    assert repr(value(example)) == repr(value(result))


def value(text: str) -> object:
    """Compute an expression without attributes."""

    def lookup(node: Expression) -> Column:
        raise AssertionError(node)

    return arrow_of(evaluate(parse_expression(text), 1, lookup)).to_pylist()[0]


def test_the_caps_are_those_of_the_code():
    """In the order of the table."""
    caps = (
        MOST_CHARACTERS,
        MOST_ELEMENTS,
        MOST_REPEAT,
        MOST_DEPTH,
        MOST_LEVELS,
        MOST_NODES,
        MOST_STATES,
        MOST_MACHINES,
        MOST_THREADS,
    )
    assert [row[1] for row in rows(LANGUAGE, "cap")] == [f"{cap:,}" for cap in caps]


def test_every_name_that_cannot_be_selected_is_named():
    """Those of the columns that every complex event has."""
    named = CODE.findall(section(LANGUAGE, "## SELECT: what to report"))
    assert not RESERVED - set(named)


@pytest.mark.parametrize("name", sorted(set(build.__all__) - {"Event", "Value"}))
def test_every_function_of_the_builder_is_shown(name):
    """By its name with the prefix of the examples."""
    assert re.search(rf"\bp\.{name}\b", section(LANGUAGE, "## Patterns in Python"))


# ---------------------------------------------------------------------------------------------
# The paper and the words.


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (path, row[2])
        for row in rows(PAPER, "in the paper", "in the code")
        for path in CODE.findall(row[1])
    ],
)
def test_what_is_said_to_be_here_is_here_and_what_is_planned_is_not(path, status):
    """If this fails as you add a package: say in docs/paper.md that it is here."""
    there = Path(shedlight.__file__).parent / path
    assert status == ("here" if there.exists() else "planned")


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for header, column in (("word", 2), ("symbol", 3))
            for row in rows(GLOSSARY, header)
            for name in CODE.findall(row[column])
        }
    ),
)
def test_every_name_of_the_glossary_is_in_the_code(name):
    """It is a module, something in a module, or an attribute of a class."""
    first, *rest = name.split(".")
    starts = [shedlight] if first[0].islower() else list(classes_named(first))
    path = [first, *rest] if first[0].islower() else rest
    assert any(leads_somewhere(start, path) for start in starts), name


def leads_somewhere(start: object, path: list[str]) -> bool:
    """Follow names from a module or a class."""
    for name in path:
        if isinstance(start, ModuleType) and not hasattr(start, name):
            start = importlib.import_module(f"{start.__name__}.{name}")
        elif name in getattr(start, "__dataclass_fields__", {}):
            return name == path[-1]
        else:
            start = getattr(start, name, None)
    return start is not None


def classes_named(name: str) -> Iterator[type]:
    """Find the classes of a name in all modules."""
    for module in modules():
        found = getattr(module, name, None)
        if isinstance(found, type) and found.__module__ == module.__name__:
            yield found


@cache
def modules() -> tuple[ModuleType, ...]:
    """Import the stages; the command line and the pytest plugin have no words of their own."""
    stages = ("language", "automaton", "graph", "model", "shedding", "planning", "control")
    return tuple(
        importlib.import_module(found.name)
        for stage in stages
        for found in pkgutil.iter_modules(
            [str(Path(shedlight.__file__).parent / stage)], f"shedlight.{stage}."
        )
    )


# ---------------------------------------------------------------------------------------------
# Links.


def links() -> list[tuple[str, str]]:
    """List the links of all pages that lead to other places of the repository."""
    return [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if "://" not in target
    ]


@pytest.mark.parametrize(("page", "target"), links())
def test_links_lead_somewhere(page, target):
    """To a file that is there, and a heading that is in it."""
    file, _, anchor = target.partition("#")
    there = ROOT / "docs" / (file or page)
    assert there.exists()
    if anchor:
        assert anchor in anchors(there.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """Make the anchors of all headings, as Markdown viewers do."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""The documentation says what is there: all of it, and nothing else.

Its examples are run as doctests; here is what they cannot see.
"""

import ast
import contextlib
import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
import typer
from pydantic import BaseModel

import shedlight
from experiments.__main__ import app as experiments
from shedlight.cli.main import app
from shedlight.control.node_status import NodeStatus
from shedlight.errors import LanguageError
from shedlight.graph.file.settings import (
    ApplicationSettings,
    ChannelSettings,
    FunctionSettings,
    LocationSettings,
    NodeSettings,
    OperatorSettings,
    RunFileSettings,
    SinkSettings,
    SourceSettings,
    ValueSettings,
)
from shedlight.language import Pattern, dsl, parse_expression, parse_pattern
from shedlight.language.ast.data_type import TYPE_NAMES
from shedlight.language.ast.expression import KEYWORDS, AggregateFunction, Expression
from shedlight.language.ast.pattern import Element, Not, Part, Repeat, Seq
from shedlight.language.ast.window import UNITS
from shedlight.language.check.normal_form import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_LEVELS,
    MAX_NODES,
    MAX_REPEAT,
)
from shedlight.language.check.rules import RESERVED
from shedlight.language.eval.column import Column, to_arrow
from shedlight.language.eval.evaluate import evaluate
from shedlight.language.functions import FUNCTIONS
from shedlight.language.parse.syntax import MAX_CHARACTERS
from shedlight.matching.compile.matcher import MAX_PARTIAL_MATCHES
from shedlight.matching.compile.nfa import MAX_STATES
from shedlight.matching.kernel.scan_bindings import MAX_BINDINGS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LANGUAGE, PAPER, GLOSSARY, GUIDE = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("language.md", "paper.md", "glossary.md", "guide.md")
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


@pytest.mark.parametrize(
    "word", sorted(KEYWORDS) + sorted(function.value for function in AggregateFunction)
)
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


def test_the_data_types_are_those_that_can_be_named():
    """And structs, which have no values of their own."""
    named = [CODE.findall(row[0])[0] for row in rows(LANGUAGE, "data type")]
    assert sorted(named) == sorted([*TYPE_NAMES, "struct"])


def test_the_casts_are_those_that_there_are():
    """All pairs are tried; to its own data type a value can always be cast."""
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

    return to_arrow(evaluate(parse_expression(text), 1, lookup)).to_pylist()[0]


def test_the_caps_are_those_of_the_code():
    """In the order of the table."""
    caps = (
        MAX_CHARACTERS,
        MAX_ELEMENTS,
        MAX_REPEAT,
        MAX_DEPTH,
        MAX_LEVELS,
        MAX_NODES,
        MAX_STATES,
        MAX_PARTIAL_MATCHES,
        MAX_BINDINGS,
    )
    assert [row[1] for row in rows(LANGUAGE, "cap")] == [f"{cap:,}" for cap in caps]


def test_every_name_that_cannot_be_selected_is_named():
    """Those of the columns that every complex event has."""
    named = CODE.findall(section(LANGUAGE, "## SELECT: what to report"))
    assert not RESERVED - set(named)


@pytest.mark.parametrize("name", sorted(set(dsl.__all__) - {"Event", "Value"}))
def test_every_function_of_the_builder_is_shown(name):
    """By its name with the prefix of the examples."""
    assert re.search(rf"\bp\.{name}\b", section(LANGUAGE, "## Patterns in Python"))


def shown_patterns() -> list[Pattern]:
    """Read the patterns of all examples that are run; those that show errors are left out."""
    found = []
    for example in doctest.DocTestParser().get_examples(LANGUAGE):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Constant) and re.match(
                r"\s*select\b", str(node.value), re.IGNORECASE
            ):
                with contextlib.suppress(LanguageError):
                    found.append(parse_pattern(str(node.value)).pattern)
    return found


def constructs(pattern: Pattern) -> Iterator[str]:
    """Name what a pattern is made of."""
    if pattern.within is not None:
        yield f"WITHIN {pattern.within.unit.name}"
    yield f"{min(len(pattern.partition_by), 2)} keys"
    yield from ["REUSE"] * pattern.reuse + ["EACH"] * pattern.each
    yield from ["conditions across"] * bool(pattern.conditions)
    for item in pattern.select:
        yield f"SELECT {type(item.expression).__name__}"
    yield from parts(pattern.where, "")


def parts(part: Part, place: str) -> Iterator[str]:
    """Name a part and what is in it; of a NOT, also where it stands."""
    if isinstance(part, Repeat):
        group = "" if isinstance(part.part, Element) else " of a group"
        many = (
            "more" if part.most is None else "so many" if part.most > part.least else "as many"
        )
        yield f"{min(part.least, 2)} to {many}{group}"
        yield from parts(part.part, "")
        return
    yield f"{type(part).__name__}{place}"
    inner = getattr(part, "parts", ())
    for number, one in enumerate(inner):
        last = isinstance(part, Seq) and number == len(inner) - 1
        within = f" in {type(part).__name__}{' at the end' if last else ''}"
        yield from parts(one, within if isinstance(one, Not) else "")


CONSTRUCTS = {
    *("Element", "Seq", "And", "Or", "Not in Seq", "Not in And", "Not in Seq at the end"),
    *("2 to as many", "2 to so many", "2 to more", "1 to more", "0 to so many", "0 to more"),
    *("2 to as many of a group", "conditions across", "REUSE", "EACH"),
    *("WITHIN TIME", "WITHIN EVENTS", "0 keys", "1 keys", "2 keys"),
    *("SELECT Attribute", "SELECT WholeEvent", "SELECT Binary", "SELECT Aggregate"),
}


def test_every_construct_of_patterns_has_an_example_that_is_run():
    """What it is made of is found in the patterns themselves, not in the words around them."""
    assert {one for pattern in shown_patterns() for one in constructs(pattern)} >= CONSTRUCTS


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
    package = Path(shedlight.__file__).parent
    there = (package / path).exists() or (ROOT / path).exists()
    assert status == ("here" if there else "planned")


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
        elif name in (
            *getattr(start, "__dataclass_fields__", ()),
            *getattr(start, "model_fields", ()),
        ):
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
    """Import all modules but the command line, which has no words of its own."""
    return tuple(
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(shedlight.__path__, "shedlight.")
        if not module.name.startswith("shedlight.cli")
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


# ---------------------------------------------------------------------------------------------
# The guide: every setting, and nothing else.

PARTS: dict[str, type[BaseModel]] = {
    "At the top": ApplicationSettings,
    "A function": FunctionSettings,
    "A source": SourceSettings,
    "The value of a record of Kafka": ValueSettings,
    "A side output": LocationSettings,
    "A node": NodeSettings,
    "An operator": OperatorSettings,
    "A sink": SinkSettings,
    "The run": RunFileSettings,
    "Channels": ChannelSettings,
}


@pytest.mark.parametrize("part", PARTS)
def test_the_guide_has_every_setting_of_the_application_file(part):
    """By name, in the order of the file, and whether it is needed."""
    table = rows(section(GUIDE, f"### {part}"), "setting", "default")
    fields = PARTS[part].model_fields
    assert [CODE.findall(row[0])[0] for row in table] == [
        one.alias or name for name, one in fields.items()
    ]
    assert [row[1] == "needed" for row in table] == [
        one.is_required() for one in fields.values()
    ]


def commands(command, name):
    """List all verbs with their options."""
    yield name, [one for one in command.params if one.param_type_name == "option"]
    for verb, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {verb}")


VERBS = dict(commands(typer.main.get_command(app), "shedlight"))
EXPERIMENTS = dict(commands(typer.main.get_command(experiments), "experiments"))


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_guide_has_every_option_of_the_command_line(verb):
    """If this fails as you add one: add a row to docs/guide.md, with its default."""
    text = section(GUIDE, f"### {verb}")
    assert text
    table = rows(text, "option", "default") if VERBS[verb] else []
    named = {name: row for row in table for name in CODE.findall(row[0])}
    assert set(named) == {
        name for one in VERBS[verb] for name in (*one.opts, *one.secondary_opts)
    }
    for one in VERBS[verb]:
        assert written_default(one) in named[one.opts[0]][1], one.opts


def written_default(option):
    """Write the default as the guide does; nothing if the option is a switch or has none."""
    if option.required:
        return "needed"
    if option.secondary_opts:
        return option.opts[0].removeprefix("--")
    default = getattr(option.default, "value", option.default)
    return "" if default is None or default is False else str(default)


def test_the_page_of_the_experiments_has_their_options():
    """One table for all of them; how many processors there are depends on the computer."""
    table = rows((ROOT / "docs" / "reproduce.md").read_text("utf-8"), "option", "default")
    named = {CODE.findall(row[0])[0] for row in table}
    assert named == {name for verb in EXPERIMENTS.values() for one in verb for name in one.opts}


def test_the_guide_has_every_state_and_every_alert():
    """Those of the controller, and those for Prometheus."""
    states = {row[0].partition(",")[0] for row in rows(GUIDE, "state", "means")}
    assert states == {str(state) for state in NodeStatus}
    alerts = (ROOT / "dashboards" / "alerts.yml").read_text("utf-8")
    assert [row[0] for row in rows(GUIDE, "alert")] == re.findall(r"- alert: (\w+)", alerts)

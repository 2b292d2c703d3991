"""One word per idea, one name per thing: what the glossary promises, over the whole tree."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from experiments.__main__ import app as experiments
from shedlight import MODULE_OF
from shedlight.cli.main import COMMANDS, app

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "shedlight"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")

# ---------------------------------------------------------------------------------------------
# Words.

REPLACED = {
    "frontier": "watermark",
    "wish": "constraint, override",
    "shelf": "event table",
    "told": "what is called, with what",
    "heard": "override",
    "beside": "next to, in addition to",
    "outlook": "load assessment",
    "refusal": "infeasible, rejected, malformed",
    "tally": "metrics, totals",
    "situation": "planning input",
    "machine": "partial match; of hardware: computer",
}
FORMS = {
    "wish": "wish(?:es|ed)?",
    "shelf": "shel(?:f|ves)",
    "tally": "tall(?:y|ies|ied)",
}
WORD = re.compile(
    "|".join(
        # also in names: told_of, frontiersOf
        rf"(?<![a-z])(?P<{word}>{FORMS.get(word, f'{word}s?' if word != 'beside' else word)})"
        r"(?![a-z])"
        for word in REPLACED
    ),
    re.IGNORECASE,
)
HARDWARE = (
    "docs/page.md",
    "docs/reproduce.md",
    "examples/cluster/",
    "examples/paper/",
    "examples/sensors/",
    "src/shedlight/engines/simulator/csv_rows.py",
    "src/shedlight/generate/borg_like.py",
)
"""Where a machine is a computer, one of the cluster trace or one of a plant."""
COMPUTER = re.compile(r"(?:this|virtual) machine|machine[_ .](?:id|zone)", re.IGNORECASE)
"""What it is everywhere."""
TEXTS = {".py", ".md", ".yaml", ".yml", ".html", ".css", ".js", ".lark", ".json", ".properties"}


def texts() -> Iterator[Path]:
    """List the files whose words are checked: source, web UI, documents and examples."""
    yield ROOT / "README.md"
    for folder in ("src", "docs", "examples", "dashboards"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in TEXTS and not {"data", "out", "state"} & set(path.parts):
                yield path


def replaced_words(text: str, name: str) -> Iterator[str]:
    """Find words that are not ours, each with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in WORD.finditer(line):
            word = next(key for key, value in found.groupdict().items() if value)
            computers = (one.span() for one in COMPUTER.finditer(line))
            if word == "machine" and (
                name.startswith(HARDWARE)
                or any(start <= found.start() < end for start, end in computers)
            ):
                continue
            yield f"{name}:{number}: {found[0]!r}; say {REPLACED[word]}: {line.strip()[:90]}"


@pytest.mark.parametrize("path", [*texts()], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_has_the_words_of_the_glossary(path):
    """A reader who knows the field must not learn a dialect."""
    name = path.relative_to(ROOT).as_posix()
    assert [*replaced_words(path.read_text("utf-8"), name)] == []


def test_the_words_are_found():
    """In any form, and as a part of a name; not within another word."""
    text = "told_of\nFrontierS\nwishes\nan open Machine\nthis machine\nmachine_id\nbesides"
    assert [line.split(":")[1] for line in replaced_words(text, "x")] == ["1", "2", "3", "4"]


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Give the help of a command and of those below it."""
    yield name, command.get_help(typer.Context(command, info_name=name))
    for verb, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{name} {verb}")


HELPS = [
    *helps(typer.main.get_command(app), "shedlight"),
    *helps(typer.main.get_command(experiments), "experiments"),
]


@pytest.mark.parametrize(("name", "text"), HELPS, ids=[name for name, _ in HELPS])
def test_help_has_the_words_of_the_glossary(name, text):
    """As it is printed."""
    assert [*replaced_words(text, name)] == []


WORDS = (
    *("active plan", "blob", "candidate plan", "checkpoint", "constraint", "dashboard"),
    *("data type", "deduplication state", "event reference", "event type", "heavy hitter"),
    *("high-yield key", "idle source, idleness", "infeasible", "keep share", "late"),
    *("load assessment", "malformed record", "metrics", "micro-batch report", "node status"),
    *("operator chain", "outbox", "override", "partial match", "plan", "plan settings"),
    *("planning input", "planning problem", "pressure", "protected closure", "relevant event"),
    *("reorder buffer", "replan trigger", "saved state", "shard", "side output", "snapshot"),
    *("unshed sample", "watermark", "web UI", "admit"),
)


def test_the_glossary_has_every_word():
    """Each in a row of its own, with its meaning."""
    rows = {line.split(" | ")[0].strip("| ") for line in GLOSSARY.splitlines() if " | " in line}
    assert set(WORDS) - rows == set()


# ---------------------------------------------------------------------------------------------
# Names.


def modules(folder: Path = SRC, package: str = "shedlight") -> dict[str, Path]:
    """Map the dotted names of all modules to their files."""
    return {
        ".".join([package, *path.relative_to(folder).with_suffix("").parts]): path
        for path in sorted(folder.rglob("*.py"))
        if "templates" not in path.parts
    }


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file."""
    return ast.parse(path.read_text("utf-8"))


def repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group places by name; keep the names with several."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_public_class_name_is_there_twice():
    """One name, one thing."""
    classes = (
        (node.name, name)
        for name, path in modules().items()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert repeated(classes) == {}


def test_no_module_name_is_there_twice_within_a_package():
    """Across the packages at the top it may repeat: `cli/plan.py`, `planning/plan.py`."""
    stems = (
        (f"{name.split('.')[1]}: {path.stem}", name)
        for name, path in modules().items()
        if not path.stem.startswith("__")
    )
    assert repeated(stems) == {}


WITHOUT_AN_IMPORT = {
    "shedlight.cli.__main__",  # python -m shedlight.cli
    "shedlight.cli.main",  # the command
    *(f"shedlight.cli.{name}" for name in COMMANDS),  # imported when they are called
    "shedlight.testing",  # the plugin of pytest
    "shedlight.planning.paper",  # the paper's own program: the reference of the tests
    "shedlight.control.monitor",  # the paper's reporting rule, for the distributed controller
    "shedlight.control.averages",
    *(f"shedlight.{module}" for module in MODULE_OF.values()),
    "shedlight.engines.spark.step.worker_daemon",  # Spark starts it by its name
    "shedlight.language.dsl",
}


def imports(path: Path) -> Iterator[str]:
    """Name what a file imports, anywhere in it: modules, and what may be one."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_is_imported_by_tests_alone():
    """What only tests use belongs to the tests."""
    around = [*(ROOT / "experiments").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    used = {
        name
        for path in [*modules().values(), *around, *(ROOT / "benchmarks").rglob("*.py")]
        for name in imports(path)
    }
    unused = {
        name for name, path in modules().items() if path.stem != "__init__" and name not in used
    }
    assert unused - WITHOUT_AN_IMPORT == set()

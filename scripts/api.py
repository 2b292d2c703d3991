"""Write docs/api.md from the docstrings of the public names."""

# ruff: noqa: E501  # a line of the page is longer than one of code

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import GenericAlias
from typing import NamedTuple

import shedlight

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
_WIDTH = 96

HEAD = """# The Python API

Made by `make docs` from the docstrings; change those, not this page. What is not here may change without notice.

All names of the first sections are imported from `shedlight` itself, which is quick: a name is loaded when it is first
used, and Spark only by what runs on it. Times are in microseconds where they belong to events, else in seconds; rates
are per second; shares are shares *kept*, from 0 to 1. Tables of events are Arrow tables.

| to ... | start at |
|---|---|
| read a pattern, or build one in Python | [`parse_pattern`](#parse_pattern), [`shedlight.language.dsl`](#shedlightlanguagedsl) |
| read an application file, or build it in Python | [`load_application`](#load_application), [`build_application`](#build_application) |
| find matches in tables | [`run_application`](#run_application), [`match_tables`](#match_tables) |
| find matches in a DataFrame | [`find`](#find) |
| run on Spark | [`Live`](#live), [`run_on_spark`](#run_on_spark) |
| plan from a snapshot | [`build_model`](#build_model), [`make_plan`](#make_plan) |
| simulate | [`simulate`](#simulate) |
| test your own patterns | [`shedlight.testing`](#shedlighttesting) |
"""


class Section(NamedTuple):
    """A section of the page: its heading, its first paragraph, a module, and names of it."""

    title: str
    text: str
    module: str
    names: tuple[str, ...]


SECTIONS = (
    Section(
        "Patterns",
        "Text to values. [The language](language.md) has every construct, with its matches.",
        "shedlight",
        (
            "parse_pattern",
            "ParseResult",
            "Pattern",
            "parse_expression",
            "Schema",
            "DataType",
            "UserFunction",
        ),
    ),
    Section(
        "Applications",
        "Sources, operators on nodes, and sinks, from a file or made in Python: the same value. "
        "[The guide](guide.md#the-application-file) has the settings of the file.",
        "shedlight",
        (
            "load_application",
            "LoadResult",
            "explain",
            "build_application",
            "check_application",
            "application_json_schema",
            "Application",
            "Source",
            "TimeUnit",
            "RecordValue",
            "Channels",
            "RunSettings",
            "OnStart",
            "SideOutput",
            "Node",
            "OperatorSpec",
            "ShedBy",
            "Sink",
            "Stream",
        ),
    ),
    Section(
        "Matching in tables",
        "Everything that there is, at once, without Spark; what `shedlight match` does.",
        "shedlight",
        (
            "read_events",
            "write_events",
            "run_application",
            "match_tables",
            "StreamInput",
            "Result",
        ),
    ),
    Section(
        "In a DataFrame",
        "Batch or streaming, in any session; see [patterns over a DataFrame](pyspark.md). It imports PySpark.",
        "shedlight",
        ("find",),
    ),
    Section(
        "On Spark",
        "What `shedlight run` does; see [running](running.md). These import PySpark.",
        "shedlight",
        (
            "open_session",
            "close_session",
            "Live",
            "Options",
            "RunListener",
            "MicroBatchReport",
            "OverrideOutcome",
            "run_on_spark",
        ),
    ),
    Section(
        "Control",
        "When to replan, and what patterns keep; for runs on Spark and in the simulator.",
        "shedlight",
        (
            "Decision",
            "Shares",
            "PatternShares",
            "StratumShares",
            "Observation",
            "ControlSettings",
            "ReplanPolicy",
            "CalibrationSettings",
            "SmoothingSettings",
            "StrataSettings",
            "FeedbackSettings",
        ),
    ),
    Section(
        "Planning",
        "What `shedlight plan` does; see [planning](planning.md).",
        "shedlight",
        (
            "read_snapshot",
            "Snapshot",
            "MicroBatchCosts",
            "StratumRates",
            "SheddingWay",
            "build_model",
            "Model",
            "make_plan",
            "PlanSettings",
            "Target",
            "LatencyModel",
            "RateHistory",
            "Plan",
            "WatcherPlan",
        ),
    ),
    Section(
        "Simulating",
        "What `shedlight simulate` does; see [simulating](simulating.md).",
        "shedlight",
        (
            "simulate",
            "Service",
            "ServiceDistribution",
            "Costs",
            "ControllerPolicy",
            "Policy",
            "ServedEvents",
            "Simulation",
            "Interval",
            "Counts",
            "AppliedThreshold",
            "SinkEstimate",
            "Estimate",
        ),
    ),
    Section(
        "Errors",
        "What a user can put right is a `ShedlightError`; misuse is a `ValueError` or a `TypeError`.",
        "shedlight",
        (
            "ShedlightError",
            "LanguageError",
            "ApplicationError",
            "SnapshotError",
            "InputError",
            "StateError",
            "CapError",
            "PlanError",
        ),
    ),
    Section("shedlight.language.dsl", "", "shedlight.language.dsl", ()),
    Section("shedlight.testing", "", "shedlight.testing", ("matches",)),
)


def page() -> str:
    """Write the whole page."""
    return "\n".join([HEAD, *map(_section, SECTIONS)])


def _section(section: Section) -> str:
    module = importlib.import_module(section.module)
    text = section.text or _text(inspect.getdoc(module) or "", section.module, "")
    names = section.names or tuple(module.__all__)
    entries = [_entry(getattr(module, name), name, section.module) for name in names]
    return "\n".join([f"## {section.title}", "", text, "", *entries])


def _entry(thing: object, name: str, place: str) -> str:
    lines = [f"### {name}", ""]
    if isinstance(thing, GenericAlias):
        lines += _alias(name)
    elif inspect.isclass(thing):
        lines += _class(thing, name, place)
    else:
        lines += [
            *_code(_signature(thing, name)),
            _text(inspect.getdoc(thing) or "", place, name),
        ]
    return "\n".join([*lines, ""])


def _alias(name: str) -> Iterator[str]:
    """Write a name for a type as it is defined, with the text below it."""
    module = importlib.import_module(f"shedlight.{shedlight.MODULE_OF[name]}")
    body = ast.parse(inspect.getsource(module)).body
    for line in body:
        if isinstance(line, ast.ImportFrom) and name in {one.name for one in line.names}:
            body = ast.parse(inspect.getsource(importlib.import_module(str(line.module)))).body
    for line, after in pairwise(body):
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == name:
            yield from _code(ast.unparse(line))
            yield ast.literal_eval(after.value)  # type: ignore[attr-defined]


def _class(thing: type, name: str, place: str) -> Iterator[str]:
    yield from _code(_constructor(thing, name))
    yield _text(inspect.getdoc(thing) or "", place, name)
    members = [_member(one, value) for one, value in vars(thing).items() if one[0] != "_"]
    if any(members):
        yield "\nBesides:\n"
        yield from filter(None, members)


def _member(name: str, value: object) -> str:
    if isinstance(value, property) and value.fget is not None:
        return f"- `{name}`: {_first(value.fget)}"
    if inspect.isfunction(value) and inspect.getdoc(value):
        return f"- `{_signature(value, name, wide=True)}`: {_first(value)}"
    return ""


def _first(function: object) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _code(text: str) -> list[str]:
    return ["```python", text, "```", ""] if text else []


# ---------------------------------------------------------------------------------------------
# Signatures, as they are written.


def _signature(thing: object, name: str, *, wide: bool = False) -> str:
    node = _node(thing)
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"{name} is no function")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return _called(name, list(_arguments(node.args)), _plain(returns), wide=wide)


def _called(name: str, parts: list[str], returns: str = "", *, wide: bool = False) -> str:
    """Write a call in one line if it fits, else in a line for each argument."""
    flat = f"{name}({', '.join(parts)}){returns}"
    if wide or len(flat) <= _WIDTH:
        return flat
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def _arguments(given: ast.arguments) -> Iterator[str]:
    plain = [*given.posonlyargs, *given.args]
    values = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for one, value in zip(plain, values, strict=True):
        if one.arg not in {"self", "cls"}:
            yield _argument(one, value)
    if given.vararg is not None:
        yield "*" + _argument(given.vararg, None)
    elif given.kwonlyargs:
        yield "*"
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one, value)


def _argument(one: ast.arg, value: ast.expr | None) -> str:
    annotation = f": {ast.unparse(one.annotation)}" if one.annotation else ""
    return _plain(one.arg + annotation + (f" = {ast.unparse(value)}" if value else ""))


def _constructor(thing: type, name: str) -> str:
    """Write how a value of a class is made; nothing for those that are not made by users."""
    if issubclass(thing, Enum):
        return "\n".join(f"{name}.{one.name}  # {one.value!r}" for one in thing)
    node = _node(thing)
    if not isinstance(node, ast.ClassDef):
        raise TypeError(f"{name} is no class")
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return _signature(thing.__init__, name).removesuffix(" -> None")
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    is_tuple = issubclass(thing, tuple)
    if not fields or not (is_tuple or dataclasses.is_dataclass(thing)):
        return ""
    named = [] if is_tuple or not dataclasses.fields(thing)[0].kw_only else ["*"]
    return _called(name, named + [_plain(_field(one)) for one in fields])


def _field(node: ast.AnnAssign) -> str:
    name, annotation = ast.unparse(node.target), ast.unparse(node.annotation)
    if node.value is None:
        return f"{name}: {annotation}"
    made = ast.unparse(node.value)
    factory = re.match(r"field\(default_factory=(\w+)", made)
    if factory:
        made = {"dict": "{}", "list": "[]"}.get(factory[1], f"{factory[1]}()")
    return f"{name}: {annotation} = {made}"


def _node(thing: object) -> ast.stmt:
    source = textwrap.dedent(inspect.getsource(thing))  # type: ignore[arg-type]
    return ast.parse(source).body[0]


def _plain(text: str) -> str:
    """Take off quotes around names, and the aliases of modules before them."""
    return re.sub(r"\b(?:app|ast|ex)\.(?=[A-Z])", "", re.sub(r"'([A-Z]\w+)'", r"\1", text))


# ---------------------------------------------------------------------------------------------
# Docstrings, Google's style to Markdown.

_HEADING = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example):\n", re.MULTILINE)
_NAMED = re.compile(r"^(\w+): ", re.MULTILINE)


def _text(doc: str, place: str, name: str) -> str:
    first, *rest = _HEADING.split(doc.strip() + "\n")
    parts = [_prose(first)]
    for heading, text in zip(rest[::2], rest[1::2], strict=True):
        body = textwrap.dedent(text).rstrip()
        if heading == "Example":
            parts.append(_example(body, place, name))
        elif heading == "Returns":
            parts.append(f"Returns: {_prose(body)[0].lower()}{_prose(body)[1:]}")
        else:
            parts.append(f"{heading}:\n\n{_items(body)}")
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    """Join the lines of a paragraph; leave what is indented as it is."""
    paragraphs = re.split(r"\n{2,}", text.strip("\n"))
    return "\n\n".join(
        one if one.startswith("    ") or re.match(r"[|-] ?", one) else " ".join(one.split())
        for one in paragraphs
    )


def _items(text: str) -> str:
    entries = re.split(r"\n(?=\S)", text)
    lines = (" ".join(one.split()) for one in entries)
    return "\n".join("- " + _NAMED.sub(r"`\1`: ", line) for line in lines)


def _example(text: str, place: str, name: str) -> str:
    if ">>>" not in text:
        return "Example:\n\n" + "\n".join(_code(text)).rstrip()
    needed = (
        f">>> from {place} import {name}\n" if name and f"import {name}" not in text else ""
    )
    return "Example:\n\n" + textwrap.indent(needed + text, "    ")


if __name__ == "__main__":
    made = page()
    if "--check" in sys.argv:
        same = PAGE.exists() and PAGE.read_text("utf-8") == made
        sys.exit(0 if same else f"{PAGE.name} is out of date; run `make docs`")
    PAGE.write_text(made, "utf-8")

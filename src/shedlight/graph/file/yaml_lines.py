"""YAML -> plain values and the line of each.

Scalars stay text as it was written (but for an empty one, which is None), keys too: a source
may be called `on`, and a path may look like a date. What it means is up to `settings.py`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from shedlight.graph.file.problem import Path, Problem, format_path, shorten

Value = str | list["Value"] | dict[str, "Value"] | None

MAX_CHARACTERS = 10_000_000  # the longest text
MAX_VALUES = 200_000  # how many values a file may have, those of its aliases counted each time
MAX_DEPTH = 50  # how many mappings and lists may stand inside each other

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNFIT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("null", "bool", "int", "float", "str", "timestamp", "value", "map", "seq")
)
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
_ADVICE = (
    ("\\t", "a tab stands where spaces belong", "indent with spaces"),
    ("tab character", "a tab stands where spaces belong", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a colon stands where none can",
        "put a text that has a colon in quotes, or indent this line as those around it",
    ),
    (
        "expected ',' or",
        "a list or a mapping is not closed before this",
        "close it, and put a text that has brackets or commas in quotes",
    ),
    (
        "undefined alias",
        "this alias has no anchor",
        "an anchor such as &name stands before its alias *name",
    ),
    ("another document", "a second document starts here", "write one application per file"),
)
"""What YAML readers say, what that means, and what to do."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says."""

    value: Value = None  # all of it
    lines: Mapping[Path, int] = field(default_factory=dict)  # the line, from 1 on, of each part
    problems: tuple[Problem, ...] = ()  # why it cannot be used, if so


def read_document(text: str) -> Document:
    """Read YAML; what is wrong with it is part of the result."""
    if len(text) > MAX_CHARACTERS:
        problem = f"the file has {len(text):,} characters; {MAX_CHARACTERS:,} are allowed"
        return Document(problems=(Problem((), problem),))
    unfit = _UNFIT.search(text)
    if unfit:
        message = f"the character {unfit.group()!r} cannot be in a file of text"
        line = len(_LINE_END.findall(text, 0, unfit.start())) + 1
        return Document(problems=(Problem((), message, line),))
    try:
        problem_of_size = _measured(text)
        if problem_of_size:
            return Document(problems=(problem_of_size,))
        root = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError) as error:
        return Document(problems=(_not_yaml(error, text),))
    if root is None:
        empty = Problem((), "the file is empty; it describes no application")
        return Document(problems=(empty,))
    reader = _Reader()
    value = reader.value(root, ())
    return Document(value, reader.lines, tuple(reader.problems))


def _not_yaml(error: Exception, text: str) -> Problem:
    """Say what the YAML reader says, and show the line."""
    what = str(getattr(error, "problem", None) or error)
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Problem((), f"this is not YAML: {what}")
    rows = _LINE_END.split(text)
    row, column = min(mark.line, len(rows) - 1), mark.column
    line = rows[row].replace("\t", " ")
    if rows[row][column : column + 1] == "\t":
        what = "\\t"
    known = (advice for said, *advice in _ADVICE if said in what)
    what, advice = next(known, (what, ""))
    start = max(0, column - 60)
    caret = " " * (min(column, len(line)) - start) + "^"
    shown = [f"this is not YAML: {what}", line[start : column + 30], caret, advice]
    return Problem((), "\n    ".join(filter(None, shown)), row + 1)


def _measured(text: str) -> Problem | None:
    """Go through the file once, without building anything, to see that it is safe to read."""
    sizes: dict[str | None, int] = {}
    open_parts: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((event.anchor, count))
            sizes[event.anchor] = _OPEN
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_parts.pop()
            sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            count += sizes.get(event.anchor, 0)
        count += 1
        message = _too_much(len(open_parts), count)
        if message:
            return Problem((), message, event.start_mark.line + 1)
    return None


_OPEN = 10**12


def _too_much(depth: int, count: int) -> str:
    if count >= _OPEN:
        return "this alias stands inside of what it stands for; write out what is meant"
    if depth > MAX_DEPTH:
        return f"more than {MAX_DEPTH} mappings or lists stand inside each other"
    if count > MAX_VALUES:
        return f"the file has more than {MAX_VALUES:,} values, with those of aliases"
    return ""


_Entry = tuple[yaml.Node, yaml.Node]


class _Reader:
    """Turns the nodes of YAML into values, and keeps their lines and what is wrong."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, path: Path) -> Value:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if node.tag not in _TAGS:
            self._wrong(path, f"has the tag {shorten(node.tag)!r}; leave it out", node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(inner, (*path, i)) for i, inner in enumerate(node.value)]
        if node.tag == _NULL:
            return None
        return self._text(node, path)

    def _text(self, node: yaml.Node, path: Path) -> str:
        text = str(node.value)
        unfit = _UNFIT.search(text)
        if unfit:
            self._wrong(path, f"has the character {unfit.group()!r}; leave it out", node)
        return text

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name, (key, inner) in self._entries(node, path).items():
            self.lines[*path, name] = key.start_mark.line + 1
            values[name] = self.value(inner, (*path, name))
        return values

    def _entries(self, node: yaml.MappingNode, path: Path) -> dict[str, _Entry]:
        """List what is in a mapping; its own counts more than what is merged into it."""
        entries: dict[str, _Entry] = {}
        for key, inner in node.value:
            if key.tag == _MERGE:
                continue
            name = self._key(key, path)
            if name in entries:
                first = entries[name][0].start_mark.line + 1
                message = f"is there twice, first in line {first}; leave one out"
                self._wrong((*path, name), message, key)
            entries.setdefault(name, (key, inner))
        for part in self._merged(node, path):
            for name, entry in self._entries(part, path).items():
                entries.setdefault(name, entry)
        return entries

    def _key(self, node: yaml.Node, path: Path) -> str:
        if isinstance(node, yaml.ScalarNode):
            return self._text(node, path)
        self._wrong(path, "has a name that is no text; write a single word", node)
        return ""

    def _merged(self, node: yaml.MappingNode, path: Path) -> Iterator[yaml.MappingNode]:
        """Give the mappings that `<<` names, the most important first."""
        for key, inner in node.value:
            if key.tag != _MERGE:
                continue
            parts = inner.value if isinstance(inner, yaml.SequenceNode) else [inner]
            for part in parts:
                if isinstance(part, yaml.MappingNode):
                    yield part
                else:
                    what = "has a `<<` without a mapping; write `<<: *name` of an anchor"
                    self._wrong(path, what, part)

    def _wrong(self, path: Path, what: str, node: yaml.Node) -> None:
        message = f"{format_path(path)} {what}"
        self.problems.append(Problem(path, message, node.start_mark.line + 1))

"""Application file -> Application.

    text --yaml_lines.py--> values and lines --validation.py--> settings
         --here-----------> an Application   --check.py-------> checked

All that is wrong at one stage is reported together, with the place in the file.
"""

import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path as FilePath

from shedlight.errors import ApplicationError, LanguageError
from shedlight.graph import application as app
from shedlight.graph.channels import Channels
from shedlight.graph.check import content_problems, reference_problems
from shedlight.graph.column_types import text_problem
from shedlight.graph.file import settings as st
from shedlight.graph.file.functions import read_functions
from shedlight.graph.file.problem import (
    Path,
    Problem,
    format_problems,
    problem_at,
    raise_problems,
)
from shedlight.graph.file.validation import read_settings
from shedlight.graph.file.values import flat_schema
from shedlight.graph.file.yaml_lines import read_document
from shedlight.graph.kafka import KAFKA, RecordValue
from shedlight.graph.lint import lint_application
from shedlight.graph.run_settings import RunSettings
from shedlight.language import (
    Expression,
    Pattern,
    UserFunctions,
    parse_expression,
    parse_pattern,
)
from shedlight.language.ast.expression import Literal
from shedlight.language.ast.pattern import Element

MAX_BYTES = 10_000_000  # the largest file

_FILE_NAME = re.compile(r"[^\n:{}]+\.ya?ml\s*")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """An application that was checked, and its warnings."""

    application: app.Application
    warnings: tuple[str, ...] = ()


def load_application(text_or_path: str | FilePath) -> LoadResult:
    """Read an application and check it.

    Args:
        text_or_path: A path is the file to read; a string is the text itself.

    Raises:
        ApplicationError: It cannot be used; the message has all that is wrong, a line each,
            with the place in the file.

    Example:
        >>> load_application("- borg")
        Traceback (most recent call last):
        ...
        shedlight.errors.ApplicationError: line 1: an application is a mapping, got a list; ...
    """
    if isinstance(text_or_path, FilePath):
        return _load(_text_of(text_or_path), str(text_or_path))
    if _FILE_NAME.fullmatch(text_or_path):
        name = text_or_path.strip()
        hint = f"write Path({name!r}) for a file"
        raise ApplicationError(f"{name!r} is not an application; {hint}")
    return _load(text_or_path, "")


def _text_of(path: FilePath) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ApplicationError(f"{path}: the file cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise ApplicationError(f"{path}: the file has more than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "save the file as UTF-8"
        raise ApplicationError(f"{path}, line {line}: this is not UTF-8; {hint}") from error


def _load(text: str, file: str) -> LoadResult:
    document = read_document(text)
    raise_problems(document.problems, document.lines, file)
    settings, wrong = read_settings(document.value)
    raise_problems(wrong, document.lines, file)
    if settings is None:
        raise RuntimeError("no settings, and nothing wrong with them")
    functions, wrong_functions = read_functions(settings.functions)
    raise_problems(wrong_functions, document.lines, file)
    reading = _Reading(functions)
    application = reading.application(settings)
    problems = chain(reading.problems, reference_problems(application))
    raise_problems(problems, document.lines, file)
    raise_problems(
        content_problems(application, reading.texts, functions), document.lines, file
    )
    warnings = [*reading.warnings, *lint_application(application)]
    return LoadResult(application, format_problems(warnings, document.lines, file))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Turns settings into an application, and keeps problems and warnings.

    A pattern or expression that is not understood is replaced by a stand-in, so that the rest
    of the file can be checked too.
    """

    functions: UserFunctions  # what patterns and expressions may call
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def application(self, settings: st.ApplicationSettings) -> app.Application:
        return app.Application(
            name=settings.name,
            sources={name: self._source(name, s) for name, s in settings.sources.items()},
            nodes={name: _node(name, s) for name, s in settings.nodes.items()},
            operators={name: self._operator(name, s) for name, s in settings.operators.items()},
            sinks={name: _sink(name, s) for name, s in settings.sinks.items()},
            unshed_sample=settings.unshed_sample,
            run=_run(settings.run),
            channels=_channels(settings.channels),
        )

    def _source(self, name: str, settings: st.SourceSettings) -> app.Source:
        value = self._value(("sources", name), settings)
        return app.Source(
            name=name,
            id=tuple(settings.id or ()),
            value=value,
            columns={
                column: self._expression(("sources", name, "columns", column), text)
                for column, text in settings.columns.items()
            },
            schema=None if settings.declared is None else flat_schema(settings.declared),
            late=_side(settings.late),
            malformed=_side(settings.malformed),
            **settings.model_dump(exclude=_READ_ABOVE),
        )

    def _value(self, path: Path, settings: st.SourceSettings) -> RecordValue | None:
        """Read how values of Kafka are written; nobody else has any, nor another schema."""
        value, is_kafka = settings.value, settings.format.lower() == KAFKA
        if value is not None and not is_kafka:
            problem = f"is for Kafka's records, and the format is {settings.format}"
            hint = "write the columns under `schema`"
            self.problems.append(problem_at((*path, "value"), problem, hint))
            return None
        if settings.declared is not None and is_kafka:
            problem = "does not say how the values of Kafka's records are written"
            hint = "move it into `value: {format: json, schema: ...}`"
            self.problems.append(problem_at((*path, "schema"), problem, hint))
        if value is None:
            return None
        schema = flat_schema(value.declared)
        return RecordValue(format=value.format, schema=schema, options=value.options)

    def _operator(self, name: str, settings: st.OperatorSettings) -> app.OperatorSpec:
        return app.OperatorSpec(
            name=name,
            node=settings.node,
            inputs=tuple(map(app.parse_stream, settings.input)),
            patterns={
                pattern: self._pattern(("operators", name, "patterns", pattern), text)
                for pattern, text in settings.patterns.items()
            },
            never_shed=tuple(label.strip() for label in settings.never_shed or ()),
            shed_by=settings.shed_by,
        )

    def _expression(self, path: Path, text: str) -> Expression:
        self.texts[path] = text
        try:
            return parse_expression(text, functions=self.functions)
        except LanguageError as error:
            self.problems.append(text_problem(path, "expression", error))
            return _NOTHING

    def _pattern(self, path: Path, text: str) -> Pattern:
        self.texts[path] = text
        try:
            parsed = parse_pattern(text, functions=self.functions)
        except LanguageError as error:
            self.problems.append(text_problem(path, "pattern", error))
            return _ANYTHING
        self.warnings.extend(text_problem(path, "pattern", w) for w in parsed.warnings)
        return parsed.pattern


_READ_ABOVE = {"id", "value", "columns", "declared", "late", "malformed"}
_NOTHING = Literal(None)
_ANYTHING = Pattern(select=(), where=Element("E1"))


def _node(name: str, settings: st.NodeSettings | None) -> app.Node:
    if settings is None or settings.bound is None:
        return app.Node(name=name)
    time, percentile = settings.bound
    return app.Node(name=name, bound=time / 1e6, percentile=percentile)


def _run(settings: st.RunFileSettings | None) -> RunSettings:
    """Read how it is run; times are in seconds there."""
    if settings is None:
        return RunSettings()
    given = settings.model_dump()
    counts = {name: given.pop(name) for name in ("shards", "restarts", "on_start", "strata")}
    times = {name: None if time is None else time / 1e6 for name, time in given.items()}
    return RunSettings(**times, **counts)


def _channels(settings: st.ChannelSettings | None) -> Channels | None:
    return None if settings is None else Channels(**settings.model_dump())


def _side(settings: st.LocationSettings | None) -> app.SideOutput | None:
    return None if settings is None else app.SideOutput(**settings.model_dump())


def _sink(name: str, settings: st.SinkSettings) -> app.Sink:
    return app.Sink(
        name=name,
        input=app.parse_stream(settings.input),
        weight=0.0 if settings.timed_out else settings.weight,
        **settings.model_dump(exclude={"input", "weight"}),
    )

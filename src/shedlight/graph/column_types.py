"""Whether the columns that are named are there, and have data types that fit."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from textwrap import indent

from shedlight.errors import ApplicationError, LanguageError, join_words, known_names
from shedlight.graph.application import Application, Source, Stream
from shedlight.graph.columns import (
    Columns,
    is_hidden,
    output_columns,
    source_columns,
    union_columns,
)
from shedlight.graph.file.problem import Path, Problem, format_path, problem_at, shorten
from shedlight.graph.function_columns import function_problems
from shedlight.graph.topology import operator_order
from shedlight.language import (
    DataType,
    PatternWarning,
    Schema,
    UserFunctions,
    parse_expression,
    parse_pattern,
)
from shedlight.language.check.rules import check, check_row
from shedlight.language.functions import EVENT_TIMES

TIMES = EVENT_TIMES | {DataType.UNKNOWN}
IDS = frozenset(
    {
        DataType.BIGINT,
        DataType.STRING,
        DataType.TIMESTAMP,
        DataType.DATE,
        DataType.BOOLEAN,
        DataType.UNKNOWN,
    }
)

Texts = Mapping[Path, str]
"""What patterns and expressions were read from, so that an error can point into it."""


def text_problem(path: Path, what: str, error: LanguageError | PatternWarning) -> Problem:
    """Put the path in the application before what the language says."""
    message = indent(str(error), "    ")
    return Problem(path, f"{format_path(path)}, in the text of this {what}:\n{message}")


def data_type_problems(
    application: Application,
    texts: Texts | None = None,
    functions: UserFunctions | None = None,
) -> Iterator[Problem]:
    """Find columns that are not there or have the wrong data type, from the sources on down.

    The references of the application hold.
    """
    known: dict[Stream, Columns] = {}
    for source in application.sources.values():
        problems = list(_source_problems(source, texts or {}, functions))
        yield from problems
        known[Stream(source.name)] = _ANY if problems else source_columns(source)
    for spec in operator_order(application):
        inputs = {stream: known[stream] for stream in spec.inputs}
        try:
            columns = union_columns(spec.name, inputs)
        except ApplicationError as error:
            yield Problem(("operators", spec.name, "input"), f"operators.{error}")
            columns = _ANY
        for stream in spec.outputs:
            pattern, path = application.pattern(stream), pattern_path(stream)
            known[stream] = _ANY
            yield from function_problems(spec, stream)
            try:
                check(pattern, columns)
                known[stream] = output_columns(stream, pattern, columns)
            except LanguageError as error:
                parse = partial(parse_pattern, functions=functions)
                pointed = _pointed(error, parse, (texts or {}).get(path), columns)
                yield text_problem(path, "pattern", pointed)
            except ApplicationError as error:
                yield Problem(path, f"operators.{error}")


_ANY = Columns(open=frozenset({""}))


def pattern_path(stream: Stream) -> Path:
    """Give the path of the pattern behind a stream."""
    return ("operators", str(stream.operator), "patterns", stream.name)


def _pointed(
    error: LanguageError,
    parse: Callable[[str, Schema], object],
    text: str | None,
    columns: Columns,
) -> LanguageError:
    """Find the same error with its span in the text, by parsing that once more."""
    if text is not None:
        try:
            parse(text, columns)
        except LanguageError as pointed:
            return pointed
    return error


def _source_problems(
    source: Source, texts: Texts, functions: UserFunctions | None
) -> Iterator[Problem]:
    open_ = frozenset({""}) if source.schema is None else frozenset[str]()
    data_types: dict[str, DataType] = dict(source.schema or {})
    yield from _twin_problems(source)
    for name, expression in source.columns.items():
        path: Path = ("sources", source.name, "columns", name)
        columns = Columns(dict(data_types), open_)
        try:
            data_type = check_row(expression, columns)
            data_types |= {} if is_hidden(name) else {name: data_type}
        except LanguageError as error:
            if is_hidden(name):
                problem = f"does not have what {expression} needs: {error.problem}"
                yield problem_at(("sources", source.name), problem, error.hint)
                continue
            parse = partial(parse_expression, functions=functions)
            pointed = _pointed(error, parse, texts.get(path), columns)
            yield text_problem(path, "expression", pointed)
            data_types[name] = DataType.UNKNOWN
    columns = Columns(data_types, open_)
    where: Path = ("sources", source.name)
    yield from _column_problems((*where, "time"), source.time, columns, TIMES)
    for name in source.id:
        yield from _column_problems((*where, "id"), name, columns, IDS)
    if source.arrival is not None:
        yield from _column_problems((*where, "arrival"), source.arrival, columns, TIMES)


def _twin_problems(source: Source) -> Iterator[Problem]:
    """Find derived columns that are there already; Spark does not mind case in names."""
    by_name: dict[str, str] = {}
    declared = [name for name in source.schema or {} if "." not in name]
    for name in (*declared, *source.columns):
        first = by_name.setdefault(name.casefold(), name)
        if first is not name:
            where: Path = ("sources", source.name)
            problem = f"{format_path(where)} has two columns named {shorten(name)!r}"
            apart = "" if first == name else f" and {shorten(first)!r}"
            section = "columns" if name in source.columns else "schema"
            hint = "give one another name; case makes no difference"
            yield Problem((*where, section, name), f"{problem}{apart}; {hint}")


def _column_problems(
    path: Path, name: str, columns: Columns, data_types: frozenset[DataType]
) -> Iterator[Problem]:
    data_type = columns.get(name)
    if data_type is None:
        hint = known_names(shorten(name), columns)
        yield problem_at(path, f"names the unknown column {shorten(name)!r}", hint)
    elif data_type not in data_types:
        wanted = join_words(sorted(map(str, data_types - {DataType.UNKNOWN})))
        problem = f"is {shorten(name)!r}, which is {data_type}"
        yield problem_at(path, problem, f"it must be {wanted}: derive one under `columns`")

"""What is looked for in a DataFrame: patterns, and what its columns mean.

A question is plain values: it is checked against the columns of a DataFrame on the driver, and
what is found out then travels to the workers.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from shedlight.errors import InputError, LanguageError
from shedlight.graph import TimeUnit
from shedlight.language import Pattern, Schema, UserFunctions, check, parse_pattern
from shedlight.language.ast.window import read_duration
from shedlight.language.check.calls import check_function_names

ONLY_PATTERN = "P1"
"""What a pattern without a name is called; `shedlight match` calls its first one so too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Patterns, the columns of time and id, and how to wait for events."""

    patterns: Mapping[str, str | Pattern]  # by name, as text or as values
    is_named: bool  # whether they were given by name, so that results say which they are of
    time: str  # the column of the time
    unit: TimeUnit | None  # what it counts, if it is a number
    ids: tuple[str, ...]  # the columns of the id; none: every row is an event
    lateness: int  # how far behind the latest an event may be, in microseconds
    idle: int | None  # after how long a shard is idle, in milliseconds; None: never
    shards: int  # into how many shards the keys of a stream are divided
    functions: UserFunctions  # what patterns may call besides the functions of the language


def ask(  # noqa: PLR0913  # as many as there are choices
    pattern: str | Pattern | Mapping[str, str | Pattern],
    *,
    time: str,
    ids: str | Sequence[str] | None,
    time_unit: str | None,
    lateness: str,
    idle: str | None,
    shards: int,
    functions: UserFunctions | None,
) -> Question:
    """Check what can be checked before there are columns."""
    is_named = isinstance(pattern, Mapping)
    patterns = dict(pattern) if isinstance(pattern, Mapping) else {ONLY_PATTERN: pattern}
    if not patterns:
        raise InputError("there is no pattern to find; give one, or several by name")
    known = _read_functions(functions or {})
    for name, given in patterns.items():
        if isinstance(given, str):
            with _naming(name, is_named=is_named):
                parse_pattern(given, functions=known)
        elif not isinstance(given, Pattern):
            raise TypeError(f"a pattern is text or made with the builder, got {given!r}")
    if type(shards) is not int or shards < 1:
        raise InputError(f"`shards` is {shards!r}; it must be a whole number from 1 on")
    return Question(
        patterns=patterns,
        is_named=is_named,
        time=time,
        unit=None if time_unit is None else _read_unit(time_unit),
        ids=(ids,) if isinstance(ids, str) else tuple(ids or ()),
        lateness=_microseconds("lateness", lateness),
        idle=None if idle is None else _read_idle(idle),
        shards=shards,
        functions=known,
    )


def _read_functions(functions: UserFunctions) -> UserFunctions:
    try:
        return check_function_names(functions)
    except ValueError as error:
        raise InputError(f"`functions`: {error}") from error


@contextmanager
def _naming(pattern: str, *, is_named: bool) -> Iterator[None]:
    """Have errors say which pattern they are about, if there may be several."""
    try:
        yield
    except LanguageError as error:
        if not is_named:
            raise
        problem = f"pattern {pattern}: {error.problem}"
        raise LanguageError(problem, error.text, error.span, error.hint) from error


def _read_unit(text: str) -> TimeUnit:
    try:
        return TimeUnit(text)
    except ValueError as error:
        known = ", ".join(map(str, TimeUnit))
        raise InputError(f"`time_unit` is {text!r}; it must be one of {known}") from error


def _read_idle(text: str) -> int:
    idle = _microseconds("idle", text) // 1_000
    if idle < 1:
        raise InputError(f"`idle` is {text!r}; it must be at least a millisecond")
    return idle


def _microseconds(name: str, text: str) -> int:
    try:
        return read_duration(text)
    except ValueError as error:
        raise InputError(f"`{name}` {error}") from error


def check_patterns(question: Question, schema: Schema, stacklevel: int) -> dict[str, Pattern]:
    """Check patterns against the columns; what means little is a warning.

    Raises:
        LanguageError: A pattern does not fit the columns.
    """
    patterns = {}
    for name, given in question.patterns.items():
        with _naming(name, is_named=question.is_named):
            if isinstance(given, str):
                parsed = parse_pattern(given, schema, question.functions)
                patterns[name], lints = parsed.pattern, parsed.warnings
            else:
                patterns[name], lints = given, check(given, schema)
        for lint in lints:
            warnings.warn(str(lint), stacklevel=stacklevel + 1)
    return patterns

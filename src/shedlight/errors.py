"""The tree of errors that a user can put right.

    ShedlightError
        ExtraError           a package that is not installed, with the extra that brings it
        LanguageError        a pattern or an expression, with the place in its text
            RuleError        one that breaks a rule, with the part that does
        ApplicationError     an application file, with the place in the file
        SnapshotError        a snapshot, with the place in it
        InputError           a file of events, its columns or its ids
        StateError           saved state that cannot be read
        CapError             a pattern that needs more than a stated cap
        PlanError            a plan that cannot be made as asked
            SolverError      a solver that ended without an answer

Misuse by a programmer is a `ValueError` or a `TypeError`, as everywhere in Python.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class ShedlightError(Exception):
    """Something that the user can put right; its text says where, what and what to do."""


class ExtraError(ShedlightError, ImportError):
    """A package that only a part of shedlight needs is not installed."""


EXTRAS = {
    "pyspark": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "fastapi": "page",
    "starlette": "page",
    "uvicorn": "page",
    "prometheus_client": "page",
    "matplotlib": "plots",
}
"""The extra of shedlight that each optional package comes with."""


def missing_extra(error: ImportError) -> ExtraError | None:
    """Say how to install what is missing; None if it comes with no extra."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS or not isinstance(error, ModuleNotFoundError):
        return None
    return ExtraError(
        f"{package} is not installed; install it with shedlight: "
        f"pip install 'shedlight[{EXTRAS[package]}]'"
    )


class ApplicationError(ShedlightError):
    """An application file that cannot be used."""


class SnapshotError(ShedlightError):
    """A snapshot that cannot be used."""


class InputError(ShedlightError):
    """Events that cannot be read or have the wrong form."""


class StateError(ShedlightError):
    """Saved state that cannot be continued from."""


class CapError(ShedlightError):
    """A pattern that needs more states, elements or symbols than a cap allows."""


class PlanError(ShedlightError):
    """A plan that cannot be made as it was asked for."""


class SolverError(PlanError):
    """A solver that failed or ran out of time."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text, as offsets into it."""

    start: int
    end: int


class LanguageError(ShedlightError):
    """A pattern or expression that is not understood.

    Args:
        problem: What is wrong, lower case, without a full stop.
        text: The whole text, if it is known.
        span: Where in the text.
        hint: What was expected or what to do.
    """

    def __init__(
        self, problem: str, text: str = "", span: Span | None = None, hint: str = ""
    ) -> None:
        self.problem, self.text, self.span, self.hint = problem, text, span, hint
        super().__init__(_pointed_at(problem, text, span, hint))


class RuleError(LanguageError):
    """A pattern or expression that breaks a rule; the node is the part of it that does."""

    def __init__(self, node: object, problem: str, hint: str = "") -> None:
        self.node = node
        super().__init__(problem, hint=hint)


def _pointed_at(problem: str, text: str, span: Span | None, hint: str) -> str:
    """Write the problem, the line of the text it is in, a caret below it, and the hint."""
    if span is None or not text:
        return f"{problem}; {hint}" if hint else problem
    start = min(span.start, len(text))
    line_number = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = start - line_start
    width = max(1, min(span.end, line_start + len(line)) - start)
    margin = "".join("\t" if c == "\t" else " " for c in line[:column])
    rows = [f"line {line_number}, column {column + 1}: {problem}", line, margin + "^" * width]
    return "\n".join(rows + ([hint] if hint else []))


def join_words(words: Iterable[str], conjunction: str = "or") -> str:
    """Write a list as in a sentence.

    Example:
        >>> join_words(["us", "ms", "s"])
        'us, ms or s'
    """
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def known_names(wrong: str, known: Iterable[str], most: int = 12) -> str:
    """Say which names there are, and which one was probably meant.

    Example:
        >>> known_names("Tripp", ["Trip", "Station"])
        "known: Station, Trip; did you mean 'Trip'?"
    """
    names = sorted(set(known))
    if not names:
        return "there are none"
    shown = ", ".join(names[:most]) + (
        f", and {len(names) - most} more" if names[most:] else ""
    )
    return f"known: {shown}{guess(wrong, names)}"


def guess(wrong: str, known: Iterable[str]) -> str:
    """Ask whether a name was meant that is much like this one; nothing if there is none.

    Example:
        >>> guess("Tripp", ["Trip", "Station"]), guess("bike", ["Trip", "Station"])
        ("; did you mean 'Trip'?", '')
    """
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""

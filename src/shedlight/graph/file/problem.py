"""What is wrong with an application, and where: collected first, reported together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from shedlight.errors import ApplicationError

Path = tuple[str | int, ...]
"""The way to a part of an application: `("operators", "w1", "input", 0)`."""

MAX_REPORTED = 20  # how many problems are reported at once

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    path: Path  # the part that it is about
    message: str  # what is wrong, what was found, and what to do; it names the part
    line: int | None = None  # where in the file, if that is not where the part stands


def problem_at(path: Path, problem: str, hint: str = "") -> Problem:
    """Make a problem whose message begins with the path."""
    message = f"{format_path(path)} {problem}"
    return Problem(path, f"{message}; {hint}" if hint else message)


def format_path(path: Path) -> str:
    """Write a path as a user would.

    Example:
        >>> format_path(("operators", "w1", "input", 0))
        'operators.w1.input[0]'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shorten(step)}"
    return text.removeprefix(".") or "the application"


def shorten(text: str) -> str:
    """Cut a text that is too long to be shown."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def format_problems(
    problems: Iterable[Problem], lines: Mapping[Path, int], file: str = ""
) -> tuple[str, ...]:
    """Write problems with their places in the file, in order of their lines."""
    placed = [(p.line or _line(p.path, lines), p.message) for p in problems]
    rows = []
    for line, message in sorted(placed, key=itemgetter(0)):
        location = ", ".join(filter(None, (file, f"line {line}" if line else "")))
        rows.append(f"{location}: {message}" if location else message)
    return tuple(dict.fromkeys(rows))


def _line(path: Path, lines: Mapping[Path, int]) -> int:
    """Find the line of a part, or of the part that it should be in; 0 if there are no lines."""
    outwards = (lines.get(path[:length]) for length in range(len(path), -1, -1))
    return next(filter(None, outwards), 0)


def raise_problems(
    problems: Iterable[Problem], lines: Mapping[Path, int] | None = None, file: str = ""
) -> None:
    """Raise an ApplicationError with all problems, if any, in order of their lines."""
    remaining = iter(problems)
    reported = list(islice(remaining, MAX_REPORTED))
    if not reported:
        return
    rows = list(format_problems(reported, lines or {}, file))
    if next(remaining, None):
        rows.append("... and more; these first")
    raise ApplicationError("\n".join(rows))

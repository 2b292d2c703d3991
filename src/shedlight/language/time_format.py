"""The forms of times in text, as regular expressions that mean the same to Java and to RE2.

A format, as `to_timestamp` takes it, is rewritten: a regular expression finds the parts, which
are put together again as ISO-8601.
"""

import re
from datetime import UTC, datetime

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE_FORM = f"{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
MINUTE_FORM = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
SECOND_FORM = f"{MINUTE_FORM}:[0-5][0-9](?:[.][0-9]{{1,9}})?"
CLOCK_FORM = f"(?:{SECOND_FORM}|{MINUTE_FORM})"
HOURS_FORM = "[+-](?:0[0-9]|1[0-7])"
OFFSET_FORM = f"(?:Z|{HOURS_FORM}(?::?[0-5][0-9])?)"
ZONE_FORM = f" ?{OFFSET_FORM}"

_TIME = re.compile(rf"{DATE_FORM}(?:[T ]{CLOCK_FORM}(?:{ZONE_FORM})?)?")
_LETTERS = {
    "yyyy": "([0-9]{4})",
    "MM": "([0-9]{2})",
    "dd": "([0-9]{2})",
    "HH": "([0-9]{2})",
    "mm": "([0-9]{2})",
    "ss": "([0-9]{2})",
    **{"S" * count: f"([0-9]{{{count}}})" for count in range(1, 10)},
    **dict.fromkeys(("X", "XX", "XXX"), f"({OFFSET_FORM})"),
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_SAME = {"X": "X", "XX": "X", "XXX": "X"} | {"S" * count: "S" for count in range(1, 10)}
_ISO = ("yyyy", "-", "MM", "-", "dd", "T", "HH", ":", "mm", ":", "ss", ".", "S", "X")
_DEFAULTS = {"MM": "01", "dd": "01", "HH": "00", "mm": "00", "ss": "00", "S": "0", "X": "Z"}
KNOWN = "yyyy, MM, dd, HH, mm, ss, S to SSSSSSSSS and XXX, and text in single quotes"


def parse_time(text: str) -> datetime:
    """Read a time in ISO-8601; without a zone it is in UTC. ValueError if it is none."""
    bare = text.strip(" \t\n\v\f\r")
    if not _TIME.fullmatch(bare):
        raise ValueError(f"{text!r} is not a time")
    time = datetime.fromisoformat(re.sub(" ([Z+-])", r"\1", bare))
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def rewrite_format(form: str) -> tuple[str, list[int | str]]:
    """Make of a format a regular expression, and the parts of ISO-8601: its groups, and text.

    Raises:
        ValueError: The format has letters that are not known, or no year.

    Example:
        >>> pattern, parts = rewrite_format("dd/MM/yyyy HH:mm")
        >>> parts[:6]
        [3, '-', 2, '-', 1, 'T']
    """
    pattern, groups = "", dict[str, int]()
    for token in (found.group() for found in _TOKEN.finditer(form)):
        if token in _LETTERS:
            part = _SAME.get(token, token)
            if part in groups:
                raise ValueError(f"it has {token!r} twice")
            groups[part] = len(groups) + 1
            pattern += _LETTERS[token]
        elif token.isalpha():
            raise ValueError(f"it has {token!r}")
        else:
            pattern += _PUNCTUATION.sub(r"\\\g<0>", _text(token))
    if "yyyy" not in groups:
        raise ValueError("it has no year")
    return rf"\A{pattern}\z", [_part(name, groups) for name in _ISO]


def _part(name: str, groups: dict[str, int]) -> int | str:
    return groups.get(name) or _DEFAULTS.get(name, name)


def _text(token: str) -> str:
    """Take off the quotes around a text; two alone are one."""
    if not token.strip("'") or len(token) == 1:
        return token[0]
    return token[1:-1].replace("''", "'")

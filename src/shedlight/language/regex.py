r"""The regular expressions that mean the same to Java and to RE2, and the text that says so.

There are characters, `.`, classes such as `[a-z]` and `[^0-9_]`, \d, \w, \s, \D, \W and \S,
`^` and `$` for the ends of the text, `|`, groups, and repetitions: `*`, `+`, `?` and `{2,5}`,
greedy or not. Java and RE2 differ in what `.`, `$` and \s mean, so these are written as classes
and as \A and \z. Refused are look-around, back references, flags, \b, \p{...}, and sets within
sets.
"""

import re

MAX_REPETITIONS = 1000  # that RE2 takes

_CLASSES = {
    "d": "[0-9]",
    "w": "[0-9A-Za-z_]",
    "s": r"[ \t\n\x0B\f\r]",
    "D": "[^0-9]",
    "W": "[^0-9A-Za-z_]",
    "S": r"[^ \t\n\x0B\f\r]",
}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~")
_REPETITION = re.compile(r"[*+?]|\{([0-9]{1,4})(?:(,)([0-9]{0,4}))?\}")
_PLAIN_ESCAPE = "write \\ before punctuation only, or \\d \\w \\s \\t \\n \\r \\f"


def common_regex(pattern: str) -> str:
    r"""Write a regular expression such that Java and RE2 read it alike.

    Raises:
        ValueError: It is none, or they would not; the text says what is not right.

    Example:
        >>> common_regex("^a.[^b-d]{2,}$")
        '\\Aa[^\\n][^b-d]{2,}\\z'
    """
    reader = _Reader(pattern)
    written = reader.alternatives()
    if reader.at < len(pattern):
        raise ValueError(f"it has {pattern[reader.at]!r} too much")
    return written


class _Reader:
    """Reads a regular expression from left to right and writes it anew."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.repeated = 1  # how often at most what was read last stands for itself

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        character = self.peek()
        if not character:
            raise ValueError("it ends too early")
        self.at += 1
        return character

    def alternatives(self) -> str:
        written, most = [self.sequence()], self.repeated
        while self.peek() == "|":
            self.take()
            written.append(self.sequence())
            most = max(most, self.repeated)
        self.repeated = most
        return "|".join(written)

    def sequence(self) -> str:
        written, most = "", 1
        while self.peek() not in {"", "|", ")"}:
            self.repeated = 1
            written += self.atom() + self.repetition()
            most = max(most, self.repeated)
        self.repeated = most
        return written

    def atom(self) -> str:
        character = self.take()
        if character in "*+?{":
            raise ValueError(f"{character!r} repeats nothing; write \\ before it")
        if character == "(":
            return self.group()
        if character == "[":
            return self.set_of_characters()
        if character == "\\":
            return self.escape(self.take())
        return {".": r"[^\n]", "^": r"\A", "$": r"\z"}.get(character) or _literal(character)

    def group(self) -> str:
        if self.peek() == "?":
            if self.pattern[self.at : self.at + 2] != "?:":
                raise ValueError("'(?' begins flags or look-around; write (...) or (?:...)")
            self.at += 2
        inner = self.alternatives()
        if self.peek() != ")":
            raise ValueError("a group is not closed")
        self.take()
        return f"(?:{inner})"

    def repetition(self) -> str:
        found = _REPETITION.match(self.pattern, self.at)
        if not found:
            return ""
        least, _, most = found.groups()
        counts = [int(count) for count in (least, most) if count]
        self.repeated *= max(counts, default=1)
        if self.repeated > MAX_REPETITIONS or counts != sorted(counts):
            raise ValueError(
                f"{found.group()!r} is out of order, or over {MAX_REPETITIONS} in all"
            )
        self.at = found.end()
        lazy = "?" if self.peek() == "?" else ""
        self.at += len(lazy)
        if self.peek() in {"+", "*", "?"} or _REPETITION.match(self.pattern, self.at):
            raise ValueError(f"{self.peek()!r} after a repetition means different things")
        return found.group() + lazy

    def escape(self, character: str) -> str:
        if character in _PUNCTUATION:
            return _literal(character)
        written = _CLASSES.get(character) or _CONTROLS.get(character)
        if written is None:
            raise ValueError(f"'\\{character}' is not known; {_PLAIN_ESCAPE}")
        return written

    def set_of_characters(self) -> str:
        negated = "^" if self.peek() == "^" else ""
        self.at += len(negated)
        written = ""
        while self.peek() != "]" or not written:
            first = self.member()
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in {"]", ""}:
                self.take()
                last = self.member()
                if len(first) > 2 or len(last) > 2 or first[-1] > last[-1]:  # noqa: PLR2004
                    raise ValueError(f"'{first}-{last}' is no range of characters")
                first += f"-{last}"
            written += first
        self.take()
        return f"[{negated}{written}]"

    def member(self) -> str:
        """Read a character of a set, or a class without its brackets."""
        character = self.take()
        if character == "[" or self.pattern.startswith("&&", self.at - 1):
            raise ValueError("a set in a set is not known; write \\ before [ and &")
        if character != "\\":
            return _literal(character)
        escaped = self.take()
        if escaped in {"D", "W", "S"}:
            raise ValueError(f"'\\{escaped}' cannot stand in a set; negate the set")
        return self.escape(escaped).strip("[]") if escaped in _CLASSES else self.escape(escaped)


def _literal(character: str) -> str:
    """Write a character that stands for itself."""
    return f"\\{character}" if character in _PUNCTUATION else character

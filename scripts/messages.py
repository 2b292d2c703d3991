"""Write build/messages.md: every text of the source that a user may see, by module.

A text is a string of three words or more that is no docstring: errors, warnings, progress,
states, reasons, advice, help of options, and what the web UI says. What stands in braces is put
in when it is said.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "shedlight"
TARGET = ROOT / "build" / "messages.md"
_WORDS = re.compile(r"[A-Za-z][a-z'-]*")
_SCRIPT_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_MIN_WORDS = 3
# What machines read: SQL, regular expressions, paths of drawings, styles and code.
_NO_TEXT = re.compile(
    r"^\s*(SELECT|CASE|COALESCE)\b|\\[dwsb]|\(\?|=>|var\(--|^M\d|[;{]\s*\w+:|^\W*$"
    r"|default-src|aria-|sans-serif"
)
_HEAD = """\
# Messages

Every text that the program may say, by the module that says it: errors, warnings, progress,
states, reasons, advice and the help of options. What stands in braces is put in when it is
said.
"""


def texts_of_python(source: str) -> Iterator[str]:
    """Give the texts of a module, each once, as they stand in it."""
    tree = ast.parse(source)
    skipped = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):  # its parts are no texts of their own
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(_part(each) for each in node.values)


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Find docstrings, those of attributes among them: strings that are statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "{" + ast.unparse(node.value) + "}" if isinstance(node, ast.FormattedValue) else ""


def texts_of_script(source: str) -> Iterator[str]:
    """Give the texts of a script of the web UI."""
    code = re.sub(r"^\s*//.*$|(?<=[;,{ ])// .*$", "", source, flags=re.MULTILINE)
    for match in _SCRIPT_TEXT.finditer(code):
        yield re.sub(r"\$\{", "{", match[1] or match[2] or "")


def texts_of_page(source: str) -> Iterator[str]:
    """Give the texts between the tags of a page."""
    yield from re.findall(r">([^<>]+)<", source)


READERS = {".py": texts_of_python, ".js": texts_of_script, ".html": texts_of_page}


def is_text(text: str) -> bool:
    """Whether people read it."""
    plain = re.sub(r"\{[^}]*\}", " ", text)
    return (
        len(_WORDS.findall(plain)) >= _MIN_WORDS and " " in plain and not _NO_TEXT.search(text)
    )


def messages() -> dict[str, list[str]]:
    """Give the messages of each module, in the order of its lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*")):
        reader = READERS.get(path.suffix)
        if reader is None:
            continue
        texts = [re.sub(r"\s+", " ", each).strip() for each in reader(path.read_text("utf-8"))]
        if kept := list(dict.fromkeys(filter(is_text, texts))):
            found[path.relative_to(SOURCE).as_posix()] = kept
    return found


def page(found: dict[str, list[str]]) -> str:
    """Write the page."""
    parts = [_HEAD]
    for module, texts in found.items():
        rows = "\n".join(f"- `` {text} ``" for text in texts)
        parts.append(f"## {module}\n\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(messages()), encoding="utf-8")

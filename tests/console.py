"""Pages whose commands are run: what stands on them, and whether it is what is printed.

On a page, a `console` block has commands after `$` and what they print, output and errors as in
a terminal. A block of a file follows its name, alone on a line: `app.yaml`:
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:\n\n?)?^```(?P<language>\w*)(?P<more>[^\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_CHANCE = (
    (re.compile(r"(solved|matches) in \S+ m?s"), r"\1 in a moment"),
    (re.compile(r"^compiling the matcher.*\n|^starting Spark.*\n", re.MULTILINE), ""),
)
_END = "::: that was all, with status "


class Block(NamedTuple):
    """A block of a page.

    Attributes:
        language: Of its text, as the page has it.
        text: What is in it.
        file: The name of the file that it is, if it is one.
        varies: Whether numbers may be others than shown.
        line: Where it begins.
    """

    language: str
    text: str
    file: str | None
    varies: bool
    line: int


class Call(NamedTuple):
    """A command as it is written, and what is shown below it."""

    command: str
    shown: str


def blocks(page: Path) -> list[Block]:
    """Find the blocks of a page."""
    text = page.read_text("utf-8")
    return [
        Block(
            one["language"],
            one["text"],
            one["file"],
            "varies" in one["more"],
            text.count("\n", 0, one.start()) + 1,
        )
        for one in _BLOCK.finditer(text)
    ]


def calls(text: str) -> Iterator[Call]:
    """Split a console block; a command ends where its quotes are closed."""
    for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = one.splitlines(keepends=True)
        end = next(n for n in range(1, len(lines) + 1) if _is_whole("".join(lines[:n])))
        yield Call("".join(lines[:end]).rstrip("\n"), "".join(lines[end:]))


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\\n")


def same(shown: str, printed: str, *, varies: bool = False) -> bool:
    """Compare what is shown with what was printed, but for how long it took.

    `...` on a line of its own stands for any lines, at the end of a line for its rest.
    """
    for pattern, instead in _CHANCE:
        shown, printed = pattern.sub(instead, shown), pattern.sub(instead, printed)
    return re.fullmatch(_expression(_even(shown), varies=varies), _even(printed)) is not None


def _even(text: str) -> str:
    """Leave out blanks at the end of lines, and count several as one: columns shift."""
    return "".join(
        re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) + "\n" for line in text.splitlines()
    )


def _expression(shown: str, *, varies: bool) -> str:
    lines = []
    for line in shown.splitlines():
        if line == "...":
            lines.append("(?:.*\n)*")
            continue
        rest = line.endswith("...")
        written = re.escape(line.removesuffix("..."))
        if varies:
            parts = _NUMBER.split(line.removesuffix("..."))
            written = _NUMBER.pattern.join(map(re.escape, parts))
        lines.append(written + (".*" if rest else "") + "\n")
    return "".join(lines)


@dataclass
class Shell:
    """A shell that stays open, as a reader's does: folders and jobs last between blocks."""

    process: "subprocess.Popen[str]"

    def run(self, command: str) -> tuple[str, int]:
        """Run a command; give what it printed and its status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\necho; echo '{_END}'$?\n")
        self.process.stdin.flush()
        printed = ""
        while _END not in printed:
            line = self.process.stdout.readline()
            assert line, f"the shell ended in {command!r}: {printed}"
            printed += line
        text, _, status = printed.rpartition(_END)
        return text.removesuffix("\n"), int(status)


@contextmanager
def open_shell(folder: Path, **environment: str) -> Iterator[Shell]:
    """Open a shell in a folder, with our commands on its path; what it started ends with it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["/bin/bash", "--norc"],
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "200"} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Shell(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def follow(page: Path, folder: Path, **environment: str) -> int:
    """Do what a page says, from top to bottom, in a folder; say how many commands there were.

    Raises:
        AssertionError: A command fails, or prints what the page does not show.
    """
    number = 0
    with open_shell(folder, **environment) as shell:
        for block in blocks(page):
            if block.file is not None:
                where = Path(shell.run("pwd")[0].strip())
                (where / block.file).write_text(block.text, "utf-8")
            if block.language == "console":
                number += _checked(shell, block, page.name)
    return number


def _checked(shell: Shell, block: Block, page: str) -> int:
    """Run the commands of a block, and hold all that they print against what is shown."""
    shown = printed = ""
    found = list(calls(block.text))
    for call in found:
        text, status = shell.run(call.command)
        assert status == 0, f"{page}: {call.command}: {text}"
        shown, printed = shown + call.shown, printed + text
    difference = f"{page}, line {block.line}: printed\n{printed}\nshown\n{shown}"
    assert same(shown, printed, varies=block.varies), difference
    return len(found)

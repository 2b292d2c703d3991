"""Messages, warnings and progress bars on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from shedlight.graph import Application, load_application
from shedlight.matching.jit import is_first_run

_SECONDS_BEFORE_BAR = 3.0  # a command that ends sooner shows no progress bar


def announce_compiling() -> None:
    """Explain why the first run on a computer takes longer."""
    if is_first_run():
        say("compiling the matcher, once on this computer (about half a minute) ...")


def say(text: str) -> None:
    """Print a message that is no result."""
    print(text, file=sys.stderr)


def load_with_warnings(file: Path) -> Application:
    """Load an application, and print what in its file cannot mean what it seems to."""
    loaded = load_application(file)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded.application


@contextmanager
def progress_bar(name: str, total: int) -> Iterator[Callable[[], None]]:
    """Give a function that counts a step; in a terminal, a long command shows a bar."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(name, total=total)
    began = time.perf_counter()

    def advance() -> None:
        bar.advance(task)
        if time.perf_counter() - began > _SECONDS_BEFORE_BAR and not bar.live.is_started:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()

"""Messages, warnings and progress bars on standard error."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shedlight.graph import Application
from shedlight.language.ast.pattern import Pattern

_SECONDS_BEFORE_BAR = 3.0  # a command that ends sooner shows no progress bar


def announce_compiling(patterns: Iterable[Pattern]) -> None:
    """Say what is compiled for these patterns, if it is not compiled on this computer yet."""
    from shedlight.engines.kernel_cache import kernels_to_compile  # noqa: PLC0415  # it has numba

    missing = kernels_to_compile(patterns)
    if missing:
        names = " and ".join(missing)
        say(f"compiling the matcher ({names}), once on this computer (10 to 30 s) ...")


def patterns_of(application: Application) -> list[Pattern]:
    """List the patterns of all operators."""
    return [p for spec in application.operators.values() for p in spec.patterns.values()]


def say(text: str) -> None:
    """Print a message that is no result."""
    print(text, file=sys.stderr)


def load_with_warnings(file: Path) -> Application:
    """Load an application, and print what in its file cannot mean what it seems to."""
    from shedlight.graph import load_application  # noqa: PLC0415  # only where a file is read

    loaded = load_application(file)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded.application


@contextmanager
def progress_bar(name: str, total: int) -> Iterator[Callable[[], None]]:
    """Give a function that counts a step; in a terminal, a long command shows a bar."""
    began, done = time.perf_counter(), 0
    bar: _Bar | None = None

    def advance() -> None:
        nonlocal bar, done
        done += 1
        is_long = time.perf_counter() - began > _SECONDS_BEFORE_BAR
        if bar is None and is_long and sys.stderr.isatty():
            bar = _Bar(name, total, began)
        if bar is not None:
            bar.show(done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


class _Bar:
    """A progress bar on standard error, from its making until it is stopped."""

    def __init__(self, name: str, total: int, began: float) -> None:
        from rich.console import Console  # noqa: PLC0415  # only where something is shown
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        console, clock = Console(stderr=True), time.perf_counter
        self._progress = Progress(*columns, console=console, transient=True, get_time=clock)
        self._task = self._progress.add_task(name, total=total)
        self._progress.tasks[0].start_time = began
        self._progress.start()

    def show(self, done: int) -> None:
        """Show how many steps are done."""
        self._progress.update(self._task, completed=done)

    def stop(self) -> None:
        """Take it off the screen."""
        self._progress.stop()

"""Notices when the application file of a run changes."""

from collections.abc import Callable
from pathlib import Path

from shedlight.cli.console import say
from shedlight.errors import ShedlightError
from shedlight.graph import Application

INTERVAL_S = 1.0  # between two looks at the file


class FileWatch:
    """Reads an application file again when it has another content.

    A content is looked at when it is the same twice in a row, for somebody may be writing it.
    What is wrong with it is said, once, and changes nothing.

    Attributes:
        application: What the run has changed to; None: it is as it began.
    """

    def __init__(self, file: Path, read: Callable[[], Application]) -> None:
        self.file, self._read = file, read
        self.application: Application | None = None
        self._known = self._last = self._content()

    def changed(self, check: Callable[[Application], None]) -> Application | None:
        """Give the application as it is now, if the file has changed and it passes a check."""
        last, self._last = self._last, self._content()
        if self._last in {None, self._known} or self._last != last:
            return None
        self._known = self._last
        try:
            application = self._read()
            check(application)
        except ShedlightError as error:
            say(f"{self.file} has changed, and the run goes on as it was: {error}")
            return None
        return application

    def _content(self) -> bytes | None:
        try:
            return self.file.read_bytes()
        except OSError:  # it is being replaced
            return None

"""Failures that do not end a run: each kind is logged once, in a sentence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from shedlight.errors import StateError

_LOG = logging.getLogger(__name__)
UNREADABLE_PLAN = (
    "reading which plan a micro-batch used",
    "it is in the log without its plan, and on record with it",
)


class FailureLog:
    """Logs what failed, once for each kind: where it was, and which exception."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, type[Exception]]] = set()

    @contextmanager
    def tolerate(self, what: str, consequence: str) -> Iterator[None]:
        """Log an exception instead of raising it, with what happens now.

        A damaged checkpoint is not tolerated: what goes on from there would be wrong.
        """
        try:
            yield
        except StateError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the run goes on
            self.log(what, error, consequence)

    def log(self, what: str, error: Exception, consequence: str) -> None:
        """Log a failure, if it is the first of its kind."""
        kind = what, type(error)
        if kind not in self._logged:
            self._logged.add(kind)
            _LOG.warning("%s failed: %s; %s", what, _describe(error), consequence)
            _LOG.debug("%s failed", what, exc_info=error)


def _describe(error: Exception) -> str:
    name = type(error).__name__
    return f"{name}, {error}" if str(error) else name

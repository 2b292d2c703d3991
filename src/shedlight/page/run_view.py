"""The run that a page is of: its log, whether it is under way, and how it is."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shedlight.engines.spark.control.override_store import planning_input_path
from shedlight.engines.spark.support.checkpoint import LOCK, is_in_use
from shedlight.page.log_follower import LogView
from shedlight.page.responses import encoded
from shedlight.page.run_info import run_info
from shedlight.page.status import run_status

_READ_AGAIN = 0.5
"""After how many seconds the log is looked at again, however many ask."""
_LOOK_AGAIN = 3.0
"""After how many seconds it is found out again whether the run is under way."""
_FRESH = 30.0
"""A log without a checkpoint beside it is of a run under way if it grew in this time."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where a run leaves what the page reads.

    Attributes:
        log: Its log.
        checkpoint: Its checkpoint; None: it is not known, and nothing can be changed.
    """

    log: Path
    checkpoint: Path | None = None


def run_paths(log: Path) -> RunPaths:
    """Find the place of a run by its log, which is in its checkpoint unless told otherwise."""
    folder = log.parent
    return RunPaths(log, folder if (folder / LOCK).exists() else None)


class RunView:
    """Looks at a run.

    Args:
        place: Where it leaves what is read.
        clock: Now, in seconds since 1970.

    Attributes:
        seen: What was read of its log.
        place: Where it leaves what is read.
    """

    def __init__(self, place: RunPaths, clock: Callable[[], float] = time.time) -> None:
        self.place, self.seen = place, LogView(place.log)
        self._clock = clock
        self._read = self._looked = float("-inf")
        self._in_use = False
        self._told: tuple[tuple[int, bool], bytes] | None = None

    def refresh(self) -> None:
        """Read what was written of late, unless that was just done."""
        now = self._clock()
        if abs(now - self._read) >= _READ_AGAIN:
            self._read = now
            self.seen.refresh()

    @property
    def live(self) -> bool:
        """Whether the run is under way."""
        now = self._clock()
        if self.place.checkpoint is None:
            return self.seen.latest is not None and now - self.seen.latest < _FRESH
        if abs(now - self._looked) >= _LOOK_AGAIN:
            self._looked = now
            self._in_use = is_in_use(self.place.checkpoint)
        return self._in_use

    @property
    def can_apply(self) -> bool:
        """Whether bounds and weights can be changed: it is under way, and decides."""
        decides = planning_input_path(self.place.log).exists()
        return self.place.checkpoint is not None and decides and self.live

    def run(self) -> dict[str, Any]:
        """Say what is run."""
        self.refresh()
        return run_info(self.seen, live=self.live, can_apply=self.can_apply)

    def now(self) -> dict[str, Any]:
        """Say how it is."""
        self.refresh()
        return run_status(self.seen, self._clock(), live=self.live)

    def news(self) -> tuple[tuple[int, bool], bytes]:
        """Say how it is, as JSON, and under which number; the same number, the same news."""
        self.refresh()
        number = (self.seen.version, self.live)
        if self._told is None or self._told[0] != number:
            self._told = (number, encoded(self.now()))
        return self._told

    def close(self) -> None:
        """Close the log."""
        self.seen.close()

"""What leaves an outbox when nobody can ask for it any more.

Whoever reads an outbox reads all of Spark's log of it, in every micro-batch: a log of a day
would take him a second each time. So files leave the log soon, but not before everybody has
read them: the time that the oldest unread file has waited is added to the time that files are
kept. Spark does not ask who has read what, and its log's time is set when a query starts; if a
reader falls behind, the query is started again to keep more.

Spark takes files out of its log and leaves them on the disk. Here they are removed, and so
are pieces that are older than anything in the log.
"""

import math
import threading
from collections.abc import Iterable
from pathlib import Path

from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.support.checkpoint import LogReader, committed_files, last_read

_OFTEN = 0.1
"""How often to look, as a part of the time that files are kept: half of it may have passed."""
_WRITING = 3600.0
"""Seconds that a piece may be older than the file that speaks of it: a micro-batch, by far."""


class Retention:
    """How long the outboxes of an application are kept.

    Args:
        deployment: The application.
        seconds: For how long, if everybody reads in time.
    """

    def __init__(self, deployment: Deployment, seconds: float) -> None:
        self._deployment, self._seconds = deployment, seconds
        self._kept: dict[str, float] = {}
        self._looked: dict[str, float] = {}

    def begin(self, node: str, now: float) -> str:
        """Say how long the query of a node, which starts now, has to keep files."""
        self._kept[node] = self._seconds + self._unread(node, now)
        self._looked[node] = now
        return f"{math.ceil(self._kept[node])}s"

    def look_after(self, node: str, now: float) -> bool:
        """See from time to time how far all have read, and remove what is old.

        It is removed beside everything else, for it may take a second.

        Returns:
            Whether that is all: if not, somebody is so far behind that the query has to be
            started again, to keep more.
        """
        if now - self._looked[node] < self._seconds * _OFTEN:
            return True
        self._looked[node] = now
        if self._unread(node, now) > self._kept[node] - self._seconds / 2:
            return False
        outbox, pieces = self._deployment.outbox(node), self._deployment.pieces(node)
        before = now - self._kept[node]
        threading.Thread(target=clean, args=(outbox, pieces, before), daemon=True).start()
        return True

    def _unread(self, node: str, now: float) -> float:
        return unread(self._deployment.outbox(node), self._deployment.readers(node), now)


def unread(outbox: Path, readers: Iterable[LogReader], now: float) -> float:
    """Say for how many seconds the oldest file has waited that somebody has not read.

    Args:
        outbox: The outbox of a node.
        readers: All that read it.
        now: Seconds since 1970.
    """
    written = committed_files(outbox) or {}
    furthest_behind = min(map(last_read, readers), default=now)
    waiting = [at for at in written.values() if at > furthest_behind]
    return max(now - min(waiting), 0.0) if waiting else 0.0


def clean(outbox: Path, pieces: Path, before: float) -> int:
    """Remove what is old.

    Args:
        outbox: The outbox of a node.
        pieces: What is large in it.
        before: What is younger stays, in seconds since 1970.

    Returns:
        How many files were removed.
    """
    logged = committed_files(outbox)
    if logged is None:
        return 0
    oldest = min([before, *logged.values()]) - _WRITING
    old = [
        *(one for one in _older(outbox, before) if _checked(one.name) not in logged),
        *_older(pieces, oldest),
    ]
    for one in old:
        one.unlink(missing_ok=True)
    return len(old)


def _checked(name: str) -> str:
    """Name the file whose checksum another is, where Hadoop writes them."""
    return name[1:].removesuffix(".crc") if name.startswith(".") else name


def _older(folder: Path, before: float) -> list[Path]:
    found = []
    for one in folder.glob("*"):
        try:
            if one.is_file() and one.stat().st_mtime < before:
                found.append(one)
        except FileNotFoundError:  # whoever wrote it took it away
            continue
    return found

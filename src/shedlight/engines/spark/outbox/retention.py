"""How long outboxes are kept.

Whoever reads an outbox reads all of Spark's log of it, in every micro-batch: with the log of a
day that takes a second each time. So files leave the log soon, but not before all readers have
read them: the time that the oldest unread file has waited is added to the time that files are
kept. Spark does not ask who has read what, and sets the time of its log when a query starts;
if a reader falls behind, the query is started again to keep more.

Spark takes files out of its log and leaves them on the disk. Here they are removed, and so
are blobs that are older than anything in the log.
"""

import math
import threading
from collections.abc import Iterable, Mapping

from shedlight.engines.spark.support.checkpoint import LogReader, committed_files, last_read
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.storage import StoredPath

_CHECK_FRACTION = 0.1
"""How often to look, as a part of the time that files are kept: half of it may have passed."""
_BLOB_GRACE_S = 3600.0
"""Seconds that a blob may be older than the file that refers to it: a micro-batch, by far."""


class Retention:
    """Keeps the outboxes of nodes for some seconds, longer if a reader is behind."""

    def __init__(
        self, paths: CheckpointPaths, readers: Mapping[str, Iterable[LogReader]], seconds: float
    ) -> None:
        self._paths, self._readers, self._seconds = paths, readers, seconds
        self._kept: dict[str, float] = {}
        # When it was looked last how far readers are, and when files were removed, in seconds
        # that never go back; all other times are seconds since 1970.
        self._last_check: dict[str, float] = {}
        self._last_removal: dict[str, float] = {}

    def begin(self, node: str, now: float, steady: float) -> str:
        """Say how long the query of a node, which starts now, has to keep files.

        For a reader that is behind it is twice as far as he is: while he falls further behind,
        the query is started again each time that the distance doubles, and not every minute.
        """
        self._kept[node] = self._seconds + 2 * self._unread_age(node, now)
        self._last_check[node] = self._last_removal[node] = steady
        return f"{math.ceil(self._kept[node])}s"

    def is_short(self, node: str, now: float, steady: float) -> bool:
        """Look from time to time whether files will be kept until all readers have read them.

        If not, the query has to be started again, to keep more. A query without events is
        looked at, too: with the next event it would forget what is too old by then.
        """
        if not self._is_over(self._last_check[node], steady):
            return False
        self._last_check[node] = steady
        return self._unread_age(node, now) > self._kept[node] - self._seconds / 2

    def remove_old(self, node: str, now: float, steady: float) -> None:
        """Remove files that are old from time to time; no micro-batch of the node is under way.

        One that is has files that are not in the log yet. It is done in a thread, for it may
        take a second.
        """
        if not self._is_over(self._last_removal[node], steady):
            return
        self._last_removal[node] = steady
        folders = self._paths.outbox(node), self._paths.blobs(node)
        before = now - self._kept[node]
        threading.Thread(target=remove_old, args=(*folders, before), daemon=True).start()

    def _is_over(self, since: float, steady: float) -> bool:
        return steady - since >= self._seconds * _CHECK_FRACTION

    def _unread_age(self, node: str, now: float) -> float:
        return oldest_unread_age(self._paths.outbox(node), self._readers[node], now)


def oldest_unread_age(outbox: StoredPath, readers: Iterable[LogReader], now: float) -> float:
    """Say for how many seconds the oldest file has waited that some reader has not read."""
    written = committed_files(outbox) or {}
    furthest_behind = min(map(last_read, readers), default=now)
    unread = [time for time in written.values() if time > furthest_behind]
    return max(now - min(unread), 0.0) if unread else 0.0


def remove_old(outbox: StoredPath, blobs: StoredPath, before: float) -> int:
    """Remove files of before a time, in seconds since 1970; give their number."""
    logged = committed_files(outbox)
    if logged is None:
        return 0
    oldest = min([before, *logged.values()]) - _BLOB_GRACE_S
    unlogged = (path for path in outbox.glob("*") if _data_file(path.name) not in logged)
    old = [*_older(unlogged, before), *_older(blobs.glob("*"), oldest)]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _data_file(name: str) -> str:
    """Name the file of which a file is the checksum, where Hadoop writes them."""
    return name[1:].removesuffix(".crc") if name.startswith(".") else name


def _older(paths: Iterable[StoredPath], before: float) -> list[StoredPath]:
    old = []
    for path in paths:
        try:
            if path.is_file() and path.stat().st_mtime < before:
                old.append(path)
        except FileNotFoundError:  # whoever wrote it took it away
            continue
    return old

"""Catching up: nothing is shed until all nodes have read what was stored before the start."""

from collections.abc import Iterable

from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.micro_batch import MicroBatchReport


class CatchUp:
    """Holds the control loop while nodes read what was stored before the start.

    The nodes are those that read sources; without any, bounds count at once.
    """

    def __init__(self, loop: ControlLoop, nodes: Iterable[str]) -> None:
        self._loop, self._behind = loop, set(nodes)

    def start(self) -> None:
        """Hold the loop, if there is a node to wait for."""
        if self._behind:
            self._loop.hold()

    def on_micro_batch(self, batch: MicroBatchReport, began: float, now: float) -> None:
        """Release the loop once each node had a micro-batch without stored events.

        When the run began and now are in seconds since 1970.
        """
        if not self._loop.is_held:
            return
        if not _has_stored(batch, round(began * 1e6)):
            self._behind.discard(batch.node)
        if not self._behind:
            self._loop.release(now)


def _has_stored(batch: MicroBatchReport, began: int) -> bool:
    """Say whether a source gave a micro-batch nothing but events from before the start."""
    newest = [stats.newest for stats in batch.arrived.values() if stats.newest is not None]
    return any(time <= began for time in newest)

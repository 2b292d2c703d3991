"""Sources that are silent: when groups are to be told of them, and what.

While a micro-batch runs nobody knows what has come since it began: a source is silent only as
far as the query has looked. That it has looked counts the next time, when all is known of
micro-batches that had ended by then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shedlight.engines.spark.source.watermark_files import SourceWatermark
from shedlight.engines.spark.support.micro_batch import MicroBatchReport
from shedlight.graph import Source
from shedlight.matching.operators.reorder import NEVER


@dataclass(slots=True)
class _Heard:
    """What is known of a source.

    Attributes:
        source: The source.
        heard: When its last events were through, in seconds since 1970.
        looked: When the query last looked for events and there were none.
        watermark: How far it is by its events, if there were any.
        told: How far the groups were told that it is.
        is_idle: Whether they were told that it is idle.
    """

    source: Source
    heard: float
    looked: float = 0.0
    watermark: int | None = None
    told: int | None = None
    is_idle: bool = False


class IdlenessTracker:
    """What is known of the sources of a node.

    Args:
        sources: The sources by name.
        pulse: How long a source is silent before groups are told how far it is, in seconds.
        idle: After how long it holds nobody back, in seconds, if it does not say itself.
        now: When the query was started, in seconds since 1970.
    """

    def __init__(
        self, sources: Mapping[str, Source], pulse: float, idle: float, now: float
    ) -> None:
        self._pulse, self._idle = pulse, idle
        self._known = {name: _Heard(source, now) for name, source in sources.items()}

    def hear(self, batch: MicroBatchReport, now: float) -> None:
        """Note what a micro-batch brought."""
        for (_, stream), arrived in batch.arrived.items():
            known = self._known.get(stream)
            if known is None:
                continue
            if arrived.number:
                known.heard, known.is_idle = now, False
                far = (arrived.latest or 0) - known.source.lateness
                known.watermark = max(known.watermark or 0, far)
            else:
                known.looked = batch.start

    def marks(self, now: float, is_at_work: Callable[[], bool]) -> list[SourceWatermark]:
        """Give what groups are to be told now.

        Args:
            now: The time, in seconds since 1970.
            is_at_work: Says whether a micro-batch is under way; it is asked only if need be.
        """
        found = []
        for name, known in self._known.items():
            if known.is_idle or now - known.heard < self._pulse:
                continue
            own = known.source.idle
            silent = known.looked - known.heard
            far = NEVER if known.watermark is None else known.watermark
            if silent >= (self._idle if own is None else own / 1e6):
                found.append(SourceWatermark(name, far, idle=True))
                known.told, known.is_idle = known.watermark, True
            elif known.watermark != known.told and silent >= self._pulse:
                found.append(SourceWatermark(name, far))
                known.told = known.watermark
            if not is_at_work():
                known.looked = now
        return found

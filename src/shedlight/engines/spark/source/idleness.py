"""Idle sources: when shards are sent their watermark, and when they no longer wait for them.

While a micro-batch runs nobody knows what has come since it began: a source is idle only as far
as the query has looked. That it has looked counts the next time, when all is known of
micro-batches that had ended by then.

Times are seconds of a clock that is never set: by a wall clock that is set back by an hour no
source would be idle for that hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.source.watermark_files import SourceWatermark
from shedlight.graph import Source
from shedlight.matching.operators.reorder import NEVER


@dataclass(slots=True)
class _SourceActivity:
    """What is known of a source; times in seconds, watermarks in microseconds."""

    source: Source  # the source
    last_events: float  # when its last events were through
    last_look: float = -inf  # when the query last looked for events and there were none
    watermark: int | None = None  # that of its events, if there were any
    sent: int | None = None  # the watermark that the shards were sent
    is_idle: bool = False  # whether they were sent that it is idle


class IdlenessTracker:
    """The watermarks and the idleness of a node's sources; times in seconds that never go back.

    Shards are sent the watermark of a source after an interval without events; it is idle after
    a timeout of its own, or else after the one given here. It begins when the query starts.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        watermark_interval: float,
        idle_timeout: float,
        now: float,
    ) -> None:
        self._watermark_interval, self._idle_timeout = watermark_interval, idle_timeout
        self._activity = {n: _SourceActivity(source, now) for n, source in sources.items()}

    def on_micro_batch(
        self, arrived: Mapping[tuple[str, str], ArrivalStats], start: float, now: float
    ) -> None:
        """Note what arrived in a micro-batch, by operator and stream, and when it began."""
        for (_, stream), stats in arrived.items():
            known = self._activity.get(stream)
            if known is None:
                continue
            if stats.number:
                known.last_events, known.is_idle = now, False
                if stats.latest is not None:
                    watermark = stats.latest - known.source.lateness
                    before = watermark if known.watermark is None else known.watermark
                    known.watermark = max(before, watermark)
            else:
                known.last_look = max(known.last_look, start)

    def updates(self, now: float, is_at_work: Callable[[], bool]) -> list[SourceWatermark]:
        """Give the watermarks that shards are to be sent now.

        Whether a micro-batch is under way is asked only if need be.
        """
        updates = []
        for name, known in self._activity.items():
            if known.is_idle or now - known.last_events < self._watermark_interval:
                continue
            own = known.source.idle
            quiet = known.last_look - known.last_events
            watermark = NEVER if known.watermark is None else known.watermark
            if quiet >= (self._idle_timeout if own is None else own / 1e6):
                updates.append(SourceWatermark(name, watermark, idle=True))
                known.sent, known.is_idle = known.watermark, True
            elif known.watermark != known.sent and quiet >= self._watermark_interval:
                updates.append(SourceWatermark(name, watermark))
                known.sent = known.watermark
            if not is_at_work():
                known.last_look = now
        return updates

"""When shards are sent the watermark of a source, and when it is idle and nobody waits for it.

A shard does not see the events of others, nor those that nobody needs: without the watermark by
all events it would wait for events of its own, and whoever reads it would wait for the shard.
It is that of micro-batches that are done: what comes later and is before it is late.

While a micro-batch runs nobody knows what has come since it began: a source is idle only as far
as the query has looked. That it has looked counts the next time, when all is known of
micro-batches that had ended by then. A query that was started again has looked at nothing: its
first micro-batch may be one that had failed, and what has come since is still to be read.

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
    sent_at: float = -inf  # and when
    is_idle: bool = False  # whether they were sent that it is idle


class IdlenessTracker:
    """The watermarks and the idleness of a node's sources; times in seconds that never go back.

    Shards are sent the watermark of a source once in an interval, if it has moved; it is idle
    after a timeout of its own without events, or else after the one given here.
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
        self._is_new = True  # whether the query has had no micro-batch since it was started

    def restart(self, now: float) -> None:
        """Note that the query is started again."""
        self._is_new = True
        self._wait_anew(now)

    def _wait_anew(self, now: float) -> None:
        for known in self._activity.values():
            known.last_events = now

    def on_micro_batch(
        self, arrived: Mapping[tuple[str, str], ArrivalStats], start: float, now: float
    ) -> None:
        """Note what arrived in a micro-batch, by operator and stream, and when it began."""
        if self._is_new:
            self._is_new = False
            self._wait_anew(now)
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
            if known.is_idle:
                continue
            own = known.source.idle
            timeout = self._idle_timeout if own is None else own / 1e6
            watermark = NEVER if known.watermark is None else known.watermark
            if known.last_look - known.last_events >= timeout:
                updates.append(SourceWatermark(name, watermark, idle=True))
                known.sent, known.sent_at, known.is_idle = known.watermark, now, True
            elif known.watermark != known.sent and self._is_over(known.sent_at, now):
                updates.append(SourceWatermark(name, watermark))
                known.sent, known.sent_at = known.watermark, now
            if self._is_over(known.last_events, now) and not is_at_work():
                known.last_look = now
        return updates

    def _is_over(self, since: float, now: float) -> bool:
        return now - since >= self._watermark_interval

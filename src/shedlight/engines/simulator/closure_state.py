"""For which keys the streams of protected closures were whole so far, in a simulation."""

from typing import NamedTuple

from shedlight.graph import Application, Stream
from shedlight.graph.closures import Closures
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.guard import ClosureGuard, find_guards
from shedlight.shedding.thresholds import END, ThresholdHistory, least_of


class AppliedThreshold(NamedTuple):
    """For which share of keys a pattern in a protected closure was whole, and when."""

    stream: Stream  # the pattern
    since: int  # from which event time on, in microseconds
    until: int  # before which event time
    share: float  # without a key 1 or 0


class ClosureState:
    """What all servers know of each other's shares: a simulation has no network to ask."""

    def __init__(self, application: Application, closures: Closures) -> None:
        self.guards = find_guards(application, closures)
        streams = {stream for spec in self.guards.values() for stream in spec.streams}
        self.thresholds: list[AppliedThreshold] = []
        self._histories = dict.fromkeys(streams, ThresholdHistory())

    def record(self, stream: Stream, since: int, until: int, share: float) -> None:
        """Record for which share of keys a stream is whole between two times."""
        self.thresholds.append(AppliedThreshold(stream, since, until, share))
        self._histories[stream] = self._histories[stream].lower(since, until, share)

    def record_eviction(self, stream: Stream, ready: ReadyBatch) -> None:
        """Record that partial matches went that a batch had no room for: no key is whole."""
        window = self.guards[stream].window
        first = int(ready.time[0]) if len(ready.time) else ready.watermark
        end = END if window is None else ready.watermark + window + 1
        self.record(stream, first, end, 0.0)

    def guard(self, stream: Stream, since: int) -> ClosureGuard:
        """Give the guard of a pattern for a batch after a watermark."""
        spec = self.guards[stream]
        history = least_of(self._histories[each] for each in spec.streams)
        return ClosureGuard(spec, history, since)

"""Which nodes have events: a decision waits for those that do, and not for idle ones.

A node is idle when its query has looked for events for some time and there were none. That it
has looked counts the next time, when all is known of micro-batches that had ended by then:
while one runs, nobody knows what has come since it began.

For how long? For `MIN_IDLE_S`, as long as an observation takes: whoever had nothing in that
time has nothing to be observed. A node that gets files every few seconds is not idle in
between: it is waited for twice as long as its micro-batches are usually apart, or plans would
be made for it and against it in turn. But for no longer than `MAX_IDLE_S`, after which idle
sources hold nobody back either.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

MIN_IDLE_S = 2.0
"""For how many seconds a node without events is waited for, at least."""
MAX_IDLE_S = 10.0
"""For how many at most, as `idle_timeout` is for sources, or two triggers if that is longer."""
GAP_FACTOR = 2.0
"""How many times as long as its micro-batches are usually apart."""
_GAPS = 4  # how many of these gaps are remembered


def _is_never_busy(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTiming:
    """What a control loop knows of time.

    Attributes:
        clock: Gives seconds that never go back. None: micro-batches end at the times that
            they tell, as in tests.
        is_busy: Whether a node's query runs a micro-batch, or is about to.
        trigger: How often a query looks for new events, in seconds.
    """

    clock: Callable[[], float] | None = time.monotonic
    is_busy: Callable[[str], bool] = _is_never_busy
    trigger: float = 0.0

    def now(self, end: float) -> float:
        """Give the time after a micro-batch that ended at a time in seconds since 1970."""
        return end if self.clock is None else self.clock()


@dataclass(slots=True)
class NodeActivity:
    """When a node had events, in seconds that never go back."""

    trigger: float = 0.0  # how often its query looks for events, in seconds
    last_events: float = 0.0  # when it last had events, or else when the run began
    last_look: float = 0.0  # when its query was last known to have found none
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=_GAPS))

    def start(self, now: float) -> None:
        """Say when the run begins."""
        self.last_events = self.last_look = now

    def on_events(self, now: float, seconds: float) -> None:
        """Note a micro-batch with events, which took so many seconds."""
        self.gaps.append(now - seconds - self.last_events)
        self.last_events = now

    def is_idle(self, now: float, is_busy: Callable[[], bool]) -> bool:
        """Say whether the node is idle; whether it is busy is asked only if need be."""
        shortest = max(MIN_IDLE_S, 2 * self.trigger)
        if now - self.last_events < shortest:
            return False
        longest = max(MAX_IDLE_S, 2 * self.trigger)
        usual = GAP_FACTOR * max(self.gaps, default=0.0)
        is_idle = self.last_look - self.last_events >= min(max(shortest, usual), longest)
        if not is_busy():
            self.last_look = now
        return is_idle

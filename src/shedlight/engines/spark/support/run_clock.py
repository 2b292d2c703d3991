"""The clocks of a run: wall time for what is written down, another for how long things take.

A wall clock is set now and then, by an hour too. Whoever waits for a time to pass by it may
wait for that hour; so idleness, and when decisions are due, go by a clock that is never set.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunClock:
    """Two clocks, in seconds."""

    wall: Callable[[], float] = time.time  # since 1970; it may be set
    steady: Callable[[], float] = time.monotonic  # since some time; it never goes back

    def steady_start(self, start: float, seconds: float) -> float:
        """Say when a micro-batch began that is over, by the steady clock.

        By the wall clock it began at `start`. If that was set since, it says too little, and
        how long the micro-batch took says more.
        """
        return self.steady() - max(seconds, self.wall() - start)

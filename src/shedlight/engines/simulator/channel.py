"""Complex events on their way from one operator to another, in virtual time."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.matching.jit import Array
from shedlight.matching.output.complex_events import TIME
from shedlight.model.arrays import Floats


@dataclass(slots=True, eq=False)
class Channel:
    """Complex events on their way to a server, and when those before them arrived."""

    # tables of complex events with the seconds at which each arrives
    in_transit: list[tuple[pa.Table, Floats]] = field(default_factory=list)
    # the timestamps of the complex events that have arrived
    times: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    arrivals: Floats = field(default_factory=lambda: np.zeros(0))  # when each of them arrived

    def until(self, end: float) -> list[pa.Table]:
        """Take out what arrives before a time."""
        arrived, left = [], []
        for table, arrivals in self.in_transit:
            number = int(np.searchsorted(arrivals, end))
            if number:
                arrived.append(table.slice(0, number))
                times = table[TIME].slice(0, number).to_numpy()
                self.times = np.concatenate([self.times, times])
                self.arrivals = np.concatenate([self.arrivals, arrivals[:number]])
            if number < len(table):
                left.append((table.slice(number), arrivals[number:]))
        self.in_transit = left
        return arrived

    def arrived(self, times: Array) -> Floats:
        """Say when the complex events of these timestamps arrived, and forget those before."""
        if not len(times):
            return np.zeros(0)
        rows = np.maximum(np.searchsorted(self.times, times, side="right") - 1, 0)
        arrivals, first = self.arrivals[rows], int(rows.min())
        self.times, self.arrivals = self.times[first:], self.arrivals[first:]
        return arrivals

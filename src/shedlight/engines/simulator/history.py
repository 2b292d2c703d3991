"""Records the histories of a sample of keys in a simulation, before anything is shed.

The sample is of all keys at first, and of half of them whenever there are too many events. What
a shedder knows of any event is enough: its time, type, key and id; nobody need process it.
"""

import numpy as np

from shedlight.matching.jit import Array
from shedlight.matching.operators.step import ReadyBatch
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.stratum_split import REST
from shedlight.shedding.key_yields import CLASSES
from shedlight.shedding.unshed_sample import choose_keys

_MAX_EVENTS = 12_000
_WINDOWS = 8  # how many windows back histories go
_NAMES = (*filter(None, CLASSES), REST)
_HASHES = 2.0**64


class HistoryRecorder:
    """Records for an operator; the window is the longest of its patterns, in microseconds."""

    def __init__(self, window: int) -> None:
        self.history = KeyHistory(names=_NAMES)
        self._horizon, self._share, self._batch = _WINDOWS * window, 1.0, 0

    def end_batch(self) -> None:
        """What comes from now on finds other keys open."""
        self._batch += 1

    def add(self, ready: ReadyBatch, ids: Array, strata: Array, names: tuple[str, ...]) -> None:
        """Add events: the hashes of their ids, and of which stratum behind heavy hitters.

        Heavy hitters, whose numbers are negative, have no history.
        """
        first, second = next(iter(ready.keys.values()))
        rows = np.flatnonzero((strata >= 0) & choose_keys(first, self._share))
        if not len(rows):
            return
        if not set(names) & set(CLASSES):  # no class is known yet
            strata = np.full(len(strata), len(_NAMES) - 1)
        labels = tuple(map(ready.types.label, range(len(ready.types.signatures))))
        more = KeyHistory(
            labels,
            _NAMES,
            ready.time[rows],
            np.stack([first[rows], second[rows]], axis=1),
            ready.numbers[rows].astype(np.int32),
            ids[rows] / _HASHES + 0.5,
            strata[rows],
            np.full(len(rows), self._batch),
        )
        joined = self.history.append(more)
        self.history = joined.select(joined.time >= joined.time[-1] - self._horizon)
        while len(self.history.time) > _MAX_EVENTS:
            self._share /= 2
            chosen = choose_keys(self.history.keys[:, 0], self._share)
            self.history = self.history.select(chosen)

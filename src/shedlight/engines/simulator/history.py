"""Records the histories of a sample of keys in a simulation, before anything is shed."""

import numpy as np

from shedlight.matching.jit import Array
from shedlight.matching.operators.step import ReadyBatch
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.shedding.key_sample import NAMES, KeySample, chances, strata_in_history
from shedlight.shedding.unshed_sample import choose_keys


class HistoryRecorder:
    """Records for an operator; the window is the longest of its patterns, in microseconds."""

    def __init__(self, window: int) -> None:
        self._sample, self._batch = KeySample(window), 0

    @property
    def history(self) -> KeyHistory:
        """The histories so far."""
        return self._sample.history

    def end_batch(self) -> None:
        """What comes from now on finds other keys open."""
        self._batch += 1

    def add(self, ready: ReadyBatch, ids: Array, strata: Array, names: tuple[str, ...]) -> None:
        """Add events: the hashes of their ids, and of which stratum behind heavy hitters.

        Heavy hitters, whose numbers are negative, have no history.
        """
        first, second = next(iter(ready.keys.values()))
        rows = np.flatnonzero((strata >= 0) & choose_keys(first, self._sample.share))
        more = KeyHistory(
            tuple(map(ready.types.label, range(len(ready.types.signatures)))),
            NAMES,
            ready.time[rows],
            np.stack([first[rows], second[rows]], axis=1),
            ready.numbers[rows].astype(np.int32),
            chances(ids[rows]),
            strata_in_history(strata[rows], names),
            np.full(len(rows), self._batch),
        )
        self._sample = self._sample.add(more)

"""The histories of a sample of keys, as they grow: for trials, before anything is shed.

The sample is of all keys at first, and of half of them whenever there are too many events. What
a shedder knows of any event is enough: its time, type, key and id; nobody need process it.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.stratum_split import REST
from shedlight.shedding.key_yields import CLASSES
from shedlight.shedding.unshed_sample import choose_keys

NAMES = (*filter(None, CLASSES), REST)
"""The strata of a history, by number: heavy hitters have none."""

_MAX_EVENTS = 12_000
_WINDOWS = 8  # how many windows back histories go
_HASHES = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class KeySample:
    """The histories of the keys of an operator that are in a sample."""

    window: int  # the longest of the operator's patterns, in microseconds
    share: float = 1.0  # of the keys
    history: KeyHistory = field(default_factory=lambda: KeyHistory(names=NAMES))

    def add(self, more: KeyHistory) -> "KeySample":
        """Add events of the sample's keys, and forget the oldest."""
        if not len(more.time):
            return self
        joined = self.history.append(more)
        recent = joined.time >= joined.time[-1] - _WINDOWS * self.window
        sample = replace(self, history=joined.select(recent))
        while len(sample.history.time) > _MAX_EVENTS:
            sample = sample.limit(sample.share / 2)
        return sample

    def limit(self, share: float) -> "KeySample":
        """Take a lesser share of the keys."""
        chosen = choose_keys(self.history.keys[:, 0], share)
        return replace(self, share=share, history=self.history.select(chosen))


def chances(ids: Array) -> Floats:
    """Give the hashes of ids as numbers from 0 to 1."""
    return np.asarray(ids / _HASHES + 0.5)


def strata_in_history(strata: Array, names: tuple[str, ...]) -> Array:
    """Number the strata behind heavy hitters as histories do."""
    if not set(names) & set(CLASSES):  # no class is known yet
        return np.full(len(strata), len(NAMES) - 1)
    return strata

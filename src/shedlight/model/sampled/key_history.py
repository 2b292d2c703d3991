"""Whole histories of a sample of keys, and a pattern run over them in one way of shedding.

A sample of keys, chosen by their hashes and not by what became of them, with all events that
arrived of them, kept or not. So skew, order and correlation are in it, and what was shed can be
learned from it as well as what was kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.matching.jit import Array
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.driver import FifoRun
from shedlight.matching.kernel.match_state import held_keys
from shedlight.matching.kernel.tables import Events
from shedlight.model.arrays import Floats
from shedlight.model.sampled.runner import Runner


@dataclass(frozen=True, slots=True, eq=False)
class KeyHistory:
    """Events of a sample of keys, in the order in which they were ready."""

    labels: tuple[str, ...] = ()  # the types of events, by number
    names: tuple[str, ...] = ()  # of the strata, by number
    time: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # in microseconds
    keys: Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # two hashes each
    types: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    chance: Floats = field(default_factory=lambda: np.zeros(0))  # the hash of the event, 0 to 1
    # the stratum that its key was of when the event arrived
    strata: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    # with which batch it arrived: shedding knows the keys that were open before it
    batch: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def select(self, chosen: Array) -> "KeyHistory":
        """Give some of its events."""
        return KeyHistory(
            self.labels,
            self.names,
            self.time[chosen],
            self.keys[chosen],
            self.types[chosen],
            self.chance[chosen],
            self.strata[chosen],
            self.batch[chosen],
        )

    def append(self, other: "KeyHistory") -> "KeyHistory":
        """Add events that arrived later; the labels are theirs, which only grow."""

        def join(name: str) -> Array:
            return np.concatenate([getattr(self, name), getattr(other, name)])

        names = ("time", "keys", "types", "chance", "strata", "batch")
        return KeyHistory(other.labels, other.names, *map(join, names))


Admit = Callable[[slice, Array], Array]
"""Says which events of a stretch are kept, given whether the key of each is open."""


@dataclass(frozen=True, slots=True, eq=False)
class HistoryRun:
    """What a pattern made of a history."""

    kept: Array  # which events it kept
    times: Array  # of its matches
    keys: Array  # the first hash of the key of each match


def run_history(history: KeyHistory, runner: Runner, kept: Array) -> HistoryRun:
    """Match the events of a history that are kept, whatever is open."""
    run = FifoRun(runner.matcher, runner.state, runner.state.tables)
    _advance(run, runner, history, np.flatnonzero(kept), len(kept))
    found = run.collector.all()[0]
    return HistoryRun(kept, found[rec.TIME], found[rec.KEY])


def run_by_open_keys(history: KeyHistory, runner: Runner, admit: Admit) -> HistoryRun:
    """Match a history batch by batch: what is kept depends on the keys open before a batch."""
    run = FifoRun(runner.matcher, runner.state, runner.state.tables)
    kept = np.zeros(len(history.time), np.bool_)
    ends = np.flatnonzero(np.diff(history.batch, append=history.batch[-1:] + 1)) + 1
    begin = 0
    for end in ends.tolist():
        here = slice(begin, end)
        held = np.sort(held_keys(run.records)[:, 0])
        kept[here] = admit(here, is_among(held, history.keys[here, 0]))
        _advance(run, runner, history, begin + np.flatnonzero(kept[here]), end)
        begin = end
    found = run.collector.all()[0]
    return HistoryRun(kept, found[rec.TIME], found[rec.KEY])


def _advance(run: FifoRun, runner: Runner, history: KeyHistory, rows: Array, end: int) -> None:
    """Match some events, and end what the watermark has passed before a later one."""
    keys, time = history.keys[rows], history.time[rows]
    hashes = (np.ascontiguousarray(keys[:, 0]), np.ascontiguousarray(keys[:, 1]))
    time.flags.writeable = False  # one data type, so that the kernels are compiled once
    events = Events(time, history.types[rows], runner.symbols, *hashes, 0)
    run.advance(events, int(history.time[end - 1]))


def merge_batches(history: KeyHistory, least: int) -> KeyHistory:
    """Merge batches that follow each other so that each is that long at least, in microseconds.

    Open keys are then known as they were earlier than in truth.
    """
    ends = np.flatnonzero(np.diff(history.batch, append=history.batch[-1:] + 1)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    merged, number, began = np.empty_like(history.batch), -1, None
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if began is None or history.time[start] - began >= least:
            number, began = number + 1, history.time[start]
        merged[start:end] = number
    return replace(history, batch=merged)


def is_among(hashes: Array, keys: Array) -> Array:
    """Say which keys are among hashes in order.

    Example:
        >>> is_among(np.array([3, 5]), np.array([5, 4, 9])).tolist()
        [True, False, False]
    """
    if not len(hashes):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(hashes, keys), len(hashes) - 1)
    return np.asarray(hashes[places] == keys)

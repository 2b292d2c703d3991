"""Random events at the rates of a snapshot, at even rates or as they were lately."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats

SECOND = 1_000_000
_VARYING_DEVIATION = 0.3  # a rate varies if its deviation is more than this part of its mean
TYPE_CHANCE, SHED_CHANCE, YIELD_CHANCE = range(3)  # what a chance is for


@dataclass(frozen=True, slots=True, eq=False)
class SampledEvents:
    """Events in order of time."""

    time: Array  # in microseconds
    type: Array  # the number of a type of the operator
    chance: Floats  # from 0 to 1; an event is kept if it is below the share


@dataclass(frozen=True, slots=True)
class RateHistory:
    """How rates were lately.

    Attributes:
        interval: How long each step is, in seconds.
        rates: For sources, and for patterns that no plan can change: rates, step by step.
    """

    interval: float
    rates: Mapping[Stream, tuple[float, ...]]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.interval * max(map(len, self.rates.values()), default=0)

    @property
    def varies(self) -> bool:
        """Whether any rate is far from being the same all the time."""
        rates = filter(None, self.rates.values())
        return any(np.std(steps) > _VARYING_DEVIATION * np.mean(steps) for steps in rates)


def draw_events(
    streams: Mapping[Stream, Floats],
    seconds: float,
    rng: np.random.Generator,
    history: RateHistory | None,
) -> SampledEvents:
    """Draw as many events of each type as there are in so many seconds, at random times."""
    times, types = [np.zeros(0)], [np.zeros(0, np.int32)]
    for stream, rates in streams.items():
        counts = np.round(rates * seconds).astype(np.int64)
        types.append(np.repeat(np.arange(len(rates), dtype=np.int32), counts))
        times.append(_draw_times(stream, int(counts.sum()), seconds, rng, history))
    time = (np.concatenate(times) * SECOND).astype(np.int64)
    order = np.argsort(time, kind="stable")
    return SampledEvents(time[order], np.concatenate(types)[order], rng.random(len(time)))


def _draw_times(
    stream: Stream,
    count: int,
    seconds: float,
    rng: np.random.Generator,
    history: RateHistory | None,
) -> Floats:
    """Draw times at random, as dense as rates were, over and over."""
    chances = rng.random(count)
    steps = history.rates.get(stream, ()) if history else ()
    if history is None or sum(steps) <= 0:
        return chances * seconds
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    inside = np.interp(chances * ends[-1], ends, np.arange(len(ends)) * history.interval)
    rounds = max(1, round(seconds / history.seconds))
    return np.asarray(inside + rng.integers(0, rounds, count) * history.seconds)


def hash_chances(times: Array, stream: Stream, purpose: int) -> Floats:
    """Give each complex event of a pattern a number from 0 to 1, another for each purpose.

    It depends on nothing but the event itself.
    """
    start = zlib.crc32(f"{stream} {purpose}".encode()) * 0x9E3779B97F4A7C15 % 2**64
    mixed = times.astype(np.uint64) + np.uint64(start)  # then the finaliser of splitmix64
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) / float(1 << 53)

"""What an unshed sample of keys says of a sink: recall, and the rate without shedding.

Both have an interval in which the truth is in 95 of 100 cases, by bootstrap over keys: the
sample is drawn again from its keys a thousand times, each key as often as Poisson says, since
how many keys a sample has is a matter of chance too. A few keys have many results, so that a
sample with less of them also looks surer than it is: the interval of the rate is that of the
error in units of its own estimate (bootstrap-t). For recall two keys are added, one of which
everything is kept and one of which nothing is: so a sample of which all is kept does not make
sure that nothing is lost. Of too few keys nothing is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats

MIN_KEYS = 50  # keys with results; of fewer nothing is known

_REPEATS = 1000
_TAILS = (0.025, 0.975)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and where it is in 95 of 100 cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkEstimate:
    """What the sample says of a sink; it speaks of all keys but heavy hitters.

    Attributes:
        keys: The sample's keys that have results without shedding.
        recall: The share of the results without shedding that the plan leaves; None: not known.
        rate: The results per second without shedding; None: not known.
        unknown: Why they are not known; empty if they are.
        heavy_hitters: How many keys are counted by themselves.
        heavy_work: Their share of the work.
        heavy_results: The results that the sink got of them.
    """

    keys: int = 0
    recall: Estimate | None = None
    rate: Estimate | None = None
    unknown: str = ""
    heavy_hitters: int = 0
    heavy_work: float = 0.0
    heavy_results: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SampleCounts:
    """The results of the sample's keys, without the plan's mask and with it.

    Attributes:
        keys: The hashes of keys with results of either sort, in order.
        unshed: How many results each has without the mask.
        masked: How many with it.
        same: How many are the same, of the same events.
    """

    keys: Array
    unshed: Array
    masked: Array
    same: Array

    def without(self, keys: Array) -> "SampleCounts":
        """Leave some keys out."""
        rest = ~np.isin(self.keys, keys)
        return SampleCounts(
            self.keys[rest], self.unshed[rest], self.masked[rest], self.same[rest]
        )


@dataclass(frozen=True, slots=True, eq=False)
class KeyedResults:
    """Results: their ids, and the hashes of their keys."""

    ids: pa.ChunkedArray
    keys: Array


def count_results(unshed: KeyedResults, masked: KeyedResults) -> SampleCounts:
    """Count the results of each key, without the plan's mask and with it."""
    keys, place = np.unique(np.concatenate([unshed.keys, masked.keys]), return_inverse=True)
    ours, theirs = place[: len(unshed.keys)], place[len(unshed.keys) :]
    found = pc.is_in(unshed.ids, value_set=masked.ids.combine_chunks()).to_numpy()
    size = len(keys)
    return SampleCounts(
        keys,
        np.bincount(ours, minlength=size),
        np.bincount(theirs, minlength=size),
        np.bincount(ours[found.astype(np.bool_)], minlength=size),
    )


def add_counts(counts: Iterable[SampleCounts]) -> SampleCounts:
    """Add up the results of each key; a result is the same as one of the same batch."""
    parts = list(counts)
    joined = np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)])
    keys, place = np.unique(joined, return_inverse=True)

    def total(columns: list[Array]) -> Array:
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, place, np.concatenate([np.zeros(0, np.int64), *columns]))
        return sums

    return SampleCounts(
        keys,
        total([part.unshed for part in parts]),
        total([part.masked for part in parts]),
        total([part.same for part in parts]),
    )


def estimate_sink(
    counts: SampleCounts, share: float, seconds: float, seed: int
) -> SinkEstimate:
    """Estimate recall and rate of a sink from a sample of a share of all keys.

    The counts are of so many seconds; the seed is that of the bootstrap.
    """
    number = int(np.count_nonzero(counts.unshed))
    if number < MIN_KEYS:
        why = f"{number} of the sample's keys have results, {MIN_KEYS} are needed"
        return SinkEstimate(keys=number, unknown=why)
    if seconds <= 0:
        return SinkEstimate(keys=number, unknown="no time has passed")
    pairs, times = np.unique(
        np.stack([counts.unshed, counts.same], axis=1), axis=0, return_counts=True
    )
    rng = np.random.default_rng(seed)
    narrower = float(np.sqrt(1 - share))  # if all keys were in the sample, nothing was chance
    results, same = pairs.astype(float).T
    return SinkEstimate(
        keys=number,
        recall=_estimate_recall(results, same, times, narrower, rng),
        rate=_estimate_rate(results, times, narrower, share * seconds, rng),
    )


def _draw(times: Array, rng: np.random.Generator) -> Floats:
    """Draw samples, in rows; keys with the same results go together, so many cost no more."""
    return rng.poisson(times, (_REPEATS, len(times))).astype(float)


def _estimate_rate(
    results: Floats, times: Array, narrower: float, seconds: float, rng: np.random.Generator
) -> Estimate:
    drawn = _draw(times, rng)
    total, error = float(times @ results), float(np.sqrt(times @ results**2))
    totals, errors = drawn @ results, np.sqrt(drawn @ results**2)
    tails = np.quantile((totals - total) / np.maximum(errors, 1.0), _TAILS)
    high, low = (total - narrower * error * tails).tolist()
    return Estimate(total / seconds, max(0.0, low) / seconds, high / seconds)


def _estimate_recall(
    results: Floats, same: Floats, times: Array, narrower: float, rng: np.random.Generator
) -> Estimate:
    value = float(times @ same) / float(times @ results)
    mean = float(times @ results) / float(times[results > 0].sum())
    results, same = np.append(results, [mean, mean]), np.append(same, [mean, 0.0])
    times = np.append(times, [1, 1])
    drawn = _draw(times, rng)
    middle = float(times @ same) / float(times @ results)
    recalls = (drawn @ same) / np.maximum(drawn @ results, 1.0)
    low, high = (middle + narrower * (np.quantile(recalls, _TAILS) - middle)).tolist()
    return Estimate(value, max(0.0, min(low, value)), min(1.0, max(high, value)))

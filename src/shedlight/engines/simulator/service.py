"""How long processing takes, and times drawn by that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from shedlight.graph.application import Stream
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats, dot

_OF_SERVICE = 0x5EBC1CE
"""Keeps processing times apart from streams that were generated with the same seed."""


class ServiceDistribution(Enum):
    """How the processing time of an event varies."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How long processing takes.

    Attributes:
        seconds: The mean for an event that a pattern keeps, by pattern; nothing, for one that
            is not in it.
        distribution: How it varies.
        samples: Measured times by pattern, for the distribution that draws from them; those of
            a pattern are scaled to its mean.
    """

    seconds: Mapping[Stream, float]
    distribution: ServiceDistribution = ServiceDistribution.EXPONENTIAL
    samples: Mapping[Stream, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stream, seconds in self.seconds.items():
            if not 0 <= seconds < float("inf"):
                raise ValueError(f"{stream} cannot take {seconds} s for an event")
            if (
                self.distribution is ServiceDistribution.MEASURED
                and not sum(self.samples.get(stream, ())) > 0
            ):
                raise ValueError(f"no processing times of {stream} were measured")


class ServiceTimes:
    """Draws processing times."""

    def __init__(self, service: Service, seed: int) -> None:
        self._service, self._rng = service, np.random.default_rng([seed, _OF_SERVICE])

    def spend(self, stream: Stream, kept: Array, work: Floats) -> tuple[float, float]:
        """Add the times of the events that a pattern keeps; give their sum and its squares."""
        mean = self._service.seconds.get(stream, 0.0)
        if not mean:
            return 0.0, 0.0
        rows = np.flatnonzero(kept)
        seconds = self.draw(stream, len(rows))
        work[rows] += seconds
        return float(seconds.sum()), dot(seconds, seconds)

    def expected(self, stream: Stream) -> tuple[float, float]:
        """Give the mean and the variance of the times of a pattern."""
        mean = self._service.seconds.get(stream, 0.0)
        if self._service.distribution is ServiceDistribution.EXPONENTIAL:
            return mean, mean * mean
        if self._service.distribution is ServiceDistribution.MEASURED and mean:
            samples = np.array(self._service.samples[stream])
            return mean, float((samples * (mean / samples.mean())).var())
        return mean, 0.0

    def draw(self, stream: Stream, number: int) -> Floats:
        """Draw the times of so many events that a pattern keeps."""
        mean = self._service.seconds.get(stream, 0.0)
        if not mean:
            return np.zeros(number)
        if self._service.distribution is ServiceDistribution.EXPONENTIAL:
            return self._rng.exponential(mean, number)
        if self._service.distribution is ServiceDistribution.MEASURED:
            samples = np.array(self._service.samples[stream])
            return self._rng.choice(samples * (mean / samples.mean()), number)
        return np.full(number, mean)

"""What generated streams are, as frozen values: how events arrive, and of which types."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shedlight.model.arrays import Floats

TypeShares = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A stream that is the same all the time."""

    rate: float  # events per second, on average over the whole stream
    duration: float  # in seconds
    shares: TypeShares  # of the types 0, 1, ...; they sum to 1
    seed: int  # the same one gives the same stream
    keys: int = 0  # how many keys there are, all alike; with 0, there is no column of them

    def __post_init__(self) -> None:
        check_amounts(rate=self.rate, duration=self.duration)
        check_shares(self.shares)
        if self.keys < 0:
            raise ValueError(f"keys must not be negative, got {self.keys}")

    def rate_segments(self, rng: np.random.Generator) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Give the stretches of equal rate: where each ends, in seconds, and its rate."""
        return np.array([self.duration]), np.array([self.rate])

    def shares_of(self, number: int, seconds: Floats) -> Floats:
        """Give the share of a type at some times."""
        return np.full(len(seconds), self.shares[number])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursty(StreamSpec):
    """A Markov-modulated Poisson process: calm and bursts, each of exponential length."""

    burst_rate: float  # the rate in a burst, in calm rates
    burst_share: float  # the share of the time that is in bursts
    burst_seconds: float  # how long a burst is, on average

    def __post_init__(self) -> None:
        StreamSpec.__post_init__(self)
        check_amounts(burst_rate=self.burst_rate, burst_seconds=self.burst_seconds)
        if not 0 < self.burst_share < 1:
            raise ValueError(f"burst_share must be between 0 and 1, got {self.burst_share}")

    @property
    def calm_rate(self) -> float:
        """The rate between bursts, in events per second."""
        return self.rate / (1 + self.burst_share * (self.burst_rate - 1))

    @property
    def calm_seconds(self) -> float:
        """How long it is calm, on average."""
        return self.burst_seconds * (1 - self.burst_share) / self.burst_share

    def rate_segments(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the chain, from a start that is as likely to be in a burst as any other time."""
        in_burst = rng.random() < self.burst_share
        rates = np.array([self.calm_rate, self.calm_rate * self.burst_rate])
        means = np.array([self.calm_seconds, self.burst_seconds])
        cycles = math.ceil(1.2 * self.duration / means.sum()) + 20
        lengths = np.empty(0)
        while lengths.sum() < self.duration:
            states = (np.arange(len(lengths), len(lengths) + 2 * cycles) + in_burst) % 2
            lengths = np.concatenate([lengths, rng.exponential(means[states])])
        ends = np.cumsum(lengths)
        used = int(np.searchsorted(ends, self.duration)) + 1
        ends = np.minimum(ends[:used], self.duration)
        return ends, rates[(np.arange(used) + in_burst) % 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifting(StreamSpec):
    """A stream whose shares go from some to others and back, along a cosine."""

    other_shares: TypeShares  # half a period after `shares`
    period: float | None = None  # in seconds; None: it ends with the other shares

    def __post_init__(self) -> None:
        StreamSpec.__post_init__(self)
        check_shares(self.other_shares, len(self.shares))
        if self.period is not None:
            check_amounts(period=self.period)

    def shares_of(self, number: int, seconds: Floats) -> Floats:
        """Give the share of a type at some times."""
        period = 2 * self.duration if self.period is None else self.period
        moved = (1 - np.cos(2 * np.pi * seconds / period)) / 2
        return self.shares[number] + moved * (self.other_shares[number] - self.shares[number])


@dataclass(frozen=True, slots=True, kw_only=True)
class RateStep:
    """What holds from some time on."""

    at: float  # in seconds from the start of the stream
    rate: float  # events per second
    shares: TypeShares  # of the types


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(StreamSpec):
    """A stream that jumps; `rate` and `shares` are their means over the whole of it."""

    steps: tuple[RateStep, ...]  # in the order of their times; the first is at 0

    def __post_init__(self) -> None:
        StreamSpec.__post_init__(self)
        times = [step.at for step in self.steps] + [self.duration]
        if times[0] != 0 or any(start >= end for start, end in pairwise(times)):
            raise ValueError(f"steps must start at 0 and go up to before the end, got {times}")
        for step in self.steps:
            check_shares(step.shares, len(self.shares))
            if not 0 <= step.rate < math.inf:
                raise ValueError(f"the rate of a step must not be negative, got {step.rate}")

    def rate_segments(self, rng: np.random.Generator) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Give where each step ends, in seconds, and its rate."""
        ends = [step.at for step in self.steps[1:]] + [self.duration]
        return np.array(ends), np.array([step.rate for step in self.steps])

    def shares_of(self, number: int, seconds: Floats) -> Floats:
        """Give the share of a type at some times."""
        step = np.searchsorted([step.at for step in self.steps], seconds, side="right") - 1
        return np.array([step.shares[number] for step in self.steps])[step]


def check_amounts(**amounts: float) -> None:
    """Refuse what is not positive, by its name."""
    for name, amount in amounts.items():
        if not 0 < amount < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {amount}")


def check_shares(shares: TypeShares, types: int | None = None) -> None:
    """Refuse what are no shares, or not those of so many types."""
    if not shares or min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-9):
        raise ValueError(f"shares must not be negative and sum to 1, got {shares}")
    if types not in (None, len(shares)):
        raise ValueError(f"there must be {types} shares as elsewhere, got {len(shares)}")

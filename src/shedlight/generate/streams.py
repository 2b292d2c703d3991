"""Generated streams: events of numbered types that arrive at random.

Arrivals are Poisson; types are drawn by the shares at the time of the event. Times are
whole microseconds from 0 on, in order. A stream is described by a frozen value, and the same
value gives the same bytes.

| stream     | arrivals                                    | shares of the types    |
|------------|---------------------------------------------|------------------------|
| `balanced` | at one rate                                 | equal                  |
| `skewed`   | at one rate                                 | 1, 1/2, 1/3, ...       |
| `bursty`   | calm or in a burst, by a Markov chain       | equal                  |
| `drifting` | at one rate                                 | change smoothly        |
| `stepped`  | at rates that jump at given times           | jump at given times    |
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shedlight.generate.specs import (
    Bursty,
    Drifting,
    RateStep,
    Stepped,
    StreamSpec,
    TypeShares,
    check_amounts,
)
from shedlight.model.arrays import Floats, Ints

MICROSECONDS = 1_000_000  # in a second


def balanced(*, rate: float, duration: float, seed: int, types: int = 4) -> StreamSpec:
    """Describe a stream of equally frequent types."""
    return StreamSpec(rate=rate, duration=duration, shares=_equal(types), seed=seed)


def skewed(*, rate: float, duration: float, seed: int, types: int = 4) -> StreamSpec:
    """Describe a stream in which type k is 1/(k + 1) times as frequent as type 0 (Zipf)."""
    weights = [1 / (number + 1) for number in range(types)]
    shares = tuple(weight / sum(weights) for weight in weights)
    return StreamSpec(rate=rate, duration=duration, shares=shares, seed=seed)


def bursty(*, rate: float, duration: float, seed: int, types: int = 4) -> Bursty:
    """Describe a stream in bursts of 10 s, ten times the calm rate, a tenth of the time."""
    return Bursty(
        rate=rate,
        duration=duration,
        shares=_equal(types),
        seed=seed,
        burst_rate=10.0,
        burst_share=0.1,
        burst_seconds=10.0,
    )


def drifting(*, rate: float, duration: float, seed: int, types: int = 4) -> Drifting:
    """Describe a stream that starts skewed to type 0 and ends skewed to the last."""
    start = skewed(rate=rate, duration=duration, seed=seed, types=types)
    return Drifting(
        rate=rate,
        duration=duration,
        shares=start.shares,
        seed=seed,
        other_shares=start.shares[::-1],
    )


def stepped(steps: Sequence[RateStep], *, duration: float, seed: int, keys: int = 0) -> Stepped:
    """Describe a stream that jumps; its mean rate and shares follow from the steps.

    Example:
        >>> calm = RateStep(at=0, rate=10, shares=(0.5, 0.5))
        >>> storm = RateStep(at=30, rate=40, shares=(0.9, 0.1))
        >>> spec = stepped([calm, storm], duration=60, seed=1)
        >>> spec.rate, tuple(round(share, 2) for share in spec.shares)
        (25.0, (0.82, 0.18))
    """
    ends = [step.at for step in steps[1:]] + [duration]
    counts = [step.rate * (end - step.at) for step, end in zip(steps, ends, strict=True)]
    parts = zip(*(step.shares for step in steps), strict=True)
    means = [sum(c * s for c, s in zip(counts, part, strict=True)) for part in parts]
    return Stepped(
        rate=sum(counts) / duration,
        duration=duration,
        shares=tuple(mean / sum(counts) for mean in means),
        seed=seed,
        keys=keys,
        steps=tuple(steps),
    )


def make_stream(spec: StreamSpec, first_id: int = 0) -> pa.Table:
    """Draw a stream: columns time (microseconds), id and type, and key if the spec has keys.

    Ids count on from `first_id`.

    Example:
        >>> stream = make_stream(balanced(rate=100, duration=10, seed=1))
        >>> stream.column_names
        ['time', 'id', 'type']
    """
    # apart, so that a stream with keys has the same events as one without
    arrivals, types, keys = (
        np.random.default_rng(child) for child in np.random.SeedSequence(spec.seed).spawn(3)
    )
    times = poisson_times(arrivals, *spec.rate_segments(arrivals))
    columns = {
        "time": np.minimum(times * MICROSECONDS, spec.duration * MICROSECONDS - 1),
        "id": np.arange(first_id, first_id + len(times)),
        "type": _draw_types(types, spec, times),
    }
    if spec.keys:
        columns["key"] = keys.integers(0, spec.keys, len(times))
    return pa.table({name: values.astype(np.int64) for name, values in columns.items()})


def poisson_times(rng: np.random.Generator, ends: Floats, rates: Floats) -> Floats:
    """Draw the arrivals of a Poisson process whose rate is constant in stretches, in order.

    The first stretch starts at 0; rates are events per unit of the ends.
    """
    lengths = np.diff(ends, prepend=0.0)
    counts = rng.poisson(rates * lengths)
    offsets = rng.random(int(counts.sum()))
    return np.sort(np.repeat(ends - lengths, counts) + offsets * np.repeat(lengths, counts))


def scale_rate(events: pa.Table, load: float) -> pa.Table:
    """Feed a stream faster, or slower: its times are divided by the load, its rate multiplied.

    Example:
        >>> events = pa.table({"time": [0, 3_000_000], "id": [0, 1], "type": [0, 0]})
        >>> scale_rate(events, 3.0)["time"].to_pylist()
        [0, 1000000]
    """
    check_amounts(load=load)
    times = np.floor(events["time"].to_numpy() / load).astype(np.int64)
    index = events.column_names.index("time")
    return events.set_column(index, "time", pa.array(times))


def _draw_types(rng: np.random.Generator, spec: StreamSpec, times: Floats) -> Ints:
    """Draw a type for each time: how many of the summed shares lie below a random number."""
    offsets = rng.random(len(times))
    types = np.zeros(len(times), np.int64)
    below = np.zeros(len(times))
    for number in range(len(spec.shares) - 1):  # the last takes the rest, whatever rounding did
        below += spec.shares_of(number, times)
        types += offsets >= below
    return types


def _equal(types: int) -> TypeShares:
    return (1 / types,) * types if types > 0 else ()

"""Streams like those of the 2019 Google cluster traces, for those who do not have them.

Each of eight clusters is a Poisson process whose rate wanders from hour to hour, and on top of
it bursts: jobs of very many instances that start or end together. What was measured on the
sample of 349,420 instance events that `docs/reproduce.md` names, and what comes out here:

- 7.8 events a minute over 31 days, very bursty: a median of 4 a minute, the 99th percentile at
  52, and the largest minute has 6,925 (here 3,416 to 6,167 in eight months);
- four types of equal shares (the machine modulo 4) that do not drift;
- clusters that differ in rate, in the share of events in bursts and in how long bursts are.

Not modelled: which job an event is of, and anything that hangs on a single machine.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from shedlight.generate.specs import check_amounts
from shedlight.generate.streams import MICROSECONDS, poisson_times, scale_rate
from shedlight.model.arrays import Floats, Ints

DAYS = 31.0  # how long the traces are
TYPES = 4
MACHINES = 12_000  # of a cluster; a multiple of the types, so that these are equally frequent

HOURLY_SPREAD = 1.25  # the standard deviation of the logarithm of the hourly rate
HOURLY_MEMORY = 0.9  # the correlation of that logarithm from one hour to the next
BURST_TAIL = 1.1  # bursts of k events or more are about k^-1.1 of all bursts..
MIN_BURST, MAX_BURST = 4, 7_000  # ...and have so many events at least and at most

_HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of the traces."""

    per_minute: float  # events per minute, on average
    in_bursts: float  # the share of them that is in bursts
    burst_seconds: float  # how long a burst is, on average; lengths are exponential


CLUSTERS = (
    Cluster(0.866, 0.52, 10.0),
    Cluster(0.876, 0.51, 30.0),
    Cluster(1.279, 0.44, 60.0),
    Cluster(1.139, 0.44, 90.0),
    Cluster(0.831, 0.53, 60.0),
    Cluster(0.962, 0.54, 30.0),
    Cluster(0.960, 0.35, 45.0),
    Cluster(0.913, 0.38, 20.0),
)
"""Clusters 1 to 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorgLike:
    """A stream like the traces of some clusters."""

    clusters: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)  # by their numbers, 1 to 8
    seed: int  # the same one gives the same stream
    days: float = DAYS  # how long, before it is compressed
    compression: float = 1.0  # how many times as fast as it would happen

    def __post_init__(self) -> None:
        check_amounts(days=self.days, compression=self.compression)
        if not self.clusters or not set(self.clusters) <= set(range(1, len(CLUSTERS) + 1)):
            raise ValueError(f"clusters are 1 to {len(CLUSTERS)}, got {self.clusters}")


def make_borg_like(spec: BorgLike, first_id: int = 0) -> pa.Table:
    """Draw a stream with the columns of a trace: time, id, type and key (the machine).

    A cluster is the same in every stream of the same seed, whatever the others are: split over
    two sources, they are two streams of one world. Ids count on from `first_id`.

    Example:
        >>> stream = make_borg_like(BorgLike(seed=1, days=1, compression=1_000))
        >>> stream.column_names
        ['time', 'id', 'type', 'key']
    """
    drawn = [_draw(number, spec) for number in spec.clusters]
    times, machines = map(np.concatenate, zip(*drawn, strict=True))
    order = np.argsort(times, kind="stable")
    events = {
        "time": times[order],
        "id": np.arange(first_id, first_id + len(times)),
        "type": machines[order] % TYPES,
        "key": machines[order],
    }
    return scale_rate(pa.table(events), spec.compression)


def burst_sizes() -> tuple[Ints, Floats]:
    """Give the sizes that bursts have, and the share of the bursts that are of each size."""
    sizes = np.arange(MIN_BURST, MAX_BURST + 2)
    at_least = sizes.astype(np.float64) ** -BURST_TAIL
    weights = -np.diff(at_least)
    return sizes[:-1], weights / weights.sum()


def _draw(number: int, spec: BorgLike) -> tuple[Ints, Ints]:
    """Draw the times and the machines of the events of a cluster."""
    rng = np.random.default_rng([spec.seed, number])
    cluster, seconds = CLUSTERS[number - 1], spec.days * 24 * _HOUR
    rate = cluster.per_minute / 60
    calm = _wandering(rng, rate * (1 - cluster.in_bursts), seconds)
    bursts = _bursts(rng, rate * cluster.in_bursts, cluster.burst_seconds, seconds)
    times = np.concatenate([calm, bursts]) * MICROSECONDS
    machines = rng.integers(0, MACHINES, len(times)) + number * MACHINES
    return times.astype(np.int64), machines


def _wandering(rng: np.random.Generator, rate: float, seconds: float) -> Floats:
    """Draw arrivals whose hourly rate is log-normal, each hour like the one before."""
    ends = np.minimum(np.arange(1, np.ceil(seconds / _HOUR) + 1) * _HOUR, seconds)
    news = rng.standard_normal(len(ends))
    news[1:] *= np.sqrt(1 - HOURLY_MEMORY**2)
    walk = accumulate(news.tolist(), lambda level, new: HOURLY_MEMORY * level + new)
    factors = np.exp(HOURLY_SPREAD * np.array(list(walk)) - HOURLY_SPREAD**2 / 2)  # of mean 1
    return poisson_times(rng, ends, rate * factors)


def _bursts(
    rng: np.random.Generator, rate: float, mean_length: float, seconds: float
) -> Floats:
    """Draw the events of bursts; what lies past the end happens at the start instead."""
    sizes, shares = burst_sizes()
    count = rng.poisson(rate * seconds / float((sizes * shares).sum()))
    events = rng.choice(sizes, count, p=shares)
    starts, lengths = rng.random(count) * seconds, rng.exponential(mean_length, count)
    offsets = rng.random(int(events.sum()))
    return (np.repeat(starts, events) + offsets * np.repeat(lengths, events)) % seconds

"""The data sets of the experiments: two streams each, at a multiple of the capacity.

A load of 2 is twice what the bottleneck can process of source 2, on average over the run.

| data set   | source 1 and source 2                                                           |
|------------|---------------------------------------------------------------------------------|
| `balanced` | four types of equal shares, at the same rate                                    |
| `mirrored` | shares as 1/4, 1/3, 1/2, 1 in one, and as 1, 1/2, 1/3, 1/4 in the other         |
| `example`  | rates as 40, 20, 10, 10 in one, and as 60, 30, 40, 40 in the other              |
| `sparse`   | `mirrored`, with windows of 40 ms: some three events of a type in each          |
| `bursty`   | `balanced`, in bursts of 2 s, ten times the calm rate, a tenth of the time      |
| `steps`    | `balanced`, in four parts at 0.4, 1, 0.6 and 2 times the load                   |
| `borg-...` | the trace, or streams like it: some clusters in one, the others in the other    |

An excerpt of a trace is taken: from an offset that the seed draws, as many events of source 2
as the load asks for, and the events of source 1 of the same time. Then time is compressed to
that of a run.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from experiments.borg.files import Flaw
from experiments.borg.read import FilePart, Reading, Source, Trace, cluster_files, read_sources
from experiments.running_example import WINDOW, capacity
from shedlight.errors import InputError
from shedlight.generate.borg_like import BorgLike, make_borg_like
from shedlight.generate.specs import Bursty, RateStep, StreamSpec, TypeShares
from shedlight.generate.streams import MICROSECONDS, make_stream, stepped

_SECOND_SOURCE_IDS = 10**9
"""Ids of source 2 start here."""
_SAMPLE = "borg_traces_data.csv"
_MAX_NAMED = 5
"""How many malformed rows are named; all are counted."""
_EQUAL: TypeShares = (0.25, 0.25, 0.25, 0.25)
_FALLING: TypeShares = (12 / 25, 6 / 25, 4 / 25, 3 / 25)
_RISING: TypeShares = _FALLING[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnData:
    """The streams of a run.

    Attributes:
        tables: The events of each source, from time 0 on.
        compression: How many times as fast as it happened; None if it was generated.
    """

    tables: dict[str, pa.Table]
    compression: float | None = None


class DataSet(Protocol):
    """Two streams, drawn anew for each load and seed."""

    @property
    def name(self) -> str:
        """Its name in results."""

    @property
    def window(self) -> float:
        """The window of the patterns, in seconds."""

    def draw(self, load: float, duration: float, seed: int) -> DrawnData:
        """Draw the streams of a run of so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedData:
    """Poisson streams.

    Attributes:
        name: Its name in results.
        first: The shares of the types at source 1.
        second: Those at source 2.
        ratio: The rate of source 1 over that of source 2.
        in_bursts: Whether arrivals are in bursts.
        window: Of the patterns, in seconds.
    """

    name: str
    first: TypeShares = _EQUAL
    second: TypeShares = _EQUAL
    ratio: float = 1.0
    in_bursts: bool = False
    window: float = WINDOW

    def draw(self, load: float, duration: float, seed: int) -> DrawnData:
        """Draw the streams of a run of so many seconds."""
        rate = load * capacity(self.second)
        one = self._spec(rate * self.ratio, duration, self.first, 2 * seed)
        other = self._spec(rate, duration, self.second, 2 * seed + 1)
        return DrawnData({"s1": make_stream(one), "s2": make_stream(other, _SECOND_SOURCE_IDS)})

    def _spec(self, rate: float, duration: float, shares: TypeShares, seed: int) -> StreamSpec:
        if not self.in_bursts:
            return StreamSpec(rate=rate, duration=duration, shares=shares, seed=seed)
        return Bursty(
            rate=rate,
            duration=duration,
            shares=shares,
            seed=seed,
            burst_rate=10.0,
            burst_share=0.1,
            burst_seconds=2.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedData:
    """Poisson streams of types of equal shares whose rate jumps.

    Attributes:
        name: Its name in results.
        factors: What the load is times, in parts of the run that are equally long.
        window: Of the patterns, in seconds.
    """

    name: str
    factors: tuple[float, ...]
    window: float = WINDOW

    def draw(self, load: float, duration: float, seed: int) -> DrawnData:
        """Draw the streams of a run of so many seconds."""
        part = duration / len(self.factors)
        rate = load * capacity(_EQUAL)
        steps = [
            RateStep(at=i * part, rate=rate * factor, shares=_EQUAL)
            for i, factor in enumerate(self.factors)
        ]
        one, other = (
            stepped(steps, duration=duration, seed=2 * seed + source) for source in (0, 1)
        )
        return DrawnData({"s1": make_stream(one), "s2": make_stream(other, _SECOND_SOURCE_IDS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceData:
    """Excerpts of the cluster trace of 2019, or of streams like it.

    Attributes:
        name: Its name in results.
        first: The clusters of source 1.
        second: Those of source 2.
        folder: Where the files are; None: streams like them stand in.
        strict: Whether a malformed row is an error.
        window: Of the patterns, in seconds of compressed time.
    """

    name: str
    first: tuple[int, ...]
    second: tuple[int, ...]
    folder: Path | None = None
    strict: bool = False
    window: float = WINDOW

    def draw(self, load: float, duration: float, seed: int) -> DrawnData:
        """Take an excerpt of the trace, and compress it to so many seconds."""
        first_source, second_source = self._read_or_generate(seed)
        count = round(load * capacity(_EQUAL) * duration)
        times = second_source["time"].to_numpy()
        if count >= len(times):
            raise InputError(
                f"{self.name}: source 2 has {len(times):,} events, and a load of {load:g} for "
                f"{duration:g} s takes {count:,}; lower the load or bring more of the trace"
            )
        first = int(np.random.default_rng(seed).integers(len(times) - count))
        begin, end = int(times[first]), int(times[first + count])
        compression = (end - begin) / (duration * MICROSECONDS)
        tables = {
            name: _cut(table, begin, end, compression)
            for name, table in (("s1", first_source), ("s2", second_source))
        }
        return DrawnData(tables, compression)

    def traces(self) -> tuple[Trace, ...]:
        """Read the files, of which there must be some."""
        if self.folder is None:
            return ()
        return _read(self.folder, self.first, self.second, strict=self.strict)

    def _read_or_generate(self, seed: int) -> tuple[pa.Table, pa.Table]:
        if self.folder is not None:
            one, other = self.traces()
            return one.events, other.events
        like = (BorgLike(clusters=numbers, seed=seed) for numbers in (self.first, self.second))
        first, second = (
            make_borg_like(spec, _SECOND_SOURCE_IDS * i) for i, spec in enumerate(like)
        )
        return first, second


@lru_cache(maxsize=4)
def _read(
    folder: Path, first: tuple[int, ...], second: tuple[int, ...], *, strict: bool
) -> tuple[Trace, ...]:
    sources = [_parts(folder, numbers) for numbers in (first, second)]
    return read_sources(folder, sources, Reading(strict=strict))


def _parts(folder: Path, numbers: tuple[int, ...]) -> Source:
    """Take a file per cluster, or the public sample, which has all of them in one."""
    if (folder / _SAMPLE).is_file():
        return (FilePart(_SAMPLE, clusters=numbers),)
    return cluster_files(numbers)


def _cut(events: pa.Table, begin: int, end: int, compression: float) -> pa.Table:
    """Take what happened from a time until before another, and count time from there."""
    low, high = np.searchsorted(events["time"].to_numpy(), [begin, end])
    part = events.slice(low, high - low)
    times = np.floor((part["time"].to_numpy() - begin) / compression).astype(np.int64)
    return part.set_column(part.column_names.index("time"), "time", pa.array(times))


BALANCED = GeneratedData(name="balanced")
MIRRORED = GeneratedData(name="mirrored", first=_RISING, second=_FALLING)
EXAMPLE = GeneratedData(
    name="example",
    first=(4 / 8, 2 / 8, 1 / 8, 1 / 8),
    second=(6 / 17, 3 / 17, 4 / 17, 4 / 17),
    ratio=8 / 17,
)
SPARSE = GeneratedData(name="sparse", first=_RISING, second=_FALLING, window=0.04)
STEPS = SteppedData(name="steps", factors=(0.4, 1.0, 0.6, 2.0))
BURSTY = GeneratedData(name="bursty", in_bursts=True)
BORG_HALVES = TraceData(name="borg-halves", first=(1, 2, 3, 4), second=(5, 6, 7, 8))
BORG_ODD_EVEN = TraceData(name="borg-odd-even", first=(1, 3, 5, 7), second=(2, 4, 6, 8))


def with_trace(
    data: tuple[DataSet, ...], folder: Path | None, *, strict: bool
) -> tuple[DataSet, ...]:
    """Let the data sets that are of the trace read it from a folder, if there is one.

    Args:
        data: The data sets.
        folder: With the files, or with a folder `borg2019` that has them.
        strict: Whether a malformed row is an error.
    """
    if folder is not None and (folder / "borg2019").is_dir():
        folder = folder / "borg2019"
    return tuple(
        replace(one, folder=folder, strict=strict) if isinstance(one, TraceData) else one
        for one in data
    )


def describe_data_sets(data: tuple[DataSet, ...]) -> tuple[str, ...]:
    """Describe the data sets of the trace: how many events, and which rows were left out.

    Raises:
        InputError: A file is missing or cannot be read, or a row is malformed that must not be.
    """
    lines = []
    for one in data:
        if isinstance(one, TraceData) and one.folder is None:
            lines.append(f"{one.name}: streams like the trace stand in; --data reads the trace")
        elif isinstance(one, TraceData):
            lines += _describe_traces(one.name, one.traces())
    return tuple(lines)


def _describe_traces(name: str, traces: tuple[Trace, ...]) -> list[str]:
    events = sum(len(trace.events) for trace in traces)
    flaws = sum((Counter(trace.flaws) for trace in traces), Counter[Flaw]())
    lines = [
        f"{name}: {events:,} events of the trace; malformed rows left out: {flaws.total():,}"
    ]
    lines += [f"  {flaw.value}: {count:,}" for flaw, count in flaws.items()]
    named = [row for trace in traces for row in trace.malformed]
    lines += [f"  {row}" for row in named[:_MAX_NAMED]]
    if flaws.total() > _MAX_NAMED:
        lines.append(f"  and {flaws.total() - _MAX_NAMED:,} more")
    return lines

"""Data sets of keyed streams: keys that are not alike, in how many ways there are.

| data set    | its keys                                                                      |
|-------------|-------------------------------------------------------------------------------|
| `zipf`      | 10,000, as often as 1 / rank^1.2                                              |
| `half`      | one has half of the events, 1,000 others are alike                            |
| `yields`    | 2,000; half of them bring ten times the results of the others per event       |
| `phases`    | `yields`, and in the middle of the run the halves change places               |
| `chain`     | 200, in an application of three levels                                        |
| `rare`      | 2,000; an event in fifty closes what the others open                          |
| `borg-fail` | collections of clusters 3, 4 and 8 of the trace, ENABLE and FAIL; a stand-in  |
|             | is generated where there are no files                                         |

A load of 2 asks the bottleneck for two busy seconds per second, on average over the run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shedlight.engines.simulator import Service
from shedlight.errors import InputError
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern

NODE = "edge"
BOUND = 2.0
SECONDS_PER_EVENT = 0.004  # what an event takes at the bottleneck, on average
PAIR = Stream("P", "w")

_HOUR = 3600.0
_CLUSTERS = (3, 4, 8)
_HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedRun:
    """An application, its events, and how long they take."""

    application: Application
    events: pa.Table
    service: Service
    pace: float = 1.0  # how many times as fast events come as their times say


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedData:
    """A data set of generated events.

    Attributes:
        name: Its name in results.
        draw_keys: Draws the number of the key of each event, given how many and when they come
            as a part of the run.
        draw_types: Draws the types of events of these keys at these times.
        levels: How many levels the application has.
        window: Of the patterns, in seconds.
    """

    name: str
    draw_keys: Callable[[np.random.Generator, int], np.ndarray]
    draw_types: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
    levels: int = 1
    window: float = 10.0

    def draw(self, load: float, duration: float, seed: int, salt: int = 0) -> KeyedRun:
        """Draw a run of so many seconds; a salt gives the same keys other names."""
        rng = np.random.default_rng([seed, sum(map(ord, self.name))])
        number = rng.poisson(load * duration / SECONDS_PER_EVENT)
        times = np.sort(rng.random(number))
        keys = self.draw_keys(rng, number)
        names = np.random.default_rng([seed, salt]).permutation(1 << 20)
        events = pa.table(
            {
                "time": (times * duration * 1e6).astype(np.int64),
                "id": np.arange(number),
                "type": self.draw_types(rng, keys, times),
                "key": names[keys],
            }
        )
        return KeyedRun(
            application=keyed_application(self.window, self.levels),
            events=events,
            service=Service(seconds={PAIR: SECONDS_PER_EVENT}),
        )


def keyed_application(window: float, levels: int = 1, within: str = "s") -> Application:
    """Pairs of events of a key, and on further levels pairs of what the level before found."""
    frame = f"WITHIN {window:g} {within} PARTITION BY key"
    first = parse_pattern(f"SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) {frame}")
    operators = [
        OperatorSpec(name="w", node=NODE, inputs=(Stream("s"),), patterns={"P": first.pattern})
    ]
    for level in range(1, levels):
        before = operators[-1]
        below = next(iter(before.patterns))
        two = f"SEQ(a.source = '{below}', b.source = '{below}')"
        text = parse_pattern(f"SELECT a.key AS key WHERE {two} {frame}")
        operators.append(
            OperatorSpec(
                name=f"v{level}",
                node="core",
                inputs=(Stream(below, before.name),),
                patterns={f"P{level}": text.pattern},
            )
        )
    last = operators[-1]
    return build_application(
        "keyed",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name=NODE, bound=BOUND), *([Node(name="core")] if levels > 1 else [])],
        operators,
        [
            Sink(
                name="found",
                input=Stream(next(iter(last.patterns)), last.name),
                format="parquet",
                path="found",
            )
        ],
    )


def draw_uniform(keys: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Draw keys of which each is as likely as any other."""
    return lambda rng, number: rng.integers(keys, size=number)


def _zipf(rng: np.random.Generator, number: int) -> np.ndarray:
    shares = np.arange(1, 10_001) ** -1.2
    return rng.choice(len(shares), number, p=shares / shares.sum())


def _half(rng: np.random.Generator, number: int) -> np.ndarray:
    return np.where(rng.random(number) < _HALF, 0, rng.integers(1, 1_001, size=number))


def _closers(share: float) -> Callable[..., np.ndarray]:
    """Draw types of which a share closes what the others open."""
    return lambda rng, keys, _: (rng.random(len(keys)) < share).astype(np.int64)


def _two_yields(rng: np.random.Generator, keys: np.ndarray, _: np.ndarray) -> np.ndarray:
    closers = np.where(keys % 2 == 0, 0.5, 0.05)
    return (rng.random(len(keys)) < closers).astype(np.int64)


def _phases(rng: np.random.Generator, keys: np.ndarray, times: np.ndarray) -> np.ndarray:
    return _two_yields(rng, keys + (times > _HALF), times)


@dataclass(frozen=True, slots=True, kw_only=True)
class BorgFail:
    """Collections of the trace that are enabled and fail within an hour.

    Attributes:
        name: Its name in results.
        folder: Where the files are; None: a stand-in is generated.
    """

    name: str = "borg-fail"
    folder: Path | None = None

    def draw(self, load: float, duration: float, seed: int, salt: int = 0) -> KeyedRun:
        """Take an excerpt of the trace as long as a run, and feed it as fast as the load says.

        Events keep their times, so that an hour holds what it holds in the trace.
        """
        number = round(load * duration / SECONDS_PER_EVENT)
        events = stand_in(seed, 2 * number) if self.folder is None else read_fails(self.folder)
        if number > len(events):
            raise InputError(
                f"{self.name} has {len(events):,} events, and a load of {load:g} for "
                f"{duration:g} s takes {number:,}; lower the load or the duration"
            )
        first = int(np.random.default_rng(seed).integers(len(events) - number + 1))
        part = events.slice(first, number)
        times = part["time"].to_numpy()
        keys = part["key"].to_numpy() + salt * 1_000_003
        part = part.set_column(part.column_names.index("key"), "key", pa.array(keys))
        return KeyedRun(
            application=keyed_application(1, within="h"),
            events=part,
            service=Service(seconds={PAIR: SECONDS_PER_EVENT}),
            pace=max(1.0, float(times[-1] - times[0]) / 1e6 / duration),
        )


def read_fails(folder: Path) -> pa.Table:
    """Read the ENABLE and FAIL events of some clusters of the trace, by collection.

    Raises:
        InputError: A file is missing.
    """
    if (folder / "borg2019").is_dir():
        folder = folder / "borg2019"
    tables = []
    for cluster in _CLUSTERS:
        path = folder / f"cluster_{cluster}.parquet"
        if not path.is_file():
            raise InputError(f"{path} is missing; bring the trace, or leave --data out")
        rows = pq.read_table(path, columns=["time_us", "collection_id", "event"])
        tables.append(rows.filter(pc.field("event").isin(["ENABLE", "FAIL"])))
    rows = pa.concat_tables(tables).sort_by("time_us")
    return pa.table(
        {
            "time": rows["time_us"],
            "id": np.arange(len(rows)),
            "type": pc.equal(rows["event"], "FAIL").cast(pa.int64()),
            "key": rows["collection_id"],
        }
    )


def stand_in(seed: int, number: int) -> pa.Table:
    """Generate events like those: collections of very different sizes, few of which fail."""
    rng = np.random.default_rng([seed, number])
    sizes = np.ceil(rng.pareto(1.1, size=number)).astype(np.int64).clip(1, number // 50)
    keys = np.repeat(np.arange(number), sizes)[:number]
    failing = rng.random(number)[keys] ** 3  # how often an event of a collection is a FAIL
    begin = rng.random(number)[keys] * 20 * 24 * _HOUR
    times = begin + rng.exponential(0.7 * _HOUR, len(keys))
    order = np.argsort(times, kind="stable")
    return pa.table(
        {
            "time": (times[order] * 1e6).astype(np.int64),
            "id": np.arange(len(keys)),
            "type": (rng.random(len(keys)) < 0.6 * failing)[order].astype(np.int64),
            "key": keys[order],
        }
    )


ZIPF = KeyedData(name="zipf", draw_keys=_zipf, draw_types=_closers(0.5))
HALF = KeyedData(name="half", draw_keys=_half, draw_types=_closers(0.5))
YIELDS = KeyedData(
    name="yields", draw_keys=draw_uniform(2_000), draw_types=_two_yields, window=30
)
PHASES = replace(YIELDS, name="phases", draw_types=_phases)
CHAIN = KeyedData(
    name="chain", draw_keys=draw_uniform(200), draw_types=_closers(0.5), levels=3, window=30
)
RARE = KeyedData(
    name="rare", draw_keys=draw_uniform(2_000), draw_types=_closers(0.02), window=30
)
BORG_FAIL = BorgFail()

DATA_SETS: Mapping[str, KeyedData | BorgFail] = {
    each.name: each for each in (ZIPF, HALF, YIELDS, PHASES, CHAIN, RARE, BORG_FAIL)
}

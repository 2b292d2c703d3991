"""Keyed applications of two levels, their events, and their results by key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator import Service, Simulation, simulate
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.graph import Application, Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.language import parse_pattern
from shedlight.language.eval.column import to_column
from shedlight.matching.hashing import hash_keys
from shedlight.shedding.estimate import SinkEstimate
from shedlight.shedding.unshed_sample import choose_keys

PAIR, OTHER, BOTH = Stream("P", "w"), Stream("Q", "w"), Stream("X", "v")
KEYS = 1 << 40  # keys are drawn from so many


def keyed_application(window: float = 5.0, percentile: int | None = None) -> Application:
    """Pairs of events of a key at the edge, and pairs with another event behind it."""
    within = f"WITHIN {window:g} s PARTITION BY key"
    pairs = {
        PAIR: f"SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) {within}",
        OTHER: f"SELECT a.key AS of WHERE SEQ(a.type = 2, b.type = 3) {within}",
    }
    both = f"SELECT p.key AS key WHERE AND(p.source = 'P', a.type = 2) {within}"
    return build_application(
        "keyed",
        [Source(name="s", format="parquet", path="s", time="time", id=("n",))],
        [Node(name="edge", bound=2.0, percentile=percentile), Node(name="cloud")],
        [
            OperatorSpec(
                name="w",
                node="edge",
                inputs=(Stream("s"),),
                patterns={s.name: parse_pattern(t).pattern for s, t in pairs.items()},
            ),
            OperatorSpec(
                name="v",
                node="cloud",
                inputs=(PAIR, Stream("s")),
                patterns={"X": parse_pattern(both).pattern},
            ),
        ],
        [
            Sink(name=stream.name, input=stream, format="parquet", path=stream.name)
            for stream in (PAIR, OTHER, BOTH)
        ],
    )


def keyed_events(
    rng: np.random.Generator, number: int, keys: int, seconds: float, exponent: float = 0.0
) -> pa.Table:
    """Draw events of four types; how often a key comes falls with its rank."""
    shares = np.arange(1, keys + 1) ** -exponent
    names = rng.integers(KEYS, size=keys)
    return pa.table(
        {
            "time": np.sort(rng.choice(int(seconds * 1e6), number, replace=False)),
            "n": np.arange(number),
            "type": rng.integers(0, 4, number),
            "key": names[rng.choice(keys, number, p=shares / shares.sum())],
        }
    )


@dataclass(frozen=True)
class Found:
    """Results of a sink: their ids and their keys."""

    ids: list[str]
    keys: np.ndarray

    def of(self, keys: Iterable[int]) -> list[str]:
        """Give the ids of the results of some keys, sorted."""
        mine = np.isin(self.keys, list(keys))
        return sorted(name for name, is_mine in zip(self.ids, mine, strict=True) if is_mine)


def results_by_key(
    outputs: Mapping[Stream, pa.Table], events: pa.Table
) -> Mapping[Stream, Found]:
    """Find the key of each result by the first of its events, down to the source."""
    by_event = dict(zip(events["n"].to_pylist(), events["key"].to_pylist(), strict=True))
    found = {}
    for stream in (PAIR, OTHER, BOTH):
        table = outputs.get(stream)
        ids = [] if table is None else table["id"].to_pylist()
        firsts = [] if table is None else [listed[0] for listed in table["events"].to_pylist()]
        names = [
            (one["id"] if one["n"] is None else one["n"]) if isinstance(one, dict) else one
            for one in firsts
        ]
        keys = [by_event[name] for name in names]
        by_event |= dict(zip(ids, keys, strict=True))
        found[stream] = Found(ids, np.array(keys, np.int64))
    return found


@dataclass(frozen=True)
class Verdict:
    """What the sample says of a sink, and what is true of all keys but heavy hitters."""

    estimate: SinkEstimate
    recall: float
    rate: float
    keys: int  # of the sample, with results

    @property
    def covers_recall(self) -> bool:
        """Whether the true recall is in its interval."""
        known = self.estimate.recall
        return known is not None and known.low <= self.recall <= known.high

    @property
    def covers_rate(self) -> bool:
        """Whether the true rate is in its interval."""
        known = self.estimate.rate
        return known is not None and known.low <= self.rate <= known.high


def judge_run(seed: int, load: float, exponent: float, share: float) -> Mapping[str, Verdict]:
    """Simulate an overloaded application with a controller, and judge its sample.

    The truth is made of what a run without shedding finds, of what reached the sinks of other
    keys than the sample's, and of what the shadow found of the sample's.
    """
    rng = np.random.default_rng(seed)
    seconds = 60.0
    number, keys, window = (80_000, 10_000, 20.0) if exponent else (40_000, 2_000, 5.0)
    events = keyed_events(rng, number, keys, seconds, exponent)
    application = keyed_application(window)
    busy = load * seconds / number  # P and Q take half of the events each
    service = Service(seconds={PAIR: 2 * busy * 0.7, OTHER: 2 * busy * 0.3})

    def run(policy: ControllerPolicy | None, sample: float) -> Simulation:
        return simulate(
            application,
            {"s": events},
            service,
            interval=5.0,
            policy=policy,
            seed=seed,
            with_outputs=True,
            unshed_sample=sample,
        )

    done = run(ControllerPolicy(application), share)
    unshed = results_by_key(run(None, 0.0).outputs, events)
    got = results_by_key(done.outputs, events)
    left = {stream: set(table["id"].to_pylist()) for stream, table in done.masked.items()}
    keys, types = (events[name].to_numpy() for name in ("key", "type"))
    behind = np.concatenate([keys[types < 3], got[PAIR].keys])  # what P and X can take
    light = {
        PAIR: light_keys(behind),
        BOTH: light_keys(behind),
        OTHER: light_keys(keys[types > 1]),
    }
    in_sample = sampled_keys(events, share)
    verdicts = {}
    for stream in (PAIR, OTHER, BOTH):
        mine = light[stream] & in_sample
        all_ids = set(unshed[stream].of(light[stream]))
        kept = set(got[stream].of(light[stream] - in_sample)) | (left[stream] & all_ids)
        verdicts[stream.name] = Verdict(
            estimate=done.estimates[stream.name],
            recall=len(kept & all_ids) / len(all_ids),
            rate=len(all_ids) * 1e6 / float(np.ptp(events["time"].to_numpy())),
            keys=len(mine.intersection(unshed[stream].keys.tolist())),
        )
    return verdicts


def light_keys(work: np.ndarray) -> set[int]:
    """Find the keys with at most 0.1 % of the work, given the key of each bit of it."""
    keys, counts = np.unique(work, return_counts=True)
    return set(keys[counts <= 0.001 * len(work)].tolist())


def sampled_keys(events: pa.Table, share: float) -> set[int]:
    """Find the keys that are in the sample by their hashes."""
    keys = np.unique(events["key"].to_numpy())
    hashes, _ = hash_keys([to_column(pa.chunked_array([keys]))], len(keys))
    return set(keys[choose_keys(hashes, share)].tolist())

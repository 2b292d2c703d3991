"""What Spark says of a micro-batch, as a value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql.streaming.listener import StreamingQueryProgress

from shedlight.control.observation import StratumObservation
from shedlight.engines.spark.shed.sample_sql import read_keys
from shedlight.engines.spark.shed.strata_sql import KeyEvents, read_key_events
from shedlight.engines.spark.source.arrival import ARRIVED, ArrivalStats, read_arrival_stats
from shedlight.engines.spark.source.dead_letter import MALFORMED_ROWS
from shedlight.engines.spark.step.metrics import METRICS, METRICS_JSON, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch, merge_by_stream
from shedlight.shedding.estimate import SinkEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchReport:
    """A micro-batch of a node.

    Attributes:
        node: The node.
        number: Its id.
        start: When it began, in seconds since 1970.
        seconds: How long it took.
        arrived: What arrived, by operator and stream.
        kept_arrivals: When kept events had arrived, by stream; without those that kept none.
        shards: What was counted in the shards.
        malformed: How many records of each source were malformed and left out.
        keys: The hashes of keys that were looked at, by group of patterns with a key in common.
        unshed_sample: What the unshed sample says of sinks so far, now and then.
        key_events: What was looked at of keys that are shed in strata, by operator.
        strata: How many events and results strata of keys had, by operator.
    """

    node: str
    number: int
    start: float
    seconds: float
    arrived: Mapping[tuple[str, str], ArrivalStats]
    kept_arrivals: Mapping[str, ArrivalSketch]
    shards: tuple[ShardMetrics, ...]
    malformed: Mapping[str, int] = field(default_factory=dict)
    keys: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unshed_sample: Mapping[str, SinkEstimate] = field(default_factory=dict)
    key_events: Mapping[str, KeyEvents] = field(default_factory=dict)
    strata: Mapping[str, Mapping[str, StratumObservation]] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.seconds

    @property
    def events(self) -> int:
        """How many events were read."""
        each: dict[str, int] = {}
        for (_, stream), stats in self.arrived.items():
            each[stream] = max(each.get(stream, 0), stats.number)
        return sum(each.values())

    @property
    def kept(self) -> int:
        """How many of them some pattern kept."""
        return sum(sketch.number for sketch in self.kept_arrivals.values())

    @property
    def newest(self) -> float | None:
        """When the newest event arrived, in seconds since 1970."""
        times = [stats.newest for stats in self.arrived.values() if stats.newest is not None]
        return max(times) / 1e6 if times else None

    @property
    def oldest(self) -> float | None:
        """When the oldest event arrived, in seconds since 1970."""
        times = [stats.oldest for stats in self.arrived.values() if stats.oldest is not None]
        return min(times) / 1e6 if times else None

    @property
    def instants(self) -> int:
        """At how many instants its events arrived, as far as sketches of those kept tell."""
        samples = (sketch for shard in self.shards for sketch in shard.kept.values())
        return max((len(set(sketch.points)) for sketch in samples), default=0)

    @property
    def matching(self) -> float:
        """How long matching took in the slowest shard: shards run in parallel."""
        return max(map(_matching, self.shards), default=0.0)

    @property
    def parallelism_ratio(self) -> float:
        """Wall seconds over the seconds of all patterns in all shards."""
        total = sum(_matching(shard) / shard.parallelism_ratio for shard in self.shards)
        return self.matching / total if total else 1.0


def _matching(shard: ShardMetrics) -> float:
    """Say how many wall seconds matching took in a shard."""
    metrics = (pattern for of in shard.operators.values() for pattern in of.patterns.values())
    return sum(pattern.seconds for pattern in metrics) * shard.parallelism_ratio


def read_report(
    node: str, progress: StreamingQueryProgress, since: float = 0.0
) -> MicroBatchReport | None:
    """Read the progress of a node's query; None if no micro-batch was run.

    What was there before the run began (`since`, in seconds since 1970) arrived then.
    """
    observed = progress.observedMetrics
    if METRICS not in observed:
        return None
    rows = {name: row.asDict(recursive=True) for name, row in observed.items()}
    arrived, start = {}, round(since * 1e6)
    for name, row in rows.items():
        if name.startswith(ARRIVED):
            operator, stream = name.removeprefix(ARRIVED).split(" ", 1)
            arrived[operator, stream] = read_arrival_stats(row).not_before(start)
    shards = tuple(map(METRICS_JSON.validate_json, rows[METRICS][METRICS] or ()))
    return MicroBatchReport(
        node=node,
        number=progress.batchId,
        start=datetime.fromisoformat(progress.timestamp).timestamp(),
        # by Spark's wall clock, which may have been set meanwhile
        seconds=max(0.0, progress.durationMs["triggerExecution"] / 1e3),
        arrived=arrived,
        kept_arrivals={
            name: sketch.not_before(start) for name, sketch in _kept(shards).items()
        },
        shards=shards,
        malformed={
            name.removeprefix(MALFORMED_ROWS): row["number"]
            for name, row in rows.items()
            if name.startswith(MALFORMED_ROWS)
        },
        keys=read_keys(rows.values()),
        key_events=read_key_events(rows.values()),
    )


def _kept(shards: Iterable[ShardMetrics]) -> dict[str, ArrivalSketch]:
    """Merge the arrivals of what shards kept of each stream."""
    sketches: dict[str, list[ArrivalSketch]] = {}
    for shard in shards:
        for stream, sketch in shard.kept.items():
            sketches.setdefault(stream, []).append(sketch)
    return merge_by_stream(sketches)

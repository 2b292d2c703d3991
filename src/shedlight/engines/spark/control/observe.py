"""From micro-batches to an observation of the whole application.

Rates are events over the time in which they *arrived*, not over that in which they were read:
a query that is behind reads as fast as it can. The backlog of a node is how long its next
micro-batch takes if it reads all that has arrived meanwhile, for that is what an event that
arrives now waits.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shedlight.control.observation import Observation
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.stratum_rates import strata_rates
from shedlight.engines.spark.control.type_counts import count_types
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.step.metrics import of_pattern
from shedlight.engines.spark.support.placement import is_passthrough
from shedlight.graph import Stream
from shedlight.graph.application import parse_stream
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.snapshot import MicroBatchCosts
from shedlight.model.spark_costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationWindow:
    """The micro-batches of a node since the last observation."""

    node: PlannedNode  # the node's operators
    batches: tuple[MicroBatchReport, ...]  # the micro-batches, at least one
    window_start: float  # when the newest event before them had arrived, in seconds since 1970
    costs: Costs  # what a micro-batch costs

    @property
    def newest(self) -> float:
        """When the newest event arrived."""
        return max(
            (b.newest for b in self.batches if b.newest is not None), default=self.window_start
        )

    @property
    def span(self) -> float:
        """In how many seconds the events arrived, an idle time before them left out."""
        wall = self.batches[-1].end - self.batches[0].start
        if wall <= 0:  # the clock was set back
            wall = max(_MIN_WALL_S, sum(batch.seconds for batch in self.batches))
        span, oldest = self.newest - self.window_start, self.batches[0].oldest
        own = 0.0 if oldest is None else self.newest - oldest
        if oldest is not None and oldest - self.window_start > own + _IDLE_S:
            times = self.batches[0].instants  # the first of them has a time before it, too
            span = own * times / (times - 1) if times > 1 else 0.0
        return span if span > _MIN_SPAN * wall else wall

    @property
    def rate(self) -> float:
        """How many events arrive per second."""
        return sum(batch.events for batch in self.batches) / self.span


_IDLE_S = 2.0
"""When nothing arrived for so many seconds longer than it did, the source was idle before."""
_MIN_WALL_S = 0.1
"""How long micro-batches took, at least, of which a clock that was set says nothing."""
_MIN_SPAN = 0.1
"""Events that arrived in less than this part of the time are taken to have come all along."""


def backlog_of(window: ObservationWindow) -> float:
    """Say how long the next micro-batch of a node takes, in seconds."""
    batch, costs = window.batches[-1], window.costs
    waiting = max(0.0, batch.end - window.newest)
    return costs.fixed + waiting * _work(window)


def _work(window: ObservationWindow) -> float:
    """Add up the work that a second brings."""
    reading = window.costs.reading * sum(batch.events for batch in window.batches)
    return _busy(window) + reading / window.span


def observation_of(
    nodes: Mapping[str, ObservationWindow],
    time: float,
    key_histories: Mapping[str, KeyHistory] | None = None,
) -> Observation:
    """Make the observation of all nodes that have run micro-batches."""
    arrivals: dict[str, dict[Stream, dict[str, float]]] = {}
    kept, outputs, seconds = {}, {}, {}
    partial_matches = {}
    for window in nodes.values():
        arrivals.update(_arrivals(window))
        for stream in (s for chain in window.node.chains for s in chain.spec.placement.outputs):
            counted = _PatternRates(window, stream)
            kept[stream] = counted.kept
            outputs[stream] = counted.found
            partial_matches[stream] = counted.partial_matches
            if counted.seconds is not None:
                seconds[stream] = counted.seconds
    return Observation(
        time=time,
        interval=max(window.span for window in nodes.values()),
        arrivals=arrivals,
        kept=kept,
        outputs=outputs,
        processing_time=seconds,
        second_moment={stream: value * value for stream, value in seconds.items()},
        partial_matches=partial_matches,
        backlog={name: backlog_of(window) for name, window in nodes.items()},
        busy={name: _busy(window) for name, window in nodes.items()},
        latency={n: value for n, window in nodes.items() for value in _latencies(window)},
        micro_batch={
            name: MicroBatchCosts(window.costs.fixed, window.costs.reading)
            for name, window in nodes.items()
        },
        transport={name: window.costs.carrying for name, window in nodes.items()},
        strata={
            operator: strata
            for window in nodes.values()
            for operator, strata in strata_rates(window.batches, window.span).items()
        },
        key_histories=key_histories or {},
        event_bytes={s: n for window in nodes.values() for s, n in _event_bytes(window)},
    )


def _busy(window: ObservationWindow) -> float:
    matching = sum(batch.matching for batch in window.batches)
    carrying = window.costs.carrying * sum(batch.kept for batch in window.batches)
    return (matching + carrying) / window.span


def _event_bytes(window: ObservationWindow) -> Iterator[tuple[Stream, float]]:
    """Give the bytes of a complex event of each pattern of which other nodes got some."""
    found, sent = Counter[Stream](), Counter[Stream]()
    for batch in window.batches:
        for shard in batch.shards:
            for name, size in shard.sent.items():
                stream = parse_stream(name)
                pattern = shard.operators[str(stream.operator)].patterns[stream.name]
                found[stream] += pattern.found
                sent[stream] += size
    for stream, number in found.items():
        if number:
            yield stream, sent[stream] / number


def _latencies(window: ObservationWindow) -> list[float]:
    """Give the mean latency of what was kept; nothing, if nothing was."""
    total = number = 0.0
    for batch in window.batches:
        for sketch in batch.kept_arrivals.values():
            total += sketch.number * (batch.end - sketch.mean / 1e6)
            number += sketch.number
    return [total / number] if number else []


def _arrivals(window: ObservationWindow) -> dict[str, dict[Stream, dict[str, float]]]:
    """Give the rate of each type at each operator, from each input."""
    passed_through = {
        (spec.name, str(stream))
        for chain in window.node.chains
        for spec in chain.spec.placement.operators
        for stream in spec.inputs
        if is_passthrough(chain.spec, stream)
    }
    totals: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for batch in window.batches:
        for key, types in count_types(batch, window.node.catalogs).items():
            if types is not None:
                totals[key].update(types)
            elif key not in passed_through:  # shards count that when it is ready
                totals[key][OTHER] += batch.arrived[key].number
    return {
        spec.name: {
            stream: {
                label: count / window.span
                for label, count in totals[spec.name, str(stream)].items()
            }
            for stream in spec.inputs
        }
        for chain in window.node.chains
        for spec in chain.spec.placement.operators
    }


class _PatternRates:
    """What was counted of a pattern, per second."""

    def __init__(self, window: ObservationWindow, pattern: Stream) -> None:
        operator = str(pattern.operator)
        catalog = window.node.catalogs[operator]
        self.kept = dict.fromkeys(catalog.relevant_labels[pattern], 0.0)
        self.found = self.partial_matches = 0.0
        spent = number = 0.0
        for batch in window.batches:
            by_shard = of_pattern(batch.shards, operator, pattern.name)
            self.partial_matches = float(sum(shard.partial_matches for shard in by_shard))
            for shard in by_shard:
                for label, count in shard.kept.items():
                    self.kept[label] = self.kept.get(label, 0.0) + count / window.span
                    number += count
                self.found += shard.found / window.span
                spent += shard.seconds * batch.parallelism_ratio
        self.seconds = spent / number if number and spent else None

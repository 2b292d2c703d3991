"""From micro-batches to an observation of the whole application.

Rates are events over the time in which they *arrived*, not over that in which they were read:
a query that is behind reads as fast as it can. The backlog of a node is how long its next
micro-batch takes if it reads all that has arrived meanwhile, for that is what an event that
arrives now waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shedlight.control.observation import Observation
from shedlight.engines.spark.control.cost_fit import Costs
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.shed.type_sql import all_signatures
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.metrics import of_pattern
from shedlight.engines.spark.support.placement import is_passthrough
from shedlight.graph import Stream
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.snapshot import MicroBatchCosts

Labels = Mapping[str, Sequence[str]]
"""For each operator the label of each type, by its number."""


def labels_of(chains: Iterable[ChainRuntime]) -> dict[str, list[str]]:
    """Name the types of the operators of a node, where they have numbers."""
    found = {}
    for chain in chains:
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
            signatures = all_signatures(operator.alphabet)
            if signatures is not None:
                found[spec.name] = [operator.alphabet.label(one) or OTHER for one in signatures]
    return found


def uses_of(chains: Iterable[ChainRuntime]) -> dict[Stream, list[str]]:
    """Name the types that each pattern has a use for."""
    found = {}
    for chain in chains:
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
            signatures = all_signatures(operator.alphabet) or ()
            for stream, matcher in zip(spec.outputs, operator.matchers, strict=True):
                used = [operator.alphabet.label(s) for s in signatures if matcher.symbol(s)]
                found[stream] = list(dict.fromkeys(used))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationWindow:
    """The micro-batches of a node since the last observation.

    Attributes:
        chains: What the node runs.
        labels: The types of its operators.
        uses: The types that each pattern has a use for.
        batches: The micro-batches, at least one.
        since: When the newest event before them had arrived, in seconds since 1970.
        costs: What a micro-batch costs.
    """

    chains: tuple[ChainRuntime, ...]
    labels: Labels
    uses: Mapping[Stream, Sequence[str]]
    batches: tuple[MicroBatchReport, ...]
    since: float
    costs: Costs

    @property
    def newest(self) -> float:
        """When the newest event arrived."""
        return max((b.newest for b in self.batches if b.newest is not None), default=self.since)

    @property
    def span(self) -> float:
        """In how many seconds the events arrived, the silence before them left out."""
        wall = self.batches[-1].end - self.batches[0].start
        span, oldest = self.newest - self.since, self.batches[0].oldest
        own = 0.0 if oldest is None else self.newest - oldest
        if oldest is not None and oldest - self.since > own + _SILENCE:
            times = self.batches[0].instants  # the first of them has a time before it, too
            span = own * times / (times - 1) if times > 1 else 0.0
        return span if span > _LEAST * wall else wall

    @property
    def rate(self) -> float:
        """How many events arrive per second."""
        return sum(one.events for one in self.batches) / self.span


_SILENCE = 2.0
"""When nothing came for so many seconds longer than it came, the source was silent before."""
_LEAST = 0.1
"""Events that arrived in less than this part of the time are taken to have come all along."""


def backlog_of(watched: ObservationWindow) -> float:
    """Say how long the next micro-batch of a node takes, in seconds."""
    batch, costs = watched.batches[-1], watched.costs
    waiting = max(0.0, batch.end - watched.newest)
    return costs.fixed + waiting * _work(watched)


def _work(watched: ObservationWindow) -> float:
    """Add up the work that a second brings."""
    batches, costs = watched.batches, watched.costs
    matching = sum(one.matching for one in batches)
    carrying = costs.carrying * sum(one.kept for one in batches)
    reading = costs.reading * sum(one.events for one in batches)
    return (matching + carrying + reading) / watched.span


def observation_of(nodes: Mapping[str, ObservationWindow], time: float) -> Observation:
    """Put the micro-batches of all nodes together.

    Args:
        nodes: Those that have run any.
        time: Now, in seconds.
    """
    arrivals: dict[str, dict[Stream, dict[str, float]]] = {}
    kept, outputs, seconds = {}, {}, {}
    partial_matches = {}
    for watched in nodes.values():
        arrivals.update(_arrivals(watched))
        for stream in (s for chain in watched.chains for s in chain.spec.placement.outputs):
            counted = _Counted(watched, stream)
            kept[stream] = counted.kept
            outputs[stream] = counted.found
            partial_matches[stream] = counted.partial_matches
            if counted.seconds is not None:
                seconds[stream] = counted.seconds
    return Observation(
        time=time,
        interval=max(one.span for one in nodes.values()),
        arrivals=arrivals,
        kept=kept,
        outputs=outputs,
        processing_time=seconds,
        second_moment={stream: value * value for stream, value in seconds.items()},
        partial_matches=partial_matches,
        backlog={name: backlog_of(one) for name, one in nodes.items()},
        busy={name: _busy(one) for name, one in nodes.items()},
        latency={n: value for n, one in nodes.items() for value in _latencies(one)},
        micro_batch={
            name: MicroBatchCosts(one.costs.fixed, one.costs.reading)
            for name, one in nodes.items()
        },
        transport={name: one.costs.carrying for name, one in nodes.items()},
    )


def _busy(watched: ObservationWindow) -> float:
    matching = sum(one.matching for one in watched.batches)
    carrying = watched.costs.carrying * sum(one.kept for one in watched.batches)
    return (matching + carrying) / watched.span


def _latencies(watched: ObservationWindow) -> list[float]:
    """Give the mean latency of what was kept; nothing, if nothing was."""
    total = number = 0.0
    for batch in watched.batches:
        for one in batch.kept_arrivals.values():
            total += one.number * (batch.end - one.mean / 1e6)
            number += one.number
    return [total / number] if number else []


def _arrivals(watched: ObservationWindow) -> dict[str, dict[Stream, dict[str, float]]]:
    """Count what arrived at each operator, from each input, of each type."""
    found = {}
    for chain in watched.chains:
        made = set(chain.spec.placement.outputs)
        for spec in chain.spec.placement.operators:
            found[spec.name] = {
                stream: _in_shards(watched, spec.name, stream)
                if stream in made or is_passthrough(chain.spec, stream)
                else _from_outside(watched, spec.name, stream)
                for stream in spec.inputs
            }
    return found


def _from_outside(
    watched: ObservationWindow, operator: str, stream: Stream
) -> dict[str, float]:
    labels = watched.labels.get(operator)
    counts: dict[str, float] = {}
    for batch in watched.batches:
        one = batch.arrived.get((operator, str(stream)))
        if one is None:
            continue
        if labels is None:
            counts[OTHER] = counts.get(OTHER, 0.0) + one.number / watched.span
            continue
        for number, count in one.types.items():
            label = labels[number]
            counts[label] = counts.get(label, 0.0) + count / watched.span
    return counts


def _in_shards(watched: ObservationWindow, operator: str, stream: Stream) -> dict[str, float]:
    """Say what the shards have counted of complex events."""
    counts: dict[str, float] = {}
    for batch in watched.batches:
        for shard in batch.shards:
            metrics = shard.operators.get(operator)
            for label, count in (metrics.types.get(str(stream), {}) if metrics else {}).items():
                counts[label] = counts.get(label, 0.0) + count / watched.span
    return counts


class _Counted:
    """What was counted of a pattern."""

    def __init__(self, watched: ObservationWindow, stream: Stream) -> None:
        operator, name = str(stream.operator), stream.name
        self.kept = dict.fromkeys(watched.uses.get(stream, ()), 0.0)
        self.found = self.partial_matches = 0.0
        spent = number = 0.0
        for batch in watched.batches:
            metrics = of_pattern(batch.shards, operator, name)
            self.partial_matches = float(sum(one.partial_matches for one in metrics))
            for one in metrics:
                for label, count in one.kept.items():
                    self.kept[label] = self.kept.get(label, 0.0) + count / watched.span
                    number += count
                self.found += one.found / watched.span
                spent += one.seconds * batch.parallelism_ratio
        self.seconds = spent / number if number and spent else None

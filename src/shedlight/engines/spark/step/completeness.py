"""For which keys the streams of protected closures were whole so far, as a shard knows it.

Each micro-batch lowers the history of a pattern to the share that it kept. Events of sources
are shed before a shard sees them: from the watermark before the micro-batch on, and until the
latest timestamp of it, which the driver says with a later one. Until then the threshold is
open: it holds from its beginning on. What the operator of a pattern has matched stays as it
was then.

What other nodes kept comes with their watermarks, as steps between one watermark and the next.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shedlight.engines.spark.support.batch_plan import BatchPlan
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext
from shedlight.graph import OperatorSpec, Stream
from shedlight.graph.application import parse_stream
from shedlight.matching.operators.reorder import NEVER
from shedlight.shedding.guard import ClosureGuard
from shedlight.shedding.thresholds import BEGINNING, END, ThresholdHistory, least_of

Ranges = Mapping[Stream, tuple[int, int]]
"""Of streams from other nodes: from which time to which their new complex events are."""


@dataclass(frozen=True, slots=True)
class OpenThreshold:
    """A share of a pattern that holds from a time on, until it is known when it ended."""

    stream: Stream  # the pattern
    batch: int  # the last micro-batch that kept this share
    since: int  # from which event time on, in microseconds
    share: float  # for which share of keys it is whole


@dataclass(frozen=True, slots=True, eq=False)
class Completeness:
    """The histories of all streams that the guards of a chain depend on."""

    histories: Mapping[Stream, ThresholdHistory] = field(default_factory=dict)
    open: tuple[OpenThreshold, ...] = ()

    def lower(self, stream: Stream, start: int, end: int, share: float) -> "Completeness":
        """Lower the history of a stream between two times."""
        if share >= 1:
            return self
        old = self.histories.get(stream, ThresholdHistory())
        return replace(self, histories={**self.histories, stream: old.lower(start, end, share)})

    def history(self, stream: Stream) -> ThresholdHistory:
        """Give the history of a stream, with what is open."""
        history = self.histories.get(stream, ThresholdHistory())
        for each in self.open:
            if each.stream == stream:
                history = history.lower(each.since, END, each.share)
        return history

    def guard(self, chain: ChainSpec, stream: Stream, since: int) -> ClosureGuard:
        """Give the guard of a pattern for a batch after a watermark."""
        spec = chain.context.guards[stream]
        return ClosureGuard(spec, least_of(map(self.history, spec.streams)), since)

    def steps_text(self, streams: Iterable[Stream], start: int, end: int) -> str | None:
        """Write the histories of streams between two watermarks; None: all were whole."""
        begin = BEGINNING if start == NEVER else start
        steps = {
            str(stream): below
            for stream in streams
            if (below := [s for s in self.history(stream).between(begin, end) if s.share < 1])
        }
        return json.dumps(steps) if steps else None


def begin_batch(
    completeness: Completeness,
    chain: ChainSpec,
    plan: BatchPlan | None,
    ranges: Ranges,
    watermarks: Mapping[str, int],
) -> Completeness:
    """Take in what is known when a micro-batch begins: what ended, and what it keeps.

    The watermarks are those of the operators of the chain.
    """
    if plan is None:
        return completeness
    completeness = _close(completeness, chain, plan)
    for spec in chain.placement.operators:
        sources = [s for s in spec.inputs if s.operator is None]
        for stream in spec.outputs:
            share = plan.whole.get(stream, 1.0)
            if share >= 1:
                continue
            for start, end in (ranges[s] for s in spec.inputs if s in ranges):
                completeness = completeness.lower(stream, start, end, share)
            if sources:
                since = _since(chain, sources, plan, watermarks[spec.name])
                new = OpenThreshold(stream, plan.batch, since, share)
                completeness = replace(completeness, open=_joined(completeness.open, new))
    return completeness


def _since(chain: ChainSpec, sources: Sequence[Stream], plan: BatchPlan, watermark: int) -> int:
    """Say before which time an event of sources is late, with the watermark of the operator."""
    since = BEGINNING if watermark == NEVER else watermark
    if len(sources) == 1:  # by all of its events, not only those that came to this shard
        latest = plan.latest.get(sources[0].name, NEVER)
        since = max(since, latest - chain.inputs[sources[0]][0].lateness)
    return since


def _joined(
    thresholds: tuple[OpenThreshold, ...], new: OpenThreshold
) -> tuple[OpenThreshold, ...]:
    """Add a threshold; one of the same share goes on."""
    for each in thresholds:
        if each.stream == new.stream and each.share == new.share:
            joined = replace(new, since=min(each.since, new.since))
            return (*(other for other in thresholds if other != each), joined)
    return (*thresholds, new)


def _close(completeness: Completeness, chain: ChainSpec, plan: BatchPlan) -> Completeness:
    """End thresholds of micro-batches whose latest timestamps are known by now."""
    specs = {spec.name: spec for spec in chain.placement.operators}
    still_open = []
    for each in completeness.open:
        until = _until(specs[str(each.stream.operator)], plan)
        if each.batch > plan.after or until is None:
            still_open.append(each)
        else:
            completeness = completeness.lower(each.stream, each.since, until, each.share)
    return replace(completeness, open=tuple(still_open))


def _until(spec: OperatorSpec, plan: BatchPlan) -> int | None:
    """Say before which time all events of sources were; None: of one nobody knows."""
    sources = [s.name for s in spec.inputs if s.operator is None]
    if not all(name in plan.latest for name in sources):
        return None
    return 1 + max(plan.latest[name] for name in sources)


def end_batch(
    completeness: Completeness, chain: ChainSpec, watermarks: Mapping[str, int]
) -> Completeness:
    """Hold on to what operators have matched until their watermarks, and forget what is old."""
    still_open = []
    for each in completeness.open:
        watermark = watermarks[str(each.stream.operator)]
        completeness = completeness.lower(each.stream, each.since, watermark, each.share)
        still_open.append(replace(each, since=max(each.since, watermark)))
    lookback, oldest = chain.context.lookback, min(watermarks.values())
    histories = {
        stream: history.shorten(MAX_STEPS)
        if lookback is None or oldest == NEVER
        else history.forget_before(oldest - lookback)
        for stream, history in completeness.histories.items()
    }
    return Completeness(histories, tuple(still_open))


def begin_patterns(
    completeness: Completeness, context: NodeContext, since: int = 0
) -> Completeness:
    """Take patterns that came with a change after a version for whole from then on alone."""
    needed = {stream for guard in context.guards.values() for stream in guard.streams}
    for stream, time in context.versions.began(needed, since).items():
        histories = {s: h for s, h in completeness.histories.items() if s != stream}
        still_open = tuple(each for each in completeness.open if each.stream != stream)
        completeness = Completeness(histories, still_open).lower(stream, BEGINNING, time, 0.0)
    return completeness


MAX_STEPS = 10_000
"""How many steps of a history are kept where a guard looks back for ever."""


def add_steps(completeness: Completeness, text: str) -> Completeness:
    """Take in what came with the watermark of another node."""
    for name, steps in json.loads(text).items():
        for start, end, share in steps:
            completeness = completeness.lower(parse_stream(name), start, end, share)
    return completeness

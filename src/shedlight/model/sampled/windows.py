"""The window-aware model: the automaton itself, run over a stretch of random arrivals.

A selectivity function such as min(A / 2, B) ignores windows, order and chance. With few events
per window that is far from the truth: half of every type leaves a fifth of the matches. So
there is a second model that leaves nothing out: for each operator that a plan can change,
events are drawn at the rates of the snapshot, shares keep or drop them as the shedder would,
and the compiled matcher finds the matches, which are the events of the operators downstream.
The same events are drawn for every plan: two plans differ by what they keep, not by luck.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.errors import CapError
from shedlight.graph.application import Stream
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.jit import Array
from shedlight.matching.kernel.driver import FifoRun
from shedlight.matching.kernel.records import TIME
from shedlight.matching.kernel.tables import Events
from shedlight.model.arrays import Floats
from shedlight.model.model import Keep, Model, OperatorModel, PatternModel
from shedlight.model.rates import Rates, changeable
from shedlight.model.sampled import draw
from shedlight.model.sampled.runner import Runner, build_runner

DENSE_EVENTS_PER_WINDOW = 50.0
"""With so many events of every type per window, windows and chance matter no more."""
MAX_PATTERNS = 64  # how many patterns may be run; with more it takes too long
_WINDOWS = 120  # how many windows are drawn, if they have so many events
_MIN_EVENTS, _MAX_EVENTS = 16_000, 40_000
_MAX_BURSTY_EVENTS = 100_000  # how many are drawn at most where rates vary
_SEED = 0x57A7E

_NO_HASHES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSample:
    """Events of some seconds, the same for every plan that is tried on them."""

    model: Model  # the application
    seconds: float  # how many seconds
    per_window: float  # events of the rarest type that any pattern needs, per window
    # the patterns that are run: those whose output a plan can change, and those that feed them
    # if what they emit was not measured
    runners: Mapping[Stream, Runner]
    # what arrives at their operators whatever is planned
    drawn: Mapping[str, draw.SampledEvents]
    fixed: Mapping[str, float]  # what arrives per second at sinks whatever is planned


def sample_events(
    model: Model, nodes: Collection[str], unshed: Rates, history: draw.RateHistory | None = None
) -> WindowSample | None:
    """Draw events to try plans for some nodes on; the mean of the history is as in the model.

    None if windows make no difference or cannot be modelled: streams are dense, patterns are
    too many, or one is not known by its text, is shed by key or counts events.
    """
    run = _streams_to_run(model, changeable(model, nodes))
    operators = [op for op in model.operators.values() if _has_any(op, run)]
    patterns = [(op, p) for op in operators for p in op.patterns if p.stream in run]
    if len(patterns) > MAX_PATTERNS or not all(_can_run(pattern) for _, pattern in patterns):
        return None
    external = {op.name: _external_streams(op, run, unshed) for op in operators}
    total = sum(float(sum(each.values(), np.zeros(1)).sum()) for each in external.values())
    least = min(
        (_per_window(pattern, unshed) for _, pattern in patterns),
        default=DENSE_EVENTS_PER_WINDOW,
    )
    bursts = history if history is not None and history.varies else None
    if (least >= DENSE_EVENTS_PER_WINDOW and bursts is None) or total <= 0:
        return None
    longest = max(_window(pattern) for _, pattern in patterns)
    seconds = min(max(_WINDOWS * longest * total, _MIN_EVENTS), _MAX_EVENTS) / total
    if bursts is not None:
        seconds = bursts.seconds * max(1, round(seconds / bursts.seconds))
        if seconds * total > _MAX_BURSTY_EVENTS:
            return None
    try:
        runners = {p.stream: build_runner(operator, p) for operator, p in patterns}
    except CapError:
        return None
    rng = np.random.default_rng(_SEED)
    drawn = {op: draw.draw_events(s, seconds, rng, bursts) for op, s in external.items()}
    sinks = model.sinks.values()
    fixed = {sink.name: unshed.sinks[sink.name] for sink in sinks if sink.stream not in run}
    return WindowSample(model, seconds, least, runners, drawn, fixed)


def sampled_rates(sample: WindowSample, keep: Keep) -> Mapping[str, float]:
    """Find out what reaches each sink per second if patterns keep certain shares."""
    outputs: dict[Stream, Array] = {}
    for name, drawn in sample.drawn.items():
        operator = sample.model.operators[name]
        events = _arriving_events(operator, drawn, outputs)
        for pattern in operator.patterns:
            if pattern.stream in sample.runners:
                runner = sample.runners[pattern.stream]
                shares = keep.get(pattern.stream, np.ones(1))
                times = _run(pattern, runner, events, shares, sample.seconds)
                outputs[pattern.stream] = times
    return {
        sink.name: len(outputs[sink.stream]) / sample.seconds
        if sink.stream in outputs
        else sample.fixed[sink.name]
        for sink in sample.model.sinks.values()
    }


def _streams_to_run(model: Model, changed: Collection[Stream]) -> frozenset[Stream]:
    """Find the patterns to run: those that change, and what feeds them and is not measured."""
    run = set(changed)
    patterns = model.patterns
    for operator in reversed(list(model.operators.values())):
        if _has_any(operator, run):
            run.update(s for s in operator.feeds if patterns[s].measured is None)
    return frozenset(run)


def _has_any(operator: OperatorModel, streams: Collection[Stream]) -> bool:
    return any(pattern.stream in streams for pattern in operator.patterns)


def _can_run(pattern: PatternModel) -> bool:
    """Whether a pattern is known by its text, and events by their types say all of it."""
    text = pattern.pattern
    if text is None or pattern.key or text.partition_by or text.within is None:
        return False
    return text.within.unit is WindowUnit.TIME


def _window(pattern: PatternModel) -> float:
    """Give the window of a pattern that can run, in seconds."""
    within = pattern.pattern.within if pattern.pattern else None
    return within.length / draw.SECOND if within else 0.0


def _per_window(pattern: PatternModel, unshed: Rates) -> float:
    """Say how many events of the rarest type that a pattern needs there are per window."""
    needed = np.unique(pattern.demand.entry_use)
    rates = unshed.kept[pattern.stream][needed]
    return float(rates[rates > 0].min(initial=np.inf)) * _window(pattern)


def _external_streams(
    operator: OperatorModel, run: Collection[Stream], unshed: Rates
) -> Mapping[Stream, Floats]:
    """List what arrives at an operator per second but for what is run, by stream and type."""
    sources = {Stream(name): rates for name, rates in operator.sources.items()}
    feeds = {
        stream: unshed.outputs[stream] * spread
        for stream, spread in operator.feeds.items()
        if stream not in run
    }
    return {**sources, **feeds}


def _arriving_events(
    operator: OperatorModel, drawn: draw.SampledEvents, outputs: Mapping[Stream, Array]
) -> draw.SampledEvents:
    """Put what arrives at an operator in order of time."""
    parts = [drawn]
    for stream, spread in operator.feeds.items():
        if stream in outputs:
            times = outputs[stream]
            chances = draw.hash_chances(times, stream, draw.TYPE_CHANCE)
            types = np.searchsorted(np.cumsum(spread), chances, side="right").astype(np.int32)
            used = types < len(spread)
            chances = draw.hash_chances(times, stream, draw.SHED_CHANCE)
            parts.append(draw.SampledEvents(times[used], types[used], chances[used]))
    if len(parts) == 1:
        return drawn
    times = np.concatenate([part.time for part in parts])
    order = np.argsort(times, kind="stable")
    return draw.SampledEvents(
        times[order],
        np.concatenate([part.type for part in parts])[order],
        np.concatenate([part.chance for part in parts])[order],
    )


def _run(
    pattern: PatternModel,
    runner: Runner,
    events: draw.SampledEvents,
    shares: Floats,
    seconds: float,
) -> Array:
    """Give the times of the complex events of a pattern."""
    by_type = np.zeros(len(runner.symbols))
    by_type[pattern.demand.uses] = shares
    kept = events.chance < by_type[events.type]
    run = FifoRun(runner.matcher, runner.state, runner.state.tables)
    run.advance(
        Events(events.time[kept], events.type[kept], runner.symbols, _NO_HASHES, _NO_HASHES, 0),
        int(seconds * draw.SECOND),
    )
    matches = run.collector.all()[0][TIME]
    if runner.yields < 1:
        chances = draw.hash_chances(matches, pattern.stream, draw.YIELD_CHANCE)
        matches = matches[chances < runner.yields]
    return np.repeat(matches, max(1, round(pattern.emits)))

"""Rates through the graph: what each pattern emits if each keeps certain shares.

Selectivity functions are composed along the graph, operator by operator: what a pattern emits
is what arrives downstream. A pattern that no plan can change emits what was *measured*, not
what the model says.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, LazyArrays, dot, is_nothing, of_uses
from shedlight.model.model import Keep, Model, OperatorModel, PatternModel
from shedlight.model.selectivity.flow_lp import match_rate


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """What flows where, in events per second."""

    arrivals: Mapping[str, Floats]  # at each operator, of each of its types
    kept: Mapping[Stream, Floats]  # by each pattern, of each of its uses
    outputs: Mapping[Stream, float]  # complex events of each pattern
    sinks: Mapping[str, float]  # complex events at each sink


ChooseShares = Callable[[PatternModel, Floats], Floats | None]
"""Says which shares a pattern keeps, given what arrives of its uses; None: all."""


_WHOLE = 1 - 1e-9  # a share from which on nothing is shed, but for rounding
OnKept = Callable[[OperatorModel, PatternModel, Floats], None]  # is given what a pattern keeps


def predict(
    model: Model,
    keep: Keep | None = None,
    nodes: Collection[str] = (),
    *,
    unshed: Rates | None = None,
) -> Rates:
    """Predict all rates if patterns keep certain shares; all, where nothing is said.

    A plan is for some nodes: what comes out of patterns that are neither there nor downstream
    of there is as measured, if it was.
    """
    shares = keep or {}
    return propagate_rates(
        model, lambda pattern, _: shares.get(pattern.stream), nodes, unshed=unshed
    )


def propagate_rates(  # noqa: PLR0913  # one loop that many functions would hide
    model: Model,
    choose: ChooseShares,
    nodes: Collection[str] = (),
    *,
    unshed: Rates | None = None,
    on_kept: OnKept | None = None,
    changed: Collection[Stream] | None = None,
    outside: Mapping[Stream, float] | None = None,
) -> Rates:
    """Follow the graph from the sources to the sinks, with shares chosen on the way.

    Of a part of an application the patterns are given that the plan can change, and what those
    emit that are outside of it.

    Where the same arrives as at the `unshed` rates, it is taken from there: to look up the
    types of all patterns takes longer than the rest. What a pattern keeps is given to `on_kept`
    as soon as it is known, unless it is nothing: arrays are long, and this one is at hand.
    """
    changed = changeable(model, nodes) if changed is None else changed
    arrivals: dict[str, Floats] = {}
    offers: dict[Stream, Floats] = {}
    chosen: dict[Stream, Floats] = {}
    outputs: dict[Stream, float] = {} if outside is None else _Outputs(outside)
    key_shares: dict[Stream, _KeyShare] = {}
    not_whole: set[Stream] = set()
    for operator in model.operators.values():
        same = unshed if _is_fed_alike(operator, outputs, unshed) else None
        here = same.arrivals[operator.name] if same else operator_arrivals(operator, outputs)
        arrivals[operator.name] = here
        most = math.inf if operator.node in nodes else operator.capacity
        for pattern in operator.patterns:
            stream = pattern.stream
            offered = same.kept[stream] if same else of_uses(here, pattern.demand.uses)
            shares = choose(pattern, offered)
            if pattern.key:
                offered = _kept_by_key(operator, pattern, shares, outputs, key_shares)
            elif shares is not None:
                chosen[stream] = shares
            offers[stream] = offered
            kept = _any_kept(offered, chosen.get(stream))
            if on_kept and kept is not None:
                on_kept(operator, pattern, kept)
            fixed = None if stream in changed else pattern.measured
            if pattern.switches and _is_off(pattern, shares, not_whole):
                fixed = 0.0
            outputs[stream] = _emitted(pattern, kept, most) if fixed is None else fixed
    sinks = {sink.name: outputs[sink.stream] for sink in model.sinks.values()}

    def kept_of(stream: Stream) -> Floats:
        offered, shares = offers[stream], chosen.get(stream)
        return offered if shares is None else offered * shares

    return Rates(arrivals, LazyArrays(offers, kept_of), outputs, sinks)


class _Outputs(dict[Stream, float]):
    """What patterns emit, of those of a part and of those outside of it."""

    def __init__(self, outside: Mapping[Stream, float]) -> None:
        super().__init__()
        self._outside = outside

    def __missing__(self, stream: Stream) -> float:
        return self._outside[stream]


def _is_off(pattern: PatternModel, shares: Floats | None, not_whole: set[Stream]) -> bool:
    """Whether a pattern is a watcher that must emit nothing, for what it watches is not whole.

    `not_whole` gets the pattern if it is itself not whole.
    """
    if shares is not None and shares.min(initial=1.0) < _WHOLE:
        not_whole.add(pattern.stream)
    if not pattern.is_switched:
        return False
    watched = shares is None or shares[pattern.demand.watched].min(initial=1.0) >= _WHOLE
    return not watched or not not_whole.isdisjoint(pattern.members)


def _any_kept(offered: Floats, shares: Floats | None) -> Floats | None:
    """Say what is kept; None if it is nothing, as it often is and arrays are long."""
    if shares is None:
        return offered
    return None if is_nothing(shares) else offered * shares


def _emitted(pattern: PatternModel, kept: Floats | None, most: float) -> float:
    """Say how many complex events come of what is kept, if so many events can be processed."""
    matches = 0.0 if kept is None else match_rate(pattern.demand, kept)
    if most == math.inf:
        return pattern.yields * matches
    return min(pattern.yields * matches, pattern.emits * pattern.matches_per_event * most)


def _is_fed_alike(
    operator: OperatorModel, outputs: Mapping[Stream, float], other: Rates | None
) -> bool:
    """Whether the same comes from upstream as at other rates."""
    return other is not None and all(
        outputs[stream] == other.outputs[stream] for stream in operator.feeds
    )


def operator_arrivals(operator: OperatorModel, outputs: Mapping[Stream, float]) -> Floats:
    """Add up what arrives at an operator of each type."""
    total = np.zeros(len(operator.types))
    for rates in operator.sources.values():
        total += rates
    for stream, shares in operator.feeds.items():
        total += outputs[stream] * shares
    return total


def with_capacities(model: Model) -> Model:
    """Fill in what each operator can process, where the processing times are known."""
    arrivals = predict(model).arrivals
    operators = {
        name: replace(operator, capacity=_capacity(operator, arrivals[name]))
        for name, operator in model.operators.items()
    }
    return replace(model, operators=operators)


def _capacity(operator: OperatorModel, arrivals: Floats) -> float:
    """Find one over the mean processing time of an event (the paper's mu)."""
    if not all(pattern.is_timed for pattern in operator.patterns):
        return math.inf
    busy = sum(dot(arrivals[p.demand.uses], p.seconds) for p in operator.patterns)
    return float(arrivals[_used_types(operator)].sum()) / busy if busy else math.inf


def changeable(model: Model, nodes: Collection[str]) -> frozenset[Stream]:
    """Find the patterns whose output a plan for these nodes can change."""
    changed: set[Stream] = set()
    for operator in model.operators.values():
        if operator.node in nodes or not changed.isdisjoint(operator.feeds):
            changed.update(pattern.stream for pattern in operator.patterns)
    return frozenset(changed)


@dataclass(frozen=True, slots=True)
class _KeyShare:
    """By which key a pattern is shed, and the share of keys that is left after it."""

    key: str
    share: float


def _kept_by_key(
    operator: OperatorModel,
    pattern: PatternModel,
    shares: Floats | None,
    outputs: Mapping[Stream, float],
    key_shares: dict[Stream, _KeyShare],
) -> Floats:
    """Say what a pattern that is shed by key keeps of what arrives.

    Its share is one of all keys there are. What a pattern upstream has shed by the same key is
    not shed again, for the same keys go: `key_shares` says which share of them is left, and is
    filled in for this pattern.
    """
    uses = pattern.demand.uses
    share = 1.0 if shares is None or not len(shares) else float(shares.min())
    if pattern.group:  # a key that is not whole upstream is not looked at here
        taken = (s for s, spread in operator.feeds.items() if spread[uses].any())
        needed = pattern.members if pattern.watches else taken
        upstream = (key_shares[s] for s in needed if s in key_shares)
        share = min([share, *(each.share for each in upstream if each.key == pattern.key)])
    kept, arriving = np.zeros(len(uses)), 0.0
    for rates in operator.sources.values():
        kept += rates[uses] * share
        arriving = 1.0
    for stream, spread in operator.feeds.items():
        before = key_shares.get(stream)
        left = before.share if before and before.key == pattern.key else 1.0
        arriving = max(arriving, left)
        kept += outputs[stream] * spread[uses] * min(1.0, share / left if left else 1.0)
    key_shares[pattern.stream] = _KeyShare(pattern.key, min(share, arriving))
    return kept


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What arrives at a node, as a constant and a multiple of what each pattern emits."""

    used: float  # events per second from sources that a pattern uses
    read: float  # all events per second from sources
    # the share of each pattern's complex events that a pattern here uses
    shares: Mapping[Stream, float]

    def at(self, outputs: Mapping[Stream, float]) -> tuple[float, float]:
        """Add up what is used and what is read."""
        fed = sum(outputs[stream] * share for stream, share in self.shares.items())
        read = sum(outputs[stream] for stream in self.shares)
        return self.used + fed, self.read + read


def node_arrivals(model: Model, node: str) -> Arrivals:
    """Count what arrives at a node; a stream that several operators read is counted once.

    Operators may tell different types apart, so of such a stream the operator that uses most of
    it counts: the limit is then never too high.
    """
    used: dict[str, float] = {}
    read: dict[str, float] = {}
    shares: dict[Stream, float] = {}
    for operator in model.operators_on(node):
        relevant = _used_types(operator)
        for name, rates in operator.sources.items():
            used[name] = max(used.get(name, 0.0), float(rates[relevant].sum()))
            everything = float(rates.sum()) + operator.unused.get(name, 0.0)
            read[name] = max(read.get(name, 0.0), everything)
        for stream, spread in operator.feeds.items():
            shares[stream] = max(shares.get(stream, 0.0), float(spread[relevant].sum()))
    return Arrivals(sum(used.values()), sum(read.values()), shares)


def _used_types(operator: OperatorModel) -> Flags:
    used = np.zeros(len(operator.types), np.bool_)
    for pattern in operator.patterns:
        used[pattern.demand.uses] = True
        if used.all():
            break
    return used

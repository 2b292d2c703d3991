"""Strata of keys: a pattern as the sum of copies of itself, one for each stratum.

Matches never cross keys. So a pattern over all keys finds what its copies find, each over the
keys of one stratum with rates, costs and a yield of its own, and a program that plans patterns
plans copies as it stands. A heavy hitter is a stratum by itself: its copy has one key, so it is
shed by types and events, as a pattern without a key. All other keys are the *rest*.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats
from shedlight.model.model import (
    Keep,
    Model,
    NodeModel,
    OperatorModel,
    OperatorStrata,
    PatternModel,
    SheddingWay,
    SinkModel,
)
from shedlight.model.rates import Rates
from shedlight.model.selectivity.demand import MatchDemand

_MERGED = "(all strata)"  # the node of patterns that add copies up; it has no bound


@dataclass(frozen=True, slots=True, eq=False)
class StratumPlan:
    """What a pattern keeps of a stratum, by a plan."""

    name: str  # of the stratum
    way: SheddingWay  # how it is shed
    keep: Floats  # the share of each use
    rate: float  # relevant events per second that arrive
    # by openers only, the share of each use of keys that are open, and of others
    keep_open: Floats = field(default_factory=lambda: np.zeros(0))
    keep_others: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedModel:
    """A model of which some patterns are copied for each stratum.

    Attributes:
        model: The model with copies.
        source: The model without.
        copies: The copies of each pattern that has some, in the order of the strata.
    """

    model: Model
    source: Model
    copies: Mapping[Stream, tuple[Stream, ...]] = field(default_factory=dict)

    def strata_of(self, stream: Stream) -> OperatorStrata:
        """Give the strata of a pattern that has copies."""
        return self.source.strata[str(stream.operator)]

    def merge_rates(self, rates: Rates) -> Rates:
        """Add up the rates of copies."""
        if not self.copies:
            return rates
        arrivals, patterns = {}, self.source.patterns
        for name, operator in self.source.operators.items():
            mine = rates.arrivals[name]
            arrivals[name] = mine.reshape(-1, len(operator.types)).sum(0)
        kept = {s: self._sum(rates.kept, s) for s in patterns}
        outputs = {
            stream: sum(rates.outputs[copy] for copy in self.copies.get(stream, (stream,)))
            for stream in patterns
        }
        sinks = {
            name: rates.sinks[name]
            if name in rates.sinks
            else sum(rates.outputs[copy] for copy in self.copies[sink.stream])
            for name, sink in self.source.sinks.items()
        }
        return Rates(arrivals, kept, outputs, sinks)

    def _sum(self, values: Mapping[Stream, Floats], stream: Stream) -> Floats:
        total, *others = (values[copy] for copy in self.copies.get(stream, (stream,)))
        for other in others:
            total = total + other
        return total

    def merge_keep(self, keep: Keep, rates: Rates) -> Keep:
        """Give the mean share of each use over strata, by what arrives of each."""
        patterns = self.source.patterns
        merged = {s: shares for s, shares in keep.items() if s in patterns}
        for stream, copies in self.copies.items():
            if copies[0] not in keep:
                continue
            pattern = patterns[stream]
            size = len(self.source.operators[str(stream.operator)].types)
            arrivals = rates.arrivals[str(stream.operator)].reshape(-1, size)
            weights = arrivals[:, pattern.demand.uses] + 1e-12
            shares = np.array([keep[copy] for copy in copies])
            merged[stream] = np.minimum(1.0, (shares * weights).sum(0) / weights.sum(0))
        return merged

    def plans(self, keep: Keep, rates: Rates) -> Mapping[Stream, tuple[StratumPlan, ...]]:
        """Say what each pattern that has copies keeps of each stratum."""
        plans, patterns = {}, self.source.patterns
        for stream, copies in self.copies.items():
            if copies[0] in keep:
                strata, arriving = self.strata_of(stream), rates.arrivals[str(stream.operator)]
                by_stratum = arriving.reshape(len(copies), -1)[:, patterns[stream].demand.uses]
                plans[stream] = tuple(
                    StratumPlan(name, way, keep[copy], rate)
                    for name, way, copy, rate in zip(
                        strata.names,
                        strata.ways,
                        copies,
                        by_stratum.sum(1).tolist(),
                        strict=True,
                    )
                )
        return plans


def copy_stream(stream: Stream, stratum: str) -> Stream:
    """Name the copy of a pattern for a stratum.

    Example:
        >>> str(copy_stream(Stream("Q", "w"), "rest"))
        'w.Q @ rest'
    """
    return Stream(f"{stream.name} @ {stratum}", stream.operator)


def expand_strata(model: Model) -> ExpandedModel:
    """Copy the patterns of operators that have strata; without strata nothing changes."""
    if not model.strata:
        return ExpandedModel(model, model)
    copies: dict[Stream, tuple[Stream, ...]] = {}
    operators: dict[str, OperatorModel] = {}
    for name, operator in model.operators.items():
        strata = model.strata.get(name)
        if strata is None:
            operators[name] = operator
            continue
        operators[name] = _expand(operator, strata, copies)
        for pattern in operator.patterns:
            names = tuple(copy_stream(pattern.stream, each) for each in strata.names)
            copies[pattern.stream] = names
            if _is_read(model, pattern.stream):
                merging = _merge_copies(pattern, names)
                operators[merging.name] = merging
    nodes = {**model.nodes, _MERGED: NodeModel(name=_MERGED)}
    sinks = {each.name: each for sink in model.sinks.values() for each in _sinks(sink, copies)}
    expanded = replace(model, nodes=nodes, operators=operators, sinks=sinks, strata={})
    return ExpandedModel(expanded, model, copies)


def _sinks(sink: SinkModel, copies: Mapping[Stream, tuple[Stream, ...]]) -> Iterator[SinkModel]:
    """Let a sink without constraints take from each copy; one that has some, from their sum."""
    if sink.min_rate or sink.min_share or sink.stream not in copies:
        yield sink
        return
    for copy in copies[sink.stream]:
        yield replace(sink, name=f"{sink.name} of {copy}", stream=copy)


def _is_read(model: Model, stream: Stream) -> bool:
    """Whether a sink with constraints or an operator without strata takes what it finds."""
    return any(
        sink.stream == stream and (sink.min_rate or sink.min_share)
        for sink in model.sinks.values()
    ) or any(
        stream in operator.feeds and name not in model.strata
        for name, operator in model.operators.items()
    )


def _expand(
    operator: OperatorModel, strata: OperatorStrata, copies: Mapping[Stream, tuple[Stream, ...]]
) -> OperatorModel:
    """Tell types of different strata apart, and copy all patterns."""
    number = len(strata.names)
    feeds: dict[Stream, Floats] = {}
    for stream, spread in operator.feeds.items():
        if len(copies.get(stream, ())) == number:  # the same strata, for they have the same key
            for i, copy in enumerate(copies[stream]):
                feeds[copy] = np.kron(np.eye(number)[i], spread)
        else:
            feeds[stream] = (strata.split * spread).ravel()
    sources = {name: (strata.split * rates).ravel() for name, rates in operator.sources.items()}
    types = tuple(f"{label} @ {name}" for name in strata.names for label in operator.types)
    return replace(
        operator,
        types=types,
        sources=sources,
        feeds=feeds,
        patterns=tuple(_copies(operator, strata)),
    )


def _copies(operator: OperatorModel, strata: OperatorStrata) -> Iterator[PatternModel]:
    size = len(operator.types)
    for pattern in operator.patterns:
        factors = strata.calibration.get(pattern.stream)
        # what copies have in common is read once: there are many
        common = {each.name: getattr(pattern, each.name) for each in fields(pattern)}
        common["measured"] = None
        for i, (name, way) in enumerate(zip(strata.names, strata.ways, strict=True)):
            common["stream"] = copy_stream(pattern.stream, name)
            common["demand"] = pattern.demand.shift(i * size)
            common["key"] = "" if way is SheddingWay.EVENTS else pattern.key
            common["accepts"] = tuple(numbers + i * size for numbers in pattern.accepts)
            common["calibration"] = (
                pattern.calibration if factors is None else float(factors[i])
            )
            yield PatternModel(**common)


def _merge_copies(pattern: PatternModel, copies: tuple[Stream, ...]) -> OperatorModel:
    """Make an operator that emits what all copies of a pattern emit, under its name."""
    numbers = np.arange(len(copies))
    every = MatchDemand(
        uses=numbers,
        watched=np.zeros(len(copies), np.bool_),
        leaf_branch=np.zeros(1, np.int64),
        leaf_need=np.ones(1),
        entry_leaf=np.zeros(len(copies), np.int64),
        entry_use=numbers,
    )
    return OperatorModel(
        name=f"{pattern.stream} of all strata",
        node=_MERGED,
        types=tuple(map(str, copies)),
        sources={},
        feeds={copy: np.eye(len(copies))[i] for i, copy in enumerate(copies)},
        patterns=(
            PatternModel(stream=pattern.stream, demand=every, measured=pattern.measured),
        ),
    )

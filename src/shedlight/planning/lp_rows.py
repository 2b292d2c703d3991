"""The parts that every program for an application has: patterns, arrivals, outputs, worth.

Variables are the rates of patterns that the plan can change; everything else is a constant. A
pattern takes of a type at most what arrives, and what arrives is what patterns upstream emit: a
sum of variables, so no product of unknowns appears however many nodes are planned at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, Ints
from shedlight.model.latency import LatencyModel, Limit
from shedlight.model.lp import INFINITY, LinearProgram
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.model.rates import Arrivals, Rates, changeable, predict
from shedlight.model.selectivity.flow_lp import (
    FlowColumns,
    add_pattern,
    add_supply,
    taken_terms,
)


@dataclass(frozen=True, eq=False)
class ArrivalTerms:
    """What arrives at an operator, of each type.

    Attributes:
        fixed: Events per second that the plan does not change.
        feeds: The columns of the matches upstream that it does change, and how many events of
            each type here come of one.
        full: What arrives if nothing is shed.
    """

    fixed: Floats
    feeds: tuple[tuple[int, Floats], ...]
    full: Floats

    @cached_property
    def varies(self) -> Flags:
        """Which types the plan changes."""
        found = np.zeros(len(self.fixed), np.bool_)
        for _, spread in self.feeds:
            found |= spread > 0
        return found

    @cached_property
    def total(self) -> float:
        """What arrives of all types together if nothing is shed."""
        return float(self.full.sum())

    def of_type(self, number: int) -> tuple[list[int], list[float]]:
        """Give the changing part of one type, as columns and factors."""
        chosen = [(place, spread[number]) for place, spread in self.feeds if spread[number]]
        return [place for place, _ in chosen], [float(factor) for _, factor in chosen]


@dataclass(frozen=True, slots=True, eq=False)
class LpRows:
    """A program in the making.

    Attributes:
        model: The application.
        limits: Of the nodes that are planned.
        unshed: The rates if nothing is shed.
        patterns: All patterns.
        weights: What a complex event of a pattern is worth.
        changed: The patterns whose output the plan can change.
        program: The program.
        columns: The variables of each pattern.
        supplies: What arrives at each operator that has such patterns.
    """

    model: Model
    limits: Mapping[str, Limit]
    unshed: Rates
    patterns: Mapping[Stream, PatternModel]
    weights: Mapping[Stream, float]
    changed: frozenset[Stream]
    program: LinearProgram = field(default_factory=LinearProgram)
    columns: dict[Stream, FlowColumns] = field(default_factory=dict)
    supplies: dict[str, ArrivalTerms] = field(default_factory=dict)

    def planned(self) -> list[tuple[OperatorModel, PatternModel]]:
        """List the patterns of the nodes that are planned, with their operators."""
        return [
            (operator, pattern)
            for operator in self.model.operators.values()
            if operator.node in self.limits
            for pattern in operator.patterns
        ]


def build_lp_rows(
    model: Model,
    limits: Mapping[str, Limit],
    *,
    local: bool = False,
    unshed: Rates | None = None,
) -> LpRows:
    """Put variables and rows together for all patterns that a plan can change.

    Args:
        model: The application.
        limits: Of the nodes that are planned.
        local: Whether the output of these nodes counts, and not that of the sinks.
        unshed: The rates if nothing is shed, if they are known.
    """
    nodes = tuple(limits)
    assembly = LpRows(
        model,
        limits,
        unshed or predict(model, nodes=nodes),
        model.patterns,
        _worths(model, limits, local=local),
        changeable(model, nodes),
    )
    for operator in model.operators.values():
        if not any(pattern.stream in assembly.changed for pattern in operator.patterns):
            continue
        supply = _supply(assembly, operator)
        assembly.supplies[operator.name] = supply
        for pattern in operator.patterns:
            _add(assembly, operator, pattern, supply)
    for operator, pattern in assembly.planned():
        _add_output_row(assembly, operator, pattern)
    return assembly


def _supply(assembly: LpRows, operator: OperatorModel) -> ArrivalTerms:
    fixed = np.zeros(len(operator.types))
    for rates in operator.sources.values():
        fixed += rates
    feeds = []
    for stream, spread in operator.feeds.items():
        if stream in assembly.columns:
            place = assembly.columns[stream].legs
            feeds.append((place, spread * assembly.patterns[stream].yields))
        else:
            fixed += assembly.unshed.outputs[stream] * spread
    return ArrivalTerms(fixed, tuple(feeds), assembly.unshed.arrivals[operator.name])


def _add(
    assembly: LpRows, operator: OperatorModel, pattern: PatternModel, supply: ArrivalTerms
) -> None:
    """Add a pattern: its rates, what it may take of each type, what it may emit."""
    demand, program = pattern.demand, assembly.program
    upper = _most_matches(assembly, operator, pattern)
    if demand.is_plain:
        upper = min(upper, _most_of_fixed(assembly, pattern, supply))
    columns = add_pattern(
        program,
        demand,
        supply.total + 1.0,
        cost=pattern.yields * assembly.weights.get(pattern.stream, 0.0),
        upper=upper if len(demand.leaf_leg) else 0.0,
    )
    assembly.columns[pattern.stream] = columns
    if supply.feeds:
        uses, places, factors = taken_terms(demand, columns)
        chosen = supply.varies[demand.uses[uses]]
        terms = uses[chosen], places[chosen], factors[chosen]
        _add_varying(program, supply, demand.uses, terms)
    if not demand.is_plain:  # then what does not vary is more than an upper bound
        fixed, varies = supply.fixed[demand.uses], supply.varies[demand.uses]
        add_supply(program, demand, columns, fixed, ~varies)


def _most_of_fixed(assembly: LpRows, pattern: PatternModel, supply: ArrivalTerms) -> float:
    """Say how many matches a plain pattern can have of what the plan does not change."""
    if not supply.feeds and pattern.yields > 0:  # then as many as if nothing is shed
        return assembly.unshed.outputs[pattern.stream] / pattern.yields
    demand = pattern.demand
    wanted = demand.per_use
    bounded = (wanted > 0) & ~supply.varies[demand.uses]
    fixed = supply.fixed[demand.uses[bounded]]
    return float((fixed / wanted[bounded]).min(initial=INFINITY))


def _add_varying(
    program: LinearProgram, supply: ArrivalTerms, types: Ints, terms: tuple[Ints, Ints, Floats]
) -> None:
    """Bound what is taken of each use by what arrives, where that is itself variable."""
    uses, places, factors = terms
    for use in np.unique(uses):
        mine = uses == use
        feeds, spreads = supply.of_type(int(types[use]))
        program.add_row(
            np.concatenate([places[mine], np.array(feeds, np.int64)]),
            np.concatenate([factors[mine], np.negative(spreads)]),
            upper=float(supply.fixed[types[use]]),
        )


def _worths(
    model: Model, limits: Mapping[str, Limit], *, local: bool
) -> Mapping[Stream, float]:
    """Say what a complex event of each pattern is worth by itself; those not in it, nothing."""
    found: dict[Stream, float] = {}
    if local:
        return dict.fromkeys(
            (p.stream for node in limits for o in model.operators_on(node) for p in o.patterns),
            1.0,
        )
    for sink in model.sinks.values():
        found[sink.stream] = found.get(sink.stream, 0.0) + sink.weight
    return found


def _most_matches(assembly: LpRows, operator: OperatorModel, pattern: PatternModel) -> float:
    """Say how many matches an operator can find, as far as that is fixed: y <= f mu.

    For an operator that is planned by M/M/1, mu is 1 / p* = lambda + 1 / B; for one that is not
    planned, that of the snapshot.
    """
    limit = assembly.limits.get(operator.node)
    if limit is None:
        return operator.capacity / pattern.calibration
    if limit.target.latency is not LatencyModel.MM1 or not _is_fixed(assembly, limit):
        return INFINITY
    used, _ = limit.arrivals.at(assembly.unshed.outputs)
    return (used + 1 / limit.bound) / limit.target.aim / pattern.calibration


def _is_fixed(assembly: LpRows, limit: Limit) -> bool:
    """Whether the plan does not change what arrives at a node."""
    return assembly.changed.isdisjoint(limit.arrivals.shares)


def _add_output_row(assembly: LpRows, operator: OperatorModel, pattern: PatternModel) -> None:
    """Add y <= f mu for a planned operator whose arrivals the plan changes."""
    limit = assembly.limits[operator.node]
    if limit.target.latency is not LatencyModel.MM1 or _is_fixed(assembly, limit):
        return
    arrivals, aim = limit.arrivals, limit.target.aim
    fixed, places, factors = arrival_terms(assembly, arrivals)
    program = assembly.program
    program.add_row(
        [assembly.columns[pattern.stream].legs, *places],
        [pattern.calibration, *(-factor / aim for factor in factors)],
        upper=(fixed + 1 / limit.bound) / aim,
    )


def arrival_terms(
    assembly: LpRows, arrivals: Arrivals, *, read: bool = False
) -> tuple[float, list[int], list[float]]:
    """Give what arrives at a node as a constant, columns and factors."""
    total = arrivals.read if read else arrivals.used
    places, factors = [], []
    for stream, share in arrivals.shares.items():
        each = 1.0 if read else share
        if stream in assembly.columns:
            places.append(assembly.columns[stream].legs)
            factors.append(each * assembly.patterns[stream].yields)
        else:
            total += each * assembly.unshed.outputs[stream]
    return total, places, factors

"""The columns and rows that every program for an application has: patterns, arrivals, outputs.

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
from shedlight.model.lp import INFINITY, LinearExpression, LinearProgram
from shedlight.model.model import Model, OperatorModel, PatternModel, SinkModel
from shedlight.model.rates import Arrivals, Rates, changeable, predict
from shedlight.model.selectivity.flow_lp import (
    FlowColumns,
    UseTerms,
    add_pattern,
    add_use_rows,
    taken_terms,
)


@dataclass(frozen=True, eq=False)
class ArrivalTerms:
    """What arrives at an operator, of each type."""

    fixed: Floats  # events per second that the plan does not change
    # the columns of matches upstream that it changes, and the events of each type per match
    feeds: tuple[tuple[int, Floats], ...]
    full: Floats  # what arrives if nothing is shed

    @cached_property
    def varies(self) -> Flags:
        """Which types the plan changes."""
        varies = np.zeros(len(self.fixed), np.bool_)
        for _, spread in self.feeds:
            varies |= spread > 0
        return varies

    @cached_property
    def total(self) -> float:
        """What arrives of all types together if nothing is shed."""
        return float(self.full.sum())

    def of_type(self, number: int) -> tuple[list[int], list[float]]:
        """Give the changing part of one type, as columns and factors."""
        chosen = [(column, spread[number]) for column, spread in self.feeds if spread[number]]
        return [column for column, _ in chosen], [float(factor) for _, factor in chosen]


@dataclass(slots=True, eq=False)
class LpRows:
    """A program to which patterns are added one after the other, upstream first."""

    model: Model  # the application
    limits: Mapping[str, Limit]  # of the nodes that are planned
    unshed: Rates  # the rates if nothing is shed
    patterns: Mapping[Stream, PatternModel]  # all patterns
    weights: Mapping[Stream, float]  # what a complex event is worth by itself; 0 if not in it
    changed: frozenset[Stream]  # the patterns whose output the plan can change
    program: LinearProgram = field(default_factory=LinearProgram)  # the program
    columns: dict[Stream, FlowColumns] = field(default_factory=dict)  # of patterns added
    arrivals: dict[str, ArrivalTerms] = field(default_factory=dict)  # at their operators
    # the columns that say whether a watcher is on, and which share of keys a group keeps
    switches: dict[Stream, int] = field(default_factory=dict)
    shares: dict[str, int] = field(default_factory=dict)

    def planned(self) -> list[tuple[OperatorModel, PatternModel]]:
        """List the patterns of the nodes that are planned, with their operators."""
        return [
            (operator, pattern)
            for operator in self.model.operators.values()
            if operator.node in self.limits
            for pattern in operator.patterns
        ]

    def match_column(self, stream: Stream) -> int:
        """Give the column of a pattern's matches per second."""
        return self.columns[stream].branch_rates

    def switch_column(self, watcher: Stream) -> int:
        """Give the column that says whether a watcher is on; if not, it has no matches."""
        if watcher not in self.switches:
            switch = self.switches[watcher] = self.program.add_columns(
                1, upper=1.0, integer=True
            )
            most = self.arrivals[str(watcher.operator)].total + 1.0
            matches = self.match_column(watcher)
            self.program.add_row([matches, switch], [1.0, -most], upper=0.0)
            for other in self.patterns[watcher].switches:
                if other != watcher:  # which watches this one, or what it watches too
                    columns = [switch, self.switch_column(other)]
                    self.program.add_row(columns, [1.0, -1.0], lower=0.0)
        return self.switches[watcher]

    def share_column(self, pattern: PatternModel, least: float) -> int:
        """Give the column of the share of keys that a pattern keeps, with its group."""
        if not pattern.group:
            return self.program.add_columns(1, lower=least, upper=1.0)
        if pattern.group not in self.shares:
            self.shares[pattern.group] = self.program.add_columns(1, upper=1.0)
        share = self.shares[pattern.group]
        if least:
            self.program.add_row([share], [1.0], lower=least)
        return share

    def add_constraints(self, slack: Mapping[str, int] | None = None) -> None:
        """Add a row for what each sink must get, less a share (a column) that may be missed."""
        for sink in self.model.sinks.values():
            required = required_rate(sink, self.unshed)
            if required <= 0 or sink.stream not in self.columns:
                continue
            columns = [self.match_column(sink.stream)]
            factors = [self.patterns[sink.stream].yields]
            if slack:
                columns.append(slack[sink.name])
                factors.append(required)
            self.program.add_row(columns, factors, lower=required)

    def node_arrivals(self, arrivals: Arrivals, *, read: bool = False) -> LinearExpression:
        """Give what arrives at a node that patterns use, or all that is read."""
        total = arrivals.read if read else arrivals.used
        columns, factors = [], []
        for stream, share in arrivals.shares.items():
            counted = 1.0 if read else share
            if stream in self.columns:
                columns.append(self.match_column(stream))
                factors.append(counted * self.patterns[stream].yields)
            else:
                total += counted * self.unshed.outputs[stream]
        return LinearExpression(total, np.array(columns, np.int64), np.array(factors))


def required_rate(sink: SinkModel, unshed: Rates) -> float:
    """Say how many complex events per second the constraints of a sink ask for."""
    return max(sink.min_rate, sink.min_share * unshed.sinks[sink.name])


def build_lp_rows(
    model: Model,
    limits: Mapping[str, Limit],
    *,
    local: bool = False,
    unshed: Rates | None = None,
) -> LpRows:
    """Put variables and rows together for all patterns that a plan can change.

    Limits are those of the planned nodes; see `solve_reduced` for the rest.
    """
    nodes = tuple(limits)
    rows = LpRows(
        model,
        limits,
        unshed or predict(model, nodes=nodes),
        model.patterns,
        _weights(model, limits, local=local),
        changeable(model, nodes),
    )
    for operator in model.operators.values():
        if not any(pattern.stream in rows.changed for pattern in operator.patterns):
            continue
        arrivals = rows.arrivals[operator.name] = _arrival_terms(rows, operator)
        most = _most_events(rows, operator)
        for pattern in operator.patterns:
            _add(rows, pattern, arrivals, most)
    for operator in model.operators.values():
        _add_output_rows(rows, operator)
    return rows


def _weights(
    model: Model, limits: Mapping[str, Limit], *, local: bool
) -> Mapping[Stream, float]:
    if local:
        operators = (each for node in limits for each in model.operators_on(node))
        return {pattern.stream: 1.0 for each in operators for pattern in each.patterns}
    weights: dict[Stream, float] = {}
    for sink in model.sinks.values():
        weights[sink.stream] = weights.get(sink.stream, 0.0) + sink.weight
    return weights


def _arrival_terms(rows: LpRows, operator: OperatorModel) -> ArrivalTerms:
    fixed = sum(operator.sources.values(), np.zeros(len(operator.types)))
    feeds = []
    for stream, spread in operator.feeds.items():
        if stream in rows.columns:
            feeds.append((rows.match_column(stream), spread * rows.patterns[stream].yields))
        else:
            fixed += rows.unshed.outputs[stream] * spread
    return ArrivalTerms(fixed, tuple(feeds), rows.unshed.arrivals[operator.name])


def _add(
    rows: LpRows, pattern: PatternModel, arrivals: ArrivalTerms, most_events: float
) -> None:
    """Add a pattern: its rates, what it may take of each type, what it may emit."""
    demand, program = pattern.demand, rows.program
    upper = most_events * (pattern.matches_per_event / pattern.calibration)
    if demand.is_plain:
        upper = min(upper, _most_of_fixed(rows, pattern, arrivals))
    columns = rows.columns[pattern.stream] = add_pattern(
        program,
        demand,
        arrivals.total + 1.0,
        cost=pattern.yields * rows.weights.get(pattern.stream, 0.0),
        upper=upper if len(demand.leaf_branch) else 0.0,
    )
    if demand.is_plain and not arrivals.feeds:
        return
    terms, varies = taken_terms(demand, columns), arrivals.varies[demand.uses]
    if arrivals.feeds:
        _add_varying(program, arrivals, demand.uses, terms.restrict_to(varies))
    if not demand.is_plain:  # then what does not vary is more than an upper bound
        add_use_rows(program, terms.restrict_to(~varies), arrivals.fixed[demand.uses])


def _most_of_fixed(rows: LpRows, pattern: PatternModel, arrivals: ArrivalTerms) -> float:
    """Say how many matches a plain pattern can have of what the plan does not change."""
    if not arrivals.feeds and pattern.yields > 0:  # then as many as if nothing is shed
        return rows.unshed.outputs[pattern.stream] / pattern.yields
    demand = pattern.demand
    bounded = (demand.per_use > 0) & ~arrivals.varies[demand.uses]
    fixed = arrivals.fixed[demand.uses[bounded]]
    return float((fixed / demand.per_use[bounded]).min(initial=INFINITY))


def _add_varying(
    program: LinearProgram, arrivals: ArrivalTerms, types: Ints, terms: UseTerms
) -> None:
    """Bound what is taken of each use by what arrives, where that is itself variable."""
    for use in np.unique(terms.uses):
        mine = terms.uses == use
        feeds, spreads = arrivals.of_type(int(types[use]))
        program.add_row(
            np.concatenate([terms.columns[mine], np.array(feeds, np.int64)]),
            np.concatenate([terms.factors[mine], np.negative(spreads)]),
            upper=float(arrivals.fixed[types[use]]),
        )


def _most_events(rows: LpRows, operator: OperatorModel) -> float:
    """Say how many events an operator can process, as far as that is fixed: y <= f mu.

    For an operator that is planned by M/M/1, mu is 1 / p* = lambda + 1 / B; for one that is not
    planned, that of the snapshot.
    """
    limit = rows.limits.get(operator.node)
    if limit is None:
        return operator.capacity
    if limit.target.latency is not LatencyModel.MM1 or not _has_fixed_arrivals(rows, limit):
        return INFINITY
    used, _ = limit.arrivals.at(rows.unshed.outputs)
    return (used + 1 / limit.mean) / limit.target.aim


def _has_fixed_arrivals(rows: LpRows, limit: Limit) -> bool:
    """Whether the plan does not change what arrives at a node."""
    return rows.changed.isdisjoint(limit.arrivals.shares)


def _add_output_rows(rows: LpRows, operator: OperatorModel) -> None:
    """Add y <= f mu for a planned operator whose arrivals the plan changes."""
    limit = rows.limits.get(operator.node)
    if limit is None or limit.target.latency is not LatencyModel.MM1:
        return
    if _has_fixed_arrivals(rows, limit):
        return
    arrivals, aim = rows.node_arrivals(limit.arrivals), limit.target.aim
    for pattern in operator.patterns:
        events_per_match = pattern.calibration / pattern.matches_per_event
        rows.program.add_row(
            np.append(rows.match_column(pattern.stream), arrivals.columns),
            np.append(events_per_match, -arrivals.coefficients / aim),
            upper=(arrivals.constant + 1 / limit.mean) / aim,
        )

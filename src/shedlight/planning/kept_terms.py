"""What a pattern keeps of each type, in terms of a program's variables.

By event it is what its matches take. A type that is never to be shed, and one that a NOT
watches, is kept as it arrives, the latter only if the pattern is on at all: a pattern with a
NOT that does not see everything it watches finds what is not there. By key it is one share of
everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, dot, repeat_zero
from shedlight.model.lp import LinearExpression
from shedlight.model.model import OperatorModel, PatternModel
from shedlight.model.selectivity.demand import MatchDemand
from shedlight.model.selectivity.flow_lp import (
    NONE,
    FlowColumns,
    UseTerms,
    add_use_rows,
    taken_terms,
)
from shedlight.planning.lp_rows import ArrivalTerms, LpRows

RelaxedColumns = dict[tuple[str, int], int]
"""By operator and type: the column of the share of a type that is never to be shed, but is."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRateTerms:
    """What a pattern keeps: of each use a constant, and columns times factors."""

    fixed: Floats  # the constants
    terms: UseTerms  # the columns and factors
    share: int = NONE  # the column with the share of keys it keeps, or NONE

    def at(self, values: Floats) -> Floats:
        """Give the rates for values of the variables."""
        terms = self.terms
        kept = values[terms.columns] * terms.factors
        rates = self.fixed + np.bincount(terms.uses, kept, minlength=len(self.fixed))
        return np.maximum(rates, 0.0, out=rates)

    def weighted(self, weights: Floats) -> LinearExpression:
        """Add all uses up with weights."""
        columns, factors = self.terms.columns, self.terms.factors
        total = dot(self.fixed, weights)
        if not len(columns):
            return LinearExpression(total, columns, factors)
        low = int(columns.min())
        products = factors * weights[self.terms.uses]
        if low == int(columns.max()):
            return LinearExpression(total, columns[:1], np.array([products.sum()]))
        sums = np.asarray(np.bincount(columns - low, products), np.float64)
        nonzero = np.flatnonzero(sums)
        return LinearExpression(total, nonzero + low, sums[nonzero])


class NeedTerms(NamedTuple):
    """What a pattern keeps if it needs all its uses: of each its need times its matches."""

    demand: MatchDemand
    column: int  # of its matches
    share: int = NONE  # see `KeptRateTerms`

    @property
    def fixed(self) -> Floats:
        """The constants: none."""
        return repeat_zero(len(self.demand.uses))

    @property
    def terms(self) -> UseTerms:
        """The column and factors."""
        return taken_terms(self.demand, FlowColumns(self.column, NONE))

    def at(self, values: Floats) -> Floats:
        """Give the rates for values of the variables."""
        return max(0.0, float(values[self.column])) * self.demand.per_use

    def weighted(self, weights: Floats) -> LinearExpression:
        """Add all uses up with weights."""
        total = dot(self.demand.per_use, weights)
        return LinearExpression(0.0, np.array([self.column]), np.array([total]))


KeptTerms = KeptRateTerms | NeedTerms


@dataclass(frozen=True, slots=True, eq=False)
class LpSolution:
    """What the reduced program says, as rates that patterns keep."""

    terms: Mapping[Stream, KeptTerms]  # what each planned pattern keeps
    values: Floats  # the variables
    key_shares: Mapping[Stream, float]  # of patterns shed by key: the share of keys kept
    on: frozenset[Stream]  # the planned patterns that have any match
    objective: float  # what the patterns that the plan can change bring
    prices: Mapping[str, float]  # what one more busy second per second of each node would bring

    def is_off(self, stream: Stream) -> bool:
        """Whether a planned pattern surely keeps nothing."""
        terms = self.terms[stream]
        return isinstance(terms, NeedTerms) and bool(self.values[terms.column] <= 0)

    def kept(self, stream: Stream) -> Floats:
        """Give the rate at which a planned pattern keeps each of its uses."""
        return self.terms[stream].at(self.values)


def add_kept(
    rows: LpRows,
    operator: OperatorModel,
    pattern: PatternModel,
    relaxed: RelaxedColumns | None = None,
) -> KeptTerms:
    """Say what a planned pattern keeps, and add the variables and rows that this needs.

    Where columns are given, types that are never to be shed may be.
    """
    arrivals = rows.arrivals[operator.name]
    is_protected = len(pattern.protected) > 0 and bool(pattern.protected.any())
    missed = _missed_columns(operator, pattern, relaxed) if relaxed else []
    if pattern.key:
        by_key = _by_key(rows, pattern, arrivals, float(is_protected and relaxed is None))
        for column in missed:
            rows.program.add_row([by_key.share, column], [1.0, 1.0], lower=1.0)
        return by_key
    kept = _as_taken(rows, pattern)
    if pattern.is_switched:
        kept = _switched(rows, pattern, arrivals, kept)
    if pattern.switches and pattern.switches != (pattern.stream,):
        kept = _whole_if_on(rows, pattern, arrivals, kept)
    if missed:
        return _relaxed(rows, pattern, arrivals, kept, missed)
    return _protected(pattern, arrivals, kept, pattern.protected) if is_protected else kept


def _as_taken(rows: LpRows, pattern: PatternModel) -> KeptTerms:
    demand, columns = pattern.demand, rows.columns[pattern.stream]
    if demand.is_plain and isinstance(demand.required, slice):
        return NeedTerms(demand, columns.branch_rates)
    return KeptRateTerms(repeat_zero(len(demand.uses)), taken_terms(demand, columns))


def _by_key(
    rows: LpRows, pattern: PatternModel, arrivals: ArrivalTerms, least: float
) -> KeptRateTerms:
    """Keep one share of everything, and at least so much; matches come in proportion."""
    share = rows.share_column(pattern, least)
    for watcher in pattern.switches:
        rows.program.add_row([share, rows.switch_column(watcher)], [1.0, -1.0], lower=0.0)
    return limit_by_share(rows, pattern, arrivals, share)


def limit_by_share(
    rows: LpRows, pattern: PatternModel, arrivals: ArrivalTerms, share: int
) -> KeptRateTerms:
    """Let a pattern take at most a share, which is a column, of all that there is."""
    full = arrivals.full[pattern.demand.uses]
    columns = np.full(len(full), share)
    taken = taken_terms(pattern.demand, rows.columns[pattern.stream])
    add_use_rows(rows.program, taken, np.zeros(len(full)), (columns, -full))
    kept = UseTerms(np.arange(len(full)), columns, full)
    return KeptRateTerms(np.zeros(len(full)), kept, share=share)


def _switched(
    rows: LpRows, pattern: PatternModel, arrivals: ArrivalTerms, kept: KeptTerms
) -> KeptRateTerms:
    """Keep what is watched in full if the pattern is on; what goes into it is whole then."""
    demand, switch = pattern.demand, rows.switch_column(pattern.stream)
    watched = np.flatnonzero(demand.watched)
    columns = np.full(len(watched), switch)
    full = UseTerms(watched, columns, arrivals.full[demand.uses[watched]])
    terms = _joined(kept.terms.restrict_to(~demand.watched), full)
    return KeptRateTerms(kept.fixed, terms)


def _whole_if_on(
    rows: LpRows,
    pattern: PatternModel,
    arrivals: ArrivalTerms,
    kept: KeptTerms,
) -> KeptRateTerms:
    """Keep everything if a watcher that needs it is on, and else at least as before."""
    program, full = rows.program, arrivals.full[pattern.demand.uses]
    first = program.add_columns(len(full))
    others = [stream for stream in pattern.switches if stream != pattern.stream]
    terms, switches = kept.terms, [rows.switch_column(stream) for stream in others]
    for use, everything in enumerate(full):
        mine = terms.uses == use
        program.add_row(
            np.append(terms.columns[mine], first + use),
            np.append(-terms.factors[mine], 1.0),
            lower=float(kept.fixed[use]),
        )
        for switch in switches:
            program.add_row([first + use, switch], [1.0, -everything], lower=0.0)
    uses = np.arange(len(full))
    whole = UseTerms(uses, first + uses, np.ones(len(full)))
    return KeptRateTerms(np.zeros(len(full)), whole)


def _protected(
    pattern: PatternModel, arrivals: ArrivalTerms, kept: KeptTerms, protected: Flags
) -> KeptRateTerms:
    """Keep types that are never to be shed as they arrive."""
    numbers = pattern.demand.uses
    fixed = kept.fixed.copy()
    fixed[protected] = arrivals.fixed[numbers[protected]]
    varying = []
    for column, spread in arrivals.feeds:
        uses = np.flatnonzero(protected & (spread[numbers] > 0))
        varying.append(UseTerms(uses, np.full(len(uses), column), spread[numbers[uses]]))
    return KeptRateTerms(fixed, _joined(kept.terms.restrict_to(~protected), *varying))


def _missed_columns(
    operator: OperatorModel, pattern: PatternModel, relaxed: RelaxedColumns
) -> list[int]:
    """List the columns of the types that a pattern must never shed."""
    if not len(pattern.protected):
        return []
    numbers = pattern.demand.uses[pattern.protected]
    return [relaxed[operator.name, int(number)] for number in numbers]


def _relaxed(
    rows: LpRows,
    pattern: PatternModel,
    arrivals: ArrivalTerms,
    kept: KeptTerms,
    missed: list[int],
) -> KeptRateTerms:
    """Let some of what is never to be shed be shed, but nothing that must be kept anyway.

    The columns have the share of each such type that is shed.
    """
    program, terms, uses = rows.program, kept.terms, np.flatnonzero(pattern.protected)
    columns = program.add_columns(len(uses)) + np.arange(len(uses))
    for use, column, shed in zip(uses, columns, missed, strict=True):
        number, mine = int(pattern.demand.uses[use]), terms.uses == use
        program.add_row(
            np.append(terms.columns[mine], column),
            np.append(-terms.factors[mine], 1.0),
            lower=float(kept.fixed[use]),
        )
        feeds, spreads = arrivals.of_type(number)
        program.add_row(
            [int(column), shed, *feeds],
            [1.0, float(arrivals.full[number]), *(-spread for spread in spreads)],
            lower=float(arrivals.fixed[number]),
        )
    fixed = np.where(pattern.protected, 0.0, kept.fixed)
    free = UseTerms(uses, columns, np.ones(len(uses)))
    return KeptRateTerms(fixed, _joined(terms.restrict_to(~pattern.protected), free))


def _joined(*parts: UseTerms) -> UseTerms:
    arrays = zip(*((part.uses, part.columns, part.factors) for part in parts), strict=True)
    return UseTerms(*map(np.concatenate, arrays))

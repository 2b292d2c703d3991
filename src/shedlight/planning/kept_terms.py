"""What a pattern keeps of each type, in terms of a program's variables.

By event it is what its matches take. A type that is never to be shed, and one that a NOT
watches, is kept as it arrives, the latter only if the pattern is on at all: a pattern with a
NOT that does not see everything it watches finds what is not there. By key it is one share of
everything.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, Floats, Ints, dot, repeat_value
from shedlight.model.model import OperatorModel, PatternModel
from shedlight.model.selectivity.flow_lp import taken_terms
from shedlight.planning.lp_rows import ArrivalTerms, LpRows


@dataclass(frozen=True, slots=True, eq=False)
class KeptRateTerms:
    """What a pattern keeps: of each use a constant, and columns times factors.

    Attributes:
        fixed: The constants.
        uses: With `places` and `factors`: the terms.
        places: Their columns.
        factors: Their factors.
        switch: The column that says whether the pattern is on, or NONE.
        share: The column with the share of keys it keeps, or NONE.
        alone: The column of all terms, if there is just one for each use, in order, and no
            constants; or NONE.
    """

    fixed: Floats
    uses: Ints
    places: Ints
    factors: Floats
    switch: int = -1
    share: int = -1
    alone: int = -1

    def at(self, values: Floats) -> Floats:
        """Give the rates for values of the variables."""
        if self.alone != NONE:
            return np.asarray(values[self.alone] * self.factors)
        terms = values[self.places] * self.factors
        return self.fixed + np.bincount(self.uses, terms, minlength=len(self.fixed))

    def weighted(self, weights: Floats) -> tuple[float, Ints, Floats]:
        """Add all uses up with weights: a constant, columns and factors."""
        if self.alone != NONE:
            return 0.0, self.places[:1], np.array([dot(self.factors, weights)])
        total = dot(self.fixed, weights)
        if not len(self.places):
            return total, self.places, self.factors
        low = int(self.places.min())
        terms = self.factors * weights[self.uses]
        if low == int(self.places.max()):
            return total, self.places[:1], np.array([terms.sum()])
        sums = np.asarray(np.bincount(self.places - low, terms), np.float64)
        places = np.flatnonzero(sums)
        return total, places + low, sums[places]


NONE = -1


def add_kept(
    assembly: LpRows,
    operator: OperatorModel,
    pattern: PatternModel,
    relaxed: dict[tuple[str, int], int] | None = None,
) -> KeptRateTerms:
    """Say what a pattern keeps, and add the variables and rows that this needs.

    Args:
        assembly: The program so far; the pattern is in it.
        operator: The operator of the pattern.
        pattern: The pattern, on a node that is planned.
        relaxed: Columns that say which part of a type that is never to be shed is shed all
            the same, by operator and type; None if that must not be.
    """
    supply = assembly.supplies[operator.name]
    protected = pattern.protected
    if not len(protected):
        protected = np.zeros(len(pattern.demand.uses), np.bool_)
    if pattern.key:
        return _by_key(assembly, pattern, supply, protected, relaxed is not None)
    kept = _as_taken(assembly, pattern)
    if pattern.demand.has_not:
        kept = _switched(assembly, pattern, supply, kept)
    if protected.any():
        kept = _protected(pattern, supply, kept, protected)
        if relaxed:
            kept = _relaxed(kept, operator, pattern, supply, relaxed)
    return kept


def _as_taken(assembly: LpRows, pattern: PatternModel) -> KeptRateTerms:
    demand, columns = pattern.demand, assembly.columns[pattern.stream]
    uses, places, factors = taken_terms(demand, columns)
    alone = columns.legs if demand.is_plain and len(uses) == len(demand.uses) else NONE
    nothing = repeat_value(np.float64(0.0), len(demand.uses))
    return KeptRateTerms(nothing, uses, places, factors, alone=alone)


def _by_key(
    assembly: LpRows,
    pattern: PatternModel,
    supply: ArrivalTerms,
    protected: Flags,
    may_relax: bool,  # noqa: FBT001
) -> KeptRateTerms:
    """Keep one share of everything; matches come in proportion."""
    demand, program = pattern.demand, assembly.program
    lower = 1.0 if protected.any() and not may_relax else 0.0
    share = program.add_columns(1, lower=lower, upper=1.0)
    full = supply.full[demand.uses]
    uses, places, factors = taken_terms(demand, assembly.columns[pattern.stream])
    order = np.argsort(uses, kind="stable")
    present, sizes = np.unique(uses[order], return_counts=True)
    ends = np.cumsum(sizes)
    program.add_rows(
        sizes + 1,
        np.insert(places[order], ends, share),
        np.insert(factors[order], ends, -full[present]),
        upper=0.0,
    )
    everything = np.arange(len(full))
    columns = np.full(len(full), share)
    return KeptRateTerms(np.zeros(len(full)), everything, columns, full, share=share)


def _switched(
    assembly: LpRows, pattern: PatternModel, supply: ArrivalTerms, kept: KeptRateTerms
) -> KeptRateTerms:
    """Keep what is watched in full if the pattern is on, and let it have no match if not."""
    demand, program = pattern.demand, assembly.program
    switch = program.add_columns(1, upper=1.0, whole=True)
    leg = assembly.columns[pattern.stream].legs
    most = supply.total + 1.0
    program.add_row([leg, switch], [1.0, -most], upper=0.0)
    others = ~demand.watched[kept.uses]
    uses, places, factors = (part[others] for part in (kept.uses, kept.places, kept.factors))
    watched = np.flatnonzero(demand.watched)
    full = supply.full[demand.uses[watched]]
    columns = np.full(len(watched), switch)
    for i, use in enumerate(watched):
        feeds, spreads = supply.of_type(int(demand.uses[use]))
        if feeds:  # what arrives is variable: seen in full only if on
            seen = program.add_columns(1)
            program.add_row(
                [seen, switch, *feeds],
                [1.0, -full[i], *(-spread for spread in spreads)],
                lower=float(supply.fixed[demand.uses[use]] - full[i]),
            )
            columns[i] = seen
            full[i] = 1.0
    return KeptRateTerms(
        kept.fixed,
        np.concatenate([uses, watched]),
        np.concatenate([places, columns]),
        np.concatenate([factors, full]),
        switch=switch,
    )


def _protected(
    pattern: PatternModel,
    supply: ArrivalTerms,
    kept: KeptRateTerms,
    protected: Flags,
) -> KeptRateTerms:
    """Keep types that are never to be shed as they arrive."""
    others = ~protected[kept.uses]
    uses, places = [kept.uses[others]], [kept.places[others]]
    factors = [kept.factors[others]]
    fixed = kept.fixed.copy()
    fixed[protected] = supply.fixed[pattern.demand.uses[protected]]
    for place, spread in supply.feeds:
        mine = np.flatnonzero(protected & (spread[pattern.demand.uses] > 0))
        uses.append(mine)
        places.append(np.full(len(mine), place))
        factors.append(spread[pattern.demand.uses[mine]])
    return KeptRateTerms(
        fixed,
        np.concatenate(uses),
        np.concatenate(places),
        np.concatenate(factors),
        kept.switch,
    )


def _relaxed(
    kept: KeptRateTerms,
    operator: OperatorModel,
    pattern: PatternModel,
    supply: ArrivalTerms,
    relaxed: dict[tuple[str, int], int],
) -> KeptRateTerms:
    """Let some of what is never to be shed be shed all the same."""
    numbers = {int(number): use for use, number in enumerate(pattern.demand.uses)}
    mine = [
        (numbers[t], c, t)
        for (name, t), c in relaxed.items()
        if name == operator.name and t in numbers
    ]
    uses, places, types = (np.array([row[i] for row in mine], np.int64) for i in range(3))
    return KeptRateTerms(
        kept.fixed,
        np.concatenate([kept.uses, uses]),
        np.concatenate([kept.places, places]),
        np.concatenate([kept.factors, -supply.full[types]]),
        kept.switch,
    )


def switches(kept: dict[Stream, KeptRateTerms]) -> list[int]:
    """List the columns that say whether patterns are on."""
    return [one.switch for one in kept.values() if one.switch != NONE]

"""A pattern in a linear program, and its selectivity function evaluated.

A pattern of one branch whose leaves accept one type each is a minimum; one whose leaves compete
for types is the least over sets of leaves; anything else is a small linear program.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shedlight.model.arrays import Flags, Floats, Ints, repeat_value
from shedlight.model.lp import INFINITY, LinearProgram
from shedlight.model.selectivity.demand import MatchDemand

_MAX_LEAVES = 8  # how many leaves may compete for types if all sets of them are to be looked at
NONE = -1  # no column


class FlowColumns(NamedTuple):
    """Where the variables of a pattern begin in a program."""

    branch_rates: int  # the rates of its branches; the first is the rate of its matches
    # what flows by each entry; NONE if every leaf has one type, for then it is the need of the
    # leaf times the rate of its branch
    flows: int


@dataclass(frozen=True, slots=True, eq=False)
class UseTerms:
    """What a pattern takes of its uses: of each the sum of columns times factors."""

    uses: Ints  # the use of each term
    columns: Ints  # its column
    factors: Floats  # its factor

    def restrict_to(self, chosen: Flags) -> "UseTerms":
        """Leave only the terms of the chosen uses."""
        mine = chosen[self.uses]
        return UseTerms(self.uses[mine], self.columns[mine], self.factors[mine])


def add_pattern(
    program: LinearProgram,
    demand: MatchDemand,
    most: float,
    *,
    cost: float = 0.0,
    upper: float = INFINITY,
) -> FlowColumns:
    """Add a pattern's variables and the rows between them.

    A match is worth `cost`; there can be less than `most` matches per second, and there may be
    up to `upper`.
    """
    rates = program.add_column(cost=cost, upper=upper)
    if demand.splits:
        program.add_columns(demand.branch_count - 1)
    for split in demand.splits:
        branches = [rates + branch for branch in split.alternatives]
        if split.exclusive:
            _add_choice(program, branches, most)
        factors = [*([1.0] * len(branches)), -split.times]
        program.add_row([*branches, rates + split.branch], factors, lower=0.0, upper=0.0)
    if demand.is_fixed:
        return FlowColumns(rates, NONE)
    flows = program.add_columns(len(demand.entry_leaf))
    order = np.argsort(demand.entry_leaf, kind="stable")
    sizes = np.bincount(demand.entry_leaf, minlength=len(demand.leaf_branch))
    for leaf, columns in enumerate(np.split(flows + order, np.cumsum(sizes)[:-1])):
        rate, need = rates + int(demand.leaf_branch[leaf]), float(demand.leaf_need[leaf])
        needs = np.append(np.ones(len(columns)), -need)
        program.add_row(np.append(columns, rate), needs, lower=0.0, upper=0.0)
    return FlowColumns(rates, flows)


def _add_choice(program: LinearProgram, branches: list[int], most: float) -> None:
    """Let one branch alone stand for an OR: the paper's max."""
    first = program.add_columns(len(branches), upper=1.0, integer=True)
    switches = [first + i for i in range(len(branches))]
    program.add_row(switches, [1.0] * len(branches), lower=1.0, upper=1.0)
    for branch, switch in zip(branches, switches, strict=True):
        program.add_row([branch, switch], [1.0, -most], upper=0.0)


def taken_terms(demand: MatchDemand, columns: FlowColumns) -> UseTerms:
    """Say what a pattern takes of its uses."""
    if columns.flows != NONE:
        entries = len(demand.entry_leaf)
        return UseTerms(demand.entry_use, columns.flows + np.arange(entries), np.ones(entries))
    uses, branches, needs = demand.fixed_terms
    if demand.branch_count == 1:
        rates = repeat_value(np.int64(columns.branch_rates), len(uses))
        return UseTerms(uses, rates, needs)
    return UseTerms(uses, columns.branch_rates + branches, needs)


def add_use_rows(
    program: LinearProgram,
    terms: UseTerms,
    upper: Floats,
    extra: tuple[Ints, Floats] | None = None,
) -> None:
    """Add a row for each use that has terms: their sum is at most its upper bound.

    A column and a factor for each use, `extra`, may be added to its terms.
    """
    order = np.argsort(terms.uses, kind="stable")
    uses, sizes = np.unique(terms.uses[order], return_counts=True)
    columns, factors = terms.columns[order], terms.factors[order]
    if extra is not None:
        ends = np.cumsum(sizes)
        columns = np.insert(columns, ends, extra[0][uses])
        factors = np.insert(factors, ends, extra[1][uses])
        sizes = sizes + 1
    program.add_rows(sizes, columns, factors, upper=upper[uses])


def match_rate(demand: MatchDemand, kept: Floats) -> float:
    """Evaluate a selectivity function: matches per second from what is kept of each use."""
    if not len(demand.leaf_branch):
        return 0.0
    if demand.is_plain:
        kept, needs = kept[demand.required], demand.per_use[demand.required]
        return float(np.minimum.reduce(kept / needs))
    if not demand.splits and len(demand.leaf_branch) <= _MAX_LEAVES:
        return _least_over_sets(demand, kept)
    program = LinearProgram()
    columns = add_pattern(program, demand, float(kept.sum()) + 1.0, cost=1.0)
    add_use_rows(program, taken_terms(demand, columns), kept)
    return program.solve().objective


def _least_over_sets(demand: MatchDemand, kept: Floats) -> float:
    """Find the set of leaves that has least for what it needs (Hall)."""
    accepts = np.zeros((len(demand.leaf_branch), len(demand.uses)), np.bool_)
    accepts[demand.entry_leaf, demand.entry_use] = True
    least = INFINITY
    for chosen in range(1, 1 << len(accepts)):
        leaves = [i for i in range(len(accepts)) if chosen >> i & 1]
        supply = kept[accepts[leaves].any(axis=0)].sum()
        least = min(least, supply / demand.leaf_need[leaves].sum())
    return float(least)

"""A pattern in a linear program, and its selectivity function evaluated.

A pattern of one leg whose leaves accept one type each is a minimum; one whose leaves compete
for types is the least over sets of leaves; anything else is a small linear program.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.model.arrays import Flags, Floats, Ints, repeat_value
from shedlight.model.lp import INFINITY, LinearProgram
from shedlight.model.selectivity.demand import MatchDemand

_MOST_LEAVES = 8
NONE = -1


@dataclass(frozen=True, slots=True)
class FlowColumns:
    """Where the variables of a pattern begin in a program.

    Attributes:
        legs: Its legs; the first is the rate of its matches.
        flows: What flows by each entry; NONE if every leaf has one type, for then it is the
            need of the leaf times its leg.
    """

    legs: int
    flows: int


def add_pattern(
    program: LinearProgram,
    demand: MatchDemand,
    most: float,
    *,
    cost: float = 0.0,
    upper: float = INFINITY,
) -> FlowColumns:
    """Add a pattern's variables and the rows between them.

    Args:
        program: Where to.
        demand: The pattern.
        most: More matches per second than there can be.
        cost: What a match is worth.
        upper: How many matches there may be.
    """
    costs, uppers = np.zeros(demand.legs), np.full(demand.legs, INFINITY)
    costs[0], uppers[0] = cost, upper
    legs = program.add_columns(demand.legs, cost=costs, upper=uppers)
    for split in demand.splits:
        branches = [legs + branch for branch in split.branches]
        ones = [1.0] * len(branches)
        if split.exclusive:
            _add_choice(program, (legs + split.leg, split.times), branches, most)
        else:
            program.add_row(
                [*branches, legs + split.leg], [*ones, -split.times], lower=0.0, upper=0.0
            )
    if demand.is_fixed:
        return FlowColumns(legs, NONE)
    flows = program.add_columns(len(demand.entry_leaf))
    order = np.argsort(demand.entry_leaf, kind="stable")
    sizes = np.bincount(demand.entry_leaf, minlength=len(demand.leaf_leg))
    for leaf, places in enumerate(np.split(flows + order, np.cumsum(sizes)[:-1])):
        leg, need = legs + int(demand.leaf_leg[leaf]), float(demand.leaf_need[leaf])
        program.add_row(
            np.append(places, leg), np.append(np.ones(len(places)), -need), lower=0.0, upper=0.0
        )
    return FlowColumns(legs, flows)


def _add_choice(
    program: LinearProgram, whole: tuple[int, float], branches: list[int], most: float
) -> None:
    """Let one branch alone stand for an OR: the paper's max."""
    leg, times = whole
    chosen = program.add_columns(len(branches), upper=1.0, whole=True)
    switches = [chosen + i for i in range(len(branches))]
    program.add_row(switches, [1.0] * len(branches), lower=1.0, upper=1.0)
    for branch, switch in zip(branches, switches, strict=True):
        program.add_row([branch, switch], [1.0, -most], upper=0.0)
    program.add_row([leg, *branches], [times, *([-1.0] * len(branches))], lower=0.0, upper=0.0)


def taken_terms(demand: MatchDemand, columns: FlowColumns) -> tuple[Ints, Ints, Floats]:
    """Say what a pattern takes of its uses: entries (use, column, factor) to be added up."""
    if columns.flows != NONE:
        entries = len(demand.entry_leaf)
        return demand.entry_use, columns.flows + np.arange(entries), np.ones(entries)
    uses, legs, factors = demand.takes
    if demand.legs == 1:
        return uses, repeat_value(np.int64(columns.legs), len(uses)), factors
    return uses, columns.legs + legs, factors


def add_supply(
    program: LinearProgram,
    demand: MatchDemand,
    columns: FlowColumns,
    kept: Floats,
    chosen: Flags | None = None,
) -> None:
    """Bound what a pattern takes of each use, or of those chosen, by what is kept of it."""
    uses, places, factors = taken_terms(demand, columns)
    if chosen is not None:
        mine = chosen[uses]
        uses, places, factors = uses[mine], places[mine], factors[mine]
    order = np.argsort(uses, kind="stable")
    present, sizes = np.unique(uses[order], return_counts=True)
    program.add_rows(sizes, places[order], factors[order], upper=kept[present])


def match_rate(demand: MatchDemand, kept: Floats) -> float:
    """Evaluate a selectivity function: matches per second from what is kept of each use."""
    if not len(demand.leaf_leg):
        return 0.0
    if demand.is_plain:
        return float((kept[demand.wanted] / demand.per_use[demand.wanted]).min())
    if not demand.splits and len(demand.leaf_leg) <= _MOST_LEAVES:
        return _by_sets(demand, kept)
    program = LinearProgram()
    columns = add_pattern(program, demand, float(kept.sum()) + 1.0, cost=1.0)
    add_supply(program, demand, columns, kept)
    return program.solve().objective


def _by_sets(demand: MatchDemand, kept: Floats) -> float:
    """Find the set of leaves that has least for what it needs (Hall)."""
    accepts = np.zeros((len(demand.leaf_leg), len(demand.uses)), np.bool_)
    accepts[demand.entry_leaf, demand.entry_use] = True
    least = INFINITY
    for chosen in range(1, 1 << len(accepts)):
        members = [i for i in range(len(accepts)) if chosen >> i & 1]
        supply = kept[accepts[members].any(axis=0)].sum()
        least = min(least, supply / demand.leaf_need[members].sum())
    return float(least)

"""The automaton of a pattern with conditions across events, laid out for the scan kernel."""

from typing import NamedTuple

import numpy as np

from shedlight.matching.compile.dfa import DfaTables
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.bind import under_not, wanted

# What an element does with an event (`wants`), and what a symbol can do (`signs`).
TAKES, FORBIDS, OPENS = 1, 2, 4


class TransitionTable(NamedTuple):
    """The automaton as arrays.

    An element that takes an event leads from a state to others; a NOT leaves some (or none).
    """

    ends: Array  # [state * elements + element] where the targets begin, and end
    targets: Array
    accepts: Array
    wants: Array  # [symbol, element] TAKES, FORBIDS or 0
    signs: Array  # [symbol] FORBIDS if it has NOTs, OPENS if it can be the first of a match
    binds: Array  # [element] whether conditions mention it


def moves(matcher: Matcher, tables: DfaTables) -> TransitionTable:
    """Lay the automaton out as arrays."""
    automaton = matcher.automaton
    nots = under_not(automaton)
    targets: list[int] = []
    ends = [0]
    for number, state in enumerate(automaton.lanes[0]):
        left = dict(state.nots)
        for element in range(len(automaton.elements)):
            if nots[element]:
                targets += left.get(element, (number,))
            else:
                targets += [target for taker, target in state.edges if taker == element]
            ends.append(len(targets))
    wants = wanted(tables, len(automaton.elements)) * np.where(nots, FORBIDS, TAKES)
    first = [element for element, _ in automaton.lanes[0][0].edges]
    opens = (wants[:, first] == TAKES).any(axis=1) * OPENS
    binds = np.zeros(len(automaton.elements), np.bool_)
    for program in matcher.programs.programs:
        binds[list(program.elements)] = True
    return TransitionTable(
        np.array(ends, np.int32),
        np.array(targets, np.int32),
        np.array([state.accepts for state in automaton.lanes[0]], np.bool_),
        wants.astype(np.int8),
        ((wants == FORBIDS).any(axis=1) * FORBIDS | opens).astype(np.int8),
        binds,
    )

"""The automaton of a pattern with conditions across events, laid out for the scan kernel."""

from typing import NamedTuple

import numpy as np

from shedlight.matching.compile.dfa import DfaTables
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.bind import accepted_elements, under_not

# What an element does with an event (`accepts`), and what a symbol can do (`symbol_facts`).
TAKES, FORBIDS, OPENS = 1, 2, 4


class TransitionTable(NamedTuple):
    """The automaton as arrays.

    An element that takes an event leads from a state to others; a NOT leaves some (or none).
    """

    ends: Array  # [state * elements + element] where the targets begin, and end
    targets: Array
    accepting: Array
    accepts: Array  # [symbol, element] TAKES, FORBIDS or 0
    symbol_facts: (
        Array  # [symbol] FORBIDS if it has NOTs, OPENS if it can be the first of a match
    )
    binds: Array  # [element] whether conditions mention it


def build_transition_table(matcher: Matcher, tables: DfaTables) -> TransitionTable:
    """Lay the automaton out as arrays."""
    automaton = matcher.automaton
    nots = under_not(automaton)
    targets: list[int] = []
    ends = [0]
    for number, state in enumerate(automaton.regions[0]):
        left = dict(state.nots)
        for element in range(len(automaton.elements)):
            if nots[element]:
                targets += left.get(element, (number,))
            else:
                targets += [target for taker, target in state.edges if taker == element]
            ends.append(len(targets))
    accepts = accepted_elements(tables, len(automaton.elements)) * np.where(
        nots, FORBIDS, TAKES
    )
    first = [element for element, _ in automaton.regions[0][0].edges]
    opens = (accepts[:, first] == TAKES).any(axis=1) * OPENS
    binds = np.zeros(len(automaton.elements), np.bool_)
    for program in matcher.programs.programs:
        binds[list(program.elements)] = True
    return TransitionTable(
        np.array(ends, np.int32),
        np.array(targets, np.int32),
        np.array([state.accepting for state in automaton.regions[0]], np.bool_),
        accepts.astype(np.int8),
        ((accepts == FORBIDS).any(axis=1) * FORBIDS | opens).astype(np.int8),
        binds,
    )

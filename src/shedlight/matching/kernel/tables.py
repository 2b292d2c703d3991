"""What the kernels work with: tables and settings of a pattern, and the events."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.compile.dfa import DfaTables
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.bind import accepted_elements, under_not
from shedlight.matching.kernel.records import NONE

# What an element does with an event (`accepts`), and what a symbol can do (`symbol_facts`).
TAKES, FORBIDS, OPENS = 1, 2, 4
TAKER = 3
"""By how many bits to shift what is known of a symbol for the only element that takes it."""


FEW = 12
"""How many partial matches of a key are asked one after another, without an index."""

MAX_TRIES = 8
"""How many candidates an index looks up one by one before it lists them all."""


class KernelSettings(NamedTuple):
    """The settings of a pattern."""

    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    timed_out: bool  # whether partial matches that time out are written out
    cap: int  # most partial matches there may be
    few: int  # how many partial matches of a key are asked one after another
    tries: int  # how many candidates are looked up one by one before all are listed


class KernelTables(NamedTuple):
    """The tables of `dfa.py`, and what else the FIFO kernel knows of a pattern."""

    transitions: Array
    opens: Array
    after_not: Array
    subset_facts: Array
    symbol_facts: Array
    bits: Array
    regions: int
    single_event_regions: bool  # whether each of several regions is over with its first event
    one_taker: bool  # whether an event concerns one alone: no REUSE, NOT or window of events
    settings: KernelSettings


class Events(NamedTuple):
    """Ready events, in order, as one pattern sees them."""

    time: Array
    number: Array  # the type of each
    symbols: Array  # what the pattern calls each type
    hash1: Array  # of the key; empty where there are no keys
    hash2: Array
    row: int  # of the first event


class TransitionTable(NamedTuple):
    """The automaton as arrays.

    An element that takes an event leads from a state to others; a NOT leaves some (or none).
    """

    ends: Array  # [state * elements + element] where the targets begin, and end
    targets: Array
    accepting: Array
    accepts: Array  # [symbol, element] TAKES, FORBIDS or 0
    # [symbol] FORBIDS if it has NOTs, OPENS if it can be the first; and, by TAKER bits up, the
    # element that takes it and 1, 0 if there are several or none
    symbol_facts: Array
    binds: Array  # [element] whether conditions mention it
    fan: int  # most edges or alternatives of a state


def build_kernel_tables(matcher: Matcher, tables: DfaTables) -> KernelTables:
    """Put together what the FIFO kernel needs to know of a pattern."""
    settings = build_settings(matcher)
    counted = settings.events != NONE
    return KernelTables(
        tables.transitions,
        tables.opens,
        tables.after_not,
        tables.subset_facts,
        tables.symbol_facts,
        tables.bits,
        len(matcher.automaton.regions),
        matcher.automaton.single_event_regions,
        not (matcher.pattern.reuse or counted or tables.has_nots),
        settings,
    )


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
    takes = accepts == TAKES
    takers = np.where(takes.sum(axis=1) == 1, takes.argmax(axis=1) + 1, 0) << TAKER
    edges = [len(state.edges) for state in automaton.regions[0]]
    lefts = [len(left) for state in automaton.regions[0] for _, left in state.nots]
    binds = np.zeros(len(automaton.elements), np.bool_)
    for program in matcher.programs.programs:
        binds[list(program.elements)] = True
    return TransitionTable(
        np.array(ends, np.int32),
        np.array(targets, np.int32),
        np.array([state.accepting for state in automaton.regions[0]], np.bool_),
        accepts.astype(np.int8),
        ((accepts == FORBIDS).any(axis=1) * FORBIDS | opens | takers).astype(np.int32),
        binds,
        max(edges + lefts),
    )


@lru_cache(maxsize=4096)  # a matcher is itself alone, and patterns are visited often
def build_settings(matcher: Matcher) -> KernelSettings:
    """Put together what a pattern asks of any kernel."""
    window = matcher.pattern.within
    length = {window.unit: window.length} if window else {}
    return KernelSettings(
        length.get(WindowUnit.TIME, NONE),
        length.get(WindowUnit.EVENTS, NONE),
        matcher.pattern.reuse,
        matcher.automaton.absence,
        matcher.timed_out,
        matcher.cap,
        FEW,
        MAX_TRIES,
    )

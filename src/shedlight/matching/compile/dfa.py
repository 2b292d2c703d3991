"""The automaton made deterministic over the symbols that occur (the subset construction).

A *symbol* is what an event is to one pattern: the elements whose conditions it meets. Machines
in the same set of states are alike, so a set of states gets a number of its own and the tables
say where each symbol leads. Only symbols that have occurred are in the tables; a new one makes
larger tables in which the old numbers still hold.

There can be very many sets of states, of which a stream visits few. So a few hundred are
explored ahead; when a machine gets into one that is not, the kernel stops and `explored` goes
on from there.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shedlight.errors import CapError
from shedlight.matching.compile.nfa import Automaton, State
from shedlight.matching.jit import Array

MOST_CELLS = 30_000_000
"""How many entries a table may have."""
AHEAD = 256
"""How many sets of states are explored before they are needed."""

Symbol = frozenset[int]
Subset = tuple[int, frozenset[int]]
"""A lane and the states in it that a machine may be in."""

NOWHERE = -1


MOVE = np.dtype(
    [
        ("after", "i4"),  # the subset after taking the event, or NOWHERE
        ("who", "i4"),  # the element that takes it, or -1 if several could
        ("lane", "i4"),  # the lane of the subsets before and after
        ("accepts", "i4"),  # how many more lanes accept: -1, 0 or 1
        ("waits", "i4"),  # whether machines in the subset after must be found by later events
        ("known", "i4"),  # whether the subset after is explored
    ],
    align=True,
)
# What `DfaTables.facts` says of a subset:
ACCEPTS, WAITS, KNOWN = range(3)
# What `DfaTables.signs` says of a symbol:
SPOILS, CLOSES = range(2)
# What `DfaTables.bits` says of a symbol, a bit per subset:
TAKERS, SPOILED = range(2)


@dataclass(frozen=True, slots=True, eq=False)
class DfaTables:
    """Where each symbol leads from each set of states.

    Attributes:
        symbols: The symbols by number; 0 is the one that no element wants.
        subsets: The sets of states by number; first the start of each lane.
        moves: [subset, symbol] what taking an event does (MOVE).
        opens: [symbol] what opening a machine with it does (MOVE).
        spoil: [subset, symbol] the subset after its NOTs, itself if they change nothing, or
            NOWHERE.
        facts: [.., subset] ACCEPTS: whether it accepts; WAITS: whether machines in it must be
            found by later events; KNOWN: whether it is explored.
        signs: [.., symbol] SPOILS: whether its NOTs change anything; CLOSES: whether they close
            every machine of the key.
        bits: [.., symbol, word] TAKERS: the subsets that can take it; SPOILED: the subsets that
            its NOTs change.
    """

    symbols: tuple[Symbol, ...]
    subsets: tuple[Subset, ...]
    moves: Array
    opens: Array
    spoil: Array
    facts: Array
    signs: Array
    bits: Array
    entries: dict[tuple[Subset, Symbol], "Entry"]
    """What has been found out about sets of states, kept for larger tables."""


Entry = tuple[Subset | None, int, Subset | None]
"""Where a symbol leads, by which element, and what its NOTs leave."""


def build_tables(
    automaton: Automaton,
    symbols: Iterable[Symbol] = (),
    subsets: Iterable[Subset] = (),
    known: Iterable[int] = (),
) -> DfaTables:
    """Make the tables for these symbols; numbers follow the order given.

    Args:
        automaton: The pattern.
        symbols: Symbols that occur; the empty one comes first in any case.
        subsets: Sets of states that keep their numbers.
        known: The numbers of those that must be explored.
    """
    return _built(automaton, tuple(symbols), tuple(subsets), tuple(known), {})


def with_symbols(
    automaton: Automaton, tables: DfaTables, symbols: Iterable[Symbol]
) -> DfaTables:
    """Make tables that have more symbols."""
    more = (*tables.symbols, *symbols)
    return _built(automaton, more, tables.subsets, known_subsets(tables), tables.entries)


def explored(automaton: Automaton, tables: DfaTables, wanted: Iterable[int]) -> DfaTables:
    """Make tables in which some sets of states are explored, and some beyond them."""
    known = (*known_subsets(tables), *wanted)
    return _built(automaton, tables.symbols, tables.subsets, known, tables.entries)


def known_subsets(tables: DfaTables) -> tuple[int, ...]:
    """List the sets of states that are explored."""
    return tuple(np.flatnonzero(tables.facts[KNOWN]).tolist())


def _built(
    automaton: Automaton,
    symbols: tuple[Symbol, ...],
    subsets: tuple[Subset, ...],
    known: tuple[int, ...],
    entries: dict[tuple[Subset, Symbol], Entry],
) -> DfaTables:
    alphabet = tuple(dict.fromkeys((Symbol(), *symbols)))
    starts = [(lane, frozenset({0})) for lane in range(len(automaton.lanes))]
    numbers: dict[Subset, int] = {}
    for subset in (*starts, *subsets):
        numbers.setdefault(subset, len(numbers))
    rows: dict[int, list[Entry]] = {}
    if not automaton.pattern.conditions:  # the scan kernel needs symbols alone
        first = dict.fromkeys((*range(len(starts)), *known))
        rows = _rows(automaton, alphabet, numbers, tuple(first), entries)
    if len(numbers) * len(alphabet) > MOST_CELLS:
        raise CapError(
            f"the pattern needs more than {MOST_CELLS:,} transitions; make its ANDs of "
            "fewer parts that may take the same event, or its repetitions shorter"
        )
    return _tables(automaton, alphabet, numbers, rows, entries)


def _rows(
    automaton: Automaton,
    alphabet: tuple[Symbol, ...],
    numbers: dict[Subset, int],
    first: tuple[int, ...],
    entries: dict[tuple[Subset, Symbol], Entry],
) -> dict[int, list[Entry]]:
    """Explore the first subsets and some beyond them; new ones are added to `numbers`.

    What a NOT leaves of a subset is explored with it: the event of the NOT is offered next.
    """
    found = list(numbers)
    ahead, needed = deque(first), set(first)
    rows: dict[int, list[Entry]] = {}
    while ahead:
        number = ahead.popleft()
        if number in rows or (len(rows) >= len(first) + AHEAD and number not in needed):
            continue
        rows[number] = [_looked_up(automaton, found[number], one, entries) for one in alphabet]
        for target, _, spoilt in rows[number]:
            for new in (one for one in (target, spoilt) if one is not None):
                if new not in numbers:
                    numbers[new] = len(found)
                    found.append(new)
                ahead.append(numbers[new])
            if spoilt is not None:
                needed.add(numbers[spoilt])
    return rows


def _looked_up(
    automaton: Automaton,
    subset: Subset,
    symbol: Symbol,
    entries: dict[tuple[Subset, Symbol], Entry],
) -> Entry:
    entry = entries.get((subset, symbol))
    if entry is None:
        entry = entries[subset, symbol] = _entry(automaton, subset, symbol)
    return entry


def _entry(automaton: Automaton, subset: Subset, symbol: Symbol) -> Entry:
    """Say where a symbol leads, by which element, and what its NOTs leave."""
    lane, members = subset
    states = automaton.lanes[lane]
    targets, takers = set(), set()
    if not _is_over(automaton, states, members):
        for member in members:
            for element, target in states[member].edges:
                if element in symbol:
                    targets.add(target)
                    takers.add(element)
    after = (lane, frozenset(targets)) if targets else None
    left = spoilt_states(states, members, symbol)
    who = takers.pop() if len(takers) == 1 else -1
    return after, who, (lane, left) if left else None


def _is_over(automaton: Automaton, states: tuple[State, ...], members: frozenset[int]) -> bool:
    """Whether machines never stay in this subset, because it is a match."""
    return (
        not automaton.absence
        and len(automaton.lanes) == 1
        and any(states[member].accepts for member in members)
    )


def spoilt_states(
    states: tuple[State, ...], members: frozenset[int], symbol: Symbol
) -> frozenset[int]:
    """Find the states that are left after the NOTs of a symbol."""
    for x in sorted(symbol):
        left: set[int] = set()
        for member in members:
            left.update(dict(states[member].nots).get(x, (member,)))
        members = frozenset(left)
    return members


def _tables(
    automaton: Automaton,
    symbols: tuple[Symbol, ...],
    numbers: dict[Subset, int],
    rows: dict[int, list[Entry]],
    entries: dict[tuple[Subset, Symbol], Entry],
) -> DfaTables:
    subsets = tuple(numbers)
    facts = np.zeros((3, len(subsets)), np.int32)
    facts[[ACCEPTS, WAITS]] = np.array([_facts(automaton, subset) for subset in subsets]).T
    facts[KNOWN, list(rows)] = True
    lanes = np.array([lane for lane, _ in subsets], np.int32)
    moves = np.zeros((len(subsets), len(symbols)), MOVE)
    moves["after"] = NOWHERE
    spoil = np.repeat(np.arange(len(subsets), dtype=np.int32)[:, None], len(symbols), axis=1)
    for i, row in rows.items():
        for j, (target, taker, spoilt) in enumerate(row):
            moves[i, j]["after"] = NOWHERE if target is None else numbers[target]
            moves[i, j]["who"] = taker
            spoil[i, j] = NOWHERE if spoilt is None else numbers[spoilt]
    after = moves["after"]
    moves["lane"] = lanes[:, None]
    moves["accepts"] = facts[ACCEPTS][after] - facts[ACCEPTS][:, None]
    moves["waits"] = facts[WAITS][after]
    moves["known"] = facts[KNOWN][after]
    starts = moves[: len(automaton.lanes)]
    opening = np.argmax(starts["after"] != NOWHERE, axis=0)
    changed = spoil != np.arange(len(subsets))[:, None]
    closes = np.array([bool(automaton.forbidden & symbol) for symbol in symbols])
    return DfaTables(
        symbols,
        subsets,
        moves,
        starts[opening, np.arange(len(symbols))],
        spoil,
        facts,
        np.array([changed.any(axis=0) | closes, closes], np.int32),
        np.stack([_bits(after != NOWHERE), _bits(changed)]),
        entries,
    )


def _facts(automaton: Automaton, subset: Subset) -> tuple[bool, bool]:
    lane, members = subset
    states = [automaton.lanes[lane][member] for member in members]
    accepts = any(state.accepts for state in states)
    return accepts, any(state.edges or state.nots for state in states)


def _bits(chosen: Array) -> Array:
    """Pack [subset, symbol] truth into [symbol, word] bits of 64 subsets a word."""
    words = (chosen.shape[0] + 63) // 64
    padded = np.zeros((words * 64, chosen.shape[1]), np.bool_)
    padded[: chosen.shape[0]] = chosen
    packed = np.packbits(padded.T, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)

"""The automaton made deterministic over the symbols that occur (the subset construction).

A *symbol* is what an event is to one pattern: the elements whose conditions it meets. Partial
matches in the same set of states are alike, so a set of states gets a number of its own and the
tables say where each symbol leads. Only symbols that have occurred are in the tables; a new one
makes larger tables in which the old numbers still hold.

There can be very many sets of states, of which a stream visits few. So a few hundred are
explored ahead; when a partial match gets into one that is not, the kernel stops and `explore`
goes on from there.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shedlight.errors import CapError
from shedlight.matching.compile.nfa import Automaton, State
from shedlight.matching.jit import Array

MAX_TRANSITIONS = 30_000_000  # how many entries a table may have
EXPLORED_AHEAD = 256  # how many sets of states are explored before they are needed

Symbol = frozenset[int]
Subset = tuple[int, frozenset[int]]
"""A region and the states in it that a partial match may be in."""

NO_TARGET = -1


TRANSITION = np.dtype(
    [
        ("target", "i4"),  # the subset after taking the event, or NO_TARGET
        ("element", "i4"),  # the element that takes it, or -1 if several could
        ("region", "i4"),  # the region of the subsets before and after
        ("accepting", "i4"),  # how many more regions accept: -1, 0 or 1
        ("queued", "i4"),  # whether later events must find partial matches in the subset after
        ("explored", "i4"),  # whether the subset after is explored
    ],
    align=True,
)
# What `DfaTables.subset_facts` says: whether a subset accepts, later events must find partial
# matches in it, and it is explored.
ACCEPTING, QUEUED, EXPLORED = range(3)
# What `DfaTables.symbol_facts` says: whether a symbol's NOTs change anything, and close every
# partial match of the key.
HAS_NOTS, CLOSES_ALL = range(2)
# What `DfaTables.bits` says: the subsets that can take a symbol, and that its NOTs change.
TAKERS, CHANGED_BY_NOTS = range(2)


@dataclass(frozen=True, slots=True, eq=False)
class DfaTables:
    """Where each symbol leads from each set of states."""

    symbols: tuple[Symbol, ...]  # the symbols by number; 0 is the one that no element accepts
    subsets: tuple[Subset, ...]  # the sets of states by number; first the start of each region
    transitions: Array  # [subset, symbol] what taking an event does (TRANSITION)
    opens: Array  # [symbol] what opening a partial match with it does (TRANSITION)
    # [subset, symbol] the subset after its NOTs, itself if they change nothing, or NO_TARGET
    after_not: Array
    subset_facts: Array  # [ACCEPTING.., subset]
    symbol_facts: Array  # [HAS_NOTS.., symbol]
    bits: Array  # [TAKERS.., symbol, word] a bit per subset
    # what was found out about pairs of subset and symbol, for larger tables
    entries: Mapping[tuple[Subset, Symbol], "Entry"]
    unsure: bool  # whether several elements could take an event somewhere
    has_nots: bool  # whether the NOTs of some symbol change anything


Entry = tuple[Subset | None, int, Subset | None]
"""Where a symbol leads, by which element, and what its NOTs leave."""


def build_tables(
    automaton: Automaton,
    symbols: Iterable[Symbol] = (),
    subsets: Iterable[Subset] = (),
    explored: Iterable[int] = (),
    known: Mapping[tuple[Subset, Symbol], Entry] | None = None,
) -> DfaTables:
    """Make the tables for the symbols that occur; numbers follow the order given.

    The empty symbol comes first in any case. Sets of states keep their numbers, and those that
    `explored` names are explored. Entries that are known are not found out again.
    """
    alphabet = tuple(dict.fromkeys((Symbol(), *symbols)))
    shape = _Shape(
        automaton.regions,
        automaton.forbidden,
        automaton.absence,
        bool(automaton.pattern.conditions),
    )
    first = tuple(subsets), tuple(explored), EXPLORED_AHEAD
    states = sum(map(len, shape.regions))
    if states <= _FEW and len(alphabet) <= _FEW and len(first[0]) <= _FEW:
        return _build_shared(shape, alphabet, *first)
    return _build(shape, alphabet, *first, known)


_FEW = 16  # states, symbols and subsets of an automaton whose tables are kept


@dataclass(frozen=True, slots=True)
class _Shape:
    """What tables depend on: patterns that differ in constants alone have one."""

    regions: tuple[tuple[State, ...], ...]
    forbidden: frozenset[int]
    absence: bool
    has_conditions: bool


def _build(
    shape: _Shape,
    alphabet: tuple[Symbol, ...],
    subsets: tuple[Subset, ...],
    explored: tuple[int, ...],
    ahead: int,
    known: Mapping[tuple[Subset, Symbol], Entry] | None = None,
) -> DfaTables:
    entries = dict(known or {})  # other tables hold what was known
    starts = [(region, frozenset({0})) for region in range(len(shape.regions))]
    numbers: dict[Subset, int] = {}
    for subset in (*starts, *subsets):
        numbers.setdefault(subset, len(numbers))
    rows: dict[int, list[Entry]] = {}
    if not shape.has_conditions:  # the scan kernel needs symbols alone
        first = dict.fromkeys((*range(len(starts)), *explored))
        rows = _explore_rows(shape, alphabet, numbers, tuple(first), ahead, entries)
    if len(numbers) * len(alphabet) > MAX_TRANSITIONS:
        raise CapError(
            f"the pattern needs more than {MAX_TRANSITIONS:,} transitions; make its ANDs of "
            "fewer parts that may take the same event, or its repetitions shorter"
        )
    return _pack_tables(shape, alphabet, numbers, rows, entries)


_build_shared = lru_cache(maxsize=256)(_build)  # no array of tables is ever written to


def with_symbols(
    automaton: Automaton, tables: DfaTables, symbols: Iterable[Symbol]
) -> DfaTables:
    """Make tables that have more symbols."""
    more = (*tables.symbols, *symbols)
    return build_tables(
        automaton, more, tables.subsets, explored_subsets(tables), tables.entries
    )


def explore(automaton: Automaton, tables: DfaTables, wanted: Iterable[int]) -> DfaTables:
    """Make tables in which some sets of states are explored, and some beyond them."""
    explored = (*explored_subsets(tables), *wanted)
    return build_tables(automaton, tables.symbols, tables.subsets, explored, tables.entries)


def explored_subsets(tables: DfaTables) -> tuple[int, ...]:
    """List the sets of states that are explored."""
    return tuple(np.flatnonzero(tables.subset_facts[EXPLORED]).tolist())


def _explore_rows(
    shape: _Shape,
    alphabet: tuple[Symbol, ...],
    numbers: dict[Subset, int],
    first: tuple[int, ...],
    most: int,
    entries: dict[tuple[Subset, Symbol], Entry],
) -> dict[int, list[Entry]]:
    """Explore the first subsets and `most` beyond them; new ones are added to `numbers`.

    What a NOT leaves of a subset is explored with it: the event of the NOT is offered next.
    """
    subsets = list(numbers)
    ahead, needed = deque(first), set(first)
    rows: dict[int, list[Entry]] = {}
    while ahead:
        number = ahead.popleft()
        if number in rows or (len(rows) >= len(first) + most and number not in needed):
            continue
        rows[number] = _row(shape, subsets[number], alphabet, entries)
        for target, _, left_by_nots in rows[number]:
            for subset in filter(None, (target, left_by_nots)):
                if subset not in numbers:
                    numbers[subset] = len(subsets)
                    subsets.append(subset)
                ahead.append(numbers[subset])
            if left_by_nots is not None:
                needed.add(numbers[left_by_nots])
    return rows


def _row(
    shape: _Shape,
    subset: Subset,
    alphabet: tuple[Symbol, ...],
    entries: dict[tuple[Subset, Symbol], Entry],
) -> list[Entry]:
    for symbol in alphabet:
        if (subset, symbol) not in entries:
            entries[subset, symbol] = _entry(shape, subset, symbol)
    return [entries[subset, symbol] for symbol in alphabet]


def _entry(shape: _Shape, subset: Subset, symbol: Symbol) -> Entry:
    """Say where a symbol leads, by which element, and what its NOTs leave."""
    region, members = subset
    states = shape.regions[region]
    targets, takers = set(), set()
    if not _is_over(shape, states, members):
        for member in members:
            for element, target in states[member].edges:
                if element in symbol:
                    targets.add(target)
                    takers.add(element)
    after = (region, frozenset(targets)) if targets else None
    left = _after_nots(states, members, symbol)
    taker = takers.pop() if len(takers) == 1 else -1
    return after, taker, (region, left) if left else None


def _is_over(shape: _Shape, states: tuple[State, ...], members: frozenset[int]) -> bool:
    """Whether partial matches never stay in this subset, because it is a match."""
    return (
        not shape.absence
        and len(shape.regions) == 1
        and any(states[member].accepting for member in members)
    )


def _after_nots(
    states: tuple[State, ...], members: frozenset[int], symbol: Symbol
) -> frozenset[int]:
    """Find the states that are left after the NOTs of a symbol."""
    for x in sorted(symbol):
        left: set[int] = set()
        for member in members:
            left.update(dict(states[member].nots).get(x, (member,)))
        members = frozenset(left)
    return members


def _pack_tables(
    shape: _Shape,
    symbols: tuple[Symbol, ...],
    numbers: dict[Subset, int],
    rows: dict[int, list[Entry]],
    entries: dict[tuple[Subset, Symbol], Entry],
) -> DfaTables:
    subsets = tuple(numbers)
    subset_facts = np.zeros((3, len(subsets)), np.int32)
    subset_facts[[ACCEPTING, QUEUED]] = np.array(
        [_subset_facts(shape, subset) for subset in subsets]
    ).T
    subset_facts[EXPLORED, list(rows)] = True
    regions = np.array([region for region, _ in subsets], np.int32)
    transitions = np.zeros((len(subsets), len(symbols)), TRANSITION)
    transitions["target"] = NO_TARGET
    after_not = np.repeat(
        np.arange(len(subsets), dtype=np.int32)[:, None], len(symbols), axis=1
    )
    for i, row in rows.items():
        for j, (target, taker, left_by_nots) in enumerate(row):
            transitions[i, j]["target"] = NO_TARGET if target is None else numbers[target]
            transitions[i, j]["element"] = taker
            after_not[i, j] = NO_TARGET if left_by_nots is None else numbers[left_by_nots]
    targets = transitions["target"]
    transitions["region"] = regions[:, None]
    transitions["accepting"] = (
        subset_facts[ACCEPTING][targets] - subset_facts[ACCEPTING][:, None]
    )
    transitions["queued"] = subset_facts[QUEUED][targets]
    transitions["explored"] = subset_facts[EXPLORED][targets]
    starts = transitions[: len(shape.regions)]
    opening = np.argmax(starts["target"] != NO_TARGET, axis=0)
    changed = after_not != np.arange(len(subsets))[:, None]
    closes = np.array([bool(shape.forbidden & symbol) for symbol in symbols])
    has_nots = changed.any(axis=0) | closes
    return DfaTables(
        symbols,
        subsets,
        transitions,
        starts[opening, np.arange(len(symbols))],
        after_not,
        subset_facts,
        np.array([has_nots, closes], np.int32),
        np.stack([_pack_bits(targets != NO_TARGET), _pack_bits(changed)]),
        entries,
        bool(((transitions["element"] < 0) & (targets != NO_TARGET)).any()),
        bool(has_nots.any()),
    )


def _subset_facts(shape: _Shape, subset: Subset) -> tuple[bool, bool]:
    region, members = subset
    states = [shape.regions[region][member] for member in members]
    accepting = any(state.accepting for state in states)
    return accepting, any(state.edges or state.nots for state in states)


def _pack_bits(chosen: Array) -> Array:
    """Pack [subset, symbol] truth into [symbol, word] bits of 64 subsets a word."""
    words = (chosen.shape[0] + 63) // 64
    padded = np.zeros((words * 64, chosen.shape[1]), np.bool_)
    padded[: chosen.shape[0]] = chosen
    packed = np.packbits(padded.T, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)

"""Which element took which event of a match, where several could have.

The FIFO kernel knows the symbols of the events it took and the NOTs in between, not which of
several elements an event was for. Once there is a match, the question is answered by going
through the automaton again with all possibilities in order; the first as written counts. So it
is for a partial match that timed out, but there a possibility need not be complete.
"""

from typing import NamedTuple

import numpy as np

from shedlight.language.ast.pattern import negated_elements
from shedlight.matching.compile.dfa import DfaTables
from shedlight.matching.compile.nfa import Automaton
from shedlight.matching.jit import Array, compiled, jit_inline
from shedlight.matching.kernel.records import END, NEGATION_HIT, NONE, Output


class NfaArrays(NamedTuple):
    """The states of all regions in one numbering, as arrays; `..._end`: where entries end."""

    edge_end: Array
    edge_element: Array
    edge_target: Array
    not_end: Array
    not_element: Array
    left_end: Array
    left_target: Array
    accepting: Array
    region: Array
    accepts: Array  # [symbol, element]
    is_not: Array  # whether an element stands under a NOT


def nfa_arrays(automaton: Automaton, tables: DfaTables) -> NfaArrays:
    """Lay the automaton out as arrays."""
    edges, nots, lefts = [], [], []
    edge_end, not_end, left_end, accepting, regions = [], [], [], [], []
    offset = 0
    for region_number, region in enumerate(automaton.regions):
        for state in region:
            edges += [(element, target + offset) for element, target in state.edges]
            edge_end.append(len(edges))
            for element, left in state.nots:
                nots.append(element)
                lefts += [target + offset for target in left]
                left_end.append(len(lefts))
            not_end.append(len(nots))
            accepting.append(state.accepting)
            regions.append(region_number)
        offset += len(region)
    return NfaArrays(
        _integers(edge_end),
        _integers([element for element, _ in edges]),
        _integers([target for _, target in edges]),
        _integers(not_end),
        _integers(nots),
        _integers(left_end),
        _integers(lefts),
        np.array(accepting, np.bool_),
        _integers(regions),
        accepted_elements(tables, len(automaton.elements)),
        under_not(automaton),
    )


def under_not(automaton: Automaton) -> Array:
    """Say which elements stand under a NOT."""
    nots = negated_elements(automaton.pattern.where)
    return np.array([element in nots for element in automaton.elements], np.bool_)


def accepted_elements(tables: DfaTables, elements: int) -> Array:
    """Say which symbol meets the conditions of which element."""
    accepts = np.zeros((len(tables.symbols), elements), np.bool_)
    for number, symbol in enumerate(tables.symbols):
        accepts[number, list(symbol)] = True
    return accepts


def _integers(values: list[int]) -> Array:
    return np.array(values, np.int32)


@jit_inline
def _begin(ends: Array, number: int) -> int:
    return ends[number - 1] if number > 0 else 0


# A layer holds the states that may be reached after an event, best first. Its columns:
STATE, PARENT, ELEMENT, RANK = range(4)


@jit_inline
def _add(layer: Array, size: int, state: int, parent: int, element: int, rank: int) -> int:
    """Add a state to a layer unless it is there; earlier ones count."""
    for i in range(size):
        if layer[i, STATE] == state:
            return size
    layer[size, STATE] = state
    layer[size, PARENT] = parent
    layer[size, ELEMENT] = element
    layer[size, RANK] = rank
    return size + 1


@jit_inline
def _after_event(
    nfa: NfaArrays, before: Array, size: int, symbol: int, region: int, layer: Array
) -> int:
    """Make the layer after an event.

    Possibilities are compared event by event, an element written earlier coming first; those
    that have been the same up to here have the same rank.
    """
    new = rank = start = 0
    while start < size:
        end = start
        while end < size and before[end, RANK] == before[start, RANK]:
            end += 1
        for element in range(nfa.accepts.shape[1]):
            if not nfa.accepts[symbol, element]:
                continue
            had = new
            for i in range(start, end):
                state = before[i, STATE]
                for edge in range(_begin(nfa.edge_end, state), nfa.edge_end[state]):
                    if nfa.edge_element[edge] == element and nfa.region[state] == region:
                        new = _add(layer, new, nfa.edge_target[edge], i, element, rank)
            rank += new > had
        start = end
    return new


@jit_inline
def _after_not(nfa: NfaArrays, before: Array, size: int, element: int, layer: Array) -> int:
    """Make the layer after the event of a NOT."""
    new = 0
    for i in range(size):
        state, rank = before[i, STATE], before[i, RANK]
        hit = NONE
        for not_entry in range(_begin(nfa.not_end, state), nfa.not_end[state]):
            if nfa.not_element[not_entry] == element:
                hit = not_entry
        if hit == NONE:
            new = _add(layer, new, state, i, NONE, rank)
        else:
            for j in range(_begin(nfa.left_end, hit), nfa.left_end[hit]):
                new = _add(layer, new, nfa.left_target[j], i, NONE, rank)
    return new


@jit_inline
def _region_of(nfa: NfaArrays, symbol: int) -> int:
    """Find the region whose elements want a symbol."""
    for state in range(nfa.accepting.shape[0]):
        for edge in range(_begin(nfa.edge_end, state), nfa.edge_end[state]):
            if nfa.accepts[symbol, nfa.edge_element[edge]]:
                return nfa.region[state]
    return 0


@jit_inline
def _layers(nfa: NfaArrays, output: Output, start: int, end: int, region: int) -> int:
    """Count the layers that a region of a match needs."""
    number = 1
    for i in range(start, end):
        if output.rows[i] == NEGATION_HIT:
            for element in range(nfa.accepts.shape[1]):
                number += nfa.accepts[output.symbols[i], element] and nfa.is_not[element]
        else:
            number += _region_of(nfa, output.symbols[i]) == region
    return number


@compiled
def _bind_region(
    nfa: NfaArrays,
    output: Output,
    span: tuple[int, int],
    region: int,
    first: int,
    complete: bool,  # noqa: FBT001  # numba knows no other arguments
) -> None:
    """Settle the elements of one region's events of one match.

    The span is where the events of the match begin and end; `first` is the region's first
    state. Of what is not complete (it is no match), the best of all possibilities counts.
    """
    start, end = span
    number = _layers(nfa, output, start, end, region)
    layers = np.empty((number, nfa.accepting.shape[0], 4), np.int32)
    sizes = np.zeros(number, np.int64)
    origin = np.full(number, NONE, np.int64)
    sizes[0] = _add(layers[0], 0, first, NONE, NONE, 0)
    layer = 0
    for i in range(start, end):
        symbol = output.symbols[i]
        if output.rows[i] == NEGATION_HIT:
            for element in range(nfa.accepts.shape[1]):
                if nfa.accepts[symbol, element] and nfa.is_not[element]:
                    layer += 1
                    sizes[layer] = _after_not(
                        nfa, layers[layer - 1], sizes[layer - 1], element, layers[layer]
                    )
        elif _region_of(nfa, symbol) == region:
            layer += 1
            origin[layer] = i
            sizes[layer] = _after_event(
                nfa, layers[layer - 1], sizes[layer - 1], symbol, region, layers[layer]
            )
    entry = 0
    while complete and not nfa.accepting[layers[layer, entry, STATE]]:
        entry += 1
    while layer > 0:
        if origin[layer] != NONE:
            output.elements[origin[layer]] = layers[layer, entry, ELEMENT]
        entry = layers[layer, entry, PARENT]
        layer -= 1


@compiled
def bind_elements(nfa: NfaArrays, output: Output, matches: int) -> None:
    """Fill in the elements that the kernel left open."""
    start = 0
    regions = nfa.region[-1] + 1
    for match in range(matches):
        end = output.matches[END, match]
        complete = end >= 0
        if not complete:
            end = ~end
        unsure = False
        for i in range(start, end):
            unsure |= output.rows[i] != NEGATION_HIT and output.elements[i] == NONE
        if unsure:
            first = 0
            for region in range(regions):
                while nfa.region[first] < region:
                    first += 1
                _bind_region(nfa, output, (start, end), region, first, complete)
        start = end

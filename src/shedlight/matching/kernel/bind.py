"""Which element took which event of a match, where several could have.

The queue kernel knows the symbols of the events it took and the NOTs in between, not which of
several elements an event was for. Once there is a match, the question is answered by going
through the automaton again with all possibilities in order; the first as written counts. So it
is for a machine that timed out, but there a possibility need not be complete.
"""

from typing import NamedTuple

import numpy as np

from shedlight.language.ast.pattern import negated_elements
from shedlight.matching.compile.dfa import DfaTables
from shedlight.matching.compile.nfa import Automaton
from shedlight.matching.jit import Array, compiled, jit_inline
from shedlight.matching.kernel.records import END, FORBIDDEN, NONE, Output


class NfaArrays(NamedTuple):
    """The states of all lanes in one numbering, as arrays; `..._end` says where entries end."""

    edge_end: Array
    edge_element: Array
    edge_target: Array
    not_end: Array
    not_element: Array
    left_end: Array
    left_target: Array
    accepts: Array
    lane: Array
    wants: Array  # [symbol, element]
    is_not: Array  # whether an element stands under a NOT


def paths(automaton: Automaton, tables: DfaTables) -> NfaArrays:
    """Lay the automaton out as arrays."""
    edges, nots, lefts = [], [], []
    edge_end, not_end, left_end, accepts, lanes = [], [], [], [], []
    offset = 0
    for lane_number, lane in enumerate(automaton.lanes):
        for state in lane:
            edges += [(element, target + offset) for element, target in state.edges]
            edge_end.append(len(edges))
            for element, left in state.nots:
                nots.append(element)
                lefts += [target + offset for target in left]
                left_end.append(len(lefts))
            not_end.append(len(nots))
            accepts.append(state.accepts)
            lanes.append(lane_number)
        offset += len(lane)
    return NfaArrays(
        _integers(edge_end),
        _integers([element for element, _ in edges]),
        _integers([target for _, target in edges]),
        _integers(not_end),
        _integers(nots),
        _integers(left_end),
        _integers(lefts),
        np.array(accepts, np.bool_),
        _integers(lanes),
        wanted(tables, len(automaton.elements)),
        under_not(automaton),
    )


def under_not(automaton: Automaton) -> Array:
    """Say which elements stand under a NOT."""
    nots = negated_elements(automaton.pattern.where)
    return np.array([element in nots for element in automaton.elements], np.bool_)


def wanted(tables: DfaTables, elements: int) -> Array:
    """Say which symbol meets the conditions of which element."""
    wants = np.zeros((len(tables.symbols), elements), np.bool_)
    for number, symbol in enumerate(tables.symbols):
        wants[number, list(symbol)] = True
    return wants


def _integers(values: list[int]) -> Array:
    return np.array(values, np.int32)


@jit_inline
def _begin(ends: Array, number: int) -> int:
    return ends[number - 1] if number > 0 else 0


# A layer holds the states that a machine may be in after an event, best first. Its columns:
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
    path: NfaArrays, before: Array, size: int, symbol: int, lane: int, layer: Array
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
        for element in range(path.wants.shape[1]):
            if not path.wants[symbol, element]:
                continue
            had = new
            for i in range(start, end):
                state = before[i, STATE]
                for edge in range(_begin(path.edge_end, state), path.edge_end[state]):
                    if path.edge_element[edge] == element and path.lane[state] == lane:
                        new = _add(layer, new, path.edge_target[edge], i, element, rank)
            rank += new > had
        start = end
    return new


@jit_inline
def _after_not(path: NfaArrays, before: Array, size: int, element: int, layer: Array) -> int:
    """Make the layer after the event of a NOT."""
    new = 0
    for i in range(size):
        state, rank = before[i, STATE], before[i, RANK]
        hit = NONE
        for entry in range(_begin(path.not_end, state), path.not_end[state]):
            if path.not_element[entry] == element:
                hit = entry
        if hit == NONE:
            new = _add(layer, new, state, i, NONE, rank)
        else:
            for j in range(_begin(path.left_end, hit), path.left_end[hit]):
                new = _add(layer, new, path.left_target[j], i, NONE, rank)
    return new


@jit_inline
def _lane_of(path: NfaArrays, symbol: int) -> int:
    """Find the lane whose elements want a symbol."""
    for state in range(path.accepts.shape[0]):
        for edge in range(_begin(path.edge_end, state), path.edge_end[state]):
            if path.wants[symbol, path.edge_element[edge]]:
                return path.lane[state]
    return 0


@jit_inline
def _layers(path: NfaArrays, output: Output, start: int, end: int, lane: int) -> int:
    """Count the layers that a lane of a match needs."""
    number = 1
    for i in range(start, end):
        if output.rows[i] == FORBIDDEN:
            for element in range(path.wants.shape[1]):
                number += path.wants[output.marks[i], element] and path.is_not[element]
        else:
            number += _lane_of(path, output.marks[i]) == lane
    return number


@compiled
def _settle(
    path: NfaArrays,
    output: Output,
    span: tuple[int, int],
    lane: int,
    first: int,
    complete: bool,  # noqa: FBT001  # numba knows no other arguments
) -> None:
    """Settle the elements of one lane's events of one match.

    Args:
        path: The automaton.
        output: What was written out.
        span: Where the events of the match begin and end.
        lane: The lane.
        first: Its first state.
        complete: Whether it is a match; else the best of all possibilities counts.
    """
    start, end = span
    number = _layers(path, output, start, end, lane)
    layers = np.empty((number, path.accepts.shape[0], 4), np.int32)
    sizes = np.zeros(number, np.int64)
    origin = np.full(number, NONE, np.int64)
    sizes[0] = _add(layers[0], 0, first, NONE, NONE, 0)
    at = 0
    for i in range(start, end):
        symbol = output.marks[i]
        if output.rows[i] == FORBIDDEN:
            for element in range(path.wants.shape[1]):
                if path.wants[symbol, element] and path.is_not[element]:
                    at += 1
                    sizes[at] = _after_not(
                        path, layers[at - 1], sizes[at - 1], element, layers[at]
                    )
        elif _lane_of(path, symbol) == lane:
            at += 1
            origin[at] = i
            sizes[at] = _after_event(
                path, layers[at - 1], sizes[at - 1], symbol, lane, layers[at]
            )
    place = 0
    while complete and not path.accepts[layers[at, place, STATE]]:
        place += 1
    while at > 0:
        if origin[at] != NONE:
            output.elements[origin[at]] = layers[at, place, ELEMENT]
        place = layers[at, place, PARENT]
        at -= 1


@compiled
def bind_elements(path: NfaArrays, output: Output, matches: int) -> None:
    """Fill in the elements that the kernel left open."""
    start = 0
    lanes = path.lane[-1] + 1
    for match in range(matches):
        end = output.matches[END, match]
        complete = end >= 0
        if not complete:
            end = ~end
        unsure = False
        for i in range(start, end):
            unsure |= output.rows[i] != FORBIDDEN and output.elements[i] == NONE
        if unsure:
            first = 0
            for lane in range(lanes):
                while path.lane[first] < lane:
                    first += 1
                _settle(path, output, (start, end), lane, first, complete)
        start = end

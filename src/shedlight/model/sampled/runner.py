"""A pattern that can be run over sampled events, which are known by their types alone."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.language.ast.pattern import negated_elements
from shedlight.matching.compile.dfa import with_symbols
from shedlight.matching.compile.guards import GuardPrograms
from shedlight.matching.compile.matcher import MAX_PARTIAL_MATCHES, Matcher
from shedlight.matching.compile.nfa import build_automaton
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, new_state
from shedlight.model.model import OperatorModel, PatternModel

_NO_PROGRAMS = GuardPrograms((), (), (), ())


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """A pattern that can be run."""

    matcher: Matcher  # its automaton
    state: MatchState  # the state before any event
    symbols: Array  # what the pattern calls each type of its operator
    yields: float  # what share of the matches counts, where conditions across events decide


def build_runner(operator: OperatorModel, pattern: PatternModel) -> Runner:
    """Compile a pattern for the types of its operator, without conditions across events."""
    text = pattern.pattern
    if text is None:
        raise TypeError(f"{pattern.stream} has no text")
    automaton = build_automaton(replace(text, conditions=()))
    matcher = Matcher(
        pattern.stream.name,
        automaton.pattern,
        automaton,
        (),
        (),
        _NO_PROGRAMS,
        (),
        (),
        pa.schema([]),
        MAX_PARTIAL_MATCHES,
        has_nots=bool(negated_elements(text.where)),
    )
    accepting: list[set[int]] = [set() for _ in operator.types]
    for element, types in enumerate(pattern.accepts):
        for number in types.tolist():
            accepting[number].add(element)
    symbols = [frozenset(elements) for elements in accepting]
    state = new_state(matcher)
    tables = with_symbols(automaton, state.tables, dict.fromkeys(symbols))
    numbers = {symbol: i for i, symbol in enumerate(tables.symbols)}
    return Runner(
        matcher,
        replace(state, tables=tables),
        np.array([numbers[symbol] for symbol in symbols], np.int32),
        min(1.0, pattern.calibration) if text.conditions else 1.0,
    )

"""A key that conditions imply: equality of one attribute chains all events of a match.

In `SEQ(A, B, C) AND B.user = A.user AND C.user = B.user` a partial match takes events of one
user alone, so it is matched as with PARTITION BY user, but for null: there it is a key like any
other, while no condition holds of it. An event without a user can open a partial match, which
then takes nothing more; so it is given a key of its own.

Events that are not compared may be of any user: each event after the first must be compared
when it comes, with one that was surely taken before. And a window of events counts those of all
users, so the window must be one of time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shedlight.language.ast import expression as ex
from shedlight.language.ast.expression import Attribute, Binary, Operator
from shedlight.language.ast.pattern import Pattern, WindowUnit
from shedlight.matching.compile.nfa import Automaton, State

Triggers = tuple[tuple[int, ...], ...]
"""By element, the conditions that its events decide."""


@dataclass(frozen=True, slots=True)
class ImplicitKey:
    """An attribute that all events of a match have in common."""

    attribute: Attribute  # of the row at hand
    conditions: frozenset[
        int
    ]  # the numbers of those that say so; nothing else is asked by them

    def without_conditions(self, pattern: Pattern) -> Pattern:
        """Give a pattern without the conditions that hold of all events of a key."""
        rest = (c for i, c in enumerate(pattern.conditions) if i not in self.conditions)
        return replace(pattern, conditions=tuple(rest))


def find_implicit_key(automaton: Automaton, triggers: Triggers) -> ImplicitKey | None:
    """Find the attribute that conditions imply as a key, the first as written of several."""
    pattern = automaton.pattern
    window = pattern.within
    if pattern.partition_by or window is None or window.unit is not WindowUnit.TIME:
        return None
    number = {element.variable: i for i, element in enumerate(automaton.elements)}
    equal: dict[tuple[str, ...], dict[int, frozenset[int]]] = {}
    for i, condition in enumerate(pattern.conditions):
        match condition:
            case Binary(Operator.EQUAL, Attribute(_, path), Attribute(_, other)):
                names = ex.variables(condition)
                if path == other and len(names) > 1:
                    elements = frozenset(number[name] for name in names)
                    equal.setdefault(path, {})[i] = elements
    states = automaton.regions[0]
    taken = _surely_taken(states) if equal else []
    for path, conditions in equal.items():
        if all(_compared(states, taken, conditions, triggers)):
            return ImplicitKey(Attribute("", path), frozenset(conditions))
    return None


def _compared(
    states: tuple[State, ...],
    taken: list[frozenset[int]],
    conditions: dict[int, frozenset[int]],
    triggers: Triggers,
) -> Iterator[bool]:
    """Say of each event that may come whether it is compared with one that was taken."""
    for number, state in enumerate(states):
        elements = {element for element, _ in state.edges} if number else set()
        elements |= {element for element, left in state.nots if number and left != (number,)}
        for element in elements:
            others = (conditions[i] - {element} for i in triggers[element] if i in conditions)
            yield any(other <= taken[number] for other in others)
        yield all(target for _, target in _targets(state))  # nothing leads back to the start


def _targets(state: State) -> Iterator[tuple[frozenset[int], int]]:
    """Give the states that come next, with the element that took an event, if one did."""
    for element, target in state.edges:
        yield frozenset({element}), target
    for _, left in state.nots:
        for target in left:
            yield frozenset(), target


def _surely_taken(states: tuple[State, ...]) -> list[frozenset[int]]:
    """Find for each state the elements that have taken an event, however it was reached."""
    taken: dict[int, frozenset[int]] = {0: frozenset()}
    changed = [0]
    while changed:
        number = changed.pop()
        for took, target in _targets(states[number]):
            before = taken.get(target)
            after = taken[number] | took
            after = after if before is None else after & before
            if after != before:
                taken[target] = after
                changed.append(target)
    return [taken.get(number, frozenset()) for number in range(len(states))]

"""Which condition across events is answered by an index, for each element of a pattern.

When an event comes that an element may take, only the partial matches are looked at that the
index of the element finds. Of the conditions that the event decides one is chosen, or several
that ask for ranges of one key: equality before a range with two ends before one with a single
end, and the first as written of those that are alike. All others are checked on what is found.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression
from shedlight.language.ast.pattern import Element, Pattern
from shedlight.language.check.expr_types import data_type_of
from shedlight.matching.compile.splitting import Bound, Range, split


class Selectivity(IntEnum):
    """How few partial matches an index finds, the fewest last."""

    HALF_OPEN = 1  # a range with one end
    CLOSED = 2  # a range with two
    EQUALITY = 3


@dataclass(frozen=True, slots=True)
class ElementIndex:
    """The index of an element: by a key of the partial matches that wait for it."""

    element: int  # whose new event asks
    source: int  # whose last event has the key
    key: Expression  # of the row at hand
    data_type: DataType  # in which key and bounds are compared
    lows: tuple[Bound, ...]  # of the row at hand
    highs: tuple[Bound, ...]
    conditions: tuple[int, ...]  # those it answers; a program checks them all the same
    selectivity: Selectivity
    is_exact: bool  # whether the key is compared as it is

    def __str__(self) -> str:
        return {
            Selectivity.EQUALITY: "equality",
            Selectivity.CLOSED: "range",
            Selectivity.HALF_OPEN: "order",
        }[self.selectivity]


def choose_indexes(
    pattern: Pattern,
    elements: tuple[Element, ...],
    triggers: tuple[tuple[int, ...], ...],
    data_type_of_row: Callable[[Expression], DataType],
) -> tuple[ElementIndex | None, ...]:
    """Choose the index of each element; None where no condition can be answered by one."""

    def scope(node: Expression) -> DataType:
        found = data_type_of(node, lambda leaf: data_type_of_row(ex.without_variable(leaf)))
        return DataType.DOUBLE if found is DataType.UNKNOWN else found

    number_of = {element.variable: i for i, element in enumerate(elements)}
    nots = {element.variable for element in ast.negated_elements(pattern.where)}
    chosen: list[ElementIndex | None] = []
    for number, conditions in enumerate(triggers):
        new = elements[number].variable
        ranges: dict[tuple[str, Expression, DataType], list[tuple[int, Range]]] = {}
        for condition in conditions:
            for taken, found in _ranges(pattern.conditions[condition], new, scope):
                if taken not in nots:
                    key = (taken, found.key, found.data_type)
                    ranges.setdefault(key, []).append((condition, found))
        indexes = (
            _joined(number, number_of[taken], found) for (taken, _, _), found in ranges.items()
        )
        chosen.append(max(indexes, key=_preference, default=None))
    return tuple(chosen)


def _ranges(
    condition: Expression, new: str, scope: Callable[[Expression], DataType]
) -> Iterator[tuple[str, Range]]:
    """Give the ranges of a condition, if it is between the new event and one other."""
    others = ex.variables(condition) - {new}
    if len(others) == 1:  # with more, one of them without an event would make it hold
        (taken,) = others
        for part in ex.conjuncts(condition):
            for found in split(part, new, taken, scope):
                yield taken, found


def _joined(element: int, source: int, found: list[tuple[int, Range]]) -> ElementIndex:
    """Make one index of the ranges of one key; where some ask for one value, of these alone."""
    equal = [each for each in found if each[1].equal and _is_one_value(each[1])]
    conditions, ranges = zip(*(equal or found), strict=True)
    lows = tuple(_of_row(bound) for each in ranges for bound in each.lows)
    highs = tuple(_of_row(bound) for each in ranges for bound in each.highs)
    selectivity = Selectivity.CLOSED if lows and highs else Selectivity.HALF_OPEN
    return ElementIndex(
        element,
        source,
        ex.without_variable(ranges[0].key),
        ranges[0].data_type,
        lows,
        highs,
        tuple(dict.fromkeys(conditions)),
        Selectivity.EQUALITY if equal else selectivity,
        all(each.is_exact for each in ranges),
    )


def _is_one_value(found: Range) -> bool:
    """Whether the ends of a range are one value: doubles are not, once they are rounded."""
    return found.is_exact or found.data_type is not DataType.DOUBLE


def _of_row(bound: Bound) -> Bound:
    steps = tuple((undo, ex.without_variable(operand)) for undo, operand in bound.steps)
    return replace(bound, start=ex.without_variable(bound.start), steps=steps)


def _preference(index: ElementIndex) -> tuple[int, bool]:
    return index.selectivity, index.is_exact

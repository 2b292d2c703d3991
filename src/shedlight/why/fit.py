"""How well events fit the elements of a pattern, each by itself."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.language.ast.expression import (
    Attribute,
    Expression,
    conjuncts,
    without_variable,
)
from shedlight.language.ast.pattern import Element, Pattern, elements
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.compile.predicates import ValueTest, value_test
from shedlight.matching.jit import Array
from shedlight.matching.permuted import row_column
from shedlight.why.causes import OTHER_CONSTANT, OTHER_TYPE, WEIGHTS, Cause
from shedlight.why.judged_events import JudgedEvents


@dataclass(frozen=True, slots=True, eq=False)
class ElementFit:
    """What an element asks of an event, and which events do not fulfil it."""

    element: Element
    conditions: tuple[Expression, ...]  # joined by AND, with its variable
    weights: tuple[float, ...]  # how far away an event is that fails each
    failing: tuple[Array, ...]  # for each condition, which events fail it
    misfit: Array  # how far each event is from fitting: 0 if it does

    def fits(self, low: int, high: int) -> Array:
        """Say which events of a stretch fulfil it all."""
        fine = np.ones(high - low, np.bool_)
        for fails in self.failing:
            fine &= ~fails[low:high]
        return fine


def fit_elements(pattern: Pattern, events: JudgedEvents) -> Mapping[str, ElementFit]:
    """Hold all events against each element, by its variable."""
    all_elements = elements(pattern.where)
    types = _type_tests(all_elements)
    results: dict[Expression, Array] = {}

    def fails(condition: Expression) -> Array:
        row = without_variable(condition)
        if row not in results:
            column = evaluate(row, len(events), lambda node: row_column(events.table, node))
            results[row] = ~is_true(column)
        return results[row]

    fitted = {}
    for element in all_elements:
        conditions = conjuncts(element.condition)
        weights = tuple(_weight(each, types[element.variable]) for each in conditions)
        failing = tuple(map(fails, conditions))
        misfit = np.zeros(len(events))
        for weight, fails_it in zip(weights, failing, strict=True):
            misfit += weight * fails_it
        fitted[element.variable] = ElementFit(element, conditions, weights, failing, misfit)
    return fitted


def _weight(condition: Expression, type_test: Expression | None) -> float:
    if condition == type_test:
        return OTHER_TYPE
    is_constant = value_test(without_variable(condition)) is not None
    return OTHER_CONSTANT if is_constant else WEIGHTS[Cause.CONDITION]


def _type_tests(all_elements: tuple[Element, ...]) -> Mapping[str, Expression | None]:
    """Find the condition of each element that tells it from others.

    It compares the attribute with constants that most elements compare with constants.
    """
    tests: dict[str, list[tuple[Expression, ValueTest]]] = {}
    counts = Counter[Attribute]()
    for element in all_elements:
        found = (
            (each, value_test(without_variable(each))) for each in conjuncts(element.condition)
        )
        tests[element.variable] = [(each, test) for each, test in found if test is not None]
        counts.update({test.column for _, test in tests[element.variable]})
    return {
        variable: max(own, key=lambda each: counts[each[1].column])[0] if own else None
        for variable, own in tests.items()
    }

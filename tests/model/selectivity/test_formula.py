"""Selectivity functions, as they are written and as they are evaluated."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import Element, Or, elements, walk_parts
from shedlight.model.selectivity.demand import build_demand
from shedlight.model.selectivity.flow_lp import match_rate
from shedlight.model.selectivity.formula import (
    Combined,
    Quotient,
    Selectivity,
    TypeRate,
    selectivities,
    selectivity,
)
from tests.graph.applications import stream
from tests.model.applications import operators, paper
from tests.strategies import patterns


def letters(element: Element) -> list[str]:
    """Read a variable such as `AB2` as an element that accepts A and B."""
    return [letter for letter in element.variable if letter.isalpha()]


def function(where: str, or_as: str = "sum") -> str:
    """Write the function of a pattern of such elements."""
    pattern = parse_pattern(f"SELECT * WHERE {where} WITHIN 1 s").pattern
    return str(selectivity(pattern.where, letters, or_as))  # type: ignore[arg-type]


def evaluate(function: Selectivity, rates: Mapping[str, float]) -> float:
    """Compute the matches per second of the events per second of each type."""
    match function:
        case TypeRate(label):
            return rates.get(label, 0.0)
        case Quotient(part, times):
            return evaluate(part, rates) / times
    values = [evaluate(part, rates) for part in function.parts]
    if function.function == "sum":
        return math.fsum(values)
    return min(values) if function.function == "min" else max(values)


def test_the_papers_table_is_reproduced():
    """Sequence, conjunction, both readings of OR, and properties of closed sets."""
    stocks = operators(
        w="s1: SELECT * WHERE AND(A.stock = 'IBM', B.stock = 'Apple') WITHIN 1 s"
    )

    assert function("SEQ(A, B, A2)") == "min(A / 2, B)"
    assert function("AND(A, B)") == "min(A, B)"
    assert function("OR(A, B)", "max") == "max(A, B)"
    assert function("OR(A, B)") == "A + B"
    assert str(selectivities(stocks)[stream("w.W")]) == "min(stock=IBM, stock=Apple)"


def test_the_papers_equations_are_reproduced():
    """Those of Q11, Q21 and sink 1, and what they give for the paper's example."""
    functions = selectivities(paper())

    assert {str(name): str(each) for name, each in functions.items()} == {
        "w1.Q11": "min(type=0 / 2, type=1)",
        "w1.Q12": "min(type=1, type=2, type=3)",
        "w2.Q21": "min(type=0 / 2, type=1)",
        "w2.Q22": "min(type=1, type=2, type=3)",
        "w3.Q31": "min(source=Q11, source=Q21)",
        "w4.Q41": "min(source=Q12, source=Q22)",
    }
    first = evaluate(functions[stream("w1.Q11")], {"type=0": 40, "type=1": 20})
    second = evaluate(functions[stream("w2.Q21")], {"type=0": 60, "type=1": 25})
    sink = evaluate(functions[stream("w3.Q31")], {"source=Q11": first, "source=Q21": second})
    assert (first, second, sink) == (20.0, 25.0, 20.0)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("A", "A"),
        ("SEQ(A{3}, B)", "min(A / 3, B)"),
        ("SEQ(A{2,5}, B+, A3)", "min(A / 3, B)"),
        ("SEQ(A, B?, C{0,4})", "A"),
        ("SEQ(A, NOT(B), C)", "min(A, C)"),
        ("SEQ(A, A1, OR(B, C))", "min(A / 2, B + C)"),
        ("SEQ(A, OR(B, C?))", "A"),
        ("SEQ(A, OR(B, C){2})", "min(A, (B + C) / 2)"),
        ("SEQ(A, OR(SEQ(B, B2), C){2})", "min(A, (B / 2 + C) / 2)"),
        ("SEQ(A, OR(SEQ(B, C), D))", "min(A, min(B, C) + D)"),
        ("SEQ(A, AND(B, SEQ(A2, C)))", "min(A / 2, B, C)"),
        ("SEQ(AB, C)", "min(A + B, C)"),
        ("SEQ(AB, AB2)", "(A + B) / 2"),
        ("SEQ(A, AB)", "min(A, (A + B) / 2)"),
        ("SEQ(A, OR(A1, B))", "min(A, (A + B) / 2)"),
        ("SEQ(AB, BC)", "min(A + B, B + C, (A + B + C) / 2)"),
        ("SEQ(AB, BC, AC)", "min(A + B, B + C, A + C, (A + B + C) / 3)"),
        ("SEQ(AB, D, BC)", "min(A + B, B + C, (A + B + C) / 2, D)"),
    ],
)
def test_functions_are_written_as_mathematics(where, text):
    """What may be absent limits nothing; terms that others imply are left out."""
    assert function(where) == text


def test_in_the_papers_reading_one_branch_alone_counts():
    """Also where the branches are single events."""
    assert function("SEQ(A, OR(B, OR(C, D)){2})", "max") == "min(A, max(B, C, D) / 2)"


def test_labels_of_several_words_stand_in_brackets():
    """Else a quotient could not be read."""
    found = selectivities(
        operators(w="s1: SELECT * WHERE SEQ(A.x > 1, B.x > 1 AND B.y = 2) WITHIN 1 s")
    )

    assert str(found[stream("w.W")]) == "min([y=2 & x > 1], ([y=2 & x > 1] + [x > 1]) / 2)"


def test_events_of_which_nothing_is_asked_are_called_other():
    """As in snapshots and logs; an operator may ask for nothing at all."""
    found = selectivities(operators(w="s1: SELECT * WHERE SEQ(A, B, C) WITHIN 1 s"))

    assert str(found[stream("w.W")]) == "other / 3"


def test_many_elements_that_compete_are_written_one_by_one():
    """Two hundred and fifty-five sets are enough."""
    where = ", ".join(f"A{i}{letter}" for i, letter in enumerate("BCDEFGHIJ"))

    assert function(f"SEQ({where})") == (
        "min(A + B, A + C, A + D, A + E, A + F, A + G, A + H, A + I, A + J)"
    )


def test_a_part_that_needs_nothing_is_not_limited():
    """A whole pattern always needs something."""
    assert str(Combined("min", ())) == "unlimited"


def test_what_no_type_fits_does_not_arrive():
    """An element that accepts none is never matched."""
    nothing = selectivity(Element("E"), lambda _: [])
    assert str(nothing) == "0"
    assert evaluate(nothing, {"A": 1.0}) == 0.0


TYPES = "abcde"
amounts = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.5, 10.0])


@given(
    patterns(cross=False, depth=2),
    st.lists(st.sets(st.sampled_from(TYPES), min_size=1, max_size=3), min_size=12, max_size=12),
    st.lists(amounts, min_size=5, max_size=5),
)
def test_the_function_is_what_the_flows_of_events_give(pattern, sets, rates):
    """Exactly without OR; else at least, for what branches share counts for each."""
    found = elements(pattern.where)
    assume(len(found) <= len(sets))
    labels = {each: sorted(chosen) for each, chosen in zip(found, sets, strict=False)}
    demand = build_demand(
        pattern.where, lambda each: sorted(TYPES.index(label) for label in labels[each])
    )
    assume(len(demand.leaf_branch) <= 8)

    written = selectivity(pattern.where, labels.__getitem__)

    value = evaluate(written, dict(zip(TYPES, rates, strict=True)))
    exact = match_rate(demand, np.array(rates)[demand.uses])
    if not any(isinstance(part, Or) for part in walk_parts(pattern.where)):
        assert value == pytest.approx(exact)
    assert value >= exact - 1e-6


@given(
    patterns(cross=False, depth=2),
    st.lists(amounts, min_size=40, max_size=40),
)
def test_where_no_type_is_shared_the_function_is_exact(pattern, rates):
    """With OR in both readings."""
    found = elements(pattern.where)
    assume(len(found) <= 20)
    names = [f"t{i}" for i in range(40)]
    labels = {each: names[2 * i : 2 * i + 2] for i, each in enumerate(found)}
    by_name = dict(zip(names, rates, strict=True))
    for or_as in ("sum", "max"):
        demand = build_demand(
            pattern.where, lambda each: [names.index(one) for one in labels[each]], or_as
        )

        written = selectivity(pattern.where, labels.__getitem__, or_as)

        exact = match_rate(demand, np.array(rates)[demand.uses])
        assert evaluate(written, by_name) == pytest.approx(exact, abs=1e-6)

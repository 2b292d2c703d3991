"""Patterns made in Python are the values that text gives, and are held to the same rules."""

import copy
import operator
from datetime import timedelta
from typing import Any

import pytest

from shedlight.errors import LanguageError
from shedlight.language import DataType, parse_expression, parse_pattern
from shedlight.language import dsl as p

a, b, c, x = p.event("A"), p.event("B"), p.event("C"), p.event("X")
row = p.attribute


def test_a_whole_pattern_is_the_one_of_its_text():
    """Every clause."""
    made = p.pattern(
        select=[a.machine_id, (c.cpu - a.cpu).as_("rise"), b, p.count(b).as_("n")],
        where=p.seq(
            a.cpu > 0.2, p.no(x.event == "EVICT"), p.repeat(b.cpu > 0.4, 2, 5), c.cpu > 0.8
        ),
        conditions=[c.cpu > a.cpu * 2, b.type.is_not_null()],
        within="10 min",
        partition_by=["machine_id", p.attribute("place", "zip")],
        reuse=True,
    )

    assert (
        made
        == parse_pattern(
            "SELECT A.machine_id, C.cpu - A.cpu AS rise, B, COUNT(B) AS n"
            " WHERE SEQ(A.cpu > 0.2, NOT(X.event = 'EVICT'), B.cpu > 0.4 {2,5}, C.cpu > 0.8)"
            " AND C.cpu > A.cpu * 2 AND B.type IS NOT NULL"
            " WITHIN 10 min PARTITION BY machine_id, place.zip REUSE"
        ).pattern
    )


TREES: dict[str, p.Partlike] = {
    "A": a,
    "A.flag": a.flag,
    "A.x = 1": a.x == 1,
    "(NOT A.flag)": ~a.flag,
    "SEQ(A, B.x = 1, C+)": p.seq(a, b.x == 1, p.plus(c)),
    "SEQ(A, B, C)": p.seq(a, p.seq(b, c)),
    "AND(A, NOT(X.x = 1), B)": p.all_of(a, p.no(x.x == 1), b),
    "OR(A, SEQ(B, C))": p.any_of(a, p.seq(b, c)),
    "SEQ(A ?, B {2}, (C {3,})+)": p.seq(
        p.optional(a), p.repeat(b, 2, 2), p.plus(p.repeat(c, 3, None))
    ),
    "SEQ(A, NOT(X))": p.seq(a, p.no(x)),
}


@pytest.mark.parametrize("text", TREES)
def test_a_tree_is_the_one_of_its_text(text):
    """Conditions, events and parts may be mixed."""
    made = p.pattern(where=TREES[text], within="1 s")

    assert made == parse_pattern(f"SELECT * WHERE {text} WITHIN 1 s").pattern


n, m, s = row("n"), row("m"), row("s")

EXPRESSIONS = {
    "n + 1": n + 1,
    "1 + n": 1 + n,
    "n - m": n - m,
    "1 - n": 1 - n,
    "n * 2": n * 2,
    "2 * n": 2 * n,
    "n / 2": n / 2,
    "2 / n": 2 / n,
    "n DIV 2": n // 2,
    "2 DIV n": 2 // n,
    "n % 2": n % 2,
    "2 % n": 2 % n,
    "-n": -n,
    "-1": -p.value(1),
    "n = 1": n == 1,
    "n <> 1": n != 1,
    "n < 1": n < 1,
    "n <= 1": n <= 1,
    "n > 1": n > 1,
    "n >= 1": n >= 1,
    "n > 1 AND n < 2 OR NOT n = 3": (n > 1) & (n < 2) | ~(n == 3),
    "TRUE AND n > 1": p.value(constant=True) & (n > 1),
    "n IS NULL": n.is_null(),
    "n IS NOT NULL": n.is_not_null(),
    "n IN (1, m)": n.is_in(1, m),
    "n NOT IN (1)": n.not_in(1),
    "s LIKE 'a%'": s.like("a%"),
    "s NOT LIKE 'it''s'": s.not_like("it's"),
    "n BETWEEN 1 AND m": n.between(1, m),
    "CAST(n AS double)": n.cast("double"),
    "coalesce(n, m, 0.5)": p.call("coalesce", n, m, 0.5),
    "upper(s)": p.call("UPPER", s),
    "CASE WHEN n > 1 THEN 'a' ELSE NULL END": p.case((n > 1, "a")),
    "CASE WHEN n > 1 THEN 1 WHEN m > 1 THEN 2 ELSE n END": p.case(
        (n > 1, 1), (m > 1, 2), otherwise=n
    ),
    "`a b`.c": row("a b", "c"),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_the_one_of_its_text(text):
    """There is a Python operator or a method for each of the language."""
    assert EXPRESSIONS[text].expression == parse_expression(text)


def test_aggregates_are_those_of_the_text():
    """Their names have an underscore where Python has the name already."""
    made = p.pattern(
        select=[
            p.first(b.v).as_("a"),
            p.last(b.v).as_("b"),
            p.count(b.v).as_("c"),
            p.min_(b.v).as_("d"),
            p.max_(b.v).as_("e"),
            p.sum_(b.v).as_("f"),
            p.avg(b["v"]).as_("g"),
            p.value(a).as_("h"),
        ],
        where=p.seq(a, p.plus(b), c),
        within=timedelta(hours=1),
    )

    assert (
        made
        == parse_pattern(
            "SELECT FIRST(B.v) AS a, LAST(B.v) AS b, COUNT(B.v) AS c, MIN(B.v) AS d,"
            " MAX(B.v) AS e, SUM(B.v) AS f, AVG(B.v) AS g, A AS h"
            " WHERE SEQ(A, B+, C) WITHIN 1 h"
        ).pattern
    )


def test_each_event_of_a_match_can_be_emitted():
    """Then an attribute needs no variable."""
    made = p.pattern(
        select=[row("cpu"), row("place", "zip")], where=p.seq(a, b), within="1 s", each=True
    )

    text = "SELECT EACH cpu, place.zip WHERE SEQ(A, B) WITHIN 1 s"
    assert made == parse_pattern(text).pattern


def test_a_window_is_text_or_a_time_or_events():
    """All give the same kind of value."""
    for within, text in (
        ("90 sec", "90 s"),
        (timedelta(minutes=1.5), "90 s"),
        (p.events(5), "5 EVENTS"),
        ("5 events", "5 EVENTS"),
    ):
        assert str(p.pattern(where=p.seq(a, b), within=within).within) == text


PLACE = p.seq(a, b)

MISTAKES = {
    "an element is one event, this mentions 'A' and 'B'": lambda: p.seq(a.x == b.x),
    "this pattern needs a window": lambda: p.pattern(where=p.seq(a, b)),
    "two elements are named 'A'": lambda: p.pattern(where=p.seq(a, a), within="1 s"),
    "unknown variable 'C'; known: A": lambda: p.pattern(where=a, select=[c.x]),
    "unknown unit 'secs'": lambda: p.pattern(where=PLACE, within="10 secs"),
    "'soon' is not a window": lambda: p.pattern(where=PLACE, within="soon"),
    "this length is out of range": lambda: p.pattern(where=PLACE, within=timedelta(-1)),
    "a selected value needs a name: A.x + 1; give it one with as_('name')": lambda: p.pattern(
        where=a, select=[a.x + 1]
    ),
    "NOT takes one element": lambda: p.no(p.plus(a)),
    "NOT has nothing before it": lambda: p.pattern(where=p.seq(p.no(x), a), within="1 s"),
    "MAX takes one attribute of a variable, got <A.x + 1>": lambda: p.max_(a.x + 1),
    "MIN takes one attribute of a variable, got <A>": lambda: p.min_(p.value(a)),
    "unknown function 'nope'": lambda: p.pattern(where=p.call("nope", a.x) == 1),
    "unknown type 'int'": lambda: a.x.cast("int"),
    "unknown attribute 'cpus'": lambda: p.pattern(
        where=a.cpus > 1, schema={"cpu": DataType.DOUBLE}
    ),
    "PARTITION BY names attributes, got x + 1": lambda: p.pattern(
        where=a, partition_by=[row("x") + 1]
    ),
    "'A' is a whole event, not a value": lambda: p.pattern(where=p.value(a) == 1),
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_a_mistake_is_explained(problem):
    """There is no place to point at, so the message says it all."""
    with pytest.raises(LanguageError) as caught:
        MISTAKES[problem]()

    assert str(caught.value).startswith(problem)


def test_python_cannot_ask_for_the_truth_of_an_expression():
    """It would take `and`, and the second of two comparisons, for the whole."""
    for question in (bool, operator.not_, lambda value: 0 < value < 1):
        with pytest.raises(TypeError, match=r"use &, \| and ~ for AND, OR and NOT"):
            question(a.x)


def test_only_constants_of_the_language_are_taken():
    """Misuse by a programmer is an error of Python."""
    with pytest.raises(TypeError, match="neither an expression nor a constant"):
        a.x == timedelta(1)  # noqa: B015 - it raises
    with pytest.raises(ValueError, match="nan cannot be written down"):
        a.x + float("nan")
    with pytest.raises(ValueError, match="a variable needs a name"):
        p.event("")
    with pytest.raises(TypeError, match="unhashable"):
        hash(a.x)


def test_one_of_something_needs_no_list():
    """Text is one key, not one per letter; an event is no list of its attributes."""
    several = p.pattern(
        select=[a], where=PLACE, conditions=[a.x > b.x], within="1 s", partition_by=["user"]
    )

    one = p.pattern(
        select=a, where=PLACE, conditions=a.x > b.x, within="1 s", partition_by="user"
    )

    assert one == several
    assert p.pattern(where=a, partition_by=row("user")).partition_by == one.partition_by
    assert p.pattern(where=a, select=(a.x + 1).as_("y")).select[0].name == "y"


wrong: Any = p  # for what a type checker would refuse

MISUSES = {
    "`within` takes a length with a unit, got 5; write '5 s' or p.events(5)": lambda: (
        wrong.pattern(where=PLACE, within=5)
    ),
    "`within` takes a length with a unit, got 0.5": lambda: wrong.pattern(
        where=PLACE, within=0.5
    ),
    "not a part of a pattern: True; give a condition": lambda: wrong.pattern(where=True),
    "not a part of a pattern: 'A.x > 1'": lambda: wrong.pattern(where="A.x > 1"),
    "not a part of a pattern: None": lambda: wrong.seq(a, None),
    "`conditions` takes a list, got True": lambda: wrong.pattern(where=a, conditions=True),
    "`partition_by` takes a list, got None": lambda: wrong.pattern(where=a, partition_by=None),
    "`select` takes a list, got 1": lambda: wrong.pattern(where=a, select=1),
    "neither an expression nor a constant": lambda: wrong.pattern(where=a, conditions=[PLACE]),
    "a part is repeated a whole number of times, got 2.5": lambda: wrong.repeat(a, 2.5, 3),
    "a part is repeated a whole number of times, got '3'": lambda: wrong.repeat(a, 2, "3"),
    "a variable is named by text, got 5": lambda: wrong.event(5),
    "an attribute is named by text, got 0": lambda: list(wrong.event("A")),
}


@pytest.mark.parametrize("problem", MISUSES)
def test_what_is_something_else_altogether_is_refused(problem):
    """Misuse by a programmer; none of it is taken for something by chance."""
    with pytest.raises(TypeError) as caught:
        MISUSES[problem]()

    assert str(caught.value).startswith(problem)


def test_values_are_shown_as_text():
    """For whoever tries things out; and an event can be copied like any object."""
    assert repr(a.x + 1) == "<A.x + 1>"
    assert repr(copy.deepcopy(p.event("a b"))) == "<`a b`>"

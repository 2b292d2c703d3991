"""Patterns made in Python: the same values as from text, held to the same rules.

An operator on the values below writes an expression down instead of computing it; `&`, `|` and
`~` stand for AND, OR and NOT.

Example:
    >>> from shedlight.language import dsl as p
    >>> e1, e2, x = p.event("E1"), p.event("E2"), p.event("X")
    >>> rising = p.pattern(
    ...     select=[(e2.cpu - e1.cpu).as_("rise")],
    ...     where=p.seq(e1.type == 0, p.no(x.event == "EVICT"), e2.type == 1),
    ...     conditions=[e2.cpu > e1.cpu * 2],
    ...     within="10 min",
    ... )
    >>> print(rising.where)
    SEQ(E1.type = 0, NOT(X.event = 'EVICT'), E2.type = 1)
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from shedlight.errors import RuleError
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.data_type import Schema
from shedlight.language.ast.expression import AggregateFunction, Attribute
from shedlight.language.ast.user_function import UserFunction
from shedlight.language.ast.window import make_window, read_window
from shedlight.language.check.calls import make_call
from shedlight.language.check.normal_form import flatten_group, normalize, require_levels
from shedlight.language.check.rules import check, make_element
from shedlight.language.dsl_value import Event, Value, to_expression

__all__ = [
    "Event",
    "Value",
    "all_of",
    "any_of",
    "attribute",
    "avg",
    "call",
    "case",
    "count",
    "event",
    "events",
    "first",
    "last",
    "max_",
    "min_",
    "no",
    "optional",
    "pattern",
    "plus",
    "repeat",
    "seq",
    "sum_",
    "value",
]

Partlike = ast.Part | Value | Event
"""A part of a pattern: one made here, a condition on one event, or any event."""


def event(variable: str) -> Event:
    """Name a variable."""
    return Event(variable)


def attribute(*path: str) -> Value:
    """Name an attribute of the row at hand: for SELECT EACH and PARTITION BY."""
    return Value(Attribute("", path))


def value(constant: object) -> Value:
    """Make an expression of a constant, or of a whole event to give it another name."""
    return Value(to_expression(constant))


def call(function: str | UserFunction, *arguments: object) -> Value:
    """Call a named function of the language, or one of the user."""
    if isinstance(function, UserFunction):
        given = tuple(map(to_expression, arguments))
        return Value(make_call(function.name, function, given))
    return Value(ex.Call(function.lower(), tuple(map(to_expression, arguments))))


def case(*branches: tuple[object, object], otherwise: object = None) -> Value:
    """Choose the result of the first branch whose condition holds."""
    pairs = tuple((to_expression(test), to_expression(result)) for test, result in branches)
    return Value(ex.Case(pairs, to_expression(otherwise)))


def _aggregate(function: AggregateFunction, of: Value | Event) -> Value:
    expression = to_expression(of)
    if isinstance(expression, Attribute) and expression.variable:
        return Value(ex.Aggregate(function, expression.variable, expression.path))
    if isinstance(expression, ex.WholeEvent) and function is AggregateFunction.COUNT:
        return Value(ex.Aggregate(function, expression.variable))
    problem = f"{function.value} takes one attribute of a variable, got {of!r}"
    raise RuleError(expression, problem)


def first(of: Value) -> Value:
    """Select an attribute of the first event of an element."""
    return _aggregate(AggregateFunction.FIRST, of)


def last(of: Value) -> Value:
    """Select an attribute of the last event of an element."""
    return _aggregate(AggregateFunction.LAST, of)


def count(of: Value | Event) -> Value:
    """Count the events of an element, or the values of an attribute that are not null."""
    return _aggregate(AggregateFunction.COUNT, of)


def min_(of: Value) -> Value:
    """Select the smallest value of an attribute."""
    return _aggregate(AggregateFunction.MIN, of)


def max_(of: Value) -> Value:
    """Select the largest value of an attribute."""
    return _aggregate(AggregateFunction.MAX, of)


def sum_(of: Value) -> Value:
    """Select the sum of an attribute."""
    return _aggregate(AggregateFunction.SUM, of)


def avg(of: Value) -> Value:
    """Select the mean of an attribute."""
    return _aggregate(AggregateFunction.AVG, of)


def seq(*parts: Partlike) -> ast.Seq:
    """Ask for parts one after the other."""
    return ast.Seq(flatten_group(ast.Seq(tuple(map(_part, parts)))))


def all_of(*parts: Partlike) -> ast.And:
    """Ask for all parts, in any order."""
    return ast.And(tuple(map(_part, parts)))


def any_of(*parts: Partlike) -> ast.Or:
    """Ask for one of several parts."""
    return ast.Or(tuple(map(_part, parts)))


def no(part: Partlike) -> ast.Not:
    """Ask for no such event."""
    element = _part(part)
    if not isinstance(element, ast.Element):
        raise RuleError(element, "NOT takes one element", "give a condition on one variable")
    return ast.Not(element)


def repeat(part: Partlike, least: int, most: int | None) -> ast.Repeat:
    """Ask for a part several times; None is any number."""
    for count in (least, 0 if most is None else most):
        if type(count) is not int:
            raise TypeError(f"a part is repeated a whole number of times, got {count!r}")
    return ast.Repeat(_part(part), least, most)


def optional(part: Partlike) -> ast.Repeat:
    """Ask for a part that may be left out."""
    return repeat(part, 0, 1)


def plus(part: Partlike) -> ast.Repeat:
    """Ask for a part once or more often."""
    return repeat(part, 1, None)


def events(length: int) -> ast.Window:
    """Measure a window in events."""
    return make_window(str(length), "events")


def pattern(  # noqa: PLR0913 - an argument per clause of the language
    *,
    where: Partlike,
    select: Iterable[Value | Event | ast.Item] | Value | Event | ast.Item = (),
    conditions: Iterable[Value] | Value = (),
    within: str | timedelta | ast.Window | None = None,
    partition_by: Iterable[str | Value] | str | Value = (),
    reuse: bool = False,
    each: bool = False,
    schema: Schema | None = None,
) -> ast.Pattern:
    """Make a pattern, and check it.

    Where there may be several of something, one needs no list around it.

    Args:
        where: What to look for.
        select: What to emit, each an attribute, a whole event, or a value with a name; nothing
            is everything.
        conditions: What must hold between the events of several elements.
        within: The window, such as "10 min".
        partition_by: Attributes whose values keep matches apart.
        reuse: Whether an event may serve several matches.
        each: Whether a match emits one complex event per event of it.
        schema: The columns of the input, to check names and data types of attributes.

    Raises:
        LanguageError: The pattern breaks a rule.
        TypeError: An argument is something else altogether.
    """
    given = map(to_expression, _several("conditions", conditions))
    root, across = normalize(_part(where), tuple(given))
    made = ast.Pattern(
        select=tuple(map(_item, _several("select", select))),
        where=root,
        conditions=across,
        within=_window(within),
        partition_by=tuple(map(_key, _several("partition_by", partition_by))),
        reuse=reuse,
        each=each,
    )
    check(made, schema)
    return made


def _several(argument: str, given: object) -> tuple[Any, ...]:
    """Take one thing as a list of one."""
    if isinstance(given, str | Value | Event | ast.Item):
        return (given,)
    if isinstance(given, Iterable):
        return tuple(given)
    raise TypeError(f"`{argument}` takes a list, got {given!r}")


def _part(part: Partlike) -> ast.Part:
    if isinstance(part, Event):
        return ast.Element(part.variable_, ex.TRUE)
    if isinstance(part, Value):
        return make_element(part.expression)
    if isinstance(part, ast.Part):
        return part
    hint = "give a condition on an event, such as e.cpu > 0.5, or p.seq(...) and its like"
    raise TypeError(f"not a part of a pattern: {part!r}; {hint}")


def _item(selected: Value | Event | ast.Item) -> ast.Item:
    if isinstance(selected, ast.Item):
        return selected
    expression = to_expression(selected)
    name = ast.default_name(expression)
    if name is None:
        require_levels(expression)
        problem = f"a selected value needs a name: {expression}"
        raise RuleError(expression, problem, "give it one with as_('name')")
    return ast.Item(expression, name)


def _key(key: str | Value) -> Attribute:
    expression = Attribute("", (key,)) if isinstance(key, str) else to_expression(key)
    if not isinstance(expression, Attribute):
        raise RuleError(expression, f"PARTITION BY names attributes, got {expression}")
    return expression


def _window(within: str | timedelta | ast.Window | None) -> ast.Window | None:
    if isinstance(within, str):
        return read_window(within)
    if isinstance(within, timedelta):
        return make_window(str(within // timedelta(microseconds=1)), "us")
    if within is None or isinstance(within, ast.Window):
        return within
    hint = "write '5 s' or p.events(5)"
    raise TypeError(f"`within` takes a length with a unit, got {within!r}; {hint}")

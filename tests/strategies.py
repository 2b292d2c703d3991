"""Random patterns and streams for hypothesis; small, so that they meet, and shrink well.

A stream has the columns kind, x and key (bigint), y (double) and name (string); see `SCHEMA`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import (
    TRUE,
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    negate,
    transform,
)
from shedlight.language.ast.pattern import (
    And,
    Element,
    Item,
    Not,
    Or,
    Part,
    Pattern,
    Repeat,
    Seq,
    Window,
    WindowUnit,
    elements,
    negated_elements,
)
from tests.reference import Event

_T = TypeVar("_T")

SCHEMA: Mapping[str, DataType] = {
    "kind": DataType.BIGINT,
    "x": DataType.BIGINT,
    "y": DataType.DOUBLE,
    "key": DataType.BIGINT,
    "name": DataType.STRING,
}

NAMES = ("a", "b", "\uffee", "\U0001f600")
"""UTF-8 and UTF-16 order the last two differently."""


# ---------------------------------------------------------------------------------------------
# Conditions of one element, on the row at hand.


def _column(name: str) -> Attribute:
    return Attribute("", (name,))


def _test(name: str, operator: Operator, value: float | str) -> Expression:
    return Binary(operator, _column(name), Literal(value))


_comparisons = st.sampled_from([Operator.GREATER, Operator.LESS_EQUAL, Operator.NOT_EQUAL])

_of_kind = st.sampled_from([0, 1, 2, 0, 1]).map(partial(_test, "kind", Operator.EQUAL))

_of_other = st.one_of(
    st.builds(_test, st.just("x"), _comparisons, st.integers(-1, 2)),
    st.builds(_test, st.just("y"), _comparisons, st.sampled_from([0.0, 0.5, 1.0])),
    st.sampled_from(NAMES).map(partial(_test, "name", Operator.EQUAL)),
    st.sampled_from([IsNull(_column("x")), IsNull(_column("y"), negated=True)]),
)

_of_kinds = st.sets(st.integers(0, 4), min_size=2, max_size=3).map(
    lambda kinds: In(_column("kind"), tuple(map(Literal, sorted(kinds))))
)

_conjunctions = st.builds(Binary, st.just(Operator.AND), _of_kind | _of_kinds, _of_other)
_disjunctions = st.builds(Binary, st.just(Operator.OR), _of_kind, _of_other)

_rarer: tuple[SearchStrategy[Expression], ...] = (
    _of_kinds,
    _conjunctions,
    _of_other | _disjunctions,
    st.just(TRUE),
)

row_conditions: SearchStrategy[Expression] = st.integers(0, 9).flatmap(
    lambda choice: _of_kind if choice < 6 else _rarer[choice - 6]
)
"""Conditions on one event: mostly `kind = c`, and others that overlap with it."""


# ---------------------------------------------------------------------------------------------
# Trees.

COUNTS = ((0, 1), (1, None), (2, 2), (1, 2), (2, 3), (2, None), (0, 2), (0, None), (1, 1))
"""How often a part may be repeated: at least, at most."""

_plain = row_conditions.map(partial(Element, ""))
_rare = st.sampled_from([3, 4, 2]).map(partial(_test, "kind", Operator.EQUAL))
_nots = st.one_of(_rare, row_conditions).map(partial(Element, "")).map(Not)
_no_nots: SearchStrategy[list[Not]] = st.just([])
_few_nots = st.integers(0, 5).flatmap(
    lambda choice: st.lists(_nots, min_size=1, max_size=2) if choice > 3 else _no_nots
)


def _trees(depth: int, *, negation: bool) -> SearchStrategy[Part]:
    """Draw a tree; its elements have no variables yet."""
    if depth == 0:
        return _plain
    inner = _plain | _trees(depth - 1, negation=negation)
    gaps = _few_nots if negation else _no_nots
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner,
        st.lists(st.tuples(gaps, inner), min_size=2, max_size=3).map(_seq),
        st.builds(_and, several, gaps, st.integers(0, 3)),
        several.map(lambda parts: Or(tuple(parts))),
        st.builds(_repeat, inner, st.sampled_from(COUNTS)),
        st.lists(st.tuples(gaps, inner), min_size=2, max_size=3).map(_seq),
    )


def _seq(steps: Sequence[tuple[Sequence[Not], Part]]) -> Seq:
    """Put NOTs before each part but the first."""
    (_, first), *rest = steps
    return Seq((first, *(part for nots, inner in rest for part in (*nots, inner))))


def _and(parts: Sequence[Part], nots: Sequence[Not], position: int) -> And:
    return And((*parts[:position], *nots, *parts[position:]))


def _repeat(part: Part, counts: tuple[int, int | None]) -> Repeat:
    return Repeat(part, *counts)


def can_be_empty(part: Part) -> bool:
    """Tell whether a part may take no event at all."""
    if isinstance(part, Repeat):
        return part.least == 0 or can_be_empty(part.part)
    if isinstance(part, Or):
        return any(map(can_be_empty, part.parts))
    if isinstance(part, Seq | And):
        return all(map(can_be_empty, part.parts))
    return isinstance(part, Not)


def _numbered(part: Part) -> Part:
    """Give each element a variable: E1, E2, ... as written, X1, X2, ... under NOT."""
    return _Numbering().numbered(part)


@dataclass
class _Numbering:
    taken: int = 0
    forbidden: int = 0

    def numbered(self, part: Part) -> Part:
        if isinstance(part, Element):
            self.taken += 1
            return _named(part, f"E{self.taken}")
        if isinstance(part, Not):
            self.forbidden += 1
            return Not(_named(part.element, f"X{self.forbidden}"))
        if isinstance(part, Repeat):
            return replace(part, part=self.numbered(part.part))
        if isinstance(part, Seq | And | Or):
            return replace(part, parts=tuple(map(self.numbered, part.parts)))
        raise TypeError(f"no part of a pattern: {part!r}")


def _named(element: Element, name: str) -> Element:
    return Element(name, transform(element.condition, partial(_of_variable, name)))


def _of_variable(name: str, node: Expression) -> Expression | None:
    return Attribute(name, node.path) if isinstance(node, Attribute) else None


# ---------------------------------------------------------------------------------------------
# Conditions across elements, and what is selected.

_pairs = st.sampled_from([("x", "x"), ("y", "y"), ("name", "name"), ("x", "y"), ("kind", "x")])
_all_comparisons = st.sampled_from(
    [
        Operator.LESS_EQUAL,
        Operator.LESS,
        Operator.GREATER,
        Operator.GREATER_EQUAL,
        Operator.NOT_EQUAL,
        Operator.EQUAL,
    ]
)


@st.composite
def _cross_conditions(draw: DrawFn, where: Part) -> Expression:
    """Draw a condition between two or three variables, at most one of them under NOT."""
    forbidden = [element.variable for element in negated_elements(where)]
    taken = [e.variable for e in elements(where) if e.variable not in forbidden]
    pool = [*taken, *([draw(st.sampled_from(forbidden))] if forbidden else [])]
    names = draw(st.lists(st.sampled_from(pool), min_size=2, max_size=3, unique=True))
    columns = draw(_pairs)
    left: Expression = Attribute(names[0], (columns[0],))
    right: Expression = Attribute(names[1], (columns[1],))
    if "name" in columns:
        return Binary(draw(_all_comparisons), left, right)
    if len(names) == 3:
        right = Binary(Operator.ADD, right, Attribute(names[2], ("x",)))
        return Binary(draw(_all_comparisons), left, right)
    return draw(st.sampled_from(_FORMS))(draw, left, right)


def _compared(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    return Binary(draw(_all_comparisons), left, right)


def _moved(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    """Draw `left > right + 1` and the like."""
    operator = draw(st.sampled_from([Operator.ADD, Operator.SUBTRACT]))
    return _compared(draw, left, Binary(operator, right, Literal(draw(_constants))))


def _scaled(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    operator = draw(st.sampled_from([Operator.MULTIPLY, Operator.DIVIDE]))
    factor = draw(st.sampled_from([1.02, 0.5, -2.0, 3, -1, 0]))
    return _compared(draw, left, Binary(operator, right, Literal(factor)))


def _far(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    """Draw `left - right < 1` and the like, from either side."""
    operator = draw(st.sampled_from([Operator.ADD, Operator.SUBTRACT]))
    difference: Expression = Binary(operator, left, right)
    if draw(st.booleans()):
        difference = Binary(draw(st.sampled_from([*_LINEAR])), difference, Literal(2))
    elif draw(st.booleans()):
        difference = negate(difference)
    sides = [difference, Literal(draw(_constants))]
    return _compared(draw, *(sides if draw(st.booleans()) else reversed(sides)))


def _near(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    """Draw `abs(left - right) < 1`."""
    far = Call("abs", (Binary(Operator.SUBTRACT, left, right),))
    return _compared(draw, far, Literal(draw(_constants)))


def _between(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    low = Binary(Operator.SUBTRACT, right, Literal(draw(_constants)))
    high = Binary(Operator.ADD, right, Literal(draw(_constants)))
    return Binary(
        Operator.AND,
        Binary(Operator.GREATER_EQUAL, left, low),
        Binary(Operator.LESS_EQUAL, left, high),
    )


def _opaque(draw: DrawFn, left: Expression, right: Expression) -> Expression:
    """Draw what no index can answer, or only by what it is computed of."""
    if draw(st.booleans()):
        return _compared(draw, left, Call("coalesce", (right, Literal(1))))
    if draw(st.booleans()):
        return _compared(draw, Binary(Operator.MODULO, left, Literal(2)), right)
    test = _compared(draw, left, right)
    return Binary(Operator.OR, test, IsNull(left))


_constants = st.sampled_from([1, 0, 2, 0.5, -1, 1.5])
_LINEAR = (Operator.MULTIPLY, Operator.DIVIDE, Operator.ADD)
_FORMS = (
    _compared,
    _compared,
    _compared,
    _moved,
    _scaled,
    _far,
    _near,
    _near,
    _between,
    _opaque,
)


@st.composite
def _selected(draw: DrawFn, where: Part) -> Expression:
    forbidden = {element.variable for element in negated_elements(where)}
    names = [e.variable for e in elements(where) if e.variable not in forbidden]
    name = draw(st.sampled_from(names))
    function = draw(st.sampled_from([None, None, *AggregateFunction]))
    if function is None:
        return Attribute(name, (draw(st.sampled_from(list(SCHEMA))),))
    if function in {AggregateFunction.SUM, AggregateFunction.AVG}:
        return Aggregate(function, name, (draw(st.sampled_from(["x", "y"])),))
    if function is AggregateFunction.COUNT and draw(st.booleans()):
        return Aggregate(function, name)
    return Aggregate(function, name, (draw(st.sampled_from(list(SCHEMA))),))


def _items(where: Part) -> SearchStrategy[tuple[Item, ...]]:
    return st.lists(_selected(where), min_size=1, max_size=3).map(
        lambda found: tuple(Item(expression, f"s{n}") for n, expression in enumerate(found))
    )


# ---------------------------------------------------------------------------------------------
# Patterns.

_time_windows = st.sampled_from([20, 10, 30, 5, 40, 2, 50, 1]).map(Window)
_event_windows = st.sampled_from([8, 12, 4, 6, 2, 16, 3, 1]).map(
    partial(Window, unit=WindowUnit.EVENTS)
)
_keys = st.sampled_from(
    [(), (), (_column("key"),), (_column("key"),), (_column("key"), _column("kind"))]
)


@st.composite
def patterns(
    draw: DrawFn,
    *,
    cross: bool = True,
    negation: bool = True,
    absence: bool = True,
    reuse: bool | None = None,
    depth: int = 3,
) -> Pattern:
    """Draw a legal pattern over the columns of `SCHEMA`.

    Args:
        draw: Given by hypothesis.
        cross: Whether there may be conditions across elements.
        negation: Whether there may be NOTs in SEQ and AND.
        absence: Whether the outermost SEQ may end in NOT.
        reuse: Whether events are reused; None for either.
        depth: How deep the tree may nest.
    """
    where = draw(_trees(draw(st.integers(1, depth)), negation=negation))
    if can_be_empty(where):
        where = Seq((where, draw(_plain)))
    ends = (
        draw(st.lists(_nots, min_size=1, max_size=2)) if absence and _one_in_five(draw) else []
    )
    if ends:
        where = Seq((*(where.parts if isinstance(where, Seq) else (where,)), *ends))
    where = _numbered(where)
    window = draw(_time_windows if ends else _time_windows | _event_windows)
    lone = isinstance(where, Element) and draw(st.booleans())
    conditions: list[Expression] = []
    if cross and len(elements(where)) - len(negated_elements(where)) > 1:
        conditions = draw(
            st.lists(_cross_conditions(where), min_size=draw(st.integers(0, 1)), max_size=2)
        )
    return Pattern(
        select=draw(_items(where)),
        where=where,
        conditions=tuple(conditions),
        within=None if lone else window,
        partition_by=draw(_keys),
        reuse=draw(st.booleans()) if reuse is None else reuse,
    )


@st.composite
def chained_patterns(draw: DrawFn) -> Pattern:
    """Draw a pattern whose elements are chained by equality of one attribute, or nearly so."""
    pattern = draw(patterns(cross=False, depth=2))
    forbidden = {element.variable for element in negated_elements(pattern.where)}
    names = [element.variable for element in elements(pattern.where)]
    taken = [name for name in names if name not in forbidden]
    column = (draw(st.sampled_from(["x", "key", "y", "name"])),)
    conditions: list[Expression] = []
    for name in names:
        others = [other for other in taken if other != name]
        before = [other for other in others if names.index(other) < names.index(name)]
        if others and (name in forbidden or name != taken[0]) and not _one_in_ten(draw):
            other = draw(st.sampled_from(before[:1] or before or others))
            conditions.append(
                Binary(Operator.EQUAL, Attribute(name, column), Attribute(other, column))
            )
    if len(taken) > 1 and draw(st.booleans()):
        conditions.append(draw(_cross_conditions(pattern.where)))
    by = () if draw(st.integers(0, 3)) else pattern.partition_by
    return replace(pattern, conditions=tuple(conditions), partition_by=by)


def _one_in_ten(draw: DrawFn) -> bool:
    return draw(st.integers(0, 9)) == 9


def _one_in_five(draw: DrawFn) -> bool:
    return draw(st.integers(0, 4)) == 4


# ---------------------------------------------------------------------------------------------
# Streams.

VALUES: Mapping[str, Sequence[Any]] = {
    "kind": (0, 1, 2, 0, 1, 0, 1, 0, 1, 2, 3, 4, None),
    "x": (0, 1, 2, 3, 0, 1, 2, 3, -1, None),
    "y": (0.0, 0.5, 1.0, 2.0, 0.5, 1.0, -0.0, math.nan, None),
    "key": (0, 0, 0, 0, 1, None),
    "name": (*NAMES, "", None),
}
GAPS = (1, 0, 2, 0, 1, 5)
INPUTS = (0, 1)


def _one_of_each(*choices: Sequence[Any]) -> SearchStrategy[list[Any]]:
    """Draw one value of each, as a single number: a draw takes as long as matching an event."""

    def pick(number: int) -> list[Any]:
        picked = []
        for values in choices:
            number, place = divmod(number, len(values))
            picked.append(values[place])
        return picked

    return st.integers(0, math.prod(map(len, choices)) - 1).map(pick)


def _values(drawn: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(VALUES, drawn, strict=True))


def streams(min_size: int = 0, max_size: int = 20) -> SearchStrategy[list[Event]]:
    """Draw arrivals of two inputs, with ties, out of order, and with ids that come again."""
    lags = (0, 0, 0, 1, 2, 5)
    steps = _one_of_each(GAPS, lags, INPUTS, range(21), NAMES, *VALUES.values())
    return _long_lists(steps, min_size, max_size).map(_arrivals)


def _arrivals(steps: Sequence[Sequence[Any]]) -> list[Event]:
    now = 10
    found = []
    for gap, lag, source, number, name, *values in steps:
        now += gap
        found.append(Event(now - lag, source, (number, name), _values(values)))
    return found


def _long_lists(of: SearchStrategy[_T], least: int, most: int) -> SearchStrategy[list[_T]]:
    """Draw lists that are longer on average than hypothesis makes them, and shrink as well."""
    return st.integers(least, most).flatmap(
        lambda size: st.lists(of, min_size=size, max_size=size)
    )


def ready_streams(min_size: int = 0, max_size: int = 20) -> SearchStrategy[list[Event]]:
    """Draw ready events of two inputs in processing order, with ties in time."""
    steps = _one_of_each(GAPS, INPUTS, *VALUES.values())
    return _long_lists(steps, min_size, max_size).map(_ready)


def _ready(steps: Sequence[Sequence[Any]]) -> list[Event]:
    """Number the events as ids; at one time, those of the first input come first."""
    now = 0
    found = []
    for number, (gap, source, *values) in enumerate(steps):
        now += gap
        found.append(Event(now, source, (number,), _values(values)))
    return sorted(found, key=lambda event: (event.time, event.input, event.id))

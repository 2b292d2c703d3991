"""Conditions across events, split into what a new event asks and what one that was taken has.

`abs(B.x - A.x) < 3` asks, when B comes, for an A whose x lies between B.x - 3 and B.x + 3: the
*key* is `A.x`, computed of the event that was taken, and the *bounds* are computed of the new
one. A condition is split by undoing what is done to the key, one operation after another, from
the comparison inwards. Doubles are rounded, so there each step makes the range a little wider;
whoever asks checks the condition itself on what is found.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Binary, Expression, Operator


class Undo(Enum):
    """What is done to a bound to undo an operation on the key."""

    ADD = "+"  # the operand
    SUBTRACT = "-"
    SUBTRACT_FROM = "from"  # the bound from the operand
    NEGATE = "negate"
    MULTIPLY = "*"
    DIVIDE = "/"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, as a new event gives it."""

    start: Expression  # what the key's side of the comparison is compared with
    steps: tuple[tuple[Undo, Expression], ...] = ()  # what to do to it, first to last
    strict: bool = False  # whether the bound itself is outside


@dataclass(frozen=True, slots=True)
class Range:
    """The keys for which a condition may hold."""

    key: Expression  # of the event that was taken, with its variable
    data_type: DataType  # in which key and bounds are compared
    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()
    equal: bool = False  # whether one value alone will do

    @property
    def is_exact(self) -> bool:
        """Whether the key is compared as it is, with nothing done to it."""
        return not any(bound.steps for bound in self.lows + self.highs)


Scope = Callable[[Expression], DataType]
"""Gives the data type of an expression across events."""

_MIRROR = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_EQUAL: Operator.GREATER_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_EQUAL: Operator.LESS_EQUAL,
}
_NUMBERS = frozenset({DataType.BIGINT, DataType.DOUBLE})
_COMPARED_AS_THEY_ARE = frozenset(
    {DataType.BOOLEAN, DataType.STRING, DataType.TIMESTAMP, DataType.DATE}
)
"""Besides numbers, what an index has keys of, of one data type on both sides."""


def split(condition: Expression, new: str, taken: str, scope: Scope) -> Iterator[Range]:
    """Give the ranges of keys that a comparison asks for: none if it cannot be split.

    Args:
        condition: A comparison that mentions both variables and no other.
        new: The variable of the event that comes.
        taken: The variable of the event that gives the key.
        scope: The data types.
    """
    if not isinstance(condition, Binary) or condition.operator not in _MIRROR:
        return
    operator, left, right = condition.operator, condition.left, condition.right
    if taken in ex.variables(right):
        operator, left, right = _MIRROR[operator], right, left
    if ex.variables(left) | ex.variables(right) != {new, taken} or taken in ex.variables(right):
        return
    data_types = {scope(left), scope(right)} - {DataType.NULL}
    domain = DataType.DOUBLE if DataType.DOUBLE in data_types else next(iter(data_types), None)
    is_one = len(data_types) == 1 and domain in _COMPARED_AS_THEY_ARE
    if domain is None or not (data_types <= _NUMBERS or is_one):
        return
    bound = Bound(right, strict=operator in {Operator.LESS, Operator.GREATER})
    below = operator in {Operator.LESS, Operator.LESS_EQUAL, Operator.EQUAL}
    above = operator in {Operator.GREATER, Operator.GREATER_EQUAL, Operator.EQUAL}
    start = Range(
        left, domain, (bound,) * above, (bound,) * below, equal=operator is Operator.EQUAL
    )
    solved = _undo(start, taken, scope)
    if solved is not None:
        yield solved
        inner = solved
        while (stripped := _strip(inner, scope)) is not None:
            inner = stripped
        if inner != solved:
            yield inner


def _undo(found: Range, taken: str, scope: Scope) -> Range | None:
    """Undo operations until the key is an expression of the taken event alone."""
    while ex.variables(found.key) != {taken}:
        further = _undo_one(found, taken, scope)
        if further is None:
            return None
        found = further
    return found


def _strip(found: Range, scope: Scope) -> Range | None:
    """Undo a constant at the key: two conditions may then have the same key."""
    if isinstance(found.key, Binary) and any(
        isinstance(side, ex.Literal) for side in (found.key.left, found.key.right)
    ):
        name = next(iter(ex.variables(found.key)))
        return _undo_one(found, name, scope)
    return None


def _undo_one(found: Range, taken: str, scope: Scope) -> Range | None:
    if found.data_type not in _NUMBERS:
        return None
    match found.key:
        case Binary(operator, left, right):
            return _undo_binary(found, operator, left, right, taken, scope)
        case ex.Unary(ex.Sign.MINUS, operand):
            return _apply(replace(found, key=operand), Undo.NEGATE, ex.Literal(0), swap=True)
        case ex.Cast(operand, DataType.DOUBLE):
            return replace(found, key=operand)
        case ex.Call("abs", (operand,)) if found.highs and not found.lows:
            mirrored = _apply(found, Undo.NEGATE, ex.Literal(0), swap=True)
            return replace(found, key=operand, lows=mirrored.lows)
    return None


def _undo_binary(  # noqa: C901, PLR0911  # a case for each operator
    found: Range,
    operator: Operator,
    left: Expression,
    right: Expression,
    taken: str,
    scope: Scope,
) -> Range | None:
    in_left, in_right = (taken in ex.variables(side) for side in (left, right))
    if in_left == in_right:
        return None
    key, other = (left, right) if in_left else (right, left)
    if scope(other) not in _NUMBERS:
        return None
    inner = replace(found, key=key)
    if operator is Operator.ADD:
        return _apply(inner, Undo.SUBTRACT, other)
    if operator is Operator.SUBTRACT and in_left:
        return _apply(inner, Undo.ADD, other)
    if operator is Operator.SUBTRACT:
        return _apply(inner, Undo.SUBTRACT_FROM, other, swap=True)
    factor = getattr(other, "value", None)
    if not factor or scope(Binary(operator, left, right)) is not DataType.DOUBLE:
        return None  # by zero, by what an event has, or whole numbers, which overflow
    if operator is Operator.MULTIPLY:
        return _apply(inner, Undo.DIVIDE, other, swap=factor < 0)
    if operator is Operator.DIVIDE and in_left:
        return _apply(inner, Undo.MULTIPLY, other, swap=factor < 0)
    return None


def _apply(found: Range, undo: Undo, operand: Expression, *, swap: bool = False) -> Range:
    lows, highs = (
        tuple(replace(bound, steps=(*bound.steps, (undo, operand))) for bound in bounds)
        for bounds in (found.lows, found.highs)
    )
    return (
        replace(found, lows=highs, highs=lows)
        if swap
        else replace(found, lows=lows, highs=highs)
    )

"""Patterns as values: what to look for, within which window, and what to emit.

A pattern is a tree. Its leaves are elements, a variable with a condition on one event; its
inner nodes are SEQ, AND, OR, NOT and repetition. `str()` gives text that parses to the same
value.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from shedlight.language.ast import expression as ex

MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""The units of time and how many microseconds they have, shortest first."""


class Part:
    """Any node of a pattern's tree."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Element(Part):
    """One event: its variable and the condition it must meet (TRUE: any event)."""

    variable: str
    condition: ex.Expression = ex.TRUE

    def __str__(self) -> str:
        if self.condition == ex.TRUE:
            return ex.write_name(self.variable)
        text = str(self.condition)
        return f"({text})" if text.startswith("NOT ") else text  # NOT(...) is an absent event


@dataclass(frozen=True, slots=True)
class Group(Part):
    """Any of SEQ, AND and OR."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"{type(self).__name__.upper()}({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Seq(Group):
    """Its parts one after the other, with anything in between."""


@dataclass(frozen=True, slots=True)
class And(Group):
    """All of its parts, in any order and interleaved."""


@dataclass(frozen=True, slots=True)
class Or(Group):
    """One of its parts."""


@dataclass(frozen=True, slots=True)
class Not(Part):
    """No such event: between two parts of a SEQ, during an AND, or until the window ends."""

    element: Element

    def __str__(self) -> str:
        return f"NOT({self.element})"


@dataclass(frozen=True, slots=True)
class Repeat(Part):
    """A part several times: at least `least`, at most `most` (None: any number)."""

    part: Part
    least: int
    most: int | None

    def __str__(self) -> str:
        counts = {(0, 1): "?", (1, None): "+"}
        count = counts.get((self.least, self.most)) or self._braces()
        inner = str(self.part)
        if isinstance(self.part, Repeat) or (
            isinstance(self.part, Element) and ex.level_of(self.part.condition) < ex.Level.NOT
        ):
            inner = f"({inner})"
        gap = " " if isinstance(self.part, Element) else ""
        return f"{inner}{gap}{count}"

    def _braces(self) -> str:
        if self.most is None:
            return f"{{{self.least},}}"
        if self.least == self.most:
            return f"{{{self.least}}}"
        return f"{{{self.least},{self.most}}}"


class WindowUnit(Enum):
    """What a window is measured in."""

    TIME = "microseconds"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Window:
    """How far the last event of a match may be from its first."""

    length: int  # microseconds, or events of the input per key with the first one counted
    unit: WindowUnit = WindowUnit.TIME

    def __post_init__(self) -> None:
        if self.length <= 0:
            raise ValueError(f"a window must be longer than zero, got {self.length}")

    def __str__(self) -> str:
        if self.unit is WindowUnit.EVENTS:
            return f"{self.length} EVENTS"
        unit = [name for name, size in MICROSECONDS.items() if self.length % size == 0][-1]
        return f"{self.length // MICROSECONDS[unit]} {unit}"


@dataclass(frozen=True, slots=True)
class Item:
    """One selected value and the name it gets."""

    expression: ex.Expression
    name: str

    def __str__(self) -> str:
        if default_name(self.expression) == self.name:
            return str(self.expression)
        return f"{self.expression} AS {ex.write_name(self.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What to look for, within which window, and what to emit.

    Attributes:
        select: What a complex event carries.
        where: The tree of elements.
        conditions: What must hold between the events of several elements.
        within: The window; None only where a match is a single event.
        partition_by: Attributes whose values keep matches apart.
        reuse: Whether an event may serve several matches (the default: one per pattern).
        each: Whether a match emits one complex event per event of it.
    """

    select: tuple[Item, ...]
    where: Part
    conditions: tuple[ex.Expression, ...] = ()
    within: Window | None = None
    partition_by: tuple[ex.Attribute, ...] = ()
    reuse: bool = False
    each: bool = False

    def __str__(self) -> str:
        items = ", ".join(map(str, self.select)) or "*"
        text = f"SELECT {'EACH ' * self.each}{items} WHERE {self.where}"
        written = (ex.write_operand(condition, ex.Level.NOT) for condition in self.conditions)
        text += "".join(f" AND {condition}" for condition in written)
        if self.within:
            text += f" WITHIN {self.within}"
        if self.partition_by:
            text += f" PARTITION BY {', '.join(map(str, self.partition_by))}"
        return text + " REUSE" * self.reuse


def default_name(expression: ex.Expression) -> str | None:
    """Find the name that a selected value has unless it is given another."""
    if isinstance(expression, ex.FunctionValue):
        return None
    if isinstance(expression, ex.Attribute):
        return expression.path[-1]
    return expression.variable if isinstance(expression, ex.WholeEvent) else None


def child_parts(part: Part) -> tuple[Part, ...]:
    """Give the direct parts of a part, as written."""
    if isinstance(part, Group):
        return part.parts
    if isinstance(part, Repeat):
        return (part.part,)
    return (part.element,) if isinstance(part, Not) else ()


def walk_parts(part: Part) -> Iterator[Part]:
    """Give a part and all that is in it, as written."""
    yield part
    for inner in child_parts(part):
        yield from walk_parts(inner)


def elements(part: Part) -> tuple[Element, ...]:
    """List the elements of a pattern as written, those under NOT included."""
    return tuple(node for node in walk_parts(part) if isinstance(node, Element))


def negated_elements(part: Part) -> tuple[Element, ...]:
    """List the elements that stand under a NOT."""
    return tuple(node.element for node in walk_parts(part) if isinstance(node, Not))


def selected_items(pattern: Pattern) -> tuple[Item, ...]:
    """List what is selected; `*` is every event, but with EACH the columns of the input."""
    if pattern.select or pattern.each:
        return pattern.select
    nots = negated_elements(pattern.where)
    names = (e.variable for e in elements(pattern.where) if e not in nots)
    return tuple(Item(ex.WholeEvent(name), name) for name in names)


def expressions(pattern: Pattern) -> Iterator[ex.Expression]:
    """Give all expressions of a pattern: what it selects, what it asks for, and its key."""
    yield from (item.expression for item in pattern.select)
    yield from (element.condition for element in elements(pattern.where))
    yield from pattern.conditions
    yield from pattern.partition_by

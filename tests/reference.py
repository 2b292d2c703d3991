"""The reference matcher: slow, in plain Python, written straight from the rules for reading.

It says what a match is; the compiled kernel is held against it on random patterns and streams.
The rules are those of docs/design.md, section 2, named by number below. What times out is said
in docs/language.md: a partial match that its window closes, without a match.

A partial match is the events it took. A *parse* is one way to read them: the element of each
event, and the *place* where the pattern waits for the next one. `Node.enter` finds the
places to wait at before anything is taken, `Place.advance` those after one more event, and
`Place.crosses` says whether a NOT stands between the last event and what a place waits for.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from itertools import compress, product
from typing import Any, Protocol

from shedlight.language.ast.expression import (
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Case,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
    variables,
)
from shedlight.language.ast.pattern import (
    And,
    Element,
    Not,
    Or,
    Part,
    Pattern,
    Repeat,
    Seq,
    WindowUnit,
    child_parts,
    elements,
    negated_elements,
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event; time, input and id tell it from any other.

    Attributes:
        time: Microseconds.
        input: Number of the input, in order of declaration.
        id: Numbers and strings.
        values: Its columns by name; None is null.
    """

    time: int
    input: int
    id: tuple[int | str, ...]
    values: Mapping[str, Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Match:
    """A word that was found, or as much of one as a partial match had when it timed out.

    Attributes:
        time: When it was complete; with absence, the end of its window. Of what timed out, the
            end of the window of time, or the time of the event that was one too many.
        events: In the order taken.
        elements: The variable that each event was assigned to.
        opened: The number of the first event among all ready ones, from 0.
    """

    time: int
    events: tuple[Event, ...]
    elements: tuple[str, ...]
    opened: int


# ---------------------------------------------------------------------------------------------
# Expressions: null is None, whatever fails is null.

Value = Any
"""A truth, a whole number, a double, text, or None; only what it is used for can tell."""

Lookup = Callable[[Attribute | Aggregate | WholeEvent], Value]


@singledispatch
def evaluate(expression: Expression, lookup: Lookup) -> Value:
    """Compute an expression; `lookup` gives what stands for attributes and aggregates."""
    raise NotImplementedError(f"the reference does not know {type(expression).__name__}")


@evaluate.register
def _(expression: Literal, lookup: Lookup) -> Value:
    del lookup
    return expression.value


@evaluate.register
def _(expression: Attribute | Aggregate | WholeEvent, lookup: Lookup) -> Value:
    return lookup(expression)


@evaluate.register
def _(expression: Unary, lookup: Lookup) -> Value:
    value = evaluate(expression.operand, lookup)
    if value is None:
        return None
    return not value if expression.sign is Sign.NOT else _in_range(-value)


@evaluate.register
def _(expression: Binary, lookup: Lookup) -> Value:
    left, right = evaluate(expression.left, lookup), evaluate(expression.right, lookup)
    if expression.operator is Operator.OR:
        return _any((left, right))
    if expression.operator is Operator.AND:
        return _not(_any((_not(left), _not(right))))
    return _null_if_any(_OPERATIONS[expression.operator])(left, right)


@evaluate.register
def _(expression: IsNull, lookup: Lookup) -> Value:
    return (evaluate(expression.operand, lookup) is None) is not expression.negated


@evaluate.register
def _(expression: In, lookup: Lookup) -> Value:
    value = evaluate(expression.operand, lookup)
    options = [evaluate(option, lookup) for option in expression.options]
    found = _any(_null_if_any(_equal)(value, option) for option in options)
    return _not(found) if expression.negated else found


@evaluate.register
def _(expression: Case, lookup: Lookup) -> Value:
    for test, result in expression.branches:
        if evaluate(test, lookup) is True:
            return evaluate(result, lookup)
    return evaluate(expression.otherwise, lookup)


@evaluate.register
def _(expression: Call, lookup: Lookup) -> Value:
    values = [evaluate(argument, lookup) for argument in expression.arguments]
    if expression.function == "abs":
        return None if values[0] is None else _in_range(abs(values[0]))
    present = _alike([value for value in values if value is not None])
    if expression.function == "coalesce":
        return present[0] if present else None
    return {"least": min, "greatest": max}[expression.function](
        present, key=_rank, default=None
    )


def _any(values: Iterable[Value]) -> bool | None:
    """Join truths by OR, where null is neither true nor false."""
    known = list(values)
    return True if True in known else None if None in known else False


def _not(value: Value) -> bool | None:
    return None if value is None else not value


def _null_if_any(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: None if None in values else function(*values)


def _in_range(value: Value) -> Value:
    fits = not isinstance(value, int) or -(2**63) <= value < 2**63
    return value if fits else None


def _alike(values: list[Value]) -> list[Value]:
    """Give whole numbers as doubles where they stand beside one."""
    mixed = any(isinstance(value, float) for value in values)
    return [float(value) for value in values] if mixed else values


def _rank(value: Value) -> Any:
    """Order values: NaN after all numbers, strings by their bytes."""
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if value != value else (0, value)  # noqa: PLR0124  # only NaN differs


def _compared(test: Callable[[Value, Value], bool]) -> Callable[..., Value]:
    return lambda left, right: test(*map(_rank, _alike([left, right])))


def _arithmetic(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return lambda left, right: _in_range(function(left, right))


def _divided(left: Value, right: Value) -> Value:
    return None if right == 0 else float(left) / float(right)


def _divided_whole(left: Value, right: Value) -> Value:
    """Divide towards zero, as Java does."""
    if right == 0:
        return None
    size = abs(left) // abs(right)
    return _in_range(size if (left < 0) == (right < 0) else -size)


def _remainder(left: Value, right: Value) -> Value:
    """Divide and give what is left over, with the sign of the dividend, as Java does."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    return math.fmod(left, right) if math.isfinite(left) else math.nan


_equal = _compared(operator.eq)

_OPERATIONS = {
    Operator.EQUAL: _equal,
    Operator.NOT_EQUAL: _compared(operator.ne),
    Operator.LESS: _compared(operator.lt),
    Operator.LESS_EQUAL: _compared(operator.le),
    Operator.GREATER: _compared(operator.gt),
    Operator.GREATER_EQUAL: _compared(operator.ge),
    Operator.ADD: _arithmetic(operator.add),
    Operator.SUBTRACT: _arithmetic(operator.sub),
    Operator.MULTIPLY: _arithmetic(operator.mul),
    Operator.DIVIDE: _divided,
    Operator.INT_DIVIDE: _divided_whole,
    Operator.MODULO: _remainder,
}


# ---------------------------------------------------------------------------------------------
# Rules 1 and 10: which events are ready, and in which order.


def ready_events(
    arrivals: Iterable[Event], lateness: Sequence[int], remember: int
) -> tuple[list[Event], list[Event], list[Event]]:
    """Sort arrivals into ready events in processing order, late ones and duplicates.

    Args:
        arrivals: In order of arrival; after the last one all inputs are at their end.
        lateness: Microseconds, for each input.
        remember: Microseconds behind the watermark for which the id of an event is known.
    """
    accepted: list[Event] = []
    late: list[Event] = []
    duplicates: list[Event] = []
    watermarks: dict[int, int] = {}
    for event in arrivals:
        watermark = watermarks.get(event.input, event.time - lateness[event.input])
        if event.time < watermark:
            late.append(event)
            continue
        watermark = max(watermark, event.time - lateness[event.input])
        watermarks[event.input] = watermark
        seen_before = any(
            (other.input, other.id) == (event.input, event.id)
            and other.time >= watermark - remember
            for other in accepted
        )
        (duplicates if seen_before else accepted).append(event)
    return sorted(accepted, key=_processing_order), late, duplicates


def _processing_order(event: Event) -> Any:
    return event.time, event.input, tuple(map(_rank, event.id))


# ---------------------------------------------------------------------------------------------
# Rules 2 and 6: the tree of a pattern, and the places to wait in it.

Gaps = frozenset[str]
"""Variables of the NOTs between the last event and the next: such an event may not come."""

NO_GAPS: Gaps = frozenset()


class Place(Protocol):
    """Where a parse waits within a node."""

    def advance(self) -> Iterator[tuple["Leaf", "Place"]]:
        """Give each element that may take the next event, and each place after that."""

    def crosses(self, arrived: Gaps) -> bool:
        """Tell whether one of the NOTs whose event arrived stands in the way."""


class Node(Protocol):
    """A part of a pattern."""

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Give the places to wait at when nothing of this part is taken, beyond the gaps."""


@dataclass(frozen=True, slots=True)
class Done:
    """The part is complete; its gaps reach to whatever comes next."""

    gaps: Gaps

    def advance(self) -> Iterator[tuple["Leaf", Place]]:
        """Nothing more is taken here."""
        return iter(())

    def crosses(self, arrived: Gaps) -> bool:
        """The gaps at its end are open still."""
        return not self.gaps.isdisjoint(arrived)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One element; `order` is its number as written."""

    variable: str
    condition: Expression
    order: int

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Wait for its event."""
        yield AtLeaf(self, gaps)


@dataclass(frozen=True, slots=True)
class AtLeaf:
    """Waiting for the event of an element."""

    leaf: Leaf
    gaps: Gaps

    def advance(self) -> Iterator[tuple[Leaf, Place]]:
        """Take the event: the gaps before it are closed."""
        yield self.leaf, Done(NO_GAPS)

    def crosses(self, arrived: Gaps) -> bool:
        """The event has not come, so the gaps before it are open."""
        return not self.gaps.isdisjoint(arrived)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """OR: one of its parts."""

    parts: tuple[Node, ...]

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Wait in any one of them; that it stands in an OR matters no more."""
        for part in self.parts:
            yield from part.enter(gaps)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """SEQ, flattened: its parts one after the other.

    Attributes:
        parts: Those that take events.
        gaps: The NOTs before each part, and those after the last one.
    """

    parts: tuple[Node, ...]
    gaps: tuple[Gaps, ...]

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Wait at the first part, or further on if that can be left out."""
        return self.reach(0, gaps)

    def reach(self, index: int, gaps: Gaps) -> Iterator[Place]:
        """Come to a part over the gap before it, or to the end."""
        gaps |= self.gaps[index]
        if index == len(self.parts):
            yield Done(gaps)
            return
        for inner in self.parts[index].enter(gaps):
            yield from self.stand(index, inner)

    def stand(self, index: int, inner: Place) -> Iterator[Place]:
        """Wait within a part; past it if it is complete."""
        if isinstance(inner, Done):
            yield from self.reach(index + 1, inner.gaps)
        else:
            yield InChain(self, index, inner)


@dataclass(frozen=True, slots=True)
class InChain:
    """Waiting within one part of a SEQ."""

    chain: Chain
    index: int
    inner: Place

    def advance(self) -> Iterator[tuple[Leaf, Place]]:
        """Advance in that part, and go on from there."""
        for leaf, inner in self.inner.advance():
            for place in self.chain.stand(self.index, inner):
                yield leaf, place

    def crosses(self, arrived: Gaps) -> bool:
        """The gaps before the part went along into it."""
        return self.inner.crosses(arrived)


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Repetition: a part at least so often, at most so often."""

    part: Node
    least: int
    most: int | None

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Wait for the first round, or beyond it all if none is needed."""
        return self.after(0, gaps)

    def after(self, rounds: int, gaps: Gaps) -> Iterator[Place]:
        """Leave if the rounds are enough, begin another if there may be one."""
        if rounds >= self.least:
            yield Done(gaps)
        if self.most is None or rounds < self.most:
            for inner in self.part.enter(gaps):
                if not isinstance(inner, Done):
                    # more than enough is enough where there is no most
                    counted = min(rounds, self.least) if self.most is None else rounds
                    yield InRounds(self, counted, inner)
                elif rounds < self.least:  # a round of nothing helps only to make up the least
                    yield from self.after(rounds + 1, inner.gaps)


@dataclass(frozen=True, slots=True)
class InRounds:
    """Waiting within a round, after some complete ones."""

    repetition: Rounds
    rounds: int
    inner: Place

    def advance(self) -> Iterator[tuple[Leaf, Place]]:
        """Advance in this round; after it, leave or begin another."""
        for leaf, inner in self.inner.advance():
            if isinstance(inner, Done):
                for place in self.repetition.after(self.rounds + 1, inner.gaps):
                    yield leaf, place
            else:
                yield leaf, replace(self, inner=inner)

    def crosses(self, arrived: Gaps) -> bool:
        """The gaps before the round went along into it."""
        return self.inner.crosses(arrived)


@dataclass(frozen=True, slots=True, eq=False)
class Interleaving:
    """AND: all of its parts, in any order and interleaved.

    Attributes:
        parts: Those that take events.
        watched: Its NOTs, from its first event to its last.
    """

    parts: tuple[Node, ...]
    watched: Gaps

    def enter(self, gaps: Gaps) -> Iterator[Place]:
        """Wait in all parts at once."""
        for inner in product(*(tuple(part.enter(NO_GAPS)) for part in self.parts)):
            yield self.stand(gaps, inner)

    def stand(self, gaps: Gaps, inner: tuple[Place, ...], *, begun: bool = False) -> Place:
        """Wait in all parts at once; past the AND if all are complete."""
        ends = [part.gaps for part in inner if isinstance(part, Done)]
        if len(ends) == len(inner):
            return Done(gaps.union(*ends))
        return InInterleaving(self, gaps, inner, begun)


@dataclass(frozen=True, slots=True)
class InInterleaving:
    """Waiting within the parts of an AND.

    Attributes:
        gaps: Those before the AND, until it begins.
        inner: A place for each part.
        begun: Whether a part took an event.
    """

    interleaving: Interleaving
    gaps: Gaps
    inner: tuple[Place, ...]
    begun: bool

    def advance(self) -> Iterator[tuple[Leaf, Place]]:
        """Advance in any one part; the gaps before the AND are closed."""
        for index, part in enumerate(self.inner):
            for leaf, place in part.advance():
                inner = (*self.inner[:index], place, *self.inner[index + 1 :])
                yield leaf, self.interleaving.stand(NO_GAPS, inner, begun=True)

    def crosses(self, arrived: Gaps) -> bool:
        """A gap before the AND or within any part is crossed, or its own NOT once begun."""
        watched_now = self.gaps | (self.interleaving.watched if self.begun else NO_GAPS)
        return not watched_now.isdisjoint(arrived) or any(
            part.crosses(arrived) for part in self.inner
        )


def _node(part: Part, orders: Mapping[str, int]) -> Node:
    if isinstance(part, Element):
        return Leaf(part.variable, part.condition, orders[part.variable])
    if isinstance(part, Repeat):
        return Rounds(_node(part.part, orders), part.least, part.most)
    if isinstance(part, Seq):
        return _chain(part, orders)
    inner = tuple(_node(p, orders) for p in child_parts(part) if not isinstance(p, Not))
    if isinstance(part, And):
        return Interleaving(inner, _watched_directly(part))
    if isinstance(part, Or):
        return Choice(inner)
    raise ValueError(f"a NOT stands where there is none: {part}")


def _chain(part: Seq, orders: Mapping[str, int]) -> Chain:
    parts: list[Node] = []
    gaps = [NO_GAPS]
    for inner in _flattened(part):
        if isinstance(inner, Not):
            gaps[-1] |= {inner.element.variable}
        else:
            parts.append(_node(inner, orders))
            gaps.append(NO_GAPS)
    return Chain(tuple(parts), tuple(gaps))


def _flattened(part: Part) -> tuple[Part, ...]:
    if not isinstance(part, Seq):
        return (part,)
    return tuple(inner for direct in part.parts for inner in _flattened(direct))


def _watched_directly(part: Part) -> Gaps:
    return frozenset(p.element.variable for p in child_parts(part) if isinstance(p, Not))


# ---------------------------------------------------------------------------------------------
# Rule 8: conditions across events.


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition between the events of several elements.

    Attributes:
        triggers: Variables whose event makes it be checked, if the others have theirs.
    """

    expression: Expression
    mentioned: frozenset[str]
    triggers: frozenset[str]

    def holds(self, bound: Mapping[str, Event]) -> bool:
        """Tell whether it is true of these events; one that is left out does no harm."""
        return not self.mentioned <= bound.keys() or _is_true(self.expression, bound)


def _conditions(pattern: Pattern) -> tuple[Condition, ...]:
    paths = dict(_paths(pattern.where, ()))
    found = []
    for expression in pattern.conditions:
        names = variables(expression)
        triggers = {
            name
            for name in names
            if not any(_stands_after(paths[other], paths[name]) for other in names - {name})
        }
        found.append(Condition(expression, names, frozenset(triggers)))
    return tuple(found)


_Path = tuple[tuple[bool, int], ...]
"""From the root to an element: whether it goes through a SEQ, and into its which part."""


def _paths(part: Part, path: _Path) -> Iterator[tuple[str, _Path]]:
    if isinstance(part, Element):
        yield part.variable, path
    for index, inner in enumerate(child_parts(part)):
        yield from _paths(inner, (*path, (isinstance(part, Seq), index)))


def _stands_after(path: _Path, other: _Path) -> bool:
    """Tell whether the node where two paths part is a SEQ, and the first one goes right."""
    for (in_seq, index), (_, other_index) in zip(path, other, strict=False):
        if index != other_index:
            return in_seq and index > other_index
    return False


def _is_true(expression: Expression, bound: Mapping[str, Event]) -> bool:
    return evaluate(expression, lambda node: _value(node, bound[node.variable])) is True


def _value(node: Attribute | Aggregate | WholeEvent, event: Event) -> object:
    if not isinstance(node, Attribute):
        raise TypeError(f"a condition speaks of attributes, not of {node}")
    return event.values[node.column]


# ---------------------------------------------------------------------------------------------
# Rules 3 to 7: partial matches.


@dataclass(frozen=True, slots=True)
class Parse:
    """One way to read the events of a partial match: an element each, and where it waits."""

    taken: tuple[Leaf, ...]
    place: Place

    def bound(self, events: Sequence[Event]) -> dict[str, Event]:
        """Give the last event of each variable."""
        return {leaf.variable: event for leaf, event in zip(self.taken, events, strict=True)}

    def as_written(self) -> tuple[int, ...]:
        """Order parses: the first assignment as written comes first."""
        return tuple(leaf.order for leaf in self.taken)


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """The events that were taken, and every way to read them that is left.

    Attributes:
        opened: The number of its first event among all ready ones.
        count: The number of its first event among those of its key.
    """

    key: tuple[object, ...]
    opened: int
    count: int
    events: tuple[Event, ...]
    parses: tuple[Parse, ...]


@dataclass(frozen=True)
class Rules:
    """What a pattern says about its partial matches."""

    pattern: Pattern

    @cached_property
    def tree(self) -> Node:
        """The pattern's tree."""
        names = [element.variable for element in elements(self.pattern.where)]
        return _node(self.pattern.where, {name: order for order, name in enumerate(names)})

    @cached_property
    def waits_for_absence(self) -> bool:
        """Whether the outermost SEQ ends in NOT."""
        return isinstance(self.tree, Chain) and bool(self.tree.gaps[-1])

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions across events."""
        return _conditions(self.pattern)

    @cached_property
    def start(self) -> tuple[Parse, ...]:
        """The parses of nothing."""
        return tuple(Parse((), place) for place in set(self.tree.enter(NO_GAPS)))

    def key(self, event: Event) -> tuple[object, ...]:
        """Find the key of an event; null is a key, and so is NaN."""
        values = [event.values[attribute.column] for attribute in self.pattern.partition_by]
        return tuple(None if value is None else _rank(value) for value in values)

    def is_over(self, partial_match: PartialMatch, event: Event, count: int) -> bool:
        """Tell whether the window of a partial match is over before an event (rule 5)."""
        window = self.pattern.within
        if window is None:
            return False
        if window.unit is WindowUnit.EVENTS:
            return (
                partial_match.key == self.key(event)
                and count - partial_match.count >= window.length
            )
        return event.time - partial_match.events[0].time > window.length

    def spared(self, partial_match: PartialMatch, event: Event) -> PartialMatch:
        """Remove the parses that wait beyond a NOT whose event arrived (rule 6)."""
        arrived = frozenset(
            element.variable
            for element in negated_elements(self.pattern.where)
            if _is_true(element.condition, {element.variable: event})
        )
        if not arrived:
            return partial_match
        left = (
            parse
            for parse in partial_match.parses
            if not parse.place.crosses(self._forbidden(arrived, event, parse, partial_match))
        )
        return replace(partial_match, parses=tuple(left))

    def _forbidden(
        self, arrived: Gaps, event: Event, parse: Parse, partial_match: PartialMatch
    ) -> frozenset[str]:
        """Keep the NOTs whose conditions with the events of a parse hold too."""
        bound = parse.bound(partial_match.events)
        return frozenset(
            name
            for name in arrived
            if all(
                condition.holds({**bound, name: event})
                for condition in self.conditions
                if name in condition.mentioned
            )
        )

    def taken(self, partial_match: PartialMatch, event: Event) -> PartialMatch | None:
        """Let a partial match take an event, if it can use it (rule 3)."""
        events = (*partial_match.events, event)
        parses = [
            Parse((*parse.taken, leaf), place)
            for parse in partial_match.parses
            for leaf, place in parse.place.advance()
            if _is_true(leaf.condition, {leaf.variable: event})
        ]
        parses = [parse for parse in parses if self._conditions_hold(parse, events)]
        if not parses:
            return None
        return replace(partial_match, events=events, parses=self._distinct(parses))

    def _conditions_hold(self, parse: Parse, events: Sequence[Event]) -> bool:
        """Check the conditions that the last event triggers (rule 8)."""
        last = parse.taken[-1].variable
        return all(
            condition.holds(parse.bound(events))
            for condition in self.conditions
            if last in condition.triggers
        )

    def _distinct(self, parses: Iterable[Parse]) -> tuple[Parse, ...]:
        """Of parses that nothing later can tell apart, keep the first as written (rule 4)."""
        mentioned = frozenset[str]().union(*(c.mentioned for c in self.conditions))
        first: dict[object, Parse] = {}
        for parse in sorted(parses, key=Parse.as_written):
            last = {leaf.variable: number for number, leaf in enumerate(parse.taken)}
            remembered = frozenset((name, last[name]) for name in mentioned & last.keys())
            first.setdefault((parse.place, remembered), parse)
        return tuple(first.values())

    def word(self, partial_match: PartialMatch) -> Match | None:
        """Give the match of a partial match if its events are a word (rule 4)."""
        if self.waits_for_absence:
            return None
        return first_as_written(partial_match, partial_match.events[-1].time)

    def absences(self, partial_matches: Iterable[PartialMatch]) -> list[Match]:
        """Give the matches of partial matches whose windows are over (rule 6)."""
        if not self.waits_for_absence or self.pattern.within is None:
            return []
        length = self.pattern.within.length
        found = (first_as_written(m, m.events[0].time + length) for m in partial_matches)
        return [word for word in found if word]

    def timed_out(
        self, partial_matches: Iterable[PartialMatch], closing: Event | None = None
    ) -> Iterator[Match]:
        """Give what partial matches have whose windows are over, unless that is a match.

        Args:
            partial_matches: Those of the pattern.
            closing: The event that closes them; None: there are no more events.
        """
        window = self.pattern.within
        for partial_match in partial_matches:
            if self.absences([partial_match]) or window is None:
                continue
            if window.unit is WindowUnit.TIME:
                time = partial_match.events[0].time + window.length
            elif closing is None:  # a window of events that is not full is not over
                continue
            else:
                time = closing.time
            taken = min(parse.as_written() for parse in partial_match.parses)
            named = [element.variable for element in elements(self.pattern.where)]
            names = tuple(named[order] for order in taken)
            yield Match(time, partial_match.events, names, partial_match.opened)


def first_as_written(partial_match: PartialMatch, time: int) -> Match | None:
    """Give the first complete parse of a partial match as a match."""
    complete = [parse for parse in partial_match.parses if isinstance(parse.place, Done)]
    if not complete:
        return None
    first = min(complete, key=Parse.as_written)
    names = tuple(leaf.variable for leaf in first.taken)
    return Match(time, partial_match.events, names, partial_match.opened)


def match(pattern: Pattern, events: Iterable[Event]) -> list[Match]:
    """Find the matches of a pattern in ready events, in the order they are emitted."""
    return match_and_time_out(pattern, events)[0]


def match_and_time_out(
    pattern: Pattern, events: Iterable[Event]
) -> tuple[list[Match], list[Match]]:
    """Find the matches of a pattern in ready events, and what timed out."""
    rules = Rules(pattern)
    found: list[Match] = []
    timed_out: list[Match] = []
    partial_matches: list[PartialMatch] = []
    counts = Counter[tuple[object, ...]]()
    for number, event in enumerate(events):
        key = rules.key(event)
        counts[key] += 1

        over = [
            rules.is_over(partial_match, event, counts[key])
            for partial_match in partial_matches
        ]
        found += rules.absences(compress(partial_matches, over))
        timed_out += rules.timed_out(compress(partial_matches, over), event)
        partial_matches = list(compress(partial_matches, map(operator.not_, over)))

        partial_matches = [
            rules.spared(m, event) if m.key == key else m for m in partial_matches
        ]
        partial_matches = [
            partial_match for partial_match in partial_matches if partial_match.parses
        ]

        unopened = PartialMatch(key, number, counts[key], (), rules.start)
        partial_matches, words = _offered(rules, [*partial_matches, unopened], event)
        found += words

    timed_out += rules.timed_out(partial_matches)
    return found + rules.absences(partial_matches), timed_out


def _offered(
    rules: Rules, partial_matches: Iterable[PartialMatch], event: Event
) -> tuple[list[PartialMatch], list[Match]]:
    """Offer an event to partial matches, oldest first; one that takes it and is a word closes.

    The last partial match has taken nothing yet: the event may open it.
    """
    left: list[PartialMatch] = []
    words: list[Match] = []
    used = False
    for partial_match in partial_matches:
        may_take = partial_match.key == rules.key(event) and (rules.pattern.reuse or not used)
        grown = rules.taken(partial_match, event) if may_take else None
        used = used or grown is not None
        word = rules.word(grown) if grown else None
        if word:
            words.append(word)
        elif grown or partial_match.events:
            left.append(grown or partial_match)
    return left, words


# ---------------------------------------------------------------------------------------------
# Rule 9: the complex event.


def selected(pattern: Pattern, match: Match) -> dict[str, object]:
    """Give the attributes of a complex event by name; a whole event is its values."""

    def lookup(node: Attribute | Aggregate | WholeEvent) -> object:
        pairs = zip(match.events, match.elements, strict=True)
        taken = [event.values for event, name in pairs if name == node.variable]
        if isinstance(node, Aggregate):
            return _folded(node, taken)
        if not taken:
            return None
        return taken[-1] if isinstance(node, WholeEvent) else taken[-1][node.column]

    return {item.name: evaluate(item.expression, lookup) for item in pattern.select}


def _folded(node: Aggregate, taken: Sequence[Mapping[str, Value]]) -> Value:
    if not node.path:
        return len(taken)
    values = [row[".".join(node.path)] for row in taken]
    if node.function in {AggregateFunction.FIRST, AggregateFunction.LAST}:
        return (
            None
            if not values
            else values[0 if node.function is AggregateFunction.FIRST else -1]
        )
    present = [value for value in values if value is not None]
    if node.function is AggregateFunction.COUNT:
        return len(present)
    return _FOLDS[node.function](present) if present else None


_FOLDS: Mapping[AggregateFunction, Callable[[list[Value]], Value]] = {
    AggregateFunction.MIN: lambda values: min(values, key=_rank),
    AggregateFunction.MAX: lambda values: max(values, key=_rank),
    AggregateFunction.SUM: lambda values: _in_range(sum(values)),
    AggregateFunction.AVG: lambda values: sum(map(float, values)) / len(values),
}

"""The shortest words of a pattern: which elements a match needs, in which order, without what.

A repetition is there as often as it must be, an optional part is there or not, an OR gives a
shape for each of its parts, and an AND leaves the order open.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

from shedlight.language.ast.pattern import And, Element, Not, Or, Part, Repeat, Seq, child_parts

MAX_SHAPES = 32  # how many shapes of a pattern are looked at
_MAX_REPEATS = 64  # how often a part is repeated in a shape at most


@dataclass(frozen=True, slots=True)
class NotGap:
    """A NOT, and the slots between which its event may not come.

    Of an AND it is from its first event to its last. Without slots behind it, in a SEQ, it
    reaches to the end of the window.
    """

    element: Element
    before: tuple[int, ...]  # the slots before it, or all of its AND
    behind: tuple[int, ...]  # those behind it; of an AND the same again


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to match: its slots are elements, each to be filled with an event."""

    slots: tuple[Element, ...] = ()
    order: frozenset[tuple[int, int]] = frozenset()  # pairs of slots, the first comes first
    gaps: tuple[NotGap, ...] = ()

    def last_of(self, variable: str) -> int:
        """Find the last slot of a variable; -1 if it has none."""
        found = [i for i, slot in enumerate(self.slots) if slot.variable == variable]
        return max(found, default=-1)


def find_shapes(part: Part) -> tuple[Shape, ...]:
    """List the shapes of a pattern that have an event, as written."""
    shapes = dict.fromkeys(islice(_shapes(part), MAX_SHAPES * 2))
    return tuple(islice((shape for shape in shapes if shape.slots), MAX_SHAPES))


def _shapes(part: Part) -> Iterator[Shape]:
    match part:
        case Element():
            yield Shape((part,))
        case Or(parts):
            for inner in parts:
                yield from _shapes(inner)
        case Repeat(inner, least, _):
            yield from (_repeat(shape, max(least, 1)) for shape in _shapes(inner))
            yield from () if least else (Shape(),)
        case Seq():
            yield from _sequences(part)
        case And(parts):
            yield from _interleavings(parts)


def _list(part: Part) -> list[Shape]:
    return list(islice(_shapes(part), MAX_SHAPES))


def _repeat(shape: Shape, times: int) -> Shape:
    whole = Shape()
    for _ in range(min(times, _MAX_REPEATS)):
        whole = _append(whole, shape, ())
    return whole


def _sequences(part: Seq) -> Iterator[Shape]:
    parts = _flatten(part)
    choices = [[inner] if isinstance(inner, Not) else _list(inner) for inner in parts]
    for chosen in islice(product(*choices), MAX_SHAPES):
        whole, pending = Shape(), list[Element]()
        for inner in chosen:
            if isinstance(inner, Not):
                pending.append(inner.element)
            elif isinstance(inner, Shape) and inner.slots:
                whole = _append(whole, inner, tuple(pending))
                pending = []
        slots = tuple(range(len(whole.slots)))
        absent = tuple(NotGap(element, slots, ()) for element in pending)
        yield replace(whole, gaps=whole.gaps + absent)


def _flatten(part: Part) -> tuple[Part, ...]:
    if not isinstance(part, Seq):
        return (part,)
    return tuple(inner for direct in child_parts(part) for inner in _flatten(direct))


def _append(first: Shape, second: Shape, between: tuple[Element, ...]) -> Shape:
    """Put a shape behind another, with NOTs between them."""
    size = len(first.slots)
    before, behind = tuple(range(size)), tuple(range(size, size + len(second.slots)))
    moved = _move(second, size)
    return Shape(
        first.slots + second.slots,
        first.order | moved.order | set(product(before, behind)),
        (*first.gaps, *(NotGap(element, before, behind) for element in between), *moved.gaps),
    )


def _interleavings(parts: tuple[Part, ...]) -> Iterator[Shape]:
    taking = [inner for inner in parts if not isinstance(inner, Not)]
    watched = [inner.element for inner in parts if isinstance(inner, Not)]
    for shapes in product(*map(_list, taking)):
        yield _interleave(shapes, watched)


def _interleave(shapes: tuple[Shape, ...], watched: list[Element]) -> Shape:
    whole = Shape()
    for shape in shapes:
        moved = _move(shape, len(whole.slots))
        whole = Shape(
            whole.slots + moved.slots, whole.order | moved.order, whole.gaps + moved.gaps
        )
    slots = tuple(range(len(whole.slots)))
    return replace(whole, gaps=whole.gaps + tuple(NotGap(e, slots, slots) for e in watched))


def _move(shape: Shape, by: int) -> Shape:
    order = frozenset((first + by, second + by) for first, second in shape.order)
    gaps = tuple(
        NotGap(
            gap.element, tuple(i + by for i in gap.before), tuple(i + by for i in gap.behind)
        )
        for gap in shape.gaps
    )
    return Shape(shape.slots, order, gaps)

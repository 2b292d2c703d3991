"""What stands between a candidate and a match, exactly: each obstacle with its facts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shedlight.language.ast.expression import (
    Attribute,
    Expression,
    variables,
    walk,
)
from shedlight.matching.jit import Array
from shedlight.matching.operators.reorder import DUPLICATE, FINE, LATE
from shedlight.why.causes import WEIGHTS, Cause
from shedlight.why.judged_events import SHED, Shedding
from shedlight.why.owners import NOBODY, Owner, find_owners
from shedlight.why.search import Candidate, Field, condition_holds
from shedlight.why.shapes import NotGap, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that stopped a candidate.

    Attributes:
        cause: What it is.
        row: The event that it is about.
        other: Another event that it is about: the one that should have come first, that of
            the NOT, the one with the same id, or the one whose key it should have.
        condition: The condition that does not hold, or what the NOT is about.
        values: What the condition is about, and what that is.
        measured: How far apart the events are, or how far behind the event came: in
            microseconds, or in events of a window of events.
        owner: The match or partial match that took the event.
        shedding: The plan by which it was shed.
        weight: How far away it is from a match.
    """

    cause: Cause
    row: int
    other: int | None = None
    condition: Expression | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    measured: int | None = None
    owner: Owner | None = None
    shedding: Shedding | None = None
    weight: float = 1.0


def find_obstacles(search: Field, candidate: Candidate) -> list[Obstacle]:
    """List all that stands between a candidate and a match."""
    if _is_match(search, candidate):
        return []
    own = [*_own(search, candidate), *_across(search, candidate), *_order(candidate)]
    found = [*own, *_window(search, candidate), *_gaps(search, candidate)]
    return found or list(_taken_before(search, candidate))


def _is_match(search: Field, candidate: Candidate) -> bool:
    number = int(search.owners.of_row[candidate.rows[0]])
    owner = search.owners.owner(number) if number != NOBODY else None
    return owner is not None and owner.is_match and set(owner.rows) == set(candidate.rows)


def _own(search: Field, candidate: Candidate) -> Iterator[Obstacle]:
    """Find what is wrong with each event by itself."""
    events = search.events
    for row, slot in zip(candidate.rows, candidate.shape.slots, strict=True):
        fit = search.fits[slot.variable]
        parts = zip(fit.conditions, fit.weights, fit.failing, strict=True)
        for condition, weight, failing in parts:
            if failing[row]:
                values = _values(search, condition, {slot.variable: row})
                yield Obstacle(
                    cause=Cause.CONDITION,
                    row=row,
                    condition=condition,
                    values=values,
                    weight=weight,
                )
        yield from _verdict(search, row)
        if events.keys[row] != candidate.key:
            other = next(each for each in candidate.rows if events.keys[each] == candidate.key)
            yield Obstacle(cause=Cause.KEY, row=row, other=other, weight=WEIGHTS[Cause.KEY])
        if not search.pattern.reuse:
            yield from _consumed(search, candidate, row)


def _verdict(search: Field, row: int) -> Iterator[Obstacle]:
    events = search.events
    verdict = events.verdict[row]
    if verdict == LATE:
        behind = int(events.behind[row])
        yield Obstacle(cause=Cause.LATE, row=row, measured=behind)
    elif verdict == DUPLICATE:
        yield Obstacle(cause=Cause.DUPLICATE, row=row, other=_first_with_id(search, row))
    elif verdict == SHED:
        shedding = events.sheddings[events.shed[row]]
        yield Obstacle(cause=Cause.SHED, row=row, shedding=shedding)


def _first_with_id(search: Field, row: int) -> int | None:
    """Find the event that an event is a duplicate of: the closest one that was fine."""
    events = search.events
    names, number = events.ids[events.input[row]], events.input[row]
    same = (events.input == number) & (events.verdict != DUPLICATE)
    for name in names:
        same &= np.asarray(_equal_to(events.table[name], row))
    rows = np.flatnonzero(same)
    return int(rows[np.argmin(np.abs(rows - row))]) if len(rows) else None


def _equal_to(column: Any, row: int) -> Array:  # noqa: ANN401  # of Arrow
    import pyarrow.compute as pc  # noqa: PLC0415  # only where there are duplicates

    return np.asarray(pc.fill_null(pc.equal(column, column[row]), fill_value=False))


def _consumed(search: Field, candidate: Candidate, row: int) -> Iterator[Obstacle]:
    """Find the match that took an event, or the partial match that is not this candidate."""
    number = int(search.owners.of_row[row])
    if number == NOBODY:
        return
    owner = search.owners.owner(number)
    if owner.is_match or not set(owner.rows) <= set(candidate.rows):
        yield Obstacle(
            cause=Cause.CONSUMED, row=row, owner=owner, weight=WEIGHTS[Cause.CONSUMED]
        )


def _taken_before(search: Field, candidate: Candidate) -> Iterator[Obstacle]:
    """Ask who had an event just then: a partial match that a NOT closed is in no list."""
    if search.pattern.reuse:
        return
    events = search.events
    same = events.keys == candidate.key
    for row in candidate.rows:
        rows = np.flatnonzero(same & (events.verdict == FINE))
        until = find_owners(events, rows[rows <= row], search.pattern)
        number = int(until.of_row[row])
        owner = until.owner(number) if number != NOBODY else None
        if owner is not None and not set(owner.rows) <= set(candidate.rows):
            yield Obstacle(cause=Cause.CONSUMED, row=row, owner=owner)
            return


def _across(search: Field, candidate: Candidate) -> Iterator[Obstacle]:
    shape, rows = candidate.shape, np.array([candidate.rows])
    filled = set(range(len(shape.slots)))
    for condition in search.conditions:
        names = variables(condition)
        about = [i for i, slot in enumerate(shape.slots) if slot.variable in names]
        for slot in reversed(about):
            holds = condition_holds(search.events, shape, condition, rows, slot, filled)
            if holds is not None and not holds[0]:
                bound = {name: candidate.rows[shape.last_of(name)] for name in names}
                bound[shape.slots[slot].variable] = candidate.rows[slot]
                yield Obstacle(
                    cause=Cause.CONDITION,
                    row=candidate.rows[slot],
                    condition=condition,
                    values=_values(search, condition, bound),
                )
                break


def _values(
    search: Field, condition: Expression, bound: Mapping[str, int]
) -> Mapping[str, Any]:
    """Give what a condition is about, by its text."""
    attributes = (node for node in walk(condition) if isinstance(node, Attribute))
    return {
        str(node): search.events.value(node, bound[node.variable])
        for node in attributes
        if node.variable in bound
    }


def _order(candidate: Candidate) -> Iterator[Obstacle]:
    """Find the first pair that came in another order."""
    rows = candidate.rows
    wrong = [pair for pair in sorted(candidate.shape.order) if rows[pair[0]] > rows[pair[1]]]
    for first, second in wrong[:1]:
        yield Obstacle(
            cause=Cause.ORDER,
            row=rows[second],
            other=rows[first],
            weight=WEIGHTS[Cause.ORDER],
        )


def _window(search: Field, candidate: Candidate) -> Iterator[Obstacle]:
    places = search.positions(candidate.key)[list(candidate.rows)]
    width = int(places.max() - places.min())
    if width > search.limit:
        yield Obstacle(
            cause=Cause.WINDOW,
            row=max(candidate.rows),
            other=min(candidate.rows),
            measured=width + search.counts_events,
            weight=WEIGHTS[Cause.WINDOW],
        )


def _gaps(search: Field, candidate: Candidate) -> Iterator[Obstacle]:
    for gap in candidate.shape.gaps:
        row = _find_forbidden(search, candidate, gap)
        if row is not None:
            yield Obstacle(cause=Cause.NOT, row=row, condition=gap.element.condition, other=row)


def _find_forbidden(search: Field, candidate: Candidate, gap: NotGap) -> int | None:
    """Find the first event that a NOT forbids."""
    events, rows = search.events, candidate.rows
    low, high = _bounds(search, candidate, gap)
    if low >= high:
        return None
    fine = search.fits[gap.element.variable].fits(low, high)
    fine &= events.verdict[low:high] == FINE
    fine &= events.keys[low:high] == candidate.key
    found = np.flatnonzero(fine) + low
    shape = Shape((*candidate.shape.slots, gap.element), candidate.shape.order)
    joined = np.column_stack([np.tile(rows, (len(found), 1)), found])
    filled, last = set(range(len(shape.slots))), len(shape.slots) - 1
    for condition in search.pattern.conditions:
        if len(joined):
            holds = condition_holds(events, shape, condition, joined, last, filled)
            joined = joined if holds is None else joined[holds]
    return int(joined[0, -1]) if len(joined) else None


def _bounds(search: Field, candidate: Candidate, gap: NotGap) -> tuple[int, int]:
    """Find the rows from which and before which no event of a NOT may come."""
    before = [candidate.rows[i] for i in gap.before]
    behind = [candidate.rows[i] for i in gap.behind]
    if not behind:
        first = int(search.events.time[min(candidate.rows)])
        end = np.searchsorted(search.events.time, first + search.limit, side="right")
        return max(before) + 1, int(end)
    if gap.before == gap.behind:
        return min(before) + 1, max(behind) + 1
    return max(before, default=0) + 1, min(behind) + 1
